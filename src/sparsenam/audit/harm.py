"""What a dropped column would have given to subgroups of the rows: held-out gains of small curves, and tests.

Each column is a few functions of its coarse bins, so that every fit is a table of sums over the rows of a subgroup, a
bin and a fold. With gradients rᵢ = -∂loss/∂sᵢ and curvatures hᵢ at the model's scores, a curve f of bin effects
minimises Σ ½hᵢ(rᵢ/hᵢ - f)² + λ‖θ‖², with λ of the largest marginal likelihood.

The test is another matter than the gain: gains of folds depend on each other and have little power. A contrast θ of
the bins has T = Σ θ(xᵢ)rᵢ and, if the column says nothing, T²/Σ θ²rᵢ² is that of Student's t; the largest of a few such
contrasts is corrected for their number. Both are computed at the scores of the model, without the subgroup's mean of r:
a shift of a whole subgroup is due to a column only where the subgroup is made of that column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from sparsenam.audit.subgroups import BinnedColumn, Codes, OfSubgroup, Partition, mean_and_error
from sparsenam.codec import Matrix, Vector
from sparsenam.families import Family, best_intercept
from sparsenam.uncertainty.residuals import is_of_classes

Array = NDArray[np.float64]
AUDIT_FOLDS = 10
DEGREE = 3  # of the polynomials in the ranks of the bins
FEWEST_SUBGROUP_ROWS = 30  # of a subgroup that is tested
FEWEST_IN_LEVEL = 5  # on either side of a contrast between levels
# λ, in units of what the rows know of a function
RIDGES = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 1000.0])
# Newton steps where the loss is not quadratic, and the longest change of a score in one
AUDIT_NEWTON_STEPS, LONGEST_SCORE_STEP = 3, 1.0
AUDIT_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class Harm(OfSubgroup):
    """What dropping a column cost the rows of a subgroup.

    ``cost`` is the mean loss that a small curve of the column would have saved in rows held out from it, ``error`` its
    standard error; ``share`` and ``share_error`` are the same over what the model explains of the loss there, None
    where that is not certain to be above 0. ``p_value`` is that of a test that the column says nothing there, corrected
    for all columns and subgroups of the audit; ``flagged`` are those of at most 5 % whose cost is above 0 too, by 1.64
    standard errors. ``groups`` is the column or the labels that the subgroup is made of, None for all rows.
    """

    column: str
    groups: str | None
    label: str
    rows: int
    cost: float
    error: float
    share: float | None
    share_error: float | None
    p_value: float
    flagged: bool


@dataclass(frozen=True, slots=True, eq=False)
class AuditRows:
    """Rows with a model's scores (rows, outputs), their target, weights (rows,) and folds (rows,).

    ``slopes`` and ``bends`` (rows, outputs) are -∂loss/∂scores and the curvature there, without the weights;
    ``losses`` (rows,) those of the model, ``explained`` (rows,) by how much they are below those of no model.
    """

    family: Family
    scores: Matrix
    target: Matrix
    weights: Vector
    folds: Codes
    slopes: Matrix
    bends: Matrix
    losses: Vector
    explained: Vector

    @classmethod
    def of(cls, family: Family, scores: Matrix, target: Matrix, weights: Vector, folds: Codes) -> AuditRows:
        """Return the rows with the derivatives of their losses.

        Where the level of y has drifted since the fit, all scores are shifted to it first: that is no column's cost.
        """
        nothing = np.zeros(scores.shape[1])
        scores = scores + best_intercept(family, scores, target, np.maximum(weights, 0.0), nothing)
        slopes, bends = -family.gradient(scores, target), family.hessian_diagonal(scores, target)
        losses, constant = family.loss(scores, target), family.best_constant(target, weights)
        explained = family.loss(np.broadcast_to(constant, scores.shape), target) - losses
        return cls(family, scores, target, weights, folds, slopes, bends, losses, explained)

    def at(self, rows: Codes) -> AuditRows:
        """Return some of the rows."""
        by_row = ("scores", "target", "weights", "folds", "slopes", "bends", "losses", "explained")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_row})

    def expected_squares(self) -> Matrix:
        """Return the variances of w times the slopes under the model, (rows, outputs); 0 where the family says nothing.

        The weights of counts may be exposures, of which a row has as much more to tell.
        """
        weights = self.weights[:, None]
        if is_of_classes(self.family):
            means = self.family.mean(self.scores)
            return weights**2 * means * (1.0 - means)
        return weights * self.bends if self.family.dispersion == "fixed" else np.zeros_like(self.bends)


def harms(
    rows: AuditRows,
    names: Sequence[str],
    columns: Sequence[BinnedColumn],
    partitions: Sequence[Partition],
    report: Callable[[int, int], None],
) -> list[Harm]:
    """Return what each column would have given to all rows, and to each subgroup that is large enough.

    p-values are those of one column in one subgroup, not yet corrected for how many there are. ``names`` are those of
    the table's columns.
    """
    found, done, total = list[Harm](), 0, len(columns) * (1 + len(partitions))
    for column in columns:
        of_all: Array | None = None
        for partition in (Partition.everyone(len(rows.weights)), *partitions):
            curves = _Curves.of(rows, column, partition)
            effects = curves.held_out(of_all)
            of_all = effects if of_all is None else of_all
            found += curves.harms(names[column.column], partition, effects)
            report(done := done + 1, total)
    return found


def holm(p_values: Vector) -> Vector:
    """Return Holm's corrected p-values, shape (tests,)."""
    order = np.argsort(p_values, kind="stable")
    steps = np.arange(order.size, 0, -1) * p_values[order]
    return np.minimum(np.maximum.accumulate(steps), 1.0)[np.argsort(order)]


