"""The kept columns of a table, as selectors hand them on: arrays, or tables where ``set_output`` asks for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils._set_output import (
    _get_output_config,  # pyright: ignore[reportPrivateUsage]
)
from sklearn.utils.validation import validate_data


def kept_table(selector: SelectorMixin, X: Any, transform: Callable[[Any], Any]) -> Any:
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


def _selected_table(selector: SelectorMixin, X: Any) -> Any:
    """Return the kept columns in the asked-for library, or None where scikit-learn does it as well."""
    wanted = _get_output_config("transform", selector)["dense"]
    table: Any = nw.from_native(X, eager_only=True, pass_through=True)
    if wanted == "default" or not isinstance(table, nw.DataFrame) or table.implementation.is_pandas_like():
        return None
    mask = selector.get_support()
    if not mask.any():
        return None  # scikit-learn warns
    assert isinstance(selector, BaseEstimator)
    validate_data(selector, X, reset=False, skip_check_array=True)  # names and number of columns
    kept: Any = table.select([table.columns[index] for index in np.flatnonzero(mask)])
    try:
        return kept.to_pandas() if wanted == "pandas" else kept.to_polars()
    except ModuleNotFoundError:  # polars writes pandas through pyarrow
        return None
