"""How large errors are, where that depends on the row: an additive model of the logarithm of their size."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from sparsenam.context import Context
from sparsenam.families import Gaussian
from sparsenam.model import AdditiveModel
from sparsenam.model.additive import finish
from sparsenam.selection.pairs import SCREEN_BINS, SCREEN_CODES, Binned
from sparsenam.smooth.design import ramps_of
from sparsenam.smooth.engine import MemoryRows, SmoothProblem, Steps, solve
from sparsenam.smooth.fit import as_fit
from sparsenam.smooth.prior import Layout
from sparsenam.tables import PreparedSample, Scaling
from sparsenam.tables.sample import Grouping, Matrix, Vector
from sparsenam.uncertainty.posterior import FitPosterior, left_out_scores

CUTS = (1, 4)  # neighbouring bins that are joined; the better of both cuts counts, twice; chosen without a measurement
SPREAD_LEVEL = 0.01  # of the test, over all terms and cuts; chosen without a measurement
MOST_TESTED = 200  # terms; of more, those that the model keeps; chosen without a measurement
MOST_SPREAD_TERMS, SPREAD_RAMPS = 4, 8  # that the spread depends on, and of each of them; chosen without a measurement
FEWEST_SPREAD_ROWS = 40  # below, no spread but a constant one can be told; chosen without a measurement
# for each term that could be chosen: of many, the chosen ones are those along which errors happen to be small. With 60
# rows and 500 columns a spread was found in 27 of 100 tables without one, and intervals covered 0.68 instead of 0.9
ROWS_PER_TERM = 2
# chosen without a measurement
SMALLEST_ERROR = 0.02  # of the median error: a logarithm of less says next to nothing of the spread


class ErrorSpread(NamedTuple):
    """A model of the logarithm of the spread, and its scores (rows, outputs) for its rows, each left out."""

    model: AdditiveModel
    left_out: Matrix


def with_score(prepared: PreparedSample, score: Vector) -> PreparedSample:
    """Return the sample with the score (rows,) as one more term, each term a group of its own."""
    weights = prepared.weights
    center = float(np.average(score, weights=weights))
    scale = float(np.sqrt(np.average((score - center) ** 2, weights=weights)))
    scale = scale if scale > 1e-12 * max(abs(center), 1.0) else 1.0
    scaling = Scaling(np.append(prepared.scaling.center, center), np.append(prepared.scaling.scale, scale))
    return replace(
        prepared,
        terms=np.append(prepared.terms, prepared.n_terms),
        names=[*prepared.names, "score"],
        n_terms=prepared.n_terms + 1,
        scaling=scaling,
        x=np.vstack([prepared.x, (score - center) / scale]),
        levels=np.append(prepared.levels, False),
        grouping=Grouping.separate(prepared.terms.size + 1),
    )


def spread_of(
    prepared: PreparedSample, errors: Matrix, score: Vector, kept: NDArray[np.intp], context: Context
) -> ErrorSpread | None:
    """Return how the size of errors (rows, outputs) depends on the terms and on the score (rows,), None if it does not.

    ``kept`` are the indices of the model's terms in ``prepared``, which are tested alone where there are very many.
    """
    if len(errors) < max(FEWEST_SPREAD_ROWS, ROWS_PER_TERM * prepared.terms.size):
        return None
    wide = with_score(prepared, score)
    tested = np.append(kept, wide.terms.size - 1)
    if wide.terms.size <= MOST_TESTED:
        tested = np.arange(wide.terms.size)
    sizes = np.abs(errors)
    middle = np.median(sizes, axis=0)
    if not (middle > 0).all():
        return None
    found = tested[_screened(wide.x[tested], wide.levels[tested], np.sqrt(sizes / middle))]
    if not found.size:
        return None
    logs = np.log(np.maximum(sizes / middle, SMALLEST_ERROR))
    return _fitted(replace(wide.take(found), target=logs - logs.mean(axis=0)), context)


def _fitted(sample: PreparedSample, context: Context) -> ErrorSpread | None:
    """Return the fit of the sample's terms to its target, of mean 0, with few ramps: logarithms of errors are noisy."""
    family, unit = Gaussian(), sample.target.std(axis=0)
    if not (unit > 0).all():
        return None
    task = SmoothProblem(sample.x, sample.target / unit, sample.weights, family)
    values = [np.unique(cells[~np.isnan(cells)]).size for cells in sample.x]
    counts = np.where(sample.levels, np.maximum(np.array(values) - 1, 1), SPREAD_RAMPS).tolist()
    ramps = [ramps_of(cells, sample.weights, count) for cells, count in zip(sample.x, counts, strict=True)]
    rows = MemoryRows(task, Layout.of(ramps, sample.levels.tolist()))
    fit = as_fit(solve(rows, None, Steps(context)), {}, {})
    posterior = FitPosterior.of(task, fit, sample.levels)
    left_out = unit * left_out_scores(posterior, np.arange(len(task.target)))
    scaling = Scaling(np.zeros_like(unit), unit)
    scaled = replace(sample, target=task.target, target_scaling=scaling, exposure_unit=np.ones(1))
    made = finish(scaled, family, tuple(fit.functions()), fit.intercept.copy())
    return ErrorSpread(made.model, left_out)


def _screened(x: Matrix, levels: NDArray[np.bool_], response: Matrix) -> NDArray[np.intp]:
    """Return the terms of x (terms, rows) whose bins differ in the mean of the response, the surest first.

    One-way tables are compared with a constant by an F test, summed over outputs.
    """
    binned = Binned.of(x, levels)
    rows, outputs = response.shape
    centred = np.clip(response - response.mean(axis=0), None, 4.0 * response.std(axis=0))
    total = float(np.sum(centred**2))
    log_p = np.zeros(len(x))
    for term, codes in enumerate(binned.codes):
        for cut in CUTS:
            joined = np.where(codes == SCREEN_BINS, SCREEN_BINS, codes // cut) if not levels[term] else codes
            counts = np.bincount(joined, minlength=SCREEN_CODES)
            filled = counts > 0
            gain = sum(
                float(np.sum(np.bincount(joined, column, SCREEN_CODES)[filled] ** 2 / counts[filled]))
                for column in centred.T
            )
            freed, below = outputs * (int(filled.sum()) - 1), outputs * (rows - int(filled.sum()))
            if freed < 1 or below < 1:
                continue
            ratio = (total - gain) / total if total > 0 else 1.0
            p_value = cast(float, betainc(0.5 * below, 0.5 * freed, min(max(ratio, 0.0), 1.0)))
            log_p[term] = min(log_p[term], np.log(max(p_value, 1e-300) * len(CUTS)))
    passing = np.flatnonzero(log_p + np.log(len(x)) < np.log(SPREAD_LEVEL))
    return passing[np.argsort(log_p[passing], kind="stable")][:MOST_SPREAD_TERMS]
