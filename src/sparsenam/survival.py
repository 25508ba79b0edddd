"""Survival: targets of censored times, the likelihood of Cox's model, its baseline hazard, and concordance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Array, Matrix, Vector
from sparsenam.errors import LARGEST_VALUE, LEAST_DIVISOR, InputError, RowError, describe

Ties = Literal["breslow", "efron"]
TIES: tuple[Ties, ...] = ("breslow", "efron")


@dataclass(frozen=True, slots=True, eq=False)
class Hazard:
    """The hazard that makes given scores most likely, and their partial log-likelihood.

    ``jumps`` (event times,) are the steps of the baseline's cumulative hazard; ``rows`` (rows,) are Λᵢ, the hazards
    that the rows' scores multiply. Efron counts rows with the event as partly gone for others of the same time.
    """

    jumps: Vector
    rows: Vector
    log_likelihood: float


@dataclass(frozen=True, slots=True, eq=False)
class RiskSets:
    """Who is at risk when: right-censored times, read once.

    ``event`` (rows,) is whether each row ended with the event or was censored; ``weights`` (rows,) its weight;
    ``event_times`` (event times,) are the distinct times of events, ascending; ``passed`` (rows,) is the number of
    event times that a row lived to see: it is at risk at the first so many.
    """

    event: NDArray[np.bool_]
    weights: Vector
    event_times: Vector
    passed: NDArray[np.intp]

    @classmethod
    def of(cls, event: NDArray[np.bool_], time: Vector, weights: Vector | None = None) -> Self:
        """Read events and times, shape (rows,); at equal times events come before censoring."""
        weights = np.ones(time.size) if weights is None else np.asarray(weights, dtype=np.float64)
        event_times = np.unique(time[event & (weights > 0)])
        passed = np.searchsorted(event_times, time, side="right").astype(np.intp)
        return cls(event & (weights > 0), weights, event_times, passed)

    @property
    def n_events(self) -> float:
        """The weight of all events."""
        return float(self.weights[self.event].sum())

    def hazard(self, scores: Vector, ties: Ties = "efron") -> Hazard:
        """Return the hazard that makes the scores most likely, shape (rows,), and their partial log-likelihood.

        Breslow: Σ wδs - Σₜ Wₜ log Rₜ with Rₜ = Σ wᵢe^{sᵢ} over the rows at risk at t and Wₜ the weight of t's dₜ
        events. Efron: Wₜ log Rₜ becomes Wₜ/dₜ Σₗ log(Rₜ - l/dₜ Dₜ) for l = 0, …, dₜ - 1, with Dₜ = Σ wᵢe^{sᵢ} over
        these events.
        """
        highest = float(scores.max())  # a common shift changes no likelihood, and keeps the powers finite
        powers = self.weights * np.exp(scores - highest)
        at_risk = self._over_risk_sets(powers)
        died = self.passed[self.event] - 1
        event_weight = self._by_event_time(died, self.weights[self.event])
        rising = self.weights[self.event] @ (scores[self.event] - highest)
        if ties == "breslow":
            jumps = event_weight / at_risk
            spared = np.zeros_like(jumps)
            likelihood = rising - event_weight @ np.log(at_risk)
        else:
            count = np.bincount(died, minlength=self.event_times.size)
            share = event_weight / count
            moment = np.repeat(np.arange(count.size), count)  # index of each event's time, shape (events,)
            gone = (np.arange(moment.size) - np.repeat(np.cumsum(count) - count, count)) / count[moment]
            left = at_risk[moment] - gone * self._by_event_time(died, powers[self.event])[moment]
            jumps = share * self._by_event_time(moment, 1.0 / left)
            spared = share * self._by_event_time(moment, gone / left)
            likelihood = rising - share[moment] @ np.log(left)
        rows = np.concatenate([[0.0], np.cumsum(jumps)])[self.passed]
        rows[self.event] -= spared[died]
        scale = np.exp(-highest)
        return Hazard(jumps * scale, rows * scale, float(likelihood))

    def event_losses(self, scores: Vector) -> Vector:
        """Return log Rₜ - sᵢ for rows with the event, at time t, and 0 for the others, shape (rows,)."""
        if not self.event.any():
            return np.zeros(scores.size)
        highest = float(scores.max())
        at_risk = self._over_risk_sets(self.weights * np.exp(scores - highest))
        at_event = at_risk[self.passed - 1]  # rows with the event have it at the last event time that they lived to see
        return np.where(self.event, np.log(at_event) + highest - scores, 0.0)

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the risk sets of some rows among themselves."""
        event_times = np.unique(self.passed[rows][self.event[rows]])
        passed = np.searchsorted(event_times, self.passed[rows], side="right").astype(np.intp)
        return type(self)(self.event[rows], self.weights[rows], self.event_times[event_times - 1], passed)

    def _by_event_time(self, moment: NDArray[np.intp], values: Vector) -> Vector:
        """Return Σ values over the rows of each event time, given by index, shape (event times,)."""
        return np.asarray(np.bincount(moment, values, minlength=self.event_times.size), dtype=np.float64)

    def _over_risk_sets(self, values: Vector) -> Vector:
        """Return the sum over the rows at risk at each event time, shape (event times,)."""
        by_last = np.bincount(self.passed, values, minlength=self.event_times.size + 1)
        return np.asarray(np.cumsum(by_last[:0:-1])[::-1], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class StepFunction:
    """The function with value y from its time x on, and ``start`` before the first.

    ``x`` and ``y`` have shape (steps,), x ascending.
    """

    x: Vector
    y: Vector
    start: float

    def __call__(self, times: ArrayLike) -> NDArray[np.float64]:
        """Return the values at some times, in their shape."""
        values = np.concatenate([[self.start], self.y])
        return values[np.searchsorted(self.x, np.asarray(times, dtype=np.float64), side="right")]


FAR_SCORE, LARGEST_LOG = 300.0, float(np.log(np.finfo(np.float64).max))


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """The cumulative hazard Λ₀(t) of a row whose score is 0.

    ``times`` are the event times and ``cumulative_hazard`` the values from them on, shape (event times,).
    """

    times: Vector
    cumulative_hazard: Annotated[Vector, Array(1, 0.0)]

    def at(self, times: ArrayLike) -> NDArray[np.float64]:
        """Return Λ₀ at some times: 0 before the first event, constant after the last."""
        return StepFunction(self.times, self.cumulative_hazard, 0.0)(times)

    def cumulative_hazards(self, scores: Vector, times: ArrayLike) -> Matrix:
        """Return Λ(t|x) = Λ₀(t) eˢ, shape (rows, times), for scores of shape (rows,); at most the largest float."""
        baseline, far = np.atleast_1d(self.at(times)), scores > FAR_SCORE
        hazards = np.exp(np.where(far, 0.0, scores))[:, None] * baseline
        if far.any():  # eˢ alone may be no finite number, and 0 times it none at all
            with np.errstate(divide="ignore"):
                logs = np.log(baseline) + scores[far, None]
            hazards[far] = np.exp(np.minimum(logs, LARGEST_LOG))
        return hazards

    def survival(self, scores: Vector, times: ArrayLike) -> Matrix:
        """Return S(t|x) = exp(-Λ₀(t) eˢ), shape (rows, times), for scores of shape (rows,)."""
        return np.exp(-self.cumulative_hazards(scores, times))


def concordance(event: NDArray[np.bool_], time: Vector, risk: Vector, weights: Vector | None = None) -> float:
    """Return Σ wᵢwⱼ(1{riskᵢ > riskⱼ} + ½ 1{riskᵢ = riskⱼ}) / Σ wᵢwⱼ over the pairs in which i has its event first.

    i must end with the event, before j ends or when j is censored. All arguments have shape (rows,); 0.5 is what a
    constant risk gets. Takes O(n log² n).
    """
    weights = np.ones(time.size) if weights is None else np.asarray(weights, dtype=np.float64)
    rank = np.unique(risk, return_inverse=True)[1]
    moment = np.unique(np.column_stack([time, ~event]), axis=0, return_inverse=True)[1].ravel()
    firsts = np.where(event, weights, 0.0)
    everything = np.zeros_like(moment)
    pairs = _later_pairs(everything, moment, firsts, weights)
    if pairs <= 0:
        raise InputError(describe("y", "a row with the event before another ends", "none", "give more rows"))
    tied, ordered = _later_pairs(rank, moment, firsts, weights), 0.0
    for bit in range(int(rank.max()).bit_length()):  # of two ranks, the larger has the highest bit that is not equal
        high = (rank >> bit) % 2 == 1
        ordered += _later_pairs(rank >> (bit + 1), moment, np.where(high, firsts, 0.0), np.where(high, 0.0, weights))
    return (ordered + 0.5 * tied) / pairs


def _later_pairs(group: NDArray[np.intp], moment: NDArray[np.intp], firsts: Vector, weights: Vector) -> float:
    """Return Σ firstsᵢ wⱼ over the pairs of one group with momentᵢ < momentⱼ."""
    order = np.lexsort([-moment, group])
    groups = group[order]
    latest_first = groups * (moment.max() + 1) - moment[order]
    before = np.concatenate([[0.0], np.cumsum(weights[order])])
    later, others = (before[np.searchsorted(each, each, side="left")] for each in (latest_first, groups))
    return float(firsts[order] @ (later - others))


REMEDY = "make y with sparsenam.survival_target(event, time)"


def survival_target(event: ArrayLike, time: ArrayLike) -> NDArray[np.void]:
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
    if time.size and (time.max() > LARGEST_VALUE or time.min() < LEAST_DIVISOR):
        expected = f"numbers between {LEAST_DIVISOR:g} and {LARGEST_VALUE:g}"
        got = f"{time.max() if time.max() > LARGEST_VALUE else time.min():g}"
        raise InputError(describe("the times in y", expected, got, "count time in another unit"))
