"""Squared loss from sums over the rows, in one pass: tables that do not fit into memory.

The path of squared loss depends on the rows only through the products of the columns with each other and with the
target. Rows are therefore read in blocks, added up and forgotten. The sums are then turned into a small table with
exactly the same products, to which the solver is applied as to any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsenam.convex.design import Array, GroupedDesign, whitening
from sparsenam.convex.ramps import Ramps
from sparsenam.errors import InputError, describe


class RowSums:
    """Sums of products of ramps and targets over the rows seen so far.

    Sums are about a fixed origin, the first block's means, so that large offsets do not cancel.
    """

    def __init__(self, ramps: Sequence[Ramps], outputs: int = 1) -> None:
        self.ramps = tuple(ramps)
        self.sizes = np.array([own.size for own in self.ramps])
        width = int(self.sizes.sum()) + outputs
        self.outputs = outputs
        self.origin: Array | None = None
        self.weight = 0.0
        self.first: Array = np.zeros(width)
        self.second: Array = np.zeros((width, width))

    def add(self, x: Array, target: Array, weights: Array | None = None) -> None:
        """Take a block of rows in: x (features, rows), target (rows, outputs), weights (rows,)."""
        count = target.shape[0]
        shares = np.asarray(np.ones(count) if weights is None else weights, dtype=np.float64)
        columns = [own.columns(column) for own, column in zip(self.ramps, x, strict=True)]
        rows: Array = np.concatenate([*columns, target], axis=1)
        total = float(np.sum(shares))
        origin: Array = np.asarray(shares @ rows / total) if self.origin is None else self.origin
        self.origin = origin
        rows = rows - origin
        self.weight += total
        self.first += shares @ rows
        self.second += (rows * shares[:, None]).T @ rows

    def table(self, roughness: float = 1e-4) -> tuple[GroupedDesign, Array, Array]:
        """Return a design, a target (rows, outputs) and weights with the same products as all rows seen.

        The centred products are factored, C = RᵀR; the rows of R, each once as it is and once negated, have
        mean zero and the products C. The means of the target are gone: add them to the intercepts.
        """
        if self.origin is None:
            raise InputError(describe("RowSums", "at least one block of rows", "none", "call add first"))
        means = self.first / self.weight
        products = self.second / self.weight - np.outer(means, means)
        values, vectors = np.linalg.eigh(products)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        rows = np.concatenate([root, -root]) * np.sqrt(root.shape[0])
        features, width = len(self.ramps), int(self.sizes.max(initial=1))
        blocks = np.zeros((features, width, rows.shape[0]))
        grams = np.zeros((features, width, width))
        ends = np.cumsum(self.sizes)
        for place, (end, size) in enumerate(zip(ends, self.sizes, strict=True)):
            own = slice(end - size, end)
            blocks[place, :size] = rows[:, own].T
            grams[place, :size, :size] = products[own, own]
        transform = whitening(grams, self.sizes, roughness)
        centers = np.zeros((features, width))
        for place, (end, size) in enumerate(zip(ends, self.sizes, strict=True)):
            centers[place, :size] = (self.origin + means)[end - size : end]
        design = GroupedDesign(np.matmul(transform.transpose(0, 2, 1), blocks), transform, centers)
        return design, rows[:, int(ends[-1]) :], np.ones(len(rows))

    @property
    def target_means(self) -> Array:
        """Weighted means of the target over all rows seen, shape (outputs,)."""
        assert self.origin is not None
        return (self.origin + self.first / self.weight)[-self.outputs :]
