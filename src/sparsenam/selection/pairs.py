"""Which pairs of columns act together: every pair is tested, and those that pass are chosen by cross-validation.

The test is on what the mains leave unexplained. Both columns are cut into bins. Free cells of the two-way table are
compared with rows + columns by an F test, at three widths of the bins, of which the smallest p-value counts three
times. A main effect leaves no trace in the test, however badly it was fitted: rows and columns take it up.

Those that pass are added one by one, the one that explains most of what is left first, on all rows and in each fold;
held-out rows say how many. The loss is the second-order model of the family's about the mains' fit: squared error of
the working response. A pair is a table of cells, less what either term explains, smoothed by marginal likelihood. All
of this is done on sums over cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from sparsenam.context import Context
from sparsenam.selection.curve import Compact, CVCurve, Indices, Rule, Splits, batch_weights, held_out_counts
from sparsenam.tables.encoder import Codes, bin_codes
from sparsenam.tables.sample import Matrix, Vector

Tables = NDArray[np.float64]

SCREEN_BINS = 16  # of a column of numbers at most
# make constants: SCREEN_CODES halved fails, doubled +0.01 % bands
SCREEN_CODES = SCREEN_BINS + 1  # codes of a column, the last for absent cells
CUTS = (1, 2, 4)  # neighbouring bins joined into one
# make constants: FEWEST_CELL_ROWS halved +0 %, doubled -0.23 % bands
FEWEST_CELL_ROWS = 5  # rows that a cell must hold: without, single outliers let hundreds of pairs pass
# make constants: CLIP halved +0 %, doubled -0.19 % bands
CLIP = 3.0  # robust deviations at which residuals of real numbers are cut off, for the same reason
CLUMPED = 0.3  # robust over standard deviation below which residuals are those of counts or classes, and stay
TESTED = 512  # pairs whose tables are held together
LEAST_P = 1e-300  # p-value that is told from 0
SMALLEST_FLOAT = float(np.finfo(np.float64).tiny)
DEPENDENT = 1e-9  # share of the largest singular value below which functions of one column follow from others
VARIANCES = 4.0 ** np.arange(-2, 9)  # of the smoothest function of a pair's prior, among which likelihood chooses
PATIENCE = 3  # pairs that may be added without a lower held-out loss before no more are tried
# share of the loss that pairs must be worth, see `FewPairs`. California, split 0: 0.164 with 8 pairs in 4 times the
# time of the mains; at 0.003 eleven pairs took 1.4 times as long
# make constants: WORTH halved -0.08 %, doubled -0.08 % bands
WORTH = 0.01


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
    """`Compact` for pairs: the fewest whose held-out loss is within `WORTH` of the best one, or within chance of it.

    The first bound is at most ``share`` of what the best model explains, mains included: the model without any has
    ``null_loss``.
    """

    share: float
    null_loss: float

    def choose(self, curve: CVCurve, allowed: NDArray[np.bool_]) -> int:
        """Return the smallest point within the margin."""
        best = curve.lowest(allowed)
        loss = max(float(curve.mean[best]), 0.0)
        worth = min(WORTH * loss, self.share * max(self.null_loss - loss, 0.0))
        return curve.smallest(allowed, np.maximum(worth, curve.luck * curve.noise(best)))


@dataclass(frozen=True, slots=True, eq=False)
class PairTask:
    """The pairs of terms in question, ``candidates`` (pairs, 2) out of ``n_tested``, and what they are chosen by.

    ``response`` (rows, outputs) under ``weights`` (rows,) is the mains' fit as a squared error; ``null_loss`` is the
    mean loss of the empty model in these units, and ``dispersion`` the least variance of a row of weight 1.
    """

    x: Matrix
    levels: NDArray[np.bool_]
    candidates: Indices
    response: Matrix
    weights: Vector
    null_loss: float
    dispersion: float
    n_tested: int


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """A pair while it is chosen: the cell of each row, and functions of the cells without what one term explains.

    ``basis`` (cells, k) is orthonormal under the rows' weights and orthogonal to all functions of one term;
    ``roughness`` (k,) are the squared cross differences of its columns, relative to the smoothest.
    """

    cells: Indices
    basis: Matrix
    roughness: Vector

    @classmethod
    def of(cls, codes: Codes, levels: NDArray[np.bool_], weights: Vector) -> PairCells:
        """Return the cells of two coded terms (2, rows), of which ``levels`` (2,) marks those without order."""
        size = SCREEN_CODES**2
        cells = codes[0] * SCREEN_CODES + codes[1]
        mass = np.bincount(cells, weights, size)
        used = np.flatnonzero(mass)
        roots = np.sqrt(mass[used])
        one, other = (_code_roughness(is_levels=bool(each)) for each in levels)
        prior = np.kron(one, other)[np.ix_(used, used)] / np.outer(roots, roots)
        down, across = np.divmod(used, SCREEN_CODES)
        alone = np.hstack([np.eye(SCREEN_CODES)[down], np.eye(SCREEN_CODES)[across]]) * roots[:, None]
        vectors, sizes, _ = np.linalg.svd(alone, full_matrices=False)
        alone = vectors[:, sizes > DEPENDENT * sizes[0]]
        prior -= alone @ (alone.T @ prior)
        prior -= (prior @ alone) @ alone.T
        # functions of one term get the largest eigenvalues: the others are the joint ones
        values, vectors = np.linalg.eigh(prior + 2.0 * np.trace(prior) * alone @ alone.T)
        joint = slice(used.size - alone.shape[1])
        basis = np.zeros((size, used.size - alone.shape[1]))
        basis[used] = vectors[:, joint] / roots[:, None]
        return cls(cells, basis, values[joint] / values[joint].min(initial=np.inf))

    def explained(self, sums: Tables, noise: Vector) -> tuple[Tables, Vector]:
        """Return the most probable values of the cells (fits, cells, outputs) and by how much they lower the loss.

        ``sums`` (fits, cells, outputs) are means over the rows of a fit, of weights times residuals, times the weight
        of all rows; ``noise`` (fits,) is the variance of a sum along a column of the basis. The variance of each
        fit's prior is the one of ``VARIANCES`` with the largest marginal likelihood.
        """
        along = np.matmul(self.basis.T, sums)
        squares, outputs = np.sum(along**2, axis=2) / noise[:, None], sums.shape[2]
        ratios = np.divide.outer(VARIANCES, self.roughness)
        likelihood = squares @ (ratios / (1.0 + ratios)).T - outputs * np.log1p(ratios).sum(axis=1)
        ratio = ratios[likelihood.argmax(axis=1)]
        shares = ratio / (1.0 + ratio)
        gains = noise * np.sum(squares * shares * (2.0 - shares) - 2.0 * outputs * shares, axis=1)
        return np.matmul(self.basis, shares[:, :, None] * along), gains


def _code_roughness(*, is_levels: bool) -> Matrix:
    """Return the quadratic form of differences between neighbouring codes, or of all codes about their mean."""
    differences = np.eye(SCREEN_CODES) - 1.0 / SCREEN_CODES
    if not is_levels:  # the code of absent cells has no neighbour
        differences = np.vstack([np.diff(np.eye(SCREEN_CODES), axis=0)[:-1], differences[-1:]])
    return differences.T @ differences


def choose_pairs(task: PairTask, splits: Splits, rule: Rule, most: int | None, context: Context) -> Indices:
    """Return the candidates that held-out rows ask for, those that explain the most first.

    The candidate that explains most of what is left is added, on all rows and in each fold, until that no longer pays.
    ``most`` is the largest number of pairs to take: those of the rule's point, else of the best point with so few.
    """
    walk = PairWalk(task, splits)
    losses, taken = [walk.losses()], list[int]()
    while len(taken) < len(task.candidates) and len(losses) <= PATIENCE + np.argmin(np.array(losses) @ walk.seen):
        index = walk.next()
        if index is None or context.clock.passed():
            break
        taken.append(index)
        losses.append(walk.losses())
        context.progress.report("pairs", len(taken), len(task.candidates))
    points = np.arange(len(losses))
    supports = tuple(np.array(taken[:count], dtype=np.intp) for count in points)
    alphas = np.array([1.0 / (1.0 + point) for point in points])  # of a walk: they only say the order of its points
    curve = CVCurve(alphas, supports, np.array(losses), walk.seen, points, task.n_tested)
    point = curve.choose(FewPairs(rule.share, task.null_loss) if isinstance(rule, Compact) else rule)
    if most is not None and point > most:  # of too few pairs, the best: a margin would leave fewer
        point = curve.choose("best", most)
    return supports[point]


class PairWalk:
    """Pairs added one by one, by sums over the cells of what the rows' residuals are on all rows and in each fold."""

    def __init__(self, task: PairTask, splits: Splits) -> None:
        self.task, self.splits = task, splits
        rows, self.outputs = task.response.shape
        self.counts = held_out_counts(splits, rows)
        self.seen = task.weights * (self.counts > 0)
        self._weights = batch_weights(task.weights, splits)
        self._shares = self._weights.sum(axis=1) / task.weights.sum()
        self._residual = np.repeat(task.response[None], len(self._weights), axis=0)
        codes = bin_codes(task.x, task.levels, SCREEN_BINS)
        self._left = {
            index: PairCells.of(codes[pair], task.levels[pair], task.weights)
            for index, pair in enumerate(task.candidates)
        }

    def next(self) -> int | None:
        """Add the pair that explains most of what is left on all rows; return it, or None if none explains anything."""
        gains = {index: self._explained(pair, slice(1))[1][0] for index, pair in self._left.items()}
        index = max(gains, key=lambda each: gains[each])
        if gains[index] <= 0.0:
            return None
        pair = self._left.pop(index)
        self._residual -= self._explained(pair, slice(None))[0][:, pair.cells]
        return index

    def _explained(self, pair: PairCells, fits: slice) -> tuple[Tables, Vector]:
        """Return what a pair adds to some of the fits: values of its cells and the gain; see `PairCells`."""
        weights, residual, shares = self._weights[fits], self._residual[fits], self._shares[fits]
        size = len(pair.basis)
        products = np.moveaxis(weights[:, :, None] * residual, 2, 1)  # (fits, outputs, rows)
        tables = np.array([[np.bincount(pair.cells, each, size) for each in fit] for fit in products]).swapaxes(1, 2)
        squares = float(self.task.weights @ np.sum(self._residual[0] ** 2, axis=1))
        noise = max(squares / (len(pair.cells) * self.outputs), self.task.dispersion, SMALLEST_FLOAT)
        return pair.explained(tables / shares[:, None, None], noise / shares)

    def losses(self) -> Vector:
        """Return half the squared error of each row (rows,) in the folds that hold it out, the mean over these."""
        total = np.zeros(len(self.counts))
        for residual, (_, test) in zip(self._residual[1:], self.splits, strict=True):
            total[test] += 0.5 * np.sum(residual[test] ** 2, axis=1)
        return total / np.maximum(self.counts, 1)
