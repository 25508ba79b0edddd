"""Errors of left-out rows: what a fit keeps of them to say how far off a prediction may be, and how they vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from sparsenam.codec import Bounds, Count, Matrix, Vector
from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.families import Family, Gaussian
from sparsenam.fit.problem import FamilyProblem, Fitted
from sparsenam.fit.summary import Explained
from sparsenam.model.additive import AdditiveModel, finish
from sparsenam.selection.choose import Choice
from sparsenam.smooth.design import Layout, ramps_of
from sparsenam.smooth.engine import SmoothProblem, Steps, solve
from sparsenam.smooth.fit import MemoryRows
from sparsenam.tables.encoder import Codes, TableEncoder, bin_codes
from sparsenam.tables.sample import PreparedSample, Sample, Scaling
from sparsenam.uncertainty.bands import (
    FitPosterior,
    Indices,
    explained_by,
    is_of_classes,
    left_out_evenly,
    left_out_of,
    left_out_scores,
    posterior_of,
    task_of,
)
from sparsenam.uncertainty.reliability import Reliability, class_errors

Method = Literal["leave-one-out", "new rows", "folds"]
Scale = Literal["auto", "constant", "x"]


# make constants: FINE halved +0.1 %, doubled +0.13 % intervals
FINE, COARSE = 16, 2  # of the ranks that are kept of all rows and of those of one level, see `kept_ranks`
MOST_RESIDUAL_ROWS = 10**9
RANK_ROUNDING = 1e-9  # of a rank or of a whole number: what rounding may make
MOST_LOOKED_AT = 10_000  # rows whose errors are looked at; of more, so many at equal distances
MOST_GROUP_LEVELS, FEW_VALUES = 20, 10  # of a category, and of a column of numbers, by which rows are told apart
MOST_TABLES = 32  # levels of all columns whose errors are kept apart
# make constants: SCREEN_BINS halved +0.25 %, doubled +0.21 % intervals
SCREEN_BINS = 16  # of a term of numbers at most, by which the size of errors may differ
CUTS = (1, 4)  # neighbouring bins that are joined; the better of both cuts counts, twice
SPREAD_LEVEL = 0.01  # of the test, over all terms and cuts
MOST_TESTED = 200  # terms; of more, those that the model keeps
# make constants: MOST_SPREAD_TERMS halved +0.01 %, doubled +0.2 % intervals
# make constants: SPREAD_RAMPS halved +0.08 %, doubled +0.09 % intervals
MOST_SPREAD_TERMS, SPREAD_RAMPS = 4, 8  # that the spread depends on, and of each of them
FEWEST_SPREAD_ROWS = 40  # below, no spread but a constant one can be told
# for each term that could be chosen: of many, the chosen ones are those along which errors happen to be small. With 60
# rows and 500 columns a spread was found in 27 of 100 tables without one, and intervals covered 0.68 instead of 0.9
ROWS_PER_TERM = 2
SMALLEST_ERROR = 0.02  # of the median error: a logarithm of less says next to nothing of the spread


def kept_ranks(count: int, fineness: int, *, both_ends: bool) -> NDArray[np.intp]:
    """Return the ranks of ``count`` sorted numbers that are kept, rising: all near the upper end, ever fewer below.

    Distances from the end, 1, 2, 3, …, grow by a share 1/``fineness`` of themselves once that is more than 1: quantiles
    of every level lie near a kept rank as a share of the rows beyond them. ``both_ends`` does the same from below.
    """
    ranks, most = [1], (count + 1) // 2 if both_ends else count
    while ranks[-1] < most:
        ranks.append(min(ranks[-1] + max(ranks[-1] // fineness, 1), most))
    above = count + 1 - np.array(ranks, dtype=np.intp)
    return np.unique(np.concatenate([ranks, above]) if both_ends else above)


@dataclass(frozen=True, slots=True, eq=False)
class OrderStatistics:
    """Some of ``count`` sorted numbers: their ranks (kept,), rising, and their values (kept,).

    With weights a rank is the weight up to its number, in units in which all weights add up to ``count``.
    """

    count: Annotated[int, Bounds(1, MOST_RESIDUAL_ROWS)]
    ranks: Vector
    values: Vector

    @classmethod
    def of(cls, values: Vector, weights: Vector, fineness: int, *, both_ends: bool) -> Self:
        """Return some of the numbers (rows,); see `kept_ranks`."""
        order, count = np.argsort(values, kind="stable"), values.size
        kept = kept_ranks(count, fineness, both_ends=both_ends) - 1
        ranks = np.arange(1.0, count + 1.0)
        if np.ptp(weights) > 0.0:
            ranks = np.cumsum(weights[order]) * (count / weights.sum())
        return cls(count, ranks[kept], values[order][kept])

    def at(self, rank: float) -> float:
        """Return the number of a rank, between kept ones by a straight line; ±∞ for a rank that there is not."""
        if rank < 1.0 - RANK_ROUNDING:
            return -math.inf
        if rank > self.count + RANK_ROUNDING:
            return math.inf
        return float(np.interp(rank, self.ranks, self.values))

    def above(self, level: float) -> float:
        """Return the number that another one, drawn like these, does not exceed with a probability of ``level``."""
        return self.at(math.ceil((self.count + 1) * level - RANK_ROUNDING))

    def below(self, level: float) -> float:
        """Return the number that another one, drawn like these, does not fall below with that probability."""
        return self.at(math.floor((self.count + 1) * (1.0 - level) + RANK_ROUNDING))


@dataclass(frozen=True, slots=True, eq=False)
class LevelTables:
    """The numbers of the rows in which a term has some value, one table for each output."""

    term: Count
    value: float
    tables: tuple[OrderStatistics, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorTables:
    """Errors over the spread expected of them: of all rows, one table for each output, and of the levels of terms.

    ``spread`` says how the logarithm of the spread (rows, outputs) depends on the encoded terms, with the score as one
    more term after them; None where it is constant.
    """

    tables: tuple[OrderStatistics, ...]
    levels: tuple[LevelTables, ...] = ()
    spread: AdditiveModel | None = None

    @classmethod
    def of(
        cls,
        errors: Matrix,
        weights: Vector,
        terms: Matrix,
        few: Sequence[int],
        spread: AdditiveModel | None = None,
        *,
        both_ends: bool,
    ) -> Self:
        """Return the tables of errors (rows, outputs), and of the rows at each value of the terms ``few``.

        ``both_ends`` says whether small numbers matter, too.
        """

        def tables(rows: NDArray[np.bool_], fineness: int) -> tuple[OrderStatistics, ...]:
            columns = errors[rows].T
            return tuple(OrderStatistics.of(each, weights[rows], fineness, both_ends=both_ends) for each in columns)

        levels = [(term, value) for term in few for value in np.unique(terms[:, term]) if not math.isnan(value)]
        by_level = [LevelTables(term, float(each), tables(terms[:, term] == each, COARSE)) for term, each in levels]
        return cls(tables(np.ones(len(errors), dtype=np.bool_), FINE), tuple(by_level), spread)

    def spreads(self, terms: Matrix, scores: Matrix) -> Matrix:
        """Return the spread of each row, shape (rows, outputs), 1 on average."""
        if self.spread is None:
            return np.ones_like(scores)
        return np.exp(self.spread.scores(np.column_stack([terms, scores[:, :1]])))


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Errors of rows that the model did not see, or would not have seen: what intervals and sets are made of.

    ``method`` says how the ``rows`` were left out: one by one from the fit itself, as new rows that were given, or in
    folds, each predicted by a refit on the others. Where ``symmetric``, tables hold absolute errors, for intervals that
    reach as far to either side; where ``whole``, every y was a whole number not below 0. ``constant`` are the errors
    where one spread serves all rows, ``scaled`` those where it depends on the row, None where nothing says so.
    ``inflation`` is the factor by which errors were enlarged because the columns were chosen with the row, and
    ``edits`` counts the edits of the model that the errors are of.
    """

    method: Method
    rows: Annotated[int, Bounds(1, MOST_RESIDUAL_ROWS)]
    symmetric: bool
    whole: bool
    constant: ErrorTables
    scaled: ErrorTables | None = None
    inflation: Annotated[float, Bounds(0.0)] = 1.0
    reliability: Reliability | None = None
    edits: Count = 0

    def tables(self, scale: Scale) -> ErrorTables:
        """Return the tables that ``scale`` asks for: "constant", "x", or "auto" for what the data say."""
        if scale == "x" and self.scaled is None:
            got = "errors of which no column tells how large they are"
            raise InputError(describe("scale", "'auto' or 'constant'", f"'x' for {got}", "leave scale out"))
        return self.constant if scale == "constant" or self.scaled is None else self.scaled

    def ends(self, tables: Sequence[OrderStatistics], level: float) -> tuple[Vector, Vector]:
        """Return the errors between which another one lies with a probability of ``level``, each (outputs,)."""
        if self.symmetric:
            high = np.array([table.above(level) for table in tables])
            return -high, high
        tail = 0.5 * (1.0 + level)
        return np.array([table.below(tail) for table in tables]), np.array([table.above(tail) for table in tables])


