"""Explanations of rows as SHAP has them, for its plots: effects of an additive model are exact, without sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.estimators import AdditiveEstimator
from sparsenam.explain.local import CellTexts, read_cells
from sparsenam.interop.libraries import library
from sparsenam.tables.text import numbered
from sparsenam.text import pair_text


def shap_explanation(model: AdditiveEstimator, X: ArrayLike) -> Any:
    """Return what each column adds to each row's score as a ``shap.Explanation``.

    The values are those of `effects`, with each pair as one more feature after the columns, named "a × b", or
    "a × b (2)" where a column has that name. With the base values they add up to the score: the prediction of a
    regression with the identity link, elsewhere log odds or log means. Without pairs they are the Shapley values with
    the training rows as background. Dropped columns have 0.

    Parameters
    ----------
    model : fitted estimator
    X : table of shape (rows, features)
        The rows to explain.

    Returns
    -------
    shap.Explanation
        ``values`` (rows, features + pairs) or, for several outputs, (rows, features + pairs, outputs); ``base_values``
        (rows,) or (rows, outputs), the intercept; ``data`` with numbers, dates as days since 1970-01-01, and
        texts, "missing" where there is none.
    """
    shap = library("shap", "shap", "shap_explanation")
    values = np.concatenate([model.effects(X), model.interaction_effects(X)], axis=1)
    intercept = np.asarray(model.model_.intercept, dtype=np.float64)
    single = values.ndim == 2
    base = np.full(len(values), intercept[0]) if single else np.tile(intercept, (len(values), 1))
    names = [str(name) for name in model.encoder_.names]
    names = numbered(names + [pair_text(one, other) for one, other in model.interactions_])
    outputs = None if single else list(model.portable().outputs)
    return shap.Explanation(
        values=values, base_values=base, data=_data(model, X), feature_names=names, output_names=outputs
    )


def _data(model: AdditiveEstimator, X: ArrayLike) -> NDArray[Any]:
    """Return the cells (rows, features + pairs): numbers where all are numbers, else objects."""
    cells = read_cells(model.fit_.reader(), X)
    columns: list[NDArray[Any]] = []
    for column in cells:
        if column.numbers.size:
            columns.append(column.numbers)
            continue
        texts = np.array([*column.values, "missing"], dtype=object)  # whose code is -1; SHAP sorts texts
        columns.append(texts[column.codes])
    if model.interactions_:
        texts = {
            described.name: CellTexts.of(described, column)
            for described, column in zip(model.encoder_.columns, cells, strict=True)
        }
        for one, other in model.interactions_:
            both = [pair_text(texts[one].value(row), texts[other].value(row)) for row in range(len(columns[0]))]
            columns.append(np.array(both, dtype=object))
    numeric = all(column.dtype.kind == "f" for column in columns)
    return np.column_stack(columns) if numeric else np.column_stack([column.astype(object) for column in columns])
