"""Attributes of fitted estimators, each read from the one value that a fit is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from sparsenam.fit import ClassResponse, Fit, SurvivalResponse
from sparsenam.fit.response import Classes
from sparsenam.training import History

Found = TypeVar("Found")


class FromFit(Generic[Found]):
    """An attribute that ``read`` finds in ``fit_``; there is none before the fit, and it cannot be set."""

    def __init__(self, read: Callable[[Fit], Found]) -> None:
        self.read = read
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...
    @overload
    def __get__(self, estimator: object, owner: type) -> Found: ...
    def __get__(self, estimator: object | None, owner: type) -> Self | Found:
        if estimator is None:
            return self
        fit: Fit | None = vars(estimator).get("fit_")
        if fit is None:
            raise lacking_attribute(estimator, self.name, {})
        return self.read(fit)

    def __set__(self, estimator: object, value: object) -> None:
        raise AttributeError(f"{self.name} is read from fit_, and cannot be set", name=self.name, obj=estimator)


# what other libraries have on the estimator, and where it is here
ELSEWHERE = {
    "report": "explain().report('report.html')",
    "plot": "explain().plot()",
    "feature_importances_": "explain().to_frame()",
}


def lacking_attribute(estimator: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """Return Python's error for an attribute that there is not, with what to use instead where that is known."""
    message, known = f"{type(estimator).__name__!r} object has no attribute {name!r}", ELSEWHERE | dict(instead)
    message += f"; use {known[name]}" if name in known else ""
    return AttributeError(message, name=name, obj=estimator)


def known_history(fit: Fit) -> History:
    """Return the course of the training; there is no such attribute where no network was trained."""
    if fit.history is None:
        raise AttributeError("history_ is there only where a network was trained")
    return fit.history


def names_in(fit: Fit) -> NDArray[np.object_]:
    """Return the names of the columns; there is no such attribute where the table had none."""
    if not fit.encoder.named:
        raise AttributeError("feature_names_in_ is there only where the table names its columns")
    return np.array(fit.encoder.names, dtype=object)


def classes_in(fit: Fit) -> Classes:
    """Return the classes, sorted."""
    assert isinstance(fit.response, ClassResponse)
    return fit.response.classes


def survival_in(fit: Fit) -> SurvivalResponse:
    """Return the baseline hazard and the likelihood of a model of censored times."""
    assert isinstance(fit.response, SurvivalResponse)
    return fit.response
