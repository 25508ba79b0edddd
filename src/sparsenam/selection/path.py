"""A regularisation path as a sequence of fitted models, from sparse to dense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.model import AdditiveModel


@dataclass(frozen=True, slots=True, eq=False)
class PathPoint:
    """One alpha: the columns kept, the norms of all columns (columns,), the model, and the gap reached.

    ``features`` are indices of columns. ``gap`` is the duality gap relative to the loss of the empty model, None for
    a fit without one.
    """

    alpha: float
    features: NDArray[np.intp]
    norms: NDArray[np.float64]
    model: AdditiveModel
    gap: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RegularizationPath(Sequence[PathPoint]):
    """Points with falling alpha; ``names`` are the names of the table's columns."""

    points: tuple[PathPoint, ...]
    names: tuple[str, ...]

    @overload
    def __getitem__(self, index: int) -> PathPoint: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PathPoint, ...]: ...
    def __getitem__(self, index: int | slice) -> PathPoint | tuple[PathPoint, ...]:
        return self.points[index]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self.points)

    @property
    def alphas(self) -> NDArray[np.float64]:
        """The alphas, shape (points,)."""
        return np.array([point.alpha for point in self.points])

    @property
    def norms(self) -> NDArray[np.float64]:
        """Norm of every column at every point, shape (points, columns)."""
        return np.stack([point.norms for point in self.points])

    def at_most(self, n_features: int) -> PathPoint:
        """Return the point with the smallest alpha before more than ``n_features`` columns are kept."""
        if n_features < 0:
            raise InputError(describe("at_most", "a number of at least 0", f"{n_features}", "choose another"))
        chosen = None
        for point in self.points:
            if point.features.size > n_features:
                break
            chosen = point
        if chosen is None:
            got = f"{self.points[0].features.size} columns at the largest alpha"
            raise InputError(describe("at_most", f"a point with {n_features} columns", got, "start higher"))
        return chosen

    def entry_order(self) -> list[str]:
        """Return the names of the columns in the order in which they enter, the stronger first among equals."""
        entered: list[int] = []
        for point in self.points:
            new = [int(feature) for feature in point.features if int(feature) not in entered]
            entered += sorted(new, key=lambda feature: -point.norms[feature])
        return [self.names[feature] for feature in entered]

    def table(self) -> list[dict[str, float | int | str | None]]:
        """Return one row for each point: alpha, number of columns, gap, and their names."""
        return [
            {
                "alpha": point.alpha,
                "features": int(point.features.size),
                "gap": point.gap,
                "kept": ", ".join(self.names[int(feature)] for feature in sorted(point.features.tolist())),
            }
            for point in self.points
        ]
