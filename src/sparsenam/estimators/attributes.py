"""What fitted estimators and selectors are made of: attributes read from the fit, and the kept columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Generic, Self, TypeVar, overload

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils._set_output import (
    _get_output_config,  # pyright: ignore[reportPrivateUsage]
)
from sklearn.utils.validation import validate_data

from sparsenam.fit.pipeline import Fit

Found = TypeVar("Found")


class FromFit(Generic[Found]):
    """An attribute that ``read`` finds in ``fit_``; there is none before the fit, and it cannot be set."""

    def __init__(self, read: Callable[[Fit], Found]) -> None:
        self.read = read

    @overload
    def __get__(self, estimator: None, owner: type) -> Self: ...
    @overload
    def __get__(self, estimator: object, owner: type) -> Found: ...
    def __get__(self, estimator: object | None, owner: type) -> Self | Found:
        if estimator is None:
            return self
        fit: Fit | None = vars(estimator).get("fit_")
        if fit is None:
            raise AttributeError  # Python then asks __getattr__ of the estimator, which says what there is not
        return self.read(fit)

    def __set__(self, estimator: object, value: object) -> None:
        raise AttributeError("an attribute that is read from fit_ cannot be set", obj=estimator)


# what other libraries have on the estimator, and where it is here
ELSEWHERE = {
    "report": "explain().report('report.html')",
    "plot": "explain().plot()",
    "feature_importances_": "explain().to_frame()",
}


def known_history(fit: Fit) -> list[dict[str, float | int | None]]:
    """Return the course of the training; there is no such attribute where no network was trained."""
    if fit.history is None:
        raise AttributeError
    return [asdict(epoch) for epoch in fit.history]


def names_in(fit: Fit) -> NDArray[np.object_]:
    """Return the names of the columns; there is no such attribute where the table had none."""
    if not fit.encoder.named:
        raise AttributeError
    return np.array(fit.encoder.names, dtype=object)


def kept_table(selector: SelectorMixin, X: Any, transform: Callable[[Any], object]) -> object:
    """Return the kept columns of any table that ``fit`` reads; ``transform`` is scikit-learn's own.

    scikit-learn selects from tables of pandas itself; all others it turns into one array first, which is of objects as
    soon as one column is text.
    """
    selected = _selected_table(selector, X)
    if selected is not None:
        return selected
    try:
        return transform(X)
    except TypeError:  # NumPy finds no dtype for dates and numbers
        if not hasattr(X, "astype"):
            raise
        return transform(X.astype(object))


def _selected_table(selector: SelectorMixin, X: object) -> object:
    """Return the kept columns in the asked-for library, or None where scikit-learn does it as well."""
    wanted, mask = _get_output_config("transform", selector)["dense"], selector.get_support()
    if wanted == "default" or not is_into_dataframe(X) or not mask.any():  # scikit-learn warns where nothing is kept
        return None
    table = nw.from_native(X, eager_only=True)
    if table.implementation.is_pandas_like():
        return None
    assert isinstance(selector, BaseEstimator)
    validate_data(selector, X, reset=False, skip_check_array=True)  # names and number of columns
    kept = table.select([table.columns[index] for index in np.flatnonzero(mask)])
    try:
        return kept.to_pandas() if wanted == "pandas" else kept.to_polars()
    except ModuleNotFoundError:  # polars writes pandas through pyarrow
        return None
