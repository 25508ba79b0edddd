"""Checks of a family that a user brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.families.base import Family, Matrix, TargetRange
from sparsenam.families.completed import CompletedFamily, OwnLoss

METHODS = ("loss", "gradient", "hessian_diagonal", "conjugate", "mean", "best_constant")
FACTS = ("name", "link", "range", "standardizes_target", "curvature")
PLACES = np.linspace(-2.037, 2.011, 9)  # scores to try; odd numbers, so that kinks lie elsewhere
TARGETS = (-1.5, 0.0, 0.4, 1.0, 2.5)
STEP = 1e-5
AGREES = 1e-4


def is_whole(family: object) -> bool:
    """Return whether an object has all that the protocol `Family` names."""
    return all(callable(getattr(family, name, None)) for name in METHODS) and all(
        hasattr(family, name) for name in FACTS
    )


def completed(own: OwnLoss, taken: tuple[str, ...] = ()) -> CompletedFamily:
    """Return a family made from a loss and its gradient, after trying them on a few numbers.

    Raises
    ------
    InputError
        When a method is missing, numpy and torch disagree, a shape is wrong, the gradient is not the derivative of
        the loss, the loss is not convex, or the name is one of those ``taken``.
    """
    word = type(own).__name__
    where = f"family {word}"
    missing = [name for name in ("loss", "gradient") if not callable(getattr(own, name, None))]
    if missing:
        remedy = "write loss(scores, target) and gradient(scores, target)"
        raise InputError(describe(where, "methods loss and gradient", f"no {' and no '.join(missing)}", remedy))
    family = CompletedFamily(own)
    if family.name in taken:
        expected = "a name of its own"
        raise InputError(describe(where, expected, f"{family.name!r}, which is another family's", "rename it"))
    targets = _usable(family.range)
    scores = np.repeat(PLACES, targets.size)[:, None]
    target = np.tile(targets, PLACES.size)[:, None]
    _numbers(own.loss, scores, target, f"loss of {where}")
    slopes = _numbers(own.gradient, scores, target, f"gradient of {where}")
    _check_derivative(own, scores, target, slopes, where)
    falls = np.diff(slopes.reshape(PLACES.size, targets.size), axis=0)
    if np.any(falls < -1e-9 * (1.0 + np.abs(slopes).max())):
        got = "a gradient that falls as the score rises"
        raise InputError(describe(where, "a loss that is convex in the score", got, "use a convex loss"))
    if not family.curvature > 0:
        got, remedy = f"{family.curvature}", "correct it or leave it out"
        raise InputError(describe(f"curvature of {where}", "a number above 0", got, remedy))
    return family


def _usable(values: TargetRange) -> NDArray[np.float64]:
    """Return a few values of y within the range."""
    inside = [own for own in TARGETS if values.lowest <= own <= values.highest]
    ends = [own for own in (values.lowest, values.highest) if np.isfinite(own)]
    return np.array(inside or ends)


def _numbers(method: Callable[..., object], scores: Matrix, target: Matrix, where: str) -> Matrix:
    """Return what the method gives for numpy arrays; raise unless it is finite, of the right shape, and torch's."""
    try:
        found: object = method(scores, target)
        other: object = method(torch.as_tensor(scores), torch.as_tensor(target))
    except Exception as error:
        expected = "formulas that serve numpy arrays and torch tensors"
        got = f"{type(error).__name__}: {error}"
        remedy = "use array_api_compat.array_namespace(scores) for functions"
        raise InputError(describe(where, expected, got, remedy)) from error
    if not isinstance(found, np.ndarray) or not isinstance(other, torch.Tensor):
        got = f"{_kind(cast(object, found))} and {_kind(other)}"
        raise InputError(describe(where, "an array for arrays and a tensor for tensors", got, "convert nothing"))
    numbers = cast(Matrix, found).astype(np.float64)
    if numbers.shape != scores.shape:
        expected = f"the shape {scores.shape} of the scores"
        raise InputError(describe(where, expected, f"{numbers.shape}", "return one number for each entry"))
    if not np.isfinite(numbers).all() or not np.allclose(numbers, other.detach().numpy(), rtol=1e-6, atol=1e-9):
        got = "others for scores between -2 and 2"
        raise InputError(describe(where, "finite numbers, the same in numpy and torch", got, "correct the formula"))
    return numbers


def _kind(value: object) -> str:
    return type(value).__name__


def _check_derivative(own: OwnLoss, scores: Matrix, target: Matrix, slopes: Matrix, where: str) -> None:
    changes = (own.loss(scores + STEP, target) - own.loss(scores - STEP, target)) / (2.0 * STEP)
    wrong = np.abs(changes - slopes) > AGREES * (1.0 + np.abs(slopes))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        expected = f"the loss's derivative {changes[place]:.5g} at score {scores[place]:.5g}, y {target[place]:g}"
        remedy = "correct gradient(scores, target)"
        raise InputError(describe(f"gradient of {where}", expected, f"{slopes[place]:.5g}", remedy))


def checked(family: Family | OwnLoss, taken: tuple[str, ...]) -> Family:
    """Return a whole family as it is, and a loss with a gradient completed; raise for anything else."""
    if is_whole(family):
        return family  # pyright: ignore[reportReturnType]
    return completed(family, taken)
