"""A point of the convex path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenam.convex.design import Array, GroupedDesign, Indices


@dataclass(frozen=True, slots=True, eq=False)
class ConvexPoint:
    """The solutions of all batches at one alpha, kept for the active features only.

    Attributes
    ----------
    active
        Features that are active in some batch, ascending, shape (active,).
    values
        Their θ in the solver's coordinates, shape (batches, active, m, outputs).
    intercepts
        Shape (batches, outputs).
    supports
        The active features of each batch.
    gaps
        Duality gap of each batch relative to its null loss, shape (batches,).
    gradient_norms
        Batch 0's ‖gradientⱼ‖ / wⱼ, shape (features,): divided by alpha, how far on the way to entering.
    """

    alpha: float
    n_features: int
    active: Indices
    values: Array
    intercepts: Array
    supports: tuple[Indices, ...]
    gaps: Array
    gradient_norms: Array

    @property
    def theta(self) -> Array:
        """All of θ, shape (batches, features, m, outputs), made anew at each call."""
        batches, _, width, outputs = self.values.shape
        theta = np.zeros((batches, self.n_features, width, outputs))
        theta[:, self.active] = self.values
        return theta

    def scores(self, design: GroupedDesign, batch: int = 0) -> Array:
        """Return β + Qθ of one batch, shape (rows, outputs)."""
        return design.scores(self.active, self.values[batch], self.intercepts[batch])
