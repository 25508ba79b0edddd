"""Settings and facts as JSON, and back: tuples, mappings with any keys, infinite numbers and families survive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from sparsenam.export.checks import require
from sparsenam.export.families import family_to_dict, is_known_family, read_family
from sparsenam.export.problems import RefusalError
from sparsenam.families import Family


class NotPlainError(TypeError):
    """A value is no plain data, so that no file can hold it."""


def pack(value: object) -> Any:
    """Return the value as JSON has it; raise `NotPlainError` for code and for other people's objects."""
    if isinstance(value, np.generic):
        value = cast(object, value.item())
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, PathLike):
        return fspath(cast("PathLike[str]", value))
    if isinstance(value, list):
        return [pack(item) for item in cast("list[object]", value)]
    if isinstance(value, tuple):
        return {"tuple": [pack(item) for item in cast("tuple[object, ...]", value)]}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {"mapping": [[pack(key), pack(item)] for key, item in pairs]}
    if is_known_family(value):
        return {"family": family_to_dict(cast(Family, value))}
    raise NotPlainError(f"{type(value).__name__} is no plain data")


def unpack(value: Any) -> Any:
    """Return the value that `pack` wrote; raise `RefusalError` for anything else."""
    if isinstance(value, list):
        return [unpack(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    told = cast("dict[str, Any]", value)
    require(len(told) == 1, "a setting that is no plain data")
    ((kind, content),) = told.items()
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(unpack(item) for item in cast("list[Any]", content))
    if kind == "mapping" and isinstance(content, list):
        return _mapping(cast("list[Any]", content))
    if kind == "family":
        return read_family(content)
    raise RefusalError(f"a setting of an unknown kind, {kind[:40]!r}")


def _mapping(pairs: list[Any]) -> dict[Any, Any]:
    require(all(isinstance(pair, list) and len(cast("list[Any]", pair)) == 2 for pair in pairs), "a broken mapping")
    keys = [unpack(pair[0]) for pair in pairs]
    require(all(key is None or isinstance(key, str | int | float | tuple) for key in keys), "a broken mapping")
    try:
        return dict(zip(keys, (unpack(pair[1]) for pair in pairs), strict=True))
    except TypeError as error:  # a tuple of lists is no key
        raise RefusalError("a broken mapping") from error
