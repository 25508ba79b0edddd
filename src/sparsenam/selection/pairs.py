"""Which pairs of columns act together: every pair is tested, and those that pass are chosen by cross-validation.

The test is on what the mains leave unexplained. Both columns are cut into bins. Free cells of the two-way table are
compared with rows + columns by an F test, at three widths of the bins, of which the smallest p-value counts three
times. A main effect leaves no trace in the test, however badly it was fitted: rows and columns take it up.

The choice is by the group penalty's path. The loss is the second-order model of the family's about the mains' fit:
squared error of the working response. A pair is a group: a coarse grid of hats, less what the mains explain, in the
smoothness coordinates of every group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from sparsenam.context import Context
from sparsenam.convex.design import GroupedDesign, grouped_design
from sparsenam.convex.path import solve_and_certify
from sparsenam.convex.problem import Certificate, ConvexPoint
from sparsenam.families import Gaussian
from sparsenam.penalties import GroupLasso
from sparsenam.selection.choose import FamilyLoss, HeldOutJudge, Turning, curve_of, with_empty
from sparsenam.selection.curve import Compact, CVCurve, Indices, Rule, Splits, held_out_counts
from sparsenam.selection.task import WIDE
from sparsenam.smooth.grid import GridAxis, hats
from sparsenam.tables.encoder import Codes, bin_codes
from sparsenam.tables.sample import Matrix, PreparedSample, Vector

Tables = NDArray[np.float64]

SCREEN_BINS = 16  # of a column of numbers at most
SCREEN_CODES = SCREEN_BINS + 1  # codes of a column, the last for absent cells
CUTS = (1, 2, 4)  # neighbouring bins joined into one
FEWEST_CELL_ROWS = 5  # rows that a cell must hold: without, single outliers let hundreds of pairs pass
CLIP = 3.0  # robust deviations at which residuals of real numbers are cut off, for the same reason
CLUMPED = 0.3  # robust over standard deviation below which residuals are those of counts or classes, and stay
TESTED = 512  # pairs whose tables are held together
LEAST_P = 1e-300  # p-value that is told from 0
SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)
INTERVALS = 5  # along either axis of the grid that stands for a pair while it is chosen
PAIR_FREEDOM = 8.0  # degrees of freedom of a pair, as 3 are those of a column
MOST_PAIR_NODES = 80  # nodes of a pair with wide categories: those with the most rows
WORTH = 0.025  # of the loss, or of an angle: what pairs must be worth, see `FewPairs`
PAIR_POINTS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Screened:
    """The pairs tested, (pairs, 2), log p-values with three cuts counted, and the share of the residual explained."""

    pairs: NDArray[np.intp]
    log_p: Vector
    gain: Vector

    def passing(self, level: float) -> NDArray[np.intp]:
        """Return the pairs that pass Bonferroni's test, those with the largest gain first, shape (passing, 2)."""
        kept = np.flatnonzero(self.log_p + np.log(max(len(self.pairs), 1)) < np.log(level))
        return self.pairs[kept[np.argsort(-self.gain[kept], kind="stable")]]


