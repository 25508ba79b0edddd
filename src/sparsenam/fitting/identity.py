"""The identity of a fit: a digest of data and settings, by which a resume file is known to belong to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sparsenam.tables import PreparedSample


def identity_of(prepared: PreparedSample, seed: int, description: str) -> str:
    """Return a digest of the prepared data, the seed and a description of the settings."""
    digest = hashlib.sha256(f"{description} {seed} {prepared.names}".encode())
    for array in (prepared.x, prepared.target, prepared.weights):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def describe_setting(value: object) -> str:
    """Return a text for a setting that holds no address of memory, so that another process gives the same."""
    if value is None or isinstance(value, str | bool | bytes | complex):
        return repr(value)
    if isinstance(value, np.generic):
        return describe_setting(cast(object, value.item()))
    if isinstance(value, int | float):
        return repr(float(value))
    if isinstance(value, np.ndarray):
        return hashlib.sha256(cast(NDArray[np.generic], value).tobytes()).hexdigest()
    if isinstance(value, Mapping):
        pairs = cast(Mapping[object, object], value).items()
        return "{" + ", ".join(f"{describe_setting(key)}: {describe_setting(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(describe_setting(item) for item in cast(Sequence[object], value)) + "]"
    if isinstance(value, frozenset | set):
        return describe_setting(sorted(describe_setting(item) for item in cast(Iterable[object], value)))
    return _describe_object(value)


def _describe_object(value: object) -> str:
    if isinstance(value, CodeType):
        return f"{value.co_code!r} {value.co_names!r} {describe_setting(value.co_consts)}"
    if isinstance(value, FunctionType):  # two lambdas have one name, but not one code or one surrounding
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell.cell_contents is not value]
        parts = [value.__code__, value.__defaults__, value.__kwdefaults__, cells]
        return f"{value.__module__}.{value.__qualname__} {describe_setting(parts)}"
    if isinstance(value, MethodType):
        return describe_setting([value.__func__, value.__self__])
    if isinstance(value, partial):
        return describe_setting([value.func, value.args, value.keywords])
    if isinstance(value, BaseEstimator):
        state: object = value.get_params(deep=False)
    elif is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        state = vars(value) if hasattr(value, "__dict__") else ""
    return f"{type(value).__qualname__} {getattr(value, '__name__', '')}{describe_setting(state)}"