@dataclass(frozen=True, slots=True, eq=False)
class _Curves:
    """Curves of one column in the subgroups of one partition.

    ``rows`` are those inside some subgroup, ``codes`` and ``bins`` (rows,) their subgroup and bin. ``basis`` (groups,
    bins, 1 + functions) has a constant first, which is a nuisance unless the subgroup is ``due`` (groups,) to the
    column. ``counts`` (groups, bins) are rows, ``bends`` (groups, outputs) Σ wh; ``totals`` and ``squares`` (groups,
    bins, outputs) are Σ wr and Σ w²r² without the mean of r in subgroups that are not due to the column, ``expected``
    (groups, bins, outputs) what Σ w²r² would be if the model were right, 0 where the family does not say.
    """

    rows: AuditRows
    codes: Codes
    bins: Codes
    basis: Array
    due: NDArray[np.bool_]
    is_ordered: bool
    counts: Matrix
    bends: Matrix
    totals: Array
    squares: Array
    expected: Array

    @classmethod
    def of(cls, rows: AuditRows, column: BinnedColumn, partition: Partition) -> _Curves:
        """Lay the functions of a column's bins out in each subgroup, of unit size by the curvatures of its rows."""
        member = partition.members(rows.weights)
        shape = (len(partition.labels), column.bins)
        rows, codes, bins = rows.at(member), partition.codes[member], column.codes[member]
        cells, weights = codes * column.bins + bins, rows.weights[:, None]
        counts = _tabled(cells, np.ones((member.size, 1)), shape)[..., 0]
        bends = weights * rows.bends
        sizes = _tabled(cells, bends.mean(axis=1)[:, None], shape)[..., 0]
        # a level of the column and a given subgroup may be the same rows
        same = (counts == counts.sum(axis=1, keepdims=True)) & (counts == counts.sum(axis=0)) & (counts > 0)
        due = np.full(shape[0], partition.column == column.column) | (same.any(axis=1) & (shape[0] > 1))
        slopes, in_all = weights * rows.slopes, _tabled(codes, bends, shape[:1])
        shifts = _tabled(codes, slopes, shape[:1]) / np.maximum(in_all, AUDIT_ROUNDING)
        residuals = slopes - bends * np.where(due[:, None], 0.0, shifts)[codes]
        totals, squares = _tabled(cells, residuals, shape), _tabled(cells, residuals**2, shape)
        expected = _tabled(cells, rows.expected_squares(), shape)
        functions = _polynomials(sizes, column.has_missing) if column.ordered else _levels(sizes)
        return cls(rows, codes, bins, functions, due, column.ordered, counts, in_all, totals, squares, expected)

    def held_out(self, start: Array | None) -> Array:
        """Return the bin effects, shape (folds, groups, bins, outputs), each fitted without the rows of its fold.

        ``start`` (folds, 1, bins, outputs) are those of the column over all rows, to which a subgroup adds what it
        needs. Where the loss is not quadratic, all rows together find the point where it is replaced by a parabola.
        """
        family, outputs = self.rows.family, self.totals.shape[2]
        begin = np.zeros((AUDIT_FOLDS, 1, self.counts.shape[1], outputs)) if start is None else start
        middle = begin.mean(axis=0)
        point = np.broadcast_to(middle, self.totals.shape).copy()
        # never where the curvature may be a mere bound: steps from such a point are too short, and what it knows of a
        # row would stay in the curve that is fitted without that row
        is_exact = family.link != "identity" and not family.couples_outputs
        for _ in range(AUDIT_NEWTON_STEPS if is_exact else 0):
            slopes, bends = self._sums(point)
            moved = self._solved(slopes.sum(axis=0), bends.sum(axis=0), point, middle)
            point = point + np.clip(moved - point, -LONGEST_SCORE_STEP, LONGEST_SCORE_STEP)
        slopes, bends = self._sums(point)
        return self._solved(slopes.sum(axis=0) - slopes, bends.sum(axis=0) - bends, point, begin)

    def harms(self, name: str, partition: Partition, effects: Array) -> list[Harm]:
        """Return the gains of the rows by held-out effects (folds, groups, bins, outputs), and the tests."""
        rows, groups = self.rows, len(self.due)
        added = effects[rows.folds, self.codes, self.bins]
        gain = rows.losses - rows.family.loss(rows.scores + added, rows.target)
        cost, error = mean_and_error(gain, rows.weights, self.codes, groups)
        known, known_error = mean_and_error(rows.explained, rows.weights, self.codes, groups)
        rounding = AUDIT_ROUNDING * float(np.abs(rows.losses).sum()) / max(rows.losses.size, 1)
        certain = known > np.maximum(2.0 * known_error, rounding)
        share = np.divide(cost, known, out=np.zeros(groups), where=certain)
        ratio_error = mean_and_error(gain - share[self.codes] * rows.explained, rows.weights, self.codes, groups)[1]
        share_error = np.divide(ratio_error, known, out=np.zeros(groups), where=certain)
        p_values, counts = self._p_values(), self.counts.sum(axis=1)
        found = list[Harm]()
        for group in np.flatnonzero(~np.isnan(p_values)).tolist():
            place = (name, partition.name, partition.labels[group], int(counts[group]))
            shares = (float(share[group]), float(share_error[group])) if certain[group] else (None, None)
            found.append(Harm(*place, float(cost[group]), float(error[group]), *shares, float(p_values[group]), False))
        return found

    def _sums(self, point: Array) -> tuple[Array, Array]:
        """Return Σ wr and Σ wh at the scores with ``point`` (groups, bins, outputs) added, (folds, groups, bins, …)."""
        rows, slopes, bends = self.rows, self.rows.slopes, self.rows.bends
        if point.any():
            scores = rows.scores + point[self.codes, self.bins]
            slopes = -rows.family.gradient(scores, rows.target)
            bends = rows.family.hessian_diagonal(scores, rows.target)
        shape, weights = (AUDIT_FOLDS, *self.counts.shape), rows.weights[:, None]
        cells = (rows.folds * shape[1] + self.codes) * shape[2] + self.bins
        return _tabled(cells, weights * slopes, shape), _tabled(cells, weights * bends, shape)

    def _solved(self, slopes: Array, bends: Array, point: Array, start: Array) -> Array:
        """Return start + the penalised effects, shape (…, groups, bins, outputs), by a parabola at ``point``."""
        slopes = slopes + bends * (point - start)  # what is left when the start has been added
        totals = np.einsum("gbm,...gbo->...gom", self.basis, slopes)
        products = self.basis[..., :, None] * self.basis[..., None, :]
        grams = np.einsum("gbmk,...gbo->...gomk", products, bends)
        functions = self.basis.shape[2]
        is_free = np.zeros((self.due.size, 1, functions), dtype=np.bool_)
        is_free[:, 0, 0] = ~self.due
        empty = np.einsum("...mm->...m", grams) <= AUDIT_ROUNDING  # functions of which these rows know nothing
        ridges = RIDGES.reshape(-1, *(1 for _ in totals.shape))
        penalties = np.where(is_free & ~empty, 0.0, ridges)
        systems = grams + penalties[..., None] * np.eye(functions)
        right = np.broadcast_to(totals, penalties.shape)[..., None]
        solved = np.asarray(np.linalg.solve(systems, right), dtype=np.float64)[..., 0]
        noise = self.squares.sum(axis=1) / np.maximum(self.bends, AUDIT_ROUNDING)
        fit = np.sum(totals * solved, axis=-1) / np.maximum(noise, AUDIT_ROUNDING)
        fit += np.sum(np.log(np.where(penalties > 0, penalties, 1.0)), axis=-1) - np.linalg.slogdet(systems)[1]
        fit = np.where(fit > fit.max(axis=0) - AUDIT_ROUNDING, 1.0, 0.0)  # of equal ones the last, which shrinks most
        best = len(RIDGES) - 1 - np.argmax(fit[::-1], axis=0)
        chosen = np.take_along_axis(solved, best[None, ..., None], axis=0)[0]
        return start + np.einsum("gbm,...gom->...gbo", self.basis, np.where(is_free, 0.0, chosen))

    def _p_values(self) -> Vector:
        """Return the p-value of the largest contrast in each subgroup, corrected for the number of contrasts."""
        sums = np.einsum("gbm,gbo->gmo", self.basis, self.totals)
        # a class that does not occur in a subgroup has small residuals all alike, of which its variance knows nothing
        spread = np.einsum("gbm,gbo->gmo", self.basis**2, self.squares)
        spread = np.maximum(spread, np.einsum("gbm,gbo->gmo", self.basis**2, self.expected))
        rows = self.counts.sum(axis=1)[:, None, None]
        size: Array = np.abs(self.basis).max(axis=1)[:, :, None] ** 2 * self.squares.sum(axis=1)[:, None]
        varying = np.abs(self.basis).max(axis=1) > 0
        varying[:, 0] = self.due
        if not self.is_ordered:  # a contrast between levels needs rows on either side
            sides = np.minimum(self.counts, self.counts.sum(axis=1, keepdims=True) - self.counts)
            varying[:, 1:] &= sides >= FEWEST_IN_LEVEL
        tested = varying[:, :, None] & (spread > AUDIT_ROUNDING * size)
        ratio = np.divide(sums**2, spread, out=np.zeros_like(sums), where=tested)
        # the squares are not centred, which bounds the ratio by the number of rows: undone, it is Student's t
        t = np.sqrt(ratio * np.maximum(rows - 1.0, 1.0) / np.maximum(rows - ratio, AUDIT_ROUNDING))
        p_values = np.where(tested, 2.0 * np.asarray(stdtr(np.maximum(rows - 1.0, 1.0), -t), dtype=np.float64), np.inf)
        contrasts = tested.sum(axis=(1, 2))
        enough = (rows[:, 0, 0] >= FEWEST_SUBGROUP_ROWS) & (contrasts > 0)
        smallest = np.where(enough, p_values.min(axis=(1, 2)), 1.0)
        return np.where(enough, np.minimum(smallest * contrasts, 1.0), np.nan)