def _joined(cut: int, *, is_levels: bool) -> Tables:
    """Return the 0/1 matrix (bins / cut + 1, codes) that joins the codes of a column; that of absent cells stays."""
    size, codes = SCREEN_BINS // cut, np.arange(SCREEN_BINS)
    found = np.zeros((size + 1, SCREEN_CODES))
    found[np.minimum(codes, size - 1) if is_levels else codes // cut, codes] = 1.0
    found[size, SCREEN_BINS] = 1.0
    return found


def screen(
    x: Matrix,
    levels: NDArray[np.bool_],
    residual: Matrix,
    weights: Matrix,
    pairs: NDArray[np.intp],
    *,
    freedom: float,
    outputs: float,
    dispersion: float | None,
) -> Screened:
    """Test ``pairs`` (pairs, 2) of the columns of ``x`` (columns, rows), NaN where absent.

    ``levels`` (columns,) marks codes of unordered levels. Σ residual is the slope of the log-likelihood in a common
    shift of some rows' scores, Σ weights its curvature, both (rows, outputs). The mains have used ``freedom`` degrees
    of freedom, and so many ``outputs`` are free to vary. ``dispersion`` is the family's, None where to be estimated.
    """
    residual = clipped(residual, weights)
    total = float(np.sum(residual**2 / weights))
    rows = max(x.shape[1] - freedom, 10.0)
    found = total / (rows * outputs)
    noise = max(found, SMALLEST_FLOAT) if dispersion is None else max(dispersion, found)  # of a perfect fit it is 0
    codes = bin_codes(x, levels, SCREEN_BINS)
    joins = [np.stack([_joined(cut, is_levels=bool(each)) for each in (False, True)]) for cut in CUTS]
    shape = (len(CUTS), len(pairs))
    gains, freed = np.zeros(shape), np.zeros(shape)
    for first in range(0, len(pairs), TESTED):
        block = slice(first, min(first + TESTED, len(pairs)))
        tables = _tables(codes, residual, weights, pairs[block])
        for cut, join in enumerate(joins):
            one, other = (join[levels[pairs[block, side]].astype(np.intp)] for side in (0, 1))
            joined = np.matmul(np.matmul(one[:, None], tables), other[:, None].transpose(0, 1, 3, 2))
            gains[cut, block], freed[cut, block] = additive_gain(joined)
    freed *= outputs
    tested, below = freed > 0, rows * outputs
    ratio = np.divide(below, below + gains / noise, out=np.ones(shape), where=tested)
    p_values = np.where(tested, betainc(0.5 * below, 0.5 * np.maximum(freed, 1.0), ratio), 1.0)
    log_p = np.minimum(np.log(np.maximum(p_values.min(axis=0, initial=1.0), LEAST_P) * len(CUTS)), 0.0)
    gain = np.max(gains - freed * noise, axis=0, initial=0.0)
    return Screened(pairs, log_p, gain / total if total > 0 else np.zeros_like(gain))


def clipped(residual: Matrix, weights: Matrix) -> Matrix:
    """Return residuals (rows, outputs), cut off at three robust deviations unless they are clumped."""
    roots = np.sqrt(weights)
    pearson = residual / roots
    middle = np.median(pearson, axis=0)
    spread = 1.4826 * np.median(np.abs(pearson - middle), axis=0)
    clumped = spread < CLUMPED * pearson.std(axis=0)
    reach = np.where(clumped, np.inf, CLIP * spread)
    return np.clip(pearson, middle - reach, middle + reach) * roots


def additive_gain(tables: Tables) -> tuple[Vector, Vector]:
    """Return by how much free cells explain more than rows + columns do, and with how many degrees of freedom.

    ``tables`` (pairs, 1 + 2 · outputs, a, b) hold the number of rows in each cell, then sums of residuals and weights.
    """
    filled = tables[:, 0] >= FEWEST_CELL_ROWS
    parts = np.where(filled[:, None], tables[:, 1:], 0.0)
    gains = np.zeros(len(tables))
    freed = filled.sum(axis=(1, 2)) - filled.any(axis=2).sum(axis=1) - np.maximum(filled.any(axis=1).sum(axis=1) - 1, 0)
    for sums, mass in zip(parts[:, 0::2].swapaxes(0, 1), parts[:, 1::2].swapaxes(0, 1), strict=True):
        full = np.sum(np.divide(sums**2, mass, out=np.zeros_like(mass), where=mass > 0), axis=(1, 2))
        rows, columns = mass.sum(axis=2), mass.sum(axis=1)
        over = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0)
        shares = mass * over[:, :, None]
        system = -np.matmul(shares.transpose(0, 2, 1), mass)
        scale = np.maximum(columns.max(axis=1), 1e-300)
        # the constant, and columns without rows, are not determined: a small multiple of the identity sets them to 0
        np.einsum("pbb->pb", system)[...] += columns + 1e-9 * scale[:, None]
        right = sums.sum(axis=1) - np.einsum("pab,pa->pb", shares, sums.sum(axis=2))
        effects = np.asarray(np.linalg.solve(system, right[:, :, None]), dtype=np.float64)[:, :, 0]
        gains += full - np.sum(sums.sum(axis=2) ** 2 * over, axis=1) - np.sum(effects * right, axis=1)
    return np.maximum(gains, 0.0), freed.astype(np.float64)


def _tables(codes: Codes, residual: Matrix, weights: Matrix, pairs: NDArray[np.intp]) -> Tables:
    """Return the tables of some pairs, (pairs, 1 + 2 · outputs, codes, codes)."""
    by_output = np.stack([residual.T, weights.T], axis=1)
    values = np.concatenate([np.ones((1, len(residual))), by_output.reshape(-1, len(residual))])
    tables = np.empty((len(pairs), len(values), SCREEN_CODES**2))
    for table, (down, across) in zip(tables, pairs, strict=True):
        cells = codes[down] * SCREEN_CODES + codes[across]
        table[:] = [np.bincount(cells, added, SCREEN_CODES**2) for added in values]
    return tables.reshape(len(pairs), len(values), SCREEN_CODES, SCREEN_CODES)


@dataclass(frozen=True, slots=True)
class FewPairs:
    """`Compact` for pairs: the fewest that give up next to nothing of what the whole model explains.

    A pair is a picture to be looked at, so that being there for certain is not enough. With L the best held-out loss
    and g what the best model explains, mains included, the margin is ``worth`` · √(L max(L, g)), at least what chance
    may do and at most ``share`` of g. For squared loss, R² = cos²φ between target and fit, φ may grow by worth/2.
    """

    share: float
    worth: float = WORTH

    def choose(self, curve: CVCurve, allowed: NDArray[np.bool_]) -> int:
        """Return the smallest point within the margin."""
        best = curve.lowest(allowed)
        loss = max(float(curve.mean[best]), 0.0)
        assert curve.null_loss is not None
        gain = max(curve.null_loss - loss, 0.0)
        worth = min(self.worth * np.sqrt(loss * max(loss, gain)), self.share * gain)
        return curve.smallest(allowed, np.maximum(worth, curve.luck * curve.noise(best)))


