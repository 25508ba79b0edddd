"""A custom loss, made a family after a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.families.base import (
    Array,
    Family,
    Matrix,
    TargetRange,
    Vector,
    best_intercept,
    numeric_conjugate,
    weighted_quantile,
)

Given = TypeVar("Given")
DIFFERENCE = 1e-4  # half the distance over which the gradient's change is taken for a second derivative


class CustomLoss(Protocol):
    """The least that a custom loss has to define, in formulas that serve numpy arrays, and for networks torch tensors.

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

    It may also have any of these attributes and methods; the default follows "else".

    - ``hessian(scores, target)``: second derivatives; else differences of the gradient, none below 0. For a loss
      nearly straight far from y, gradient/(s - y) is better: Newton steps fail where the curvature is almost 0.
    - ``mean(scores)``: the prediction; else the score itself.
    - ``name``: else the class's name; ``link``: else "identity"; ``range``, a `TargetRange`: else finite numbers.
    - ``standardizes_target``: whether y is brought to mean 0 and variance 1 first; else whether link is "identity".
    - ``robust_scale``, ``exposure_power``: see `Family`; else False and None.
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
class CustomFamily(Family):
    """A family made from a loss and its gradient alone; see `CustomLoss` for its attributes."""

    custom: CustomLoss
    name: str
    link: str
    range: TargetRange
    standardizes_target: bool
    robust_scale: bool
    exposure_power: float | None
    curvature: float

    @classmethod
    def of(cls, custom: CustomLoss) -> Self:
        """Return the family of a loss, with the default of each attribute that it does not have."""
        link = str(getattr(custom, "link", "identity"))
        return cls(
            custom,
            name=str(getattr(custom, "name", type(custom).__name__)),
            link=link,
            range=getattr(custom, "range", TargetRange()),
            standardizes_target=bool(getattr(custom, "standardizes_target", link == "identity")),
            robust_scale=bool(getattr(custom, "robust_scale", False)),
            exposure_power=getattr(custom, "exposure_power", None),
            curvature=float(getattr(custom, "curvature", np.inf)),
        )

    def loss(self, scores: Array, target: Array) -> Array:
        return self.custom.loss(scores, target).sum(-1)

    def gradient(self, scores: Array, target: Array) -> Array:
        return self.custom.gradient(scores, target)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return the custom second derivative, or (g(s+δ) - g(s-δ))/2δ where that is not below 0."""
        hessian: Callable[[Array, Array], Array] | None = getattr(self.custom, "hessian", None)
        if hessian is not None:
            return hessian(scores, target)
        gradient = self.custom.gradient
        change = gradient(scores + DIFFERENCE, target) - gradient(scores - DIFFERENCE, target)
        return change * (change > 0) / (2.0 * DIFFERENCE)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        return numeric_conjugate(self, mean - target, target, self._near(target))

    def mean(self, scores: Array) -> Array:
        mean: Callable[[Array], Array] | None = getattr(self.custom, "mean", None)
        return scores if mean is None else mean(scores)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        start = self._near(weighted_quantile(target, weights, 0.5))
        return best_intercept(self, np.zeros_like(target), target, weights, start)

    def _near(self, target: Matrix) -> Matrix:
        """Return scores that fit y more or less, to start a search from."""
        if self.link == "identity":
            return target
        return np.log(np.maximum(target, 1e-3)) if self.link == "log" else np.zeros_like(target)


SCORES = np.linspace(-2.037, 2.011, 9)  # to try; odd numbers, so that kinks lie elsewhere
TARGETS = (-1.5, 0.0, 0.4, 1.0, 2.5)
STEP = 1e-5
AGREES = 1e-4


def custom_family(custom: CustomLoss, taken: tuple[str, ...] = ()) -> CustomFamily:
    """Return a family made from a loss and its gradient, after trying them on a few numbers.

    Raises
    ------
    InputError
        When a method is missing, a shape is wrong, the gradient is not the derivative of
        the loss, the loss is not convex, or the name is one of those ``taken``.
    """
    where = f"family {type(custom).__name__}"
    missing = [name for name in ("loss", "gradient") if not callable(getattr(custom, name, None))]
    if missing:
        remedy = "write loss(scores, target) and gradient(scores, target)"
        raise InputError(describe(where, "methods loss and gradient", f"no {' and no '.join(missing)}", remedy))
    family = CustomFamily.of(custom)
    if family.name in taken:
        got = f"{family.name!r}, which is another family's"
        raise InputError(describe(where, "a name that no family has", got, "rename it"))
    scores, target = trial_rows(family)
    _numbers(custom.loss, scores, target, f"loss of {where}")
    slopes = _numbers(custom.gradient, scores, target, f"gradient of {where}")
    changes = (custom.loss(scores + STEP, target) - custom.loss(scores - STEP, target)) / (2.0 * STEP)
    wrong = np.abs(changes - slopes) > AGREES * (1.0 + np.abs(slopes))
    if wrong.any():
        first = tuple(np.argwhere(wrong)[0])
        expected = f"the loss's derivative {changes[first]:.5g} at score {scores[first]:.5g}, y {target[first]:g}"
        remedy = "correct gradient(scores, target)"
        raise InputError(describe(f"gradient of {where}", expected, f"{slopes[first]:.5g}", remedy))
    falls = np.diff(slopes.reshape(SCORES.size, -1), axis=0)
    if np.any(falls < -1e-9 * (1.0 + np.abs(slopes).max())):
        got = "a gradient that falls as the score rises"
        raise InputError(describe(where, "a loss that is convex in the score", got, "use a convex loss"))
    if not family.curvature > 0:
        got, remedy = f"{family.curvature}", "correct it or leave it out"
        raise InputError(describe(f"curvature of {where}", "a number above 0", got, remedy))
    return family


def trial_rows(family: CustomFamily) -> tuple[Matrix, Matrix]:
    """Return scores and a few values of y within the range, (rows, 1) each, for which formulas are tried."""
    lowest, highest = family.range.lowest, family.range.highest
    inside = [target for target in TARGETS if lowest <= target <= highest]
    targets = np.array(inside or [end for end in (lowest, highest) if np.isfinite(end)])
    return np.repeat(SCORES, targets.size)[:, None], np.tile(targets, SCORES.size)[:, None]


def evaluated(method: Callable[..., object], scores: Given, target: Given, where: str, kind: str) -> Given:
    """Return what a formula gives for arrays or tensors, whose ``kind`` is named; raise unless it is one of them."""
    try:
        found = method(scores, target)
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        remedy = "use array_api_compat.array_namespace(scores) for functions"
        raise InputError(describe(where, f"formulas that serve {kind}s", got, remedy)) from error
    if not isinstance(found, type(scores)):
        raise InputError(describe(where, f"a {kind} for {kind}s", type(found).__name__, "convert nothing"))
    return found


def _numbers(method: Callable[..., object], scores: Matrix, target: Matrix, where: str) -> Matrix:
    """Return what the method gives for numpy arrays; raise unless it is finite and of the right shape."""
    numbers = evaluated(method, scores, target, where, "numpy array").astype(np.float64)
    if numbers.shape != scores.shape:
        expected = f"the shape {scores.shape} of the scores"
        raise InputError(describe(where, expected, f"{numbers.shape}", "return one number for each entry"))
    if not np.isfinite(numbers).all():
        got = "others for scores between -2 and 2"
        raise InputError(describe(where, "finite numbers", got, "correct the formula"))
    return numbers