class ErrorSpread(NamedTuple):
    """A model of the logarithm of the spread, and its scores (rows, outputs) for its rows, each left out."""

    model: AdditiveModel
    left_out: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutRows:
    """Rows that a model did not see, or would not have seen: what tables of errors are made from.

    ``scores`` (rows, outputs) are those without the row, ``terms`` (rows, terms) the encoded table, ``few`` the terms
    with few values. ``fitted`` (rows, outputs) are the scores with all rows, and ``shift`` (rows, outputs) is by how
    much the score of a new row, on average, changes without the row.
    """

    terms: Matrix
    scores: Matrix
    target: Matrix
    weights: Vector
    few: Sequence[int]
    exposure: Vector | None = None
    spread: ErrorSpread | None = None
    fitted: Matrix | None = None
    shift: Matrix | None = None

    def errors(self, family: Family, inflation: float = 1.0) -> Matrix:
        """Return y less its expectation, over the standard deviation that the family expects, (rows, outputs).

        A quantile of left-out errors about the fit of all rows counts a row twice: without a large y, its error grows
        and the prediction falls. With ``shift``, errors lead from the fit of all rows to where the fit without the row
        would put them, as in the jackknife+ (Barber, Candès, Ramdas and Tibshirani, 2021). For a model without features
        the ends of intervals are then order statistics of y.
        """
        mean, unit = self._moments(family, self.scores)
        errors = inflation * (self.target - mean) / unit
        if self.fitted is None or self.shift is None:
            return errors
        mean, unit = self._moments(family, self.fitted + self.shift)
        center, scale = self._moments(family, self.fitted)
        return (mean + errors * unit - center) / scale

    def _moments(self, family: Family, scores: Matrix) -> tuple[Matrix, Matrix]:
        return predicted_mean(family, scores, self.exposure), unit_spread(family, scores, self.exposure)

    def residuals(self, family: Family, method: Method, inflation: float = 1.0) -> Residuals:
        """Return what is kept of them."""
        if is_of_classes(family):
            wrong, reliability = class_errors(family, self.scores, self.target, inflation)
            ones = np.ones(len(wrong))  # rows count alike, since weights may be those of classes
            constant = ErrorTables.of(wrong, ones, self.terms, self.few, both_ends=False)
            return Residuals(method, len(wrong), False, False, constant, None, inflation, reliability)
        symmetric, few, scaled = family.is_quadratic, self.few, None
        errors = self.errors(family, inflation)
        errors = np.abs(errors) if symmetric else errors
        if self.spread is not None:
            over, few, model = errors / np.exp(self.spread.left_out), (), self.spread.model
            scaled = ErrorTables.of(over, self.weights, self.terms, self.few, model, both_ends=not symmetric)
        whole = family.link == "log" and bool((self.target == np.rint(self.target)).all())
        constant = ErrorTables.of(errors, self.weights, self.terms, few, both_ends=not symmetric)
        return Residuals(method, len(errors), symmetric, whole, constant, scaled, inflation)


