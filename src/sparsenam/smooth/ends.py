"""Ends of curves that a few far rows turn: which rows these are, so that the fit can be made without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.design import ROUNDING, Ramps, bulk_of, distinct
from sparsenam.smooth.design import SmoothState
from sparsenam.smooth.newton import SmoothProblem
from sparsenam.tables.sample import Matrix, Vector

Mask = NDArray[np.bool_]

# the tables behind these: docs/architecture.md, "A few far rows do not turn a curve"
FEW = 20  # rows, counted by weight, beyond which an end of a term is thin
LEAST_ROWS = 800  # of a term, below which twenty are too many to be called few: at 400 steps of the last 1 % went
ROOM = 0.5  # share of a curve's range elsewhere by which it may turn there, or leave the way of a parabola
CLEAR = 1.0  # of loss/φ: what a row must gain by the turn to count
AGREED = 4.0  # rows that are enough
HEADING, LEAST = 0.25, 0.1  # shares of range and excess: a curve that goes their way so far without them confirms them
TRIALS = 6  # of fits without such rows: each may show what the one before could not


@dataclass(frozen=True, slots=True, eq=False)
class RunOff:
    """A thin end at which a term's curve leaves its room, by ``excess`` (rows there, outputs) at ``rows`` (indices).

    The end begins at ``start``; ``side`` is -1 for the lower and 1 for the upper. ``is_far`` (rows there,) marks cells
    beyond the bulk of the term.
    """

    term: int
    side: int
    start: float
    rows: NDArray[np.intp]
    excess: Matrix
    is_far: NDArray[np.bool_]

    def unsupported(self, task: SmoothProblem, scores: Matrix, noise: float) -> RunOff | None:
        """Return the far rows that gain by leaving the room, where too few gain to be believed; None without any.

        ``scores`` (rows, outputs) are those of the fit, and loss/``noise`` is a negative log-likelihood.
        """
        within = task.family.loss(scores[self.rows] - self.excess, task.target[self.rows])
        gains = (within - task.family.loss(scores[self.rows], task.target[self.rows])) / noise
        pulling = gains > CLEAR
        far = pulling & self.is_far
        if not far.any() or task.weights[self.rows[pulling]].sum() >= AGREED * (1.0 - ROUNDING):
            return None
        return replace(self, rows=self.rows[far], excess=self.excess[far], is_far=self.is_far[far])

    def is_confirmed(self, rest: SmoothProblem, ramps: Ramps, coefficients: Matrix) -> bool:
        """Return whether the term's curve in a fit without the rows, c (m, outputs), heads their way, too.

        It is followed as far as `AGREED` of the other rows go, since some of those that turn it may be left.
        """
        cells = rest.x[self.term]
        there = np.flatnonzero((cells - self.start) * self.side > 0.0)
        outward = there[np.argsort(-self.side * cells[there], kind="stable")]
        agreed = int(np.searchsorted(np.cumsum(rest.weights[outward]), AGREED * (1.0 - ROUNDING)))
        if agreed == outward.size:
            return False
        inside = ramps.knots[(ramps.knots - self.start) * self.side < 0.0]
        values = ramps.columns(np.array([*inside, self.start, cells[outward[agreed]]])) @ coefficients
        mean = self.excess.mean(axis=0)
        along = values @ (mean / np.linalg.norm(mean))
        return bool(along[-1] - along[-2] > max(HEADING * np.ptp(along[:-1]), LEAST * np.linalg.norm(mean)))


def without_strays(
    task: SmoothProblem,
    state: SmoothState,
    terms: Sequence[int],
    codes: Sequence[int],
    again: Callable[[SmoothProblem, SmoothState], SmoothState],
) -> tuple[SmoothProblem, SmoothState, dict[int, int], Mask]:
    """Return the problem and the fit without the few far rows that turn ends of curves, their number by term, and them.

    The rows are marked in a mask of all rows of the task.

    What one curve no longer does for such rows another may do: hence several trials. An end that heads their way
    without them, too, is trusted.

    Parameters
    ----------
    terms
        Those whose curves are looked at.
    codes
        Those of unordered levels: rows that alone have a level stay, for its effect.
    again
        Returns the fit of other rows, from the last one.
    """
    trusted, strays = set[tuple[int, int]](), dict[int, int]()
    left_out = np.zeros(len(task.target), dtype=np.bool_)
    for _ in range(TRIALS):
        found = [each for each in _unsupported(task, state, terms) if (each.term, each.side) not in trusted]
        if not found:
            break
        kept = np.ones(len(task.target), dtype=np.bool_)
        counts = list[int]()
        for each in found:
            counts.append(int(kept[each.rows].sum()))
            kept[each.rows] = False
        if any(np.setdiff1d(task.x[term][~kept], task.x[term][kept]).size for term in codes):
            break
        rest = SmoothProblem(task.x[:, kept], task.target[kept], task.weights[kept], task.family)
        trial = again(rest, state)
        parts = trial.by_term()
        confirmed = {(each.term, each.side) for each in found if each.is_confirmed(rest, *parts[each.term])}
        if confirmed:
            trusted |= confirmed
            continue
        task, state = rest, trial
        left_out[np.flatnonzero(~left_out)[~kept]] = True
        for each, count in zip(found, counts, strict=True):
            strays[each.term] = strays.get(each.term, 0) + count
    return task, state, strays, left_out


def _unsupported(task: SmoothProblem, state: SmoothState, terms: Sequence[int]) -> list[RunOff]:
    """Return the ends at which curves of some terms follow too few rows."""
    parts = state.by_term()
    ends = [each for term in terms for each in run_offs(term, task.x[term], task.weights, *parts[term])]
    if not ends:
        return []
    scores = state.scores(task.x, task.weights)
    found = [each.unsupported(task, scores, state.noise) for each in ends]
    return [each for each in found if each is not None]


def run_offs(term: int, cells: Vector, weights: Vector, ramps: Ramps, coefficients: Matrix) -> Iterator[RunOff]:
    """Yield the thin ends of a term, cells (rows,), at which its curve, c (m, outputs), leaves its room.

    Beyond the start t of an end, at a distance d, the room lies between the level f(t) and f(t) + 2sd(1 + d/l), with s
    the mean slope from the median, which is l away, to t: lines, what flattens, and parabolas fit into it. It is wider
    by `ROOM` of the curve's range between the thin ends.
    """
    present = ~np.isnan(cells)
    values, counts = distinct(cells[present], weights[present])
    total = counts.sum()
    if ramps.size < 3 or total < LEAST_ROWS:
        return
    low, middle = values[np.searchsorted(np.cumsum(counts), np.array([FEW, 0.5 * total]) * (1.0 - ROUNDING))]
    bulk = bulk_of(values, counts)
    high = values[::-1][np.searchsorted(np.cumsum(counts[::-1]), FEW * (1.0 - ROUNDING))]
    inside = ramps.knots[(ramps.knots > low) & (ramps.knots < high)]
    if inside.size < 2:  # hardly a curve
        return
    room = ROOM * np.ptp(ramps.columns(np.array([low, *inside, high])) @ coefficients, axis=0)
    for side, start, end in ((-1, float(low), bulk[0]), (1, float(high), bulk[1])):
        rows = np.flatnonzero((cells - start) * side > 0.0)
        length = abs(start - float(middle))
        if rows.size == 0 or length == 0.0:
            continue
        at_middle, level, *there = ramps.columns(np.array([middle, start, *cells[rows]])) @ coefficients
        distance = np.abs(cells[rows] - start)[:, None] / length
        onward = level + 2.0 * (level - at_middle) * distance * (1.0 + distance)
        excess = there - np.clip(there, np.minimum(onward, level) - room, np.maximum(onward, level) + room)
        outside = excess.any(axis=1)
        is_far = (cells[rows] - end) * side > 0.0
        if (outside & is_far).any():
            yield RunOff(term, side, start, rows[outside], excess[outside], is_far[outside])
