"""Sums over the data that squared loss needs: Gram blocks of the groups met so far, for every batch."""

from __future__ import annotations

import numpy as np

from sparsenam.convex.blocks import inverse_curvatures
from sparsenam.convex.design import Array, Floats, GroupedDesign, Indices

FIRST_ROOM = 16  # groups that fit before the cache grows for the first time


class GramCache:
    """H = QᵀWQ - (QᵀW1)(QᵀW1)ᵀ of the groups added so far, grown on demand.

    A batch that leaves rows out of batch 0 is batch 0 minus the sums over the rows left out, so that K folds
    cost two passes, not K.

    Attributes
    ----------
    groups
        The features cached, in order of arrival; ``place`` is its inverse, -1 for the others.
    hessian
        Shape (batches, room, room); the first ``len(groups)·m`` rows and columns are filled.
    means
        QᵀW1, shape (batches, k·m).
    inverse
        One over the top eigenvalue of each diagonal block, shape (k, batches).
    """

    def __init__(self, design: GroupedDesign, weights: Array) -> None:
        totals = weights.sum(axis=1, keepdims=True)
        self.design = design
        self.weights = weights / totals
        self.groups: list[int] = []
        self.place = np.full(design.n_features, -1)
        batches = weights.shape[0]
        self.hessian = np.zeros((batches, 0, 0))
        self.means = np.zeros((batches, 0))
        self.inverse = np.zeros((0, batches))
        self._columns: Floats = np.zeros((0, design.n_rows), design.blocks.dtype)
        self._left_out = [_rows_left_out(self.weights[0], batch) for batch in self.weights[1:]]

    @property
    def size(self) -> int:
        """The number k·m of cached columns."""
        return len(self.groups) * self.design.width

    @property
    def columns(self) -> Floats:
        """The cached columns, shape (k·m, rows)."""
        return self._columns[: self.size]

    def rows_of(self, positions: Indices) -> Indices:
        """Return the places in the Gram matrix of the groups at these positions in the cache."""
        return (positions[:, None] * self.design.width + np.arange(self.design.width)).ravel()

    def add(self, features: Indices) -> None:
        """Cache the features that are not cached yet."""
        features = features[self.place[features] < 0]
        if not features.size:
            return
        start, stop = self.size, self.size + features.size * self.design.width
        self._make_room(start, stop)
        fresh = self.design.columns(features)
        self._columns[start:stop] = fresh
        means = self._moments(fresh, np.ones((1, self.design.n_rows), fresh.dtype))[:, :, 0]
        self.means = np.concatenate([self.means, means], axis=1)
        block = self._moments(fresh, self._columns[:stop])
        block -= means[:, :, None] * self.means[:, None, :]
        self.hessian[:, start:stop, :stop] = block
        self.hessian[:, :start, start:stop] = block[:, :, :start].transpose(0, 2, 1)
        curvatures = inverse_curvatures(self.hessian, features.size, self.design.width, len(self.groups))
        self.inverse = np.concatenate([self.inverse, curvatures])
        self.place[features] = np.arange(len(self.groups), len(self.groups) + features.size)
        self.groups.extend(int(j) for j in features)

    def products(self, features: Indices, vectors: Array) -> Array:
        """Return QᵀW v in double precision, shape (batches, outputs, groups·m)."""
        columns = self.design.columns(features).astype(np.float64)
        return np.matmul(self.weights[:, None, :] * vectors, columns.T)

    def _moments(self, left: Floats, right: Floats) -> Array:
        """Return left W rightᵀ for every batch, shape (batches, left, right)."""
        everything = _weighted_product(left, right, self.weights[0])
        moments = np.empty((self.weights.shape[0], *everything.shape))
        moments[0] = everything
        for batch, found in enumerate(self._left_out, start=1):
            if found is None:
                moments[batch] = _weighted_product(left, right, self.weights[batch])
            else:
                rows, factor = found
                missing = _weighted_product(left[:, rows], right[:, rows], self.weights[0][rows])
                moments[batch] = factor * (everything - missing)
        return moments

    def _make_room(self, filled: int, wanted: int) -> None:
        if wanted <= self._columns.shape[0]:
            return
        most = self.design.n_features * self.design.width
        room = min(max(2 * self._columns.shape[0], wanted, FIRST_ROOM * self.design.width), most)
        hessian = np.zeros((self.weights.shape[0], room, room))
        hessian[:, :filled, :filled] = self.hessian[:, :filled, :filled]
        columns: Floats = np.empty((room, self.design.n_rows), self._columns.dtype)
        columns[:filled] = self._columns[:filled]
        self.hessian, self._columns = hessian, columns


def _weighted_product(left: Floats, right: Floats, weights: Array) -> Array:
    return np.asarray((left * weights.astype(left.dtype)) @ right.T, dtype=np.float64)


def _rows_left_out(whole: Array, batch: Array) -> tuple[Indices, float] | None:
    """Return the rows a batch leaves out and its factor on the others, or None if it is not such a batch."""
    out = (batch == 0) & (whole > 0)
    if 2 * np.count_nonzero(out) > whole.size:
        return None  # summing what is kept is cheaper
    factor = 1.0 / (1.0 - whole[out].sum())
    if not np.allclose(batch, np.where(out, 0.0, factor * whole), rtol=1e-9, atol=0.0):
        return None
    return np.flatnonzero(out), float(factor)
