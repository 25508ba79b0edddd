"""The settings of an estimator as JSON and back: plain data, and objects of plain parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike, fspath
from typing import TypeGuard

from sklearn.base import BaseEstimator

from sparsenam.codec import is_mapping, is_numeric, is_sequence
from sparsenam.container import Json, is_object
from sparsenam.errors import InputError, RefusalError, require
from sparsenam.families import FAMILIES
from sparsenam.selection import FDR, Best, Compact, OneSE
from sparsenam.training import Network

OBJECT = {"class", "parameters"}
KEYS = (type(None), bool, int, float, str, tuple)  # types of a mapping's keys
# the classes of objects of plain parameters that settings may hold, by name
PARAMETER_CLASSES: dict[str, Callable[..., object]] = {
    kind.__name__: kind for kind in (Network, Compact, OneSE, Best, FDR, *FAMILIES.values())
}


class NotPlainError(TypeError):
    """A value is no plain data, so that no file can hold it."""


def pack_parameters(parameters: Mapping[str, object], prefix: str = "") -> tuple[dict[str, Json], dict[str, str]]:
    """Return parameters as JSON has them, and by name the type of those that it cannot have.

    An object of plain parameters, such as a `Network` or a family, is stored by its class and parameters; of these,
    one that is left out is named as scikit-learn does, ``network__schedule``.
    """
    packed: dict[str, Json] = {}
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


def unpack_parameters(data: object) -> dict[str, object]:
    """Return the parameters that `pack_parameters` wrote."""
    if not is_object(data):
        raise RefusalError("damaged settings")
    return {name: _unpack_parameter(value) for name, value in data.items()}


def _unpack_parameter(value: Json) -> object:
    content = value.get("object") if isinstance(value, dict) else None
    if content is None:
        return unpack(value)
    if not isinstance(content, dict) or set(content) != OBJECT:
        raise RefusalError("damaged settings")
    kind = PARAMETER_CLASSES.get(str(content["class"]))
    if kind is None:
        raise RefusalError(f"a setting of the unknown class {str(content['class'])[:40]!r}")
    try:
        return kind(**unpack_parameters(content["parameters"]))
    except (InputError, TypeError) as error:
        raise RefusalError(f"a setting that cannot be ({str(error)[:80]})") from error


def pack(value: object) -> Json:
    """Return the value as JSON has it; raise `NotPlainError` for code and for other people's objects.

    Tuples, mappings with any keys and infinite numbers survive.
    """
    if is_numeric(value) and value.ndim == 0:
        return pack(value.item())
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if _is_path(value):
        return fspath(value)
    if is_mapping(value):
        return {"mapping": [[pack(key), pack(item)] for key, item in value.items()]}
    if is_sequence(value) and isinstance(value, list | tuple):
        items = [pack(item) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    raise NotPlainError(f"{type(value).__name__} is no plain data")


def unpack(value: Json) -> object:
    """Return the value that `pack` wrote; raise `RefusalError` for anything else."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    require(len(value) == 1, "a setting that is no plain data")
    ((kind, content),) = value.items()
    if kind == "float" and isinstance(content, str) and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(unpack(item) for item in content)
    if kind == "mapping" and isinstance(content, list):
        return dict(map(_unpack_entry, content))
    raise RefusalError(f"a setting of an unknown kind, {kind[:40]!r}")


def _unpack_entry(pair: Json) -> tuple[object, object]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise RefusalError("a broken mapping")
    key = unpack(pair[0])
    try:
        hash(key)
    except TypeError as error:  # a tuple of lists is no key
        raise RefusalError("a broken mapping") from error
    require(type(key) in KEYS, "a broken mapping")
    return key, unpack(pair[1])


def _is_path(value: object) -> TypeGuard[PathLike[str]]:
    return isinstance(value, PathLike)


def _is_parameter_object(value: object) -> bool:
    return PARAMETER_CLASSES.get(type(value).__name__) is type(value)


def _parameters_of(value: object) -> dict[str, object]:
    if isinstance(value, BaseEstimator):
        return value.get_params(deep=False)
    assert is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
