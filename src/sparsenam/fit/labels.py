"""Labels of classes in files: their type, and their values as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Bounds, Via
from sparsenam.errors import InputError, RefusalError, describe, require

NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")
LONGEST_LABEL = 10_000  # characters of a label
MOST_PADDED = 1 << 20  # characters of all labels, each as long as the longest
DAMAGE = "damaged class labels"


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels (classes,): the name of their type, ``text`` with a width for texts of numpy, and their values."""

    type: Annotated[str, Bounds(0, 100)]
    values: Annotated[tuple[Any, ...], Bounds(1)]


def as_labels(classes: NDArray[np.generic]) -> Labels:
    """Return type and values of labels; raise `InputError` for those that no file can hold."""
    values: list[Any] = classes.tolist()
    kind = f"text{classes.dtype.itemsize // 4}" if classes.dtype.kind == "U" else classes.dtype.name
    if kind not in NUMBERS and not (_are_texts(values) and (kind == "object" or kind.startswith("text"))):
        expected, got = "classes that are text, whole numbers, numbers or truth values", f"{classes.dtype}"
        raise InputError(describe("classes of the model to save", expected, got, "fit with text labels"))
    if kind.startswith("text") and not _fits(int(kind.removeprefix("text")), values):
        expected, got = "labels of like length", f"{len(values)} of which one has {max(map(len, values))} characters"
        raise InputError(describe("classes of the model to save", expected, got, "shorten the longest"))
    return Labels(kind, tuple(values))


def read_labels(stored: Labels) -> NDArray[Any]:
    """Return the labels as an array."""
    kind, values = stored.type, list(stored.values)
    if kind in NUMBERS:
        expected = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(kind).kind]
        require(all(type(value) is expected for value in values), DAMAGE)
        try:
            labels = np.array(values, dtype=kind)
        except OverflowError as error:
            raise RefusalError(DAMAGE) from error
    else:
        require(_are_texts(values), DAMAGE)
        labels = np.array(values, dtype=object)
        if kind != "object":
            width = kind.removeprefix("text")
            require(kind.startswith("text") and width.isascii() and width.isdigit() and len(width) <= 6, DAMAGE)
            require(max(map(len, values)) <= int(width) and _fits(int(width), values), DAMAGE)
            labels = np.array(values, dtype=f"U{width}")
    require(np.unique(labels).size == labels.size, DAMAGE)
    return labels


def _fits(width: int, labels: list[Any]) -> bool:
    """Whether an array of labels of one width takes little, or not much more than the labels themselves."""
    return width * len(labels) <= max(MOST_PADDED, 16 * sum(map(len, labels)))


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and len(value) <= LONGEST_LABEL for value in values)


StoredLabels = Annotated[NDArray[np.generic], Via(Labels, as_labels, read_labels)]