def unit_spread(family: Family, scores: Matrix, exposure: Vector | None) -> Matrix:
    """Return the standard deviation of y that a family expects, up to a factor, shape (rows, outputs).

    A family with logarithmic link has the gradient (μ - y)μ/V(μ), hence V(μ) = ½μ²/gradient at y = ½μ: μ for counts, μ²
    for amounts. A rate over exposure E has the variance V(μ)/E^q, and y is E times the rate. Elsewhere it is 1.
    """
    if family.link != "log":
        return np.ones_like(scores)
    means = np.maximum(family.mean(scores), np.finfo(float).tiny)
    slopes = family.gradient(scores, 0.5 * means)
    # roots before products: the square of a mean that a far row has may be no number
    spreads = np.where(slopes > 0, means * np.sqrt(0.5 / np.where(slopes > 0, slopes, 1.0)), 1.0)
    if exposure is not None and family.exposure_power is not None:
        units = np.maximum(exposure, np.finfo(float).tiny)[:, None]
        spreads = spreads * units ** (1.0 - 0.5 * family.exposure_power)
    return np.maximum(spreads, np.sqrt(np.finfo(float).tiny))


def predicted_mean(family: Family, scores: Matrix, exposure: Vector | None) -> Matrix:
    """Return the expected y, shape (rows, outputs)."""
    means = family.mean(scores)
    return means if exposure is None else means * exposure[:, None]


