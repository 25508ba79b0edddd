"""Learning rates as functions of the share of epochs done."""

from __future__ import annotations

import math
from collections.abc import Callable

from sparsenam.errors import InputError, describe

Schedule = Callable[[float], float]

SCHEDULES: dict[str, Schedule] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0))),
    "exponential": lambda done: 0.01 ** min(done, 1.0),
}


def as_schedule(schedule: str | Schedule) -> Schedule:
    """Return the schedule of a name, or the callable itself."""
    if callable(schedule):
        return schedule
    if schedule not in SCHEDULES:
        expected = f"one of {sorted(SCHEDULES)} or a callable of the share of epochs done"
        raise InputError(describe("schedule", expected, repr(schedule), "choose one"))
    return SCHEDULES[schedule]
