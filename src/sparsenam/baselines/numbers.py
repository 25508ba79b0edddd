"""Tables of finite numbers, for baselines that take nothing else; the column is named when something is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sparsenam.errors import InputError, describe

Matrix = NDArray[np.float64]


def check_numbers(estimator: BaseEstimator, X: ArrayLike, *, reset: bool) -> Matrix:
    """Return X as a finite float64 matrix, for estimators of numbers alone; ``reset`` records width and names."""
    try:
        columns: Matrix = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
    except ValueError as error:
        found = _text_column(X) if "could not convert" in str(error) else None
        if found is None:
            raise
        name, text = found
        expected = "numbers"
        raise InputError(
            describe(f"column {name!r}", expected, f"the text {text!r}", "encode it as numbers first")
        ) from error
    bad = ~np.isfinite(columns)
    if bad.any():
        row, place = (int(index) for index in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(columns[row, place]) else "infinity (inf)"
        got = f"{value} in row {row} ({int(bad.sum())} such cells in X)"
        name = column_names(estimator, columns.shape[1])[place]
        raise InputError(describe(f"column {name!r}", "finite numbers", got, "fill or drop these cells"))
    return columns


def column_names(estimator: BaseEstimator, n_columns: int) -> list[str]:
    """Return the table's column names, or x0, x1, … for an array."""
    named = getattr(estimator, "feature_names_in_", None)
    return [f"x{place}" for place in range(n_columns)] if named is None else [str(name) for name in named]


def _text_column(X: Any) -> tuple[object, object] | None:
    columns = [(name, X[name]) for name in X.columns] if hasattr(X, "columns") else enumerate(np.asarray(X).T)
    for name, column in columns:
        for value in np.asarray(column, dtype=object).ravel():
            try:
                float(value)
            except (TypeError, ValueError):
                return name, value
    return None
