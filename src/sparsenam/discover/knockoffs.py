"""Knockoff copies of columns: jointly distributed as the columns, and without a share in the target.

A knockoff of a column keeps its distribution and its dependence on all other columns, so that a column without effect
and its knockoff can be exchanged without a change of the joint distribution (Candès, Fan, Janson and Lv 2018). Normal
scores of the ranks are drawn as a Gaussian copula, times a scale of each row where all columns are large or small
together; where columns depend on each other in a way that no such copula has, they are drawn one after another by
additive fits with permuted residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import loggamma, norm, zscore
from sklearn.covariance import ledoit_wolf  # pyright: ignore

from sparsenam.codec import Matrix, Vector
from sparsenam.convex.path import convex_path
from sparsenam.selection.choose import PATH_TOL
from sparsenam.selection.task import ConvexTask, Indices
from sparsenam.tables.sample import Grouping, PreparedSample

Ranks = NDArray[np.intp]
Construction = Literal["gaussian copula", "elliptical copula", "sequential"]

MOST_KNOCKOFF_COLUMNS = 1000  # whose correlations are factorised; a draw of more takes minutes
MOST_OPTIMISED_COLUMNS = 400  # columns up to which the distances are optimised, each step a factorisation
OPTIMISER_STEPS = 60
START = 0.8  # share of the largest feasible equal distance that the search starts from
BARRIER = 1e12  # value of a point outside the feasible set
FEASIBLE = 1.0 - 1e-6
SUSPICIOUS = 1e-4  # chance of a table with a Gaussian copula to be taken for one without
FEWEST_FOR_SCALES = 10  # columns: the scale of a row is seen through so many cells
SCALE_STEPS, MOST_MIXED = 6, 1000
TOGETHER = 6.0  # deviations of the variance of log χ² beyond which rows have scales
PIECES = 8  # of the piecewise linear functions of an additive fit between columns
MOST_NEIGHBOURS = 6  # columns that the additive fit of one column uses
AREA_POINTS, AREA_RATIO, AREA_RATIO_OF_FEW = 20, 0.1, 0.02  # of the path, the last one below MANY_GROUPS columns
FULL = 0.75  # share of all groups in the model at which the path ends: what enters later is noise
MANY_GROUPS = 30
NEIGHBOUR_RIDGE = 0.02  # of that fit, in units of the variance of a basis function


@dataclass(frozen=True, slots=True, eq=False)
class Knockoffs:
    """Copies x (columns, rows), and the construction that drew them."""

    x: Matrix
    construction: Construction


def draw_knockoffs(x: Matrix, generator: np.random.Generator) -> Knockoffs:
    """Return knockoffs of complete columns of numbers x (columns, rows).

    What the columns look like decides on the construction, never the target, so that the choice costs no guarantee.
    """
    ranks = random_ranks(x, generator)
    scores = normal_scores(x.shape[1])[ranks]
    correlation = shrunken_correlation(scores)
    if depends_beyond_copula(scores, correlation):
        return Knockoffs(from_scores(sequential_copies(ranks, generator), x), "sequential")
    scales, have_scales = row_scales(scores, correlation)
    if not have_scales:
        return Knockoffs(from_scores(gaussian_copies(scores, correlation, generator), x), "gaussian copula")
    for _ in range(SCALE_STEPS):  # scores that are normal once the scales are taken off, and the scales of these
        scores = mixture_scores(scales)[ranks]
        scales, _ = row_scales(scores, shrunken_correlation(zscore(scores / scales, axis=1)))
    scores = normal_scores(x.shape[1])[random_ranks(mixture_scores(scales)[ranks] / scales, generator)]
    copies = gaussian_copies(scores, shrunken_correlation(scores), generator)
    return Knockoffs(from_scores(copies * scales, x), "elliptical copula")


def mixture_scores(scales: Vector) -> Vector:
    """Return the quantiles of (rank + ½)/rows of a normal variable times one of the scales, shape (rows,)."""
    rows = scales.size
    some = np.sort(scales)[np.linspace(0, rows - 1, min(rows, MOST_MIXED)).astype(np.intp)]
    values = np.sort(np.outer(some, normal_scores(min(rows, MOST_MIXED))).ravel())
    places = (np.arange(rows) + 0.5) / rows * values.size - 0.5
    return np.asarray(np.interp(places, np.arange(values.size), values), dtype=np.float64)


def random_ranks(x: Matrix, generator: np.random.Generator) -> Ranks:
    """Return the ranks 0, 1, … of each column's cells, equal ones in random order, shape (columns, rows)."""
    ranks = np.empty(x.shape, dtype=np.intp)
    for column, values in enumerate(x):
        shuffled: Ranks = generator.permutation(values.size)  # a stable sort then leaves equal cells in this order
        ranks[column, shuffled[np.argsort(values[shuffled], kind="stable")]] = np.arange(values.size)
    return ranks


