"""Training data in numbers, brought to the scale of the fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import ConstantColumnWarning, InputError, describe
from sparsenam.tables.scaling import Matrix, Scaling, Vector


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Columns (rows, features), target (rows, outputs), weights (rows,) and the columns' names."""

    columns: Matrix
    target: Matrix
    weights: Vector
    names: Sequence[str]

    def without_absent_rows(self) -> Sample:
        """Return the rows whose weight is above 0, weights scaled to mean 1."""
        present = self.weights > 0
        if not present.any():
            raise InputError(
                describe("sample_weight", "some weight above 0", "none", "give at least one row weight")
            )
        weights = self.weights[present]
        return Sample(self.columns[present], self.target[present], weights / weights.mean(), self.names)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSample:
    """A sample on the scale of the fit: x (features, rows), target (rows, outputs), weights (rows,).

    ``features`` are the input columns that vary, sorted by name: then every sum, draw and tie is the same
    whatever the order of the table's columns.
    """

    features: NDArray[np.intp]
    names: list[str]
    n_features_in: int
    scaling: Scaling
    target_scaling: Scaling
    x: Matrix
    target: Matrix
    weights: Vector

    def take(self, places: NDArray[np.intp]) -> PreparedSample:
        """Return the sample with some of its features alone."""
        return replace(
            self,
            features=self.features[places],
            names=[self.names[place] for place in places],
            scaling=self.scaling.take(places),
            x=self.x[places],
        )


def prepare(sample: Sample, *, standardize: bool, standardize_target: bool) -> PreparedSample:
    """Leave out constant columns, with a warning, and rows of weight 0; scale what is left."""
    present = sample.without_absent_rows()
    scaling = Scaling.of(present.columns, present.weights)
    constant = np.flatnonzero(scaling.scale == 0)
    if constant.size:
        named = ", ".join(str(present.names[int(place)]) for place in constant[:5])
        more = " …" if constant.size > 5 else ""
        message = f"{constant.size} constant column(s) left out of the model: {named}{more}."
        warnings.warn(message, ConstantColumnWarning, stacklevel=6)
    varying = [int(place) for place in np.flatnonzero(scaling.scale)]
    features = np.array(sorted(varying, key=lambda place: str(present.names[place])), dtype=np.intp)
    scaling = scaling.take(features) if standardize else Scaling.none(features.size)
    target_scaling = Scaling.none(present.target.shape[1])
    target = present.target
    if standardize_target:
        measured = Scaling.of(target, present.weights)
        flat = measured.scale == 0
        target_scaling = Scaling(measured.center, np.where(flat, 1.0, measured.scale))
        target = np.where(flat, measured.center, target)  # what rounding leaves of a constant is no signal
    return PreparedSample(
        features=features,
        names=[str(present.names[place]) for place in features],
        n_features_in=present.columns.shape[1],
        scaling=scaling,
        target_scaling=target_scaling,
        x=np.ascontiguousarray(scaling.apply(present.columns[:, features]).T),
        target=target_scaling.apply(target),
        weights=present.weights,
    )
