"""The settings of an estimator as JSON and back: plain data, families, and objects of plain parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike, fspath
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator

from sparsenam import codec
from sparsenam.codec import to_plain
from sparsenam.errors import InputError, RefusalError, require
from sparsenam.families import Family
from sparsenam.families.base import FamilyRecord, family_record, is_known_family, read_family
from sparsenam.selection import FDR, Best, Compact, OneSE
from sparsenam.training import Network

OBJECT = {"class", "parameters"}
# the classes of objects of plain parameters that settings may hold, by name
PARAMETER_CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Network, Compact, OneSE, Best, FDR)}


class NotPlainError(TypeError):
    """A value is no plain data, so that no file can hold it."""


def pack_parameters(parameters: Mapping[str, object], prefix: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """Return parameters as JSON has them, and by name the type of those that it cannot have.

    An object of plain parameters, such as a `Network`, is stored by its class and parameters; of these, one that
    is left out is named as scikit-learn does, ``network__schedule``.
    """
    packed: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in parameters.items():
        if _is_parameter_object(value):
            inner, missing = pack_parameters(_parameters_of(value), f"{prefix}{name}__")
            packed[name] = {"object": {"class": type(value).__name__, "parameters": inner}}
            left_out |= missing
            continue
        try:
            packed[name] = pack(value)
        except NotPlainError:
            left_out[f"{prefix}{name}"] = type(value).__name__
    return packed, left_out


def unpack_parameters(data: Any) -> dict[str, Any]:
    """Return the parameters that `pack_parameters` wrote."""
    require(isinstance(data, dict), "damaged settings")
    parameters: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", data).items():
        content = cast("dict[str, Any]", value).get("object") if isinstance(value, dict) else None
        if content is None:
            parameters[name] = unpack(value)
            continue
        require(isinstance(content, dict) and set(cast("dict[str, Any]", content)) == OBJECT, "damaged settings")
        record = cast("dict[str, Any]", content)
        known = isinstance(record["class"], str) and record["class"] in PARAMETER_CLASSES
        require(known, f"a setting of the unknown class {str(record['class'])[:40]!r}")
        try:
            parameters[name] = PARAMETER_CLASSES[record["class"]](**unpack_parameters(record["parameters"]))
        except (InputError, TypeError) as error:
            raise RefusalError(f"a setting that cannot be ({str(error)[:80]})") from error
    return parameters


def pack(value: object) -> Any:
    """Return the value as JSON has it; raise `NotPlainError` for code and for other people's objects.

    Tuples, mappings with any keys, infinite numbers and families survive.
    """
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
        return {"family": to_plain(family_record(cast(Family, value)))}
    raise NotPlainError(f"{type(value).__name__} is no plain data")


def unpack(value: Any) -> Any:
    """Return the value that `pack` wrote; raise `RefusalError` for anything else."""
    if isinstance(value, list):
        return [unpack(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    record = cast("dict[str, Any]", value)
    require(len(record) == 1, "a setting that is no plain data")
    ((kind, content),) = record.items()
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(unpack(item) for item in cast("list[Any]", content))
    if kind == "mapping" and isinstance(content, list):
        return _mapping(cast("list[Any]", content))
    if kind == "family":
        return read_family(codec.unpack(FamilyRecord, content))
    raise RefusalError(f"a setting of an unknown kind, {kind[:40]!r}")


def _mapping(pairs: list[Any]) -> dict[Any, Any]:
    require(all(isinstance(pair, list) and len(cast("list[Any]", pair)) == 2 for pair in pairs), "a broken mapping")
    keys = [unpack(pair[0]) for pair in pairs]
    require(all(key is None or isinstance(key, str | int | float | tuple) for key in keys), "a broken mapping")
    try:
        return dict(zip(keys, (unpack(pair[1]) for pair in pairs), strict=True))
    except TypeError as error:  # a tuple of lists is no key
        raise RefusalError("a broken mapping") from error


def _is_parameter_object(value: object) -> bool:
    return PARAMETER_CLASSES.get(type(value).__name__) is type(value)


def _parameters_of(value: object) -> dict[str, Any]:
    if isinstance(value, BaseEstimator):
        return value.get_params(deep=False)
    assert is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}