def residuals_of(
    encoder: TableEncoder,
    sample: Sample,
    problem: FamilyProblem,
    choice: Choice | None,
    mains: Fitted,
    fitted: Fitted,
    posterior: FitPosterior | None,
    context: Context,
) -> tuple[Residuals | None, Explained | None]:
    """Return what is kept of a fit's left-out errors, and what it explains of these rows; None for other fits.

    ``mains`` is the fit without pairs. Censored times have no errors.

    The columns were chosen with the row, too: errors are enlarged by the factor by which the loss of held-out rows
    grows where each fold chooses anew. Left-out losses of such folds are smaller than those of rows never seen, since
    alpha was chosen by them: hence errors grow by the factor, and not by its root.
    """
    if fitted.smooth is None and fitted.freedom is None:
        return None, None
    prepared, present = problem.prepared, sample.without_absent_rows()
    rows = np.flatnonzero(prepared.weights)
    rows = rows[np.unique(np.linspace(0, rows.size - 1, MOST_LOOKED_AT).round().astype(np.intp))]
    every = np.arange(prepared.terms.size)
    support = every if choice is None else choice.support
    scaling = prepared.target_scaling
    # Besides what the curves follow of a row, each kept term with more than two values spent a degree of freedom on its
    # smoothness, and one went to the intercept. Of classes these are not counted: they would lower the probability of
    # each row's class by the same little, which a model that says next to nothing would be judged by.

    def left_out(fit: Fitted, known: FitPosterior | None) -> Matrix:
        kept = np.flatnonzero(np.isin(prepared.terms, fit.model.terms))
        curved = sum(_n_values(prepared.x[place, rows]) > 2 for place in kept)
        return left_out_of(problem, fit, known, rows, 0.0 if is_of_classes(problem.family) else 1.0 + curved)

    scores, explained = left_out(fitted, posterior), None
    inflation = 1.0 if choice is None or choice.validated is None else choice.validated.optimism
    if choice is not None:
        without = left_out(mains, posterior_of(mains.smooth)) if fitted.model.pairs else None
        explained = explained_by(problem, choice, rows, inflation, scores, without)
    if not problem.solves_in_batches:
        return None, explained
    given = LeftOutRows(
        present.terms[rows],
        scaling.center + scaling.scale * scores + np.log(prepared.exposure_unit),
        present.target[rows],
        present.weights[rows],
        few_valued(encoder, present.terms[rows]),
        None if present.exposure is None else present.exposure[rows],
    )
    family = fitted.model.family
    if is_of_classes(family):
        return given.residuals(family, "leave-one-out", inflation), explained
    fit = fitted.model.scores(given.terms)
    if not family.is_quadratic:  # errors with a sign
        on_scale = problem.scores(fitted.model)
        shift = scaling.scale * (left_out_evenly(task_of(problem), on_scale, rows, 1.0) - on_scale[rows])
        given = replace(given, fitted=fit, shift=shift)
    # the score of the fit, as a prediction has it: a left-out score moves with the row's y, and in a model with few
    # features it would tell the size of each error
    spread = spread_of(prepared, rows, given.errors(family), fit[:, 0], support, context)
    return replace(given, spread=spread).residuals(family, "leave-one-out", inflation), explained


def few_valued(encoder: TableEncoder, terms: Matrix, asked: int | None = None) -> list[int]:
    """Return the terms with few values, by which groups of rows can be told apart: as many as a small file can hold.

    Those with the fewest values come first, before them the one that is ``asked`` for.
    """
    found: list[tuple[int, int]] = []
    for index, term in enumerate(encoder.terms):
        most = FEW_VALUES if term.kind == "number" else MOST_GROUP_LEVELS
        values = _n_values(terms[:, index])
        if term.kind != "missing" and 2 <= values <= most:
            found.append((0 if index == asked else values, index))
    sizes = np.cumsum([values for values, _ in sorted(found)])
    return [index for (_, index), total in zip(sorted(found), sizes, strict=True) if total <= MOST_TABLES]


