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
from sparsenam.training import Network

NEUTRAL = ("max_seconds", "n_jobs", "verbose", "random_state")  # they do not decide the numbers of a finished fit
NEUTRAL_OF_NETWORK = ("checkpoint", "device")


def identity_of(prepared: PreparedSample, seed: int, settings: Mapping[str, object]) -> str:
    """Return a digest of the prepared data, the seed and the settings that decide the numbers of the fit."""
    digest = hashlib.sha256(f"{_describe_settings(settings)} {seed} {prepared.names}".encode())
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


def _describe_settings(settings: Mapping[str, object]) -> str:
    """Return a text of the settings that decide the numbers of a fit."""
    network = settings.get("network")
    deciding = {name: value for name, value in settings.items() if name not in (*NEUTRAL, "network")}
    if isinstance(network, Network):
        neutral = set[str](NEUTRAL_OF_NETWORK)
        if network.schedule == "constant":  # other schedules depend on where the last epoch is
            neutral.add("max_epochs")
        trained = network.get_params(deep=False)
        deciding |= {f"network__{name}": value for name, value in trained.items() if name not in neutral}
    return describe_setting(deciding)
