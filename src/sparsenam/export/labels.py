"""Class labels with their type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import describe
from sparsenam.export.checks import as_list, as_record, require
from sparsenam.export.problems import ModelFileError, RefusalError

NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")
LONGEST = 10_000  # characters of a label


def labels_to_dict(classes: NDArray[np.generic]) -> dict[str, Any]:
    """Return the type and the values of labels of shape (classes,)."""
    values: list[Any] = classes.tolist()
    kind = f"text{classes.dtype.itemsize // 4}" if classes.dtype.kind == "U" else classes.dtype.name
    texts = all(isinstance(value, str) and len(value) <= LONGEST for value in values)
    if kind not in NUMBERS and not (texts and (kind == "object" or kind.startswith("text"))):
        expected, got = "classes that are text, whole numbers, numbers or truth values", f"{classes.dtype}"
        raise ModelFileError(describe("classes of the model to save", expected, got, "fit with text labels"))
    return {"type": kind, "values": values}


def read_labels(data: Any) -> NDArray[Any]:
    """Return the labels that `labels_to_dict` wrote down."""
    words = "damaged class labels"
    told = as_record(data, ("type", "values"), words)
    kind, values = str(told["type"]), as_list(told["values"], words)
    require(len(values) > 0, words)
    texts = all(isinstance(value, str) and len(value) <= LONGEST for value in values)
    if kind in NUMBERS:
        wanted = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(kind).kind]
        require(all(type(value) is wanted for value in values), words)
        try:
            labels = np.array(values, dtype=kind)
        except OverflowError as error:
            raise RefusalError(words) from error
    else:
        require(texts, words)
        labels = np.array(values, dtype=object)
        if kind != "object":
            width = kind.removeprefix("text")
            require(kind.startswith("text") and width.isascii() and width.isdigit() and len(width) <= 6, words)
            require(max(map(len, values)) <= int(width) <= LONGEST, words)
            labels = np.array(values, dtype=f"U{width}")
    require(np.unique(labels).size == labels.size, words)
    return labels
