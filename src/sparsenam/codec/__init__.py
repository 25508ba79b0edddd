"""One codec for all that is written and read again: frozen dataclasses to plain data and tensors, and back.

Type hints say what a field is, `Bounds` and `Array` which numbers it may hold, `Via` how an object of another class is
stored. Numbers of arrays go to tensors, all else to a document that JSON can hold. Whatever is read is checked against
the hints before it is used; nothing of a file is run, and no attribute or class is looked up by a name that a file
gives. Sizes are never believed: they are compared with the numbers that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar, cast

from numpy.typing import NDArray

from sparsenam.codec.forms import form_of, plain
from sparsenam.codec.hints import (
    LARGEST_INTEGER,
    LARGEST_NUMBER,
    Array,
    Bounds,
    Count,
    DamageError,
    Indices,
    Matrix,
    MaybeNaN,
    Numbers,
    Positive,
    Share,
    Size,
    Tags,
    Vector,
    Via,
)
from sparsenam.codec.tensors import Reader, Tensors, Writer

__all__ = [
    "LARGEST_INTEGER",
    "LARGEST_NUMBER",
    "Array",
    "Bounds",
    "Count",
    "DamageError",
    "Indices",
    "Matrix",
    "MaybeNaN",
    "Numbers",
    "Positive",
    "Share",
    "Size",
    "Tags",
    "Tensors",
    "Vector",
    "Via",
    "pack",
    "to_plain",
    "unpack",
]

Kind = TypeVar("Kind")


def pack(value: object, hint: Any = None, *, brief: bool = False) -> tuple[Any, Tensors]:
    """Return a value of a hint, by default its class, as a document for JSON and tensors.

    ``brief`` leaves out fields that have their default. Arrays in the same place of several items of a sequence are one
    tensor: a stack where their shapes are the same, else their numbers one after the other beside their shapes.
    """
    writer = Writer(brief, {})
    document = form_of(type(value) if hint is None else hint, "").write(value, writer)
    return document, writer.tensors()


def unpack(
    hint: type[Kind], document: object, tensors: Mapping[str, NDArray[Any]] | None = None, *, brief: bool = False
) -> Kind:
    """Return the value that `pack` took apart; raise `RefusalError` for anything else."""
    reader = Reader(tensors or {}, brief)
    value = form_of(hint, "").read(document, reader)
    reader.check_end()
    return cast(Kind, value)


def to_plain(value: object) -> Any:
    """Return a dataclass or plain data as JSON can hold it: arrays are lists, NaN and ∞ are None.

    Other objects within plain data, such as a penalty among settings, become their text.
    """
    described = is_dataclass(value) and not isinstance(value, type)
    return form_of(type(value), "").write(value, Writer(False, None)) if described else plain(value)