def normal_scores(rows: int) -> Vector:
    """Return the normal quantiles of (rank + ½)/rows, scaled to variance 1, shape (rows,)."""
    scores = norm.ppf((np.arange(rows) + 0.5) / rows)
    return np.asarray(scores / np.sqrt(np.mean(scores**2)), dtype=np.float64)


def from_scores(scores: Matrix, x: Matrix) -> Matrix:
    """Return the columns x (columns, rows) rearranged: the r-th smallest cell where the r-th smallest score stands.

    So a copy has exactly the values of its column.
    """
    copies = np.empty_like(x)
    np.put_along_axis(copies, np.argsort(scores, axis=1, kind="stable"), np.sort(x, axis=1), axis=1)
    return copies


def shrunken_correlation(scores: Matrix) -> Matrix:
    """Return the correlations of scores (columns, rows) of mean 0 and variance 1, moved towards 0."""
    return np.asarray(ledoit_wolf(scores.T, assume_centered=True)[0], dtype=np.float64)


def distances(correlation: Matrix) -> Vector:
    """Return s (columns,), 1 minus the correlation of each column with its knockoff, at most 1.

    They minimise Σ 1/sⱼ + tr (2R - diag s)⁻¹, the variances of all columns given each other and the knockoffs (Spector
    and Janson 2022): columns that are hard to tell from their knockoffs have no power. Many columns get one s.
    """
    size = len(correlation)
    equal = np.full(size, min(1.0, 2.0 * float(np.linalg.eigvalsh(correlation)[0]) * FEASIBLE))
    if size > MOST_OPTIMISED_COLUMNS:
        return equal

    def objective(logs: Vector) -> tuple[float, Vector]:
        s = np.exp(logs)
        try:
            factor = cho_factor(2.0 * correlation - np.diag(s), lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return BARRIER, np.zeros(size)
        inverse = np.asarray(cho_solve(factor, np.eye(size), check_finite=False), dtype=np.float64)
        value = float(np.sum(1.0 / s) + np.trace(inverse))
        return value, (-1.0 / s**2 + np.sum(inverse**2, axis=0)) * s

    start = np.log(START * equal)
    bounds: list[tuple[float | None, float]] = [(None, 0.0)] * size
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": OPTIMISER_STEPS})
    best = np.asarray(found.x if found.fun < BARRIER else start, dtype=np.float64)
    return FEASIBLE * np.exp(best)


def gaussian_copies(scores: Matrix, correlation: Matrix, generator: np.random.Generator) -> Matrix:
    """Return G̃ (columns, rows) with cov(G, G̃) = R - diag s and cov(G̃) = R, for scores G with correlations R.

    Given G, a row has mean g - diag(s) R⁻¹ g and covariance 2 diag s - diag(s) R⁻¹ diag(s).
    """
    s = distances(correlation)
    pull = np.linalg.solve(correlation, np.diag(s)).T  # diag(s) R⁻¹
    covariance = 2.0 * np.diag(s) - pull * s
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return scores - pull @ scores + root @ generator.standard_normal(scores.shape)


def row_scales(scores: Matrix, correlation: Matrix) -> tuple[Vector, bool]:
    """Return by how much each row's scores (columns, rows) are large together, shape (rows,), and whether they are.

    Under a Gaussian copula the squared length of a row, whitened, is χ² with a degree of freedom for each column; in a
    multivariate t it has the row's scale as a factor. Copies without that factor are told from their originals by any
    curve that bends.
    """
    columns, rows = scores.shape
    lengths = np.mean(scores * np.linalg.solve(correlation, scores), axis=0)
    logs = np.log(np.maximum(lengths, np.finfo(float).tiny))
    chance = float(loggamma.var(0.5 * columns))  # of log χ²
    are_there = columns >= FEWEST_FOR_SCALES and logs.var() > chance * (1.0 + TOGETHER * np.sqrt(2.0 / rows))
    return np.exp(0.5 * (logs - logs.mean())), bool(are_there)


def depends_beyond_copula(scores: Matrix, correlation: Matrix) -> bool:
    """Return whether a column depends on another in a way that is not linear in normal scores (columns, rows).

    What the linear prediction of a column by all others leaves is uncorrelated with every function of them under a
    Gaussian copula. It is compared with the second and third Hermite polynomial of each; the largest of these
    normal variables decides, at a level that all of them share. Their variances are the empirical ones: heavy tails
    alone are no such dependence.
    """
    columns = len(scores)
    if columns < 2:
        return False
    left = np.linalg.solve(correlation, scores)  # residuals, up to their scale
    largest = 0.0
    for curved in (scores**2 - 1.0, scores**3 - 3.0 * scores):
        others = curved - curved.mean(axis=1, keepdims=True)
        sums, squares = left @ others.T, left**2 @ (others**2).T
        z = np.abs(sums) / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
        np.fill_diagonal(z, 0.0)
        largest = max(largest, float(z.max()))
    return largest > float(norm.isf(SUSPICIOUS / (4.0 * columns * (columns - 1))))


def sequential_copies(ranks: Ranks, generator: np.random.Generator) -> Matrix:
    """Return scores of knockoffs (columns, rows), drawn one column after another.

    Column j is fitted by an additive model of all other columns and of the knockoffs before it; its knockoff is the
    fit plus permuted residuals (sequential conditional independent pairs, with a model of each condition). A model of
    the residuals' variances too brought the rate no nearer to q on columns and their squares.
    """
    columns, rows = ranks.shape
    scores, basis = normal_scores(rows), _rank_basis(rows)
    width = basis.shape[1]
    blocks = np.zeros((2 * columns, width, rows))
    blocks[:columns] = basis[ranks].transpose(0, 2, 1)
    copies = np.empty((columns, rows))
    for column in range(columns):
        usable = np.zeros(2 * columns, dtype=np.bool_)
        usable[: columns + column] = True
        usable[column] = False
        target = scores[ranks[column]]
        fitted = _additive_fit(blocks, usable, target)
        drawn = fitted + generator.permutation(target - fitted)
        place = np.argsort(np.argsort(drawn, kind="stable"))
        copies[column] = scores[place]
        blocks[columns + column] = basis[place].T
    return copies


def _rank_basis(rows: int) -> Matrix:
    """Return orthonormal piecewise linear functions of a normal score, by rank, shape (rows, ≤ PIECES).

    Every column has the same scores in another order, so that one basis serves all.
    """
    scores = normal_scores(rows)
    knots = scores[np.linspace(0, rows - 1, min(PIECES, max(rows // 10, 1)) + 1).astype(np.intp)]
    ramps = np.clip((scores[:, None] - knots[:-1]) / np.diff(knots), 0.0, 1.0)
    ramps -= ramps.mean(axis=0)
    return np.asarray(np.linalg.qr(ramps)[0], dtype=np.float64) * np.sqrt(rows)


def _additive_fit(blocks: NDArray[np.float64], usable: NDArray[np.bool_], target: Vector) -> Vector:
    """Return the fit of a target (rows,) by a few of the usable blocks (groups, m, rows), chosen forward.

    A block enters where it explains more than the largest of so many blocks of noise would.
    """
    width, rows = blocks.shape[1:]
    free, chosen = usable.copy(), list[int]()
    fitted, flat = np.zeros(rows), blocks.reshape(-1, rows)
    count = max(int(usable.sum()), 1)
    bar = width + 3.0 * np.sqrt(2.0 * width) + 2.0 * np.log(count)  # beyond the tail of χ² with m degrees of freedom
    for _ in range(MOST_NEIGHBOURS):
        left = target - fitted
        gains = ((flat @ left).reshape(-1, width) ** 2).sum(axis=1) / (rows * max(float(left.var()), 1e-12))
        gains[~free] = 0.0
        best = int(gains.argmax())
        if gains[best] < bar:
            break
        chosen.append(best)
        free[best] = False
        part = blocks[chosen].reshape(-1, rows)
        gram = part @ part.T / rows + NEIGHBOUR_RIDGE * np.eye(len(part))
        fitted = np.asarray(np.linalg.solve(gram, part @ target / rows), dtype=np.float64) @ part
    return fitted


@dataclass(frozen=True, slots=True, eq=False)
class DoubledSample:
    """A sample with the copies of some groups after it, of which each may have changed places with its original.

    ``tested`` are the groups that have a copy, ``signs`` (tested,) is -1 where the two changed places. Whatever a
    solver does with the order of groups, it then does to both alike.
    """

    prepared: PreparedSample
    tested: Indices
    signs: Vector

    @classmethod
    def of(cls, prepared: PreparedSample, copies: Matrix, generator: np.random.Generator) -> DoubledSample:
        """Append the copies (terms, rows) of all penalised groups."""
        grouping, count = prepared.grouping, len(prepared.names)
        tested = np.flatnonzero(grouping.weights > 0.0)
        signs = np.where(generator.random(tested.size) < 0.5, -1.0, 1.0)
        copied = np.flatnonzero(grouping.weights[grouping.group_of] > 0.0)
        place = {int(term): count + number for number, term in enumerate(copied)}
        x = np.vstack([prepared.x, copies[copied]])
        swapped = np.flatnonzero(np.isin(grouping.group_of, tested[signs < 0]))
        there = np.array([place[int(term)] for term in swapped], dtype=np.intp)
        x[swapped], x[there] = x[there].copy(), x[swapped].copy()
        members = [np.array([place[int(term)] for term in grouping.members[int(group)]]) for group in tested]
        total = count + copied.size
        doubled = replace(
            prepared,
            terms=np.arange(total),
            names=[*prepared.names, *(f"knockoff of {prepared.names[int(term)]}" for term in copied)],
            n_terms=total,
            x=x,
            levels=np.zeros(total, dtype=np.bool_),
            grouping=Grouping((*grouping.members, *members), np.append(grouping.weights, grouping.weights[tested])),
        )
        return cls(doubled, tested, signs)

    def statistics(self, task: ConvexTask) -> Vector:
        """Return the area of each original under the path of a task less that of its copy, shape (tested,)."""
        areas = np.zeros(task.design.n_groups)
        ratio = AREA_RATIO if task.design.n_groups >= 2 * MANY_GROUPS else AREA_RATIO_OF_FEW
        for point in convex_path(task.problem(), task.penalty, n_alphas=AREA_POINTS, ratio=ratio, tol=PATH_TOL):
            areas[point.active] += np.sqrt((point.values[0] ** 2).sum(axis=(1, 2)))
            if point.supports[0].size > FULL * task.design.n_groups:
                break
        return self.signs * (areas[self.tested] - areas[areas.size - self.tested.size :])
