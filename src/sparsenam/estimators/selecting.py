"""The kept columns of a table, as the selectors hand them on: arrays, or tables where ``set_output`` asks for one."""

from __future__ import annotations

from typing import Any, cast

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils._set_output import (
    _get_output_config,  # pyright: ignore[reportPrivateUsage]
)
from sklearn.utils.validation import check_is_fitted, validate_data


class KeptColumnsMixin(SelectorMixin):
    """`transform` for every kind of table that `fit` reads."""

    def transform(self, X: Any) -> Any:
        """Return the kept columns of a table (rows, features): an array, or a table where ``set_output`` asks for one.

        A table of polars or pyarrow keeps the types of its columns when a table is asked for. The array holds objects
        where a table has text or dates beside numbers, which have no dtype in common.
        """
        check_is_fitted(self)
        selected = self._selected_table(X)
        if selected is not None:
            return selected
        try:
            return super().transform(X)
        except TypeError:  # NumPy finds no dtype for dates and numbers
            if not hasattr(X, "astype"):
                raise
            return super().transform(X.astype(object))

    def _selected_table(self, X: Any) -> Any:
        """Return the kept columns in the asked-for library, or None where scikit-learn does it as well.

        scikit-learn selects from tables of pandas itself; all others it turns into one array first, which is of objects
        as soon as one column is text.
        """
        wanted = _get_output_config("transform", self)["dense"]
        table: Any = nw.from_native(X, eager_only=True, pass_through=True)
        if wanted == "default" or not isinstance(table, nw.DataFrame) or table.implementation.is_pandas_like():
            return None
        mask = self.get_support()
        if not mask.any():
            return None  # scikit-learn warns
        validate_data(cast(BaseEstimator, self), X, reset=False, skip_check_array=True)  # names and number of columns
        kept: Any = cast(Any, table).select([table.columns[index] for index in np.flatnonzero(mask)])
        try:
            return kept.to_pandas() if wanted == "pandas" else kept.to_polars()
        except ModuleNotFoundError:  # polars writes pandas through pyarrow
            return None