def _n_values(cells: Vector) -> int:
    """Return the number of values that are not NaN."""
    return np.unique(cells[~np.isnan(cells)]).size


def spread_of(
    prepared: PreparedSample, rows: Indices, errors: Matrix, score: Vector, kept: Indices, context: Context
) -> ErrorSpread | None:
    """Return how the size of errors (rows, outputs) depends on the terms and on the score (rows,), None if it does not.

    ``rows`` of the sample are those of the errors. ``kept`` are the indices of the model's terms in ``prepared``, which
    are tested alone where there are very many.
    """
    n_terms = prepared.terms.size
    if len(errors) < max(FEWEST_SPREAD_ROWS, ROWS_PER_TERM * n_terms):
        return None
    tested = np.append(kept, n_terms) if n_terms >= MOST_TESTED else np.arange(n_terms + 1)
    sizes = np.abs(errors)
    middle = np.median(sizes, axis=0)
    if not (middle > 0).all():
        return None
    sample = prepared.at_rows(rows).with_term("score", score).take(tested)
    codes = bin_codes(sample.x, sample.levels, SCREEN_BINS)
    found = _screened(codes, sample.levels, np.sqrt(sizes / middle))
    if not found.size:
        return None
    logs = np.log(np.maximum(sizes / middle, SMALLEST_ERROR))
    return _fitted(replace(sample.take(found), target=logs - logs.mean(axis=0)), context)


def _fitted(sample: PreparedSample, context: Context) -> ErrorSpread | None:
    """Return the fit of the sample's terms to its target, of mean 0, with few ramps: logarithms of errors are noisy."""
    family, unit = Gaussian(), sample.target.std(axis=0)
    if not (unit > 0).all():
        return None
    task = SmoothProblem(sample.x, sample.target / unit, sample.weights, family)
    counts = np.where(sample.levels, [max(_n_values(cells) - 1, 1) for cells in sample.x], SPREAD_RAMPS).tolist()
    ramps = [ramps_of(cells, sample.weights, count) for cells, count in zip(sample.x, counts, strict=True)]
    rows = MemoryRows(task, Layout.of(ramps, sample.levels.tolist()))
    fit = solve(rows, None, Steps(context))
    left_out = unit * left_out_scores(FitPosterior(task, fit), np.arange(len(task.target)))
    scaling = Scaling(np.zeros_like(unit), unit)
    scaled = replace(sample, target=task.target, target_scaling=scaling, exposure_unit=np.ones(1))
    return ErrorSpread(finish(scaled, family, tuple(fit.functions()), fit.intercept.copy()).model, left_out)


def _screened(codes: Codes, levels: NDArray[np.bool_], response: Matrix) -> Indices:
    """Return the terms with bins, of codes (terms, rows), that differ in the mean of the response, the surest first.

    One-way tables are compared with a constant by an F test, summed over outputs.
    """
    rows, outputs = response.shape
    centred = np.clip(response - response.mean(axis=0), None, 4.0 * response.std(axis=0))
    total = float(np.sum(centred**2))
    log_p = np.zeros(len(codes))
    for term, bins in enumerate(codes):
        for cut in CUTS:
            joined = bins if levels[term] else np.where(bins == SCREEN_BINS, SCREEN_BINS, bins // cut)
            counts = np.bincount(joined, minlength=SCREEN_BINS + 1)
            filled = counts > 0
            n_filled = int(filled.sum())
            freed, below = outputs * (n_filled - 1), outputs * (rows - n_filled)
            if freed < 1 or below < 1:
                continue
            sums = np.stack([np.bincount(joined, column, SCREEN_BINS + 1)[filled] for column in centred.T])
            ratio = 1.0 - float(np.sum(sums**2 / counts[filled])) / total if total > 0 else 1.0
            p_value = float(np.asarray(betainc(0.5 * below, 0.5 * freed, np.clip(ratio, 0.0, 1.0)), dtype=np.float64))
            log_p[term] = min(log_p[term], np.log(max(p_value, 1e-300) * len(CUTS)))
    passing = np.flatnonzero(log_p + np.log(len(codes)) < np.log(SPREAD_LEVEL))
    return passing[np.argsort(log_p[passing], kind="stable")][:MOST_SPREAD_TERMS]