@dataclass(frozen=True, slots=True, eq=False)
class PairTask:
    """The pairs of terms in question, ``candidates`` (pairs, 2) out of ``n_tested``, and what they are chosen by.

    ``response`` (rows, outputs) under ``weights`` (rows,) is the mains' fit as a squared error, ``null_loss`` the mean
    loss of the empty model in these units. Pairs are residualised on ``mains`` (k, rows), the columns of the mains of
    all terms in question.
    """

    prepared: PreparedSample
    candidates: Indices
    response: Matrix
    weights: Vector
    null_loss: float
    mains: Matrix
    n_tested: int

    @property
    def names(self) -> list[str]:
        """What the candidates are called."""
        return [" × ".join(self.prepared.names[int(term)] for term in pair) for pair in self.candidates]


def choose_pairs(
    task: PairTask, splits: Splits, rule: Rule, most: int | None, context: Context
) -> tuple[Indices, Certificate | None]:
    """Walk down the path of pairs; return the candidates at the point that a rule takes, and the certificate there.

    ``most`` is the largest number of pairs to take: the rule's point where it has so few, else the best point of the
    path that has. Either is a point of the path, never a cut by gain.
    """
    weights, family, penalty = task.weights, Gaussian(), GroupLasso()
    design = _design(task)
    variance = float(np.average(task.response**2, axis=0, weights=weights).mean())
    target = task.response / np.sqrt(variance)
    counts = held_out_counts(splits, len(target))
    loss = FamilyLoss(weights * (counts > 0), counts, float(task.prepared.weights.sum()), family, target)
    judge, turning = HeldOutJudge(design, target, family, weights, splits, loss), Turning(loss.weights)
    points, losses = list[ConvexPoint](), list[Vector]()
    for point in with_empty(judge.path(penalty, PAIR_POINTS), np.zeros(0, dtype=np.intp)):
        points.append(point)
        losses.append(judge.losses(point.supports))
        context.progress.report("pairs", len(points), PAIR_POINTS + 1)
        if turning.has_passed(point, losses[-1]) or context.clock.passed():
            break
    curve = curve_of(points, losses, loss.weights, task.n_tested, null_loss=task.null_loss / variance)
    taken = curve.choose(FewPairs(rule.share) if isinstance(rule, Compact) else rule)
    if most is not None and curve.n_features[taken] > most:  # of too few pairs, the best: a margin would leave fewer
        taken = curve.choose("best", most)
    point, certificate = points[taken], None
    if taken:  # the proof that the pairs left out are 0 at this alpha, None where rounding forbids one
        certificate = solve_and_certify(judge.problem.first(), penalty, point.alpha, task.names).certificate
    return point.supports[0], certificate


def _design(task: PairTask) -> GroupedDesign:
    """Return the groups of the candidates: hats less their projection on the mains."""
    x, candidates, weights = task.prepared.x, task.candidates, task.weights
    levels = task.prepared.levels
    axes = {
        term: GridAxis.of(x[term], weights, INTERVALS, bool(levels[term])) for term in set(candidates.ravel().tolist())
    }
    centred = task.mains - np.average(task.mains, axis=1, weights=weights)[:, None]
    gram = (centred * weights) @ centred.T
    gram[np.diag_indices(len(gram))] += 1e-8 * max(float(np.trace(gram)) / max(len(gram), 1), 1e-300)
    kept: dict[int, NDArray[np.intp]] = {}

    def columns(index: int) -> Matrix:
        first, second = (int(term) for term in candidates[index])
        grid = hats((axes[first], axes[second]), (x[first], x[second]))
        mass = np.asarray(grid.T @ weights)
        kept[index] = np.sort(np.argsort(-mass, kind="stable")[: min(MOST_PAIR_NODES, np.count_nonzero(mass > 0))])
        dense = cast(Matrix, grid[:, kept[index]].toarray())
        dense -= np.average(dense, axis=0, weights=weights)
        if len(centred):
            dense -= centred.T @ np.asarray(np.linalg.solve(gram, (centred * weights) @ dense), dtype=np.float64)
        return dense

    def roughness(index: int) -> Matrix:
        first, second = (axes[int(term)] for term in candidates[index])
        row, column = np.divmod(kept[index], second.size)  # of all nodes there may be far too many
        along = first.roughness()[np.ix_(row, row)] * (column[:, None] == column)
        return along + second.roughness()[np.ix_(column, column)] * (row[:, None] == row)

    single = len(candidates) * x.shape[1] * (INTERVALS + 2) ** 2 > WIDE
    return grouped_design(
        columns,
        len(candidates),
        weights,
        roughness_of=roughness,
        freedoms=PAIR_FREEDOM,
        dtype=np.float32 if single else np.float64,
    )
