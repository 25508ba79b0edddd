"""The target of a survival model: when each row ended, and whether with the event."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import LARGEST, LEAST, InputError, RowError, describe

Matrix = NDArray[np.float64]
REMEDY = "make y with sparsenam.survival_target(event, time)"


def survival_target(event: ArrayLike, time: ArrayLike) -> NDArray[Any]:
    """Return the structured array, shape (rows,), with fields ``event`` and ``time`` that survival models take.

    Parameters
    ----------
    event : array-like of shape (rows,)
        True or 1 where the event happened, False or 0 where the row was censored.
    time : array-like of shape (rows,)
        Time of the event, or of censoring; above 0.
    """
    happened, ended = np.asarray(event), np.asarray(time)
    if happened.ndim != 1 or happened.shape != ended.shape:
        got = f"shapes {happened.shape} and {ended.shape}"
        raise InputError(describe("event and time", "one value each for every row", got, "give equal lengths"))
    if not np.isin(happened, (0, 1)).all():
        raise InputError(describe("event", "True or False, 1 or 0", "other values", "say which rows had the event"))
    y = np.empty(happened.size, dtype=[("event", np.bool_), ("time", np.float64)])
    y["event"], y["time"] = happened.astype(np.bool_), ended
    _check_times(y["time"])
    return y


def read_survival(y: ArrayLike) -> Matrix:
    """Return event, 0 or 1, and time as the columns of a matrix, shape (rows, 2).

    ``y`` is structured, with one boolean field (the event) and one of numbers (the time), whatever their names.
    """
    expected = "a structured array with a boolean field (event) and a float field (time)"
    table = np.asarray(y)
    names = table.dtype.names
    if names is None or table.ndim != 1:
        raise InputError(describe("y", expected, f"an array of {table.dtype} and shape {table.shape}", REMEDY))
    kinds = {name: table.dtype[name].kind for name in names}
    events = [name for name, kind in kinds.items() if kind == "b"]
    times = [name for name, kind in kinds.items() if kind in "fiu"]
    if len(names) != 2 or len(events) != 1 or len(times) != 1:
        fields = ", ".join(f"{name} ({table.dtype[name]})" for name in names)
        raise InputError(describe("y", expected, f"the fields {fields}", REMEDY))
    read = np.column_stack([table[events[0]], table[times[0]]]).astype(np.float64)
    _check_times(read[:, 1])
    return read


def _check_times(time: NDArray[np.float64]) -> None:
    wrong = ~(np.isfinite(time) & (time > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        got, more = ((f"{time[row]}", row),), f" ({int(wrong.sum())} such rows)"
        raise RowError("the times in y", "finite numbers above 0", got, "correct or drop these rows", more)
    if time.size and (time.max() > LARGEST or time.min() < LEAST):
        expected = f"numbers between {LEAST:g} and {LARGEST:g}"
        got = f"{time.max() if time.max() > LARGEST else time.min():g}"
        raise InputError(describe("the times in y", expected, got, "count time in another unit"))