def _tabled(cells: Codes, values: Matrix, shape: tuple[int, ...]) -> Array:
    """Return the sums of values (rows, outputs) in each cell, of shape (*shape, outputs)."""
    size = int(np.prod(shape))
    sums: list[Array] = [np.asarray(np.bincount(cells, each, minlength=size), dtype=np.float64) for each in values.T]
    return np.stack([each.reshape(shape) for each in sums], axis=-1)


def _polynomials(sizes: Matrix, has_missing: bool) -> Array:
    """Return a constant, whether missing, and polynomials of the bins' ranks, orthonormal for ``sizes`` in each group.

    Shape (groups, bins, 2 + degree), or one function less where no cells are missing; functions that the bins of a
    group cannot tell from those before are 0.
    """
    groups, bins = sizes.shape
    known = bins - has_missing
    ranks = np.linspace(-1.0, 1.0, known) if known > 1 else np.zeros(known)
    raw = [np.ones(bins)]
    raw += [np.eye(bins)[-1]] if has_missing else []
    raw += [np.concatenate([ranks**power, np.zeros(int(has_missing))]) for power in range(1, DEGREE + 1)]
    functions: list[Matrix] = []
    for values in raw:
        found = np.tile(values, (groups, 1))
        for _ in range(2):  # once more for the rounding of the first
            for before in functions:
                found = found - before * np.sum(sizes * before * found, axis=1, keepdims=True)
        length = np.sqrt(np.sum(sizes * found**2, axis=1, keepdims=True))
        there = length > 1e-6 * np.sqrt(np.maximum(sizes.sum(axis=1, keepdims=True), AUDIT_ROUNDING))
        functions.append(np.where(there, found / np.where(there, length, 1.0), 0.0))
    return np.stack(functions, axis=2)


def _levels(sizes: Matrix) -> Array:
    """Return a constant and each level against the mean of its group, shape (groups, bins, 1 + bins)."""
    totals = np.maximum(sizes.sum(axis=1, keepdims=True), AUDIT_ROUNDING)
    bins = sizes.shape[1]
    contrasts = (np.eye(bins)[None] - (sizes / totals)[:, None, :]) / np.sqrt(totals / bins)[:, :, None]
    contrasts = np.where((sizes > 0)[:, None, :] & (sizes < totals)[:, None, :], contrasts, 0.0)
    constant = np.broadcast_to(1.0 / np.sqrt(totals), sizes.shape)
    return np.concatenate([constant[:, :, None], contrasts], axis=2)
