"""Fits that succeed as a whole or leave nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sparsenam.errors import InputError


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Generator[None]:
    """Undo every change to the estimator when the block fails, so that a failed fit leaves nothing behind."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def require_target(estimator: BaseEstimator, y: ArrayLike | None) -> ArrayLike:
    """Return y; raise when it is None."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    return y
