"""A loss of one's own, completed to a family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.families.base import Array, Matrix, TargetRange
from sparsenam.families.conjugate import numeric_conjugate
from sparsenam.families.intercept import best_intercept
from sparsenam.families.robust import weighted_quantile

DIFFERENCE = 1e-4  # half the distance over which the gradient's change is taken for a second derivative


class OwnLoss(Protocol):
    """The least that a loss of one's own has to say, in formulas that serve numpy arrays and torch tensors.

    Both methods are taken entry by entry: scores and target have shape (rows, outputs), and so have the results.
    The loss must be convex in the score.

    ```python
    class LogCosh:
        def loss(self, scores, target):
            xp, over = array_api_compat.array_namespace(scores), scores - target
            return xp.logaddexp(over, -over)

        def gradient(self, scores, target):
            return array_api_compat.array_namespace(scores).tanh(scores - target)


    SNAMRegressor(family=LogCosh())
    ```

    It may also have any of these; what is missing is taken as told.

    - ``hessian(scores, target)``: second derivatives; else differences of the gradient, none below 0. For a loss
      nearly straight far from y, gradient/(s - y) is better: Newton steps fail where the curvature is almost 0.
    - ``mean(scores)``: the prediction; else the score itself.
    - ``name``: else the class's name; ``link``: else "identity"; ``range``, a `TargetRange`: else finite numbers.
    - ``standardizes_target``: whether y is brought to mean 0 and variance 1 first; else whether link is "identity".
    - ``robust_scale``, ``exposure_power``: see `sparsenam.families.optional`; else False and None.
    - ``curvature``: a bound on the second derivative; else ∞, unknown.

    The conjugate, which the duality gap needs, and the best constant are found numerically.
    """

    def loss(self, scores: Array, target: Array) -> Array:
        """Return the loss of each entry, shape (rows, outputs)."""
        ...

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return the derivative of each entry's loss in its score, shape (rows, outputs)."""
        ...


@dataclass(frozen=True, slots=True)
class CompletedFamily:
    """A family made from a loss and its gradient alone; see `OwnLoss`."""

    own: OwnLoss

    @property
    def name(self) -> str:
        """The loss's own name, or that of its class."""
        return str(self._optional("name", type(self.own).__name__))

    @property
    def link(self) -> str:
        """The loss's own link, or "identity"."""
        return str(self._optional("link", "identity"))

    @property
    def range(self) -> TargetRange:
        """The loss's own range, or all finite numbers."""
        return cast(TargetRange, self._optional("range", TargetRange()))

    @property
    def standardizes_target(self) -> bool:
        """As the loss says, or whether scores are in the units of y."""
        return bool(self._optional("standardizes_target", self.link == "identity"))

    @property
    def robust_scale(self) -> bool:
        """As the loss says, or False."""
        return bool(self._optional("robust_scale", False))

    @property
    def exposure_power(self) -> float | None:
        """As the loss says, or None."""
        return cast("float | None", self._optional("exposure_power", None))

    @property
    def curvature(self) -> float:
        """As the loss says, or ∞."""
        return float(cast(float, self._optional("curvature", np.inf)))

    def loss(self, scores: Array, target: Array) -> Array:
        """Return the own loss summed over outputs, shape (rows,)."""
        return self.own.loss(scores, target).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        """Return the own gradient."""
        return self.own.gradient(scores, target)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return the own second derivative, or (g(s+δ) - g(s-δ))/2δ where that is not below 0."""
        hessian = self._optional("hessian", None)
        if hessian is not None:
            return cast(Any, hessian)(scores, target)
        gradient = self.own.gradient
        change = gradient(scores + DIFFERENCE, target) - gradient(scores - DIFFERENCE, target)
        return change * (change > 0) / (2.0 * DIFFERENCE)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return the conjugate at m - y, shape (rows,), found numerically."""
        return numeric_conjugate(self, mean - target, target, self._near(target))

    def mean(self, scores: Array) -> Array:
        """Return the own mean, or the scores."""
        mean = self._optional("mean", None)
        return scores if mean is None else cast(Any, mean)(scores)

    def best_constant(self, target: Matrix, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the best constant score of each output, found numerically."""
        start = self._near(weighted_quantile(target, weights, 0.5))
        return best_intercept(self, np.zeros_like(target), target, weights, start)

    def _near(self, target: Matrix) -> Matrix:
        """Return scores that fit y more or less, to start a search from."""
        if self.link == "identity":
            return target
        return np.log(np.maximum(target, 1e-3)) if self.link == "log" else np.zeros_like(target)

    def _optional(self, name: str, otherwise: object) -> object:
        return getattr(self.own, name, otherwise)
