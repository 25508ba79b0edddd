"""Squared loss: block coordinate descent on cached Gram blocks, for all folds at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import Array, GroupedDesign, WorkingColumns
from sparsenam.convex.problem import BlockSolver, ConvexProblem, group_lengths
from sparsenam.convex.ramps import Indices

SMALLEST_CURVATURE = 1e-10
LITTLE = 1e-4  # share of the weight that a batch must keep
ROUNDING_MULTIPLE = 100.0  # times the precision of a sum: what rounding may leave where a difference is 0


def constant_columns(variances: Array, moments: Array, precision: np.dtype[np.floating]) -> NDArray[np.bool_]:
    """Return where a variance is but rounding of the second moment of which it is a difference, shape as given.

    A column that is constant in the rows of a batch has no curvature there. What rounding leaves instead would be
    inverted for a group without a threshold, whose steps could then have any size.
    """
    return variances <= ROUNDING_MULTIPLE * float(np.finfo(precision).eps) * moments


def descend(
    hessian: Array,
    inverse: Array,
    theta: Array,
    pull: Array,
    groups: list[int],
    thresholds: Array,
    ridge: float,
    until: tuple[float, int],
) -> None:
    """Minimise ½ θᵀHθ - qᵀθ + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖² over k groups of m, for every batch and output.

    Sweeps over the groups end when no step gains about the first number of ``until``, or after so many as the second
    says. After a first full sweep only groups that are not
    zero are visited, until they converge; then all again. A group without a threshold has no shrinkage to help
    along its flat directions, so its m equations are solved.

    ``hessian`` H has shape (batches, ≥ k·m, ≥ k·m), shared by all outputs;
    ``inverse`` (k, batches) is one over the largest eigenvalue of each diagonal block. ``theta`` (batches, outputs, k,
    m) is the current point and ``pull`` (batches, outputs, k·m) is q - Hθ; both change in place. ``groups`` are the
    indices of those that may move; ``thresholds`` a (batches, k) are infinite for groups that must stay out.
    """
    (tol, most_sweeps), pulls = until, pull.reshape(theta.shape)
    bars, decay, scales = thresholds.T * inverse, 1.0 / (1.0 + ridge * inverse), inverse[:, :, None, None]
    width = theta.shape[3]
    free = {k: slice(k * width, (k + 1) * width) for k in groups if thresholds[0, k] == 0.0}
    blocks = {k: hessian[:, rows, rows] + ridge * np.eye(width) for k, rows in free.items()}
    solvers = {k: np.linalg.pinv(block, rcond=1e-9, hermitian=True) for k, block in blocks.items()}
    visiting, everything = groups, True
    for _ in range(most_sweeps):
        largest = 0.0
        moving: list[int] = []
        for k in visiting:
            old = theta[:, :, k]
            if k in solvers:
                step = np.matmul(pulls[:, :, k] - ridge * old, solvers[k])
            else:
                step = _shrunk_step(old, pulls[:, :, k], scales[k], bars[k], decay[k])
            if step is not None:
                moving.append(k)
                largest = max(largest, _take(hessian, theta, pull, k, step, inverse[k]))
        if largest < tol and everything:
            return
        visiting, everything = (groups, True) if largest < tol else (moving, False)


def _shrunk_step(old: Array, pull: Array, inverse: Array, bar: Array, decay: Array) -> Array | None:
    """Return the step (batches, outputs, m) to the minimum of a group's majorised model, None if it stays at 0.

    With v = θⱼ + pullⱼ/Lⱼ that is (1 - aⱼ/(Lⱼ‖v‖))₊ v / (1 + b/Lⱼ), the exact minimiser where the block is
    orthonormal; ``inverse`` 1/L has shape (batches, 1, 1), ``bar`` a/L and ``decay`` 1/(1 + b/L) (batches,).
    """
    target = old + pull * inverse
    length = np.maximum(np.sqrt(np.einsum("fom,fom->f", target, target)), 1e-150)  # so that the share is finite
    share = np.maximum(1.0 - bar / length, 0.0) * decay
    return target * share[:, None, None] - old if share.any() or old.any() else None


def _take(hessian: Array, theta: Array, pull: Array, k: int, step: Array, inverse: Array) -> float:
    """Move group k by ``step`` (batches, outputs, m) in place; return about how much that gains."""
    gain = float((np.einsum("fom,fom->f", step, step) / inverse).max())
    if gain > 0.0:
        count, width = theta.shape[2:]
        theta[:, :, k] += step
        pull -= np.matmul(step, hessian[:, k * width : (k + 1) * width, : count * width])
    return gain


class BatchSums:
    """Sums over the rows of all batches, for weights of shape (batches, rows).

    A batch that leaves rows out of batch 0 is batch 0 minus the sums over the rows left out, so that K folds cost
    two passes, not K. Where the rows left out of all batches are those of batch 0, each once, their sums add up to
    batch 0 and one pass is enough. ``left_out`` has for batches 1, … the rows left out and the factor on the others,
    None for a batch that is no such part.
    """

    def __init__(self, weights: Array) -> None:
        self.left_out = [rows_left_out(weights[0], batch) for batch in weights[1:]]
        times = np.zeros(weights.shape[1], dtype=np.intp)
        for found in self.left_out:
            times += 0 if found is None else np.bincount(found[0], minlength=times.size)
        self._is_partition = self.is_nested and np.array_equal(times, (weights[0] > 0).astype(np.intp))

    @property
    def is_nested(self) -> bool:
        """Whether every batch leaves rows out of batch 0."""
        return all(found is not None for found in self.left_out)

    def second_moments(self, columns: WorkingColumns, weights: Array, first: int = 0) -> tuple[Array, Array]:
        """Return QWQᵀ of every batch from row ``first`` on, and the squares of which rounding is a share.

        Of a difference, rounding is that of what it is the difference of.
        """
        sums = np.empty((len(weights), columns.count - first, columns.count))
        for batch, found in enumerate(self.left_out, start=1):
            rows = None if found is None else found[0]
            sums[batch] = columns.second_moments(weights[batch] if rows is None else weights[0][rows], rows, first)
        sums[0] = sums[1:].sum(axis=0) if self._is_partition else columns.second_moments(weights[0], None, first)
        moments = np.diagonal(sums, first, 1, 2).copy()
        for batch, found in enumerate(self.left_out, start=1):  # in place: these are the largest arrays of a fit
            if found is not None:
                np.subtract(sums[0], sums[batch], out=sums[batch])
                sums[batch] *= found[1]
                moments[batch] = found[1] * moments[0]
        return sums, moments

    def centred(self, columns: WorkingColumns, weights: Array, means: Array, precision: np.dtype[np.floating]) -> Array:
        """Return QWQᵀ of every batch less that of the means QW1 (batches, k), 0 for columns that are constant in it."""
        sums, moments = self.second_moments(columns, weights)
        sums -= means[:, :, None] * (means / weights.sum(axis=1)[:, None])[:, None, :]
        flat = constant_columns(np.diagonal(sums, axis1=1, axis2=2), moments, precision)
        if flat.any():
            sums[flat] = 0.0
            sums.transpose(0, 2, 1)[flat] = 0.0
        return sums


def rows_left_out(whole: Array, batch: Array) -> tuple[Indices, float] | None:
    """Return the rows a batch leaves out and its factor on the others, or None if it is not such a batch."""
    out = (batch == 0) & (whole > 0)
    left = 1.0 - float(whole[out].sum())
    if 2 * np.count_nonzero(out) > whole.size or left < LITTLE:
        return None  # summing what is kept is cheaper, or what is left of a difference would be rounding
    factor = 1.0 / left
    if not np.allclose(batch, np.where(out, 0.0, factor * whole), rtol=1e-9, atol=0.0):
        return None
    return np.flatnonzero(out), float(factor)


class GramCache:
    """Sums over rows for squared loss, H = QᵀWQ - (QᵀW1)(QᵀW1)ᵀ and QᵀW(y - ȳ), of the groups added so far.

    ``groups`` are the k groups cached, in order of arrival; ``index`` is its inverse, -1 for the others. ``hessian``
    has shape (batches, k·m, k·m), ``means`` QᵀW1 (batches, k·m), ``linear`` QᵀW(y - ȳ) (batches, outputs, k·m), and
    ``inverse`` (k, batches) is one over the top eigenvalue of each diagonal block. ``centred`` is y - ȳ (batches,
    outputs, rows) with ȳ the weighted means ``target_means`` (batches, outputs).
    """

    def __init__(self, design: GroupedDesign, target: Array, weights: Array) -> None:
        self.design = design
        self.weights = weights / weights.sum(axis=1, keepdims=True)
        self.groups: Indices = np.zeros(0, dtype=np.intp)
        self.index = np.full(design.n_groups, -1)
        batches, outputs = weights.shape[0], target.shape[1]
        self.hessian = np.zeros((batches, 0, 0))
        self.means = np.zeros((batches, 0))
        self.linear = np.zeros((batches, outputs, 0))
        self.inverse = np.zeros((0, batches))
        self.target_means = self.weights @ target
        self.centred = target.T - self.target_means[:, :, None]
        self._flat = np.zeros((batches, 0), dtype=bool)  # columns that are constant in a batch
        self._sums = BatchSums(self.weights)

    @property
    def size(self) -> int:
        """The number k·m of cached columns."""
        return self.groups.size * self.design.width

    def rows_of(self, indices: Indices) -> Indices:
        """Return the rows in the Gram matrix of the groups at these indices of the cache."""
        return (indices[:, None] * self.design.width + np.arange(self.design.width)).ravel()

    def add(self, groups: Indices) -> None:
        """Cache the groups that are not cached yet."""
        groups = groups[self.index[groups] < 0]
        if not groups.size:
            return
        design, known, start = self.design, self.groups.size, self.size
        self.index[groups] = np.arange(known, known + groups.size)
        self.groups = np.concatenate([self.groups, groups])
        every, fresh = design.working(self.groups), design.working(groups)
        means = fresh.products(self.weights)
        linear = fresh.products(self.weights[:, None, :] * self.centred)
        block, moments = self._sums.second_moments(every, self.weights, start)
        self.means = np.concatenate([self.means, means], axis=1)
        self.linear = np.concatenate([self.linear, linear], axis=2)
        for products, of_fresh, of_every in zip(block, means, self.means, strict=True):
            products -= np.outer(of_fresh, of_every)
        flat = constant_columns(np.diagonal(block, start, 1, 2), moments, design.dtype)
        self._flat = np.concatenate([self._flat, flat], axis=1)
        if self._flat.any():
            block[flat] = 0.0
            block.transpose(0, 2, 1)[self._flat] = 0.0
            self.linear[np.broadcast_to(self._flat[:, None], self.linear.shape)] = 0.0
        old, self.hessian = self.hessian, np.empty((len(block), self.size, self.size))
        self.hessian[:, :start, :start], self.hessian[:, start:] = old, block
        self.hessian[:, :start, start:] = block[:, :, :start].transpose(0, 2, 1)
        slices = [slice(first, first + design.width) for first in range(start, self.size, design.width)]
        top = np.linalg.eigvalsh(np.stack([self.hessian[:, rows, rows] for rows in slices]))[..., -1]
        self.inverse = np.concatenate([self.inverse, 1.0 / np.maximum(top, SMALLEST_CURVATURE)])


SQUARED_SWEEPS = 500


class SquaredSolver(BlockSolver):
    """State of ½‖y - β - Qθ‖² + Σⱼ aⱼ‖θⱼ‖ + ½b‖θⱼ‖² for all batches.

    Of the groups that the cache held after the last steps, ``pull`` (batches, outputs, k·m) is QᵀW r.
    """

    forgets = False  # the Gram blocks stay, so a group once met costs nothing to keep in the working set

    def __init__(self, problem: ConvexProblem, gram: GramCache) -> None:
        super().__init__(problem)
        self.gram, self.pull = gram, gram.linear
        self.null_losses = 0.5 * np.einsum("fn,fon->f", problem.weights, gram.centred**2)

    def improve(self, thresholds: Array, ridge: float, working: Indices, tol: float) -> None:
        """Descend on the working groups until steps gain less than ``tol`` of the null loss."""
        if not working.size:
            return
        gram = self.gram
        gram.add(working)
        theta = self.theta[:, :, gram.groups]
        flat = theta.reshape(*theta.shape[:2], gram.size)
        self.pull = gram.linear - np.matmul(flat, gram.hessian)
        descend(
            gram.hessian,
            gram.inverse,
            theta,
            self.pull,
            np.sort(gram.index[working]).tolist(),
            self.problem.bars(thresholds)[:, gram.groups],
            ridge,
            (tol * float(self.null_losses.max()), SQUARED_SWEEPS),
        )
        self.theta[:, :, gram.groups] = theta

    def residuals(self) -> Array:
        """Return the residuals with weighted mean 0, shape (batches, outputs, rows)."""
        moving = self.gram.groups[self.theta[:, :, self.gram.groups].any(axis=(0, 1, 3))]
        if not moving.size:
            return self.gram.centred
        flat = self.theta[:, :, moving].reshape(*self.theta.shape[:2], -1)
        fitted = self.problem.design.combined(moving, flat)
        return self.gram.centred - fitted + self._mean_effects(moving)[:, :, None]

    def best_intercepts(self) -> Array:
        return self.gram.target_means - self._mean_effects(self.active())

    def losses(self) -> tuple[Array, Callable[[Array], Array], Array]:
        if self.pull.shape[2] == self.theta[0, 0].size:  # every group is cached: the Gram alone says all
            theta = self.theta[:, :, self.gram.groups]
            explained, left = (
                np.einsum("fok,fok->f", each, theta.reshape(self.pull.shape)) for each in (self.gram.linear, self.pull)
            )
            norms = np.empty((self.problem.n_batches, self.problem.design.n_groups))
            norms[:, self.gram.groups] = group_lengths(self.pull.reshape(theta.shape))
            total = 2.0 * self.null_losses
            squares, products = total - explained - left, total - explained
        else:
            residuals = self.residuals()
            weighted, norms = self.problem.weights[:, None, :] * residuals, self.problem.gradient_norms(residuals)
            squares = np.einsum("fon,fon->f", weighted, residuals)
            products = np.einsum("fon,fon->f", weighted, self.gram.centred)
        return 0.5 * squares, lambda scales: scales * products - 0.5 * scales**2 * squares, norms

    def _mean_effects(self, groups: Indices) -> Array:
        """Return the weighted means of Qθ over some groups, shape (batches, outputs)."""
        flat = self.theta[:, :, groups].reshape(*self.theta.shape[:2], -1)
        return np.einsum("fok,fk->fo", flat, self.gram.means[:, self.gram.rows_of(self.gram.index[groups])])
