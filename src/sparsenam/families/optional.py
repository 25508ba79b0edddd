"""What a family may offer beyond the protocol, and what holds where it does not."""

from __future__ import annotations

from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sparsenam.families.base import Family, Matrix


@runtime_checkable
class Settles(Protocol):
    """A family with a number that a first fit has to tell: a dispersion, a spread."""

    @property
    def first_family(self) -> Family | None:
        """The family of the first fit; None when the number is known already."""
        ...

    def settled(self, scores: Matrix, target: Matrix, weights: NDArray[np.float64]) -> Family:
        """Return the family with its number, from the scores (rows, outputs) of the first fit."""
        ...


def exposure_power(family: Family) -> float | None:
    """Return q such that y with mean E eˢ has the loss of y/E with mean eˢ, times E^q, or None.

    A model with exposures is then the one without, fitted to y/E with weights w E^q. None, where the family has no
    attribute ``exposure_power``, means that no such reduction exists (or none is known).
    """
    return cast("float | None", getattr(family, "exposure_power", None))


def uses_robust_scale(family: Family) -> bool:
    """Return whether y should be scaled by median and median absolute deviation instead of mean and variance.

    So says an attribute ``robust_scale``: where few outliers make most of the variance, everything else would
    shrink to nothing on the scale of the fit, and a width given on that scale would be too wide.
    """
    return bool(getattr(family, "robust_scale", False))
