"""The errors of a smooth fit on its rows, each left out: what a prediction's interval or set is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.fitting.problem import FamilyProblem, FitProblem, Fitted
from sparsenam.fitting.spread import spread_of
from sparsenam.model.residuals import LeftOutRows, Residuals, class_residuals, is_of_classes
from sparsenam.selection.choose import Choice
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.leave_one_out import left_out_evenly, left_out_scores
from sparsenam.smooth.uncertainty import FitPosterior
from sparsenam.tables import Sample, TableEncoder
from sparsenam.tables.sample import Matrix, Vector

MOST_ROWS = 10_000  # rows whose errors are looked at; of more, so many at equal distances
MOST_LEVELS, FEW_VALUES = 20, 10  # of a category, and of a column of numbers, by which rows are told apart
# share of the rows used as degrees of freedom below which rows may share them evenly, where the exact shares would take
# long. Coverage at 0.9 with exact and with even shares: 0.899 and 0.899 at 0.05 (California, 3000 rows), 0.889 and
# 0.886 at 0.12, 0.897 and 0.883 at 0.24 (the paper's regression, 500 and 200 rows)
EVEN, QUICK = 0.1, 300
MOST_TABLES = 32  # levels of all columns whose errors are kept apart
LOOKED_AT = 500  # rows that show whether a column of numbers has more values than that


def residuals_of(
    encoder: TableEncoder, sample: Sample, problem: FitProblem, choice: Choice | None, fitted: Fitted, context: Context
) -> Residuals | None:
    """Return what is kept of a fit's left-out errors; None where the fit has no closed form for them.

    The columns were chosen with the row, too: errors are enlarged by the factor by which the loss of held-out rows
    grows where each fold chooses anew. Left-out losses of such folds are smaller than those of rows never seen, since
    alpha was chosen by them: hence errors grow by the factor, and not by its root.
    """
    if not isinstance(problem, FamilyProblem) or (fitted.smooth is None and fitted.freedom is None):
        return None
    prepared, present = problem.prepared, sample.without_absent_rows()
    rows = np.flatnonzero(prepared.weights)
    rows = rows[np.unique(np.linspace(0, rows.size - 1, MOST_ROWS).round().astype(np.intp))]
    every = np.arange(prepared.terms.size)
    support = every if choice is None else choice.support
    scaling = prepared.target_scaling
    scores = scaling.center + scaling.scale * left_out_of(problem, support, fitted, rows)
    given = LeftOutRows(
        present.terms[rows],
        scores + np.log(prepared.exposure_unit),
        present.target[rows],
        present.weights[rows],
        few_valued(encoder, present.terms),
        None if present.exposure is None else present.exposure[rows],
    )
    family = fitted.model.family
    inflation = 1.0 if choice is None or choice.validated is None else choice.validated.optimism
    if is_of_classes(family):
        return class_residuals(given, family, "leave-one-out", inflation)
    fit = fitted.model.scores(given.terms)
    if not family.is_quadratic:  # errors with a sign
        task = SmoothProblem(prepared.x, prepared.target, prepared.weights, problem.family)
        on_scale = problem.scores(fitted.model)
        shift = scaling.scale * (left_out_evenly(task, on_scale, rows, 1.0) - on_scale[rows])
        given = replace(given, fitted=fit, shift=shift)
    # the score of the fit, as a prediction has it: a left-out score moves with the row's y, and in a model with few
    # features it would tell the size of each error
    spread = spread_of(prepared.at_rows(rows), given.errors(family), fit[:, 0], support, context)
    if spread is not None:
        given = replace(given, spread=spread.model, log_spread=spread.left_out)
    return given.residuals(family, "leave-one-out", inflation)


def left_out_of(problem: FamilyProblem, support: NDArray[np.intp], fitted: Fitted, rows: NDArray[np.intp]) -> Matrix:
    """Return the scores of some rows without each of them, on the scale of the fit, shape (rows, outputs).

    Besides what the curves follow of a row, each kept term with more than two values spent a degree of freedom on its
    smoothness, and one went to the intercept. Of classes these are not counted: they would lower the probability of
    each row's class by the same little, which a model that says next to nothing would be judged by.
    """
    kept = problem.prepared.take(support)
    smooth = None if fitted.smooth is None else fitted.smooth.fit
    task = SmoothProblem(kept.x, kept.target, kept.weights, problem.family)
    curves = sum(_n_values(kept.x[place]) > 2 for place in np.flatnonzero(np.isin(kept.terms, fitted.model.terms)))
    spent = 0.0 if is_of_classes(problem.family) else 1.0 + curves
    freedom = fitted.freedom
    if freedom is None:
        freedom = 0.0 if smooth is None else float(smooth.degrees_of_freedom.sum())
    if smooth is not None and smooth.ramps and not smooth.shapes and not fitted.model.pairs:
        size = sum(ramps.size for ramps in smooth.ramps)
        if size <= QUICK or freedom > EVEN * len(kept.target):
            return left_out_scores(FitPosterior.of(task, smooth, kept.levels), rows, spent - 1.0)
    return left_out_evenly(task, problem.scores(fitted.model), rows, freedom + spent)


def few_valued(encoder: TableEncoder, terms: Matrix, asked: int | None = None) -> list[int]:
    """Return the terms with few values, by which groups of rows can be told apart: as many as a small file can hold.

    Those with the fewest values come first, before them the one that is ``asked`` for.
    """
    found: list[tuple[int, int]] = []
    for index, term in enumerate(encoder.terms):
        if term.kind == "missing":
            continue
        cells = terms[:, index]
        most = FEW_VALUES if term.kind == "number" else MOST_LEVELS
        values = _n_values(cells, most)
        if 2 <= values <= most:
            found.append((0 if index == asked else values, index))
    sizes = np.cumsum([values for values, _ in sorted(found)])
    return [index for (_, index), total in zip(sorted(found), sizes, strict=True) if total <= MOST_TABLES]


def _n_values(cells: Vector, most: int = 2) -> int:
    """Return the number of values that are not NaN, or some number above ``most`` where there are more than that."""
    known = cells[~np.isnan(cells)]
    few = np.unique(known[:LOOKED_AT]).size
    return few if few > most else np.unique(known).size
