"""Other sets of columns that predict about as well as the chosen one, found by dropping, swapping and adding.

Each set is judged as the choice was: by smooth fits on the same folds, and by the losses of the rows held out, row by
row beside those of the chosen set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from sparsenam.context import Context
from sparsenam.penalties import GroupLasso
from sparsenam.selection.curve import CLEAR, TIE, Compact, Indices, Vector
from sparsenam.selection.task import ConvexTask
from sparsenam.selection.walk import HeldOutJudge

REPLACEMENTS = 3  # columns tried in the place of one, and as additions: those with the largest gradients
BEAM = 5  # sets from which the search goes on
MOVES = 3  # of the search: a set differs from the chosen one by at most so many moves

Units = frozenset[int]
Tolerance = float | None


@dataclass(frozen=True, slots=True, eq=False)
class ColumnUnits:
    """What can be dropped or taken in: columns that share a group move together, with all their groups.

    ``groups`` and ``columns`` have those of each unit, ``free`` are the units with a group that is never penalised.
    """

    groups: tuple[Indices, ...]
    columns: tuple[Indices, ...]
    free: Units

    @classmethod
    def of(cls, task: ConvexTask) -> ColumnUnits:
        """Return the units of a task, in the order of its groups."""
        unit_of: dict[int, tuple[set[int], set[int]]] = {}  # of each column: the groups and columns of its unit
        for group in range(task.design.n_groups):
            groups, columns = {group}, set[int](task.columns(np.array([group])).tolist())
            for joined in [unit_of[column] for column in columns if column in unit_of]:
                groups, columns = groups | joined[0], columns | joined[1]
            unit_of |= dict.fromkeys(columns, (groups, columns))
        units = sorted({min(unit[0]): unit for unit in unit_of.values()}.values(), key=lambda unit: min(unit[0]))
        free = set[int](task.free_groups.tolist())
        return cls(
            tuple(np.array(sorted(groups), dtype=np.intp) for groups, _ in units),
            tuple(np.array(sorted(columns), dtype=np.intp) for _, columns in units),
            frozenset(index for index, (groups, _) in enumerate(units) if groups & free),
        )

    def containing(self, groups: Indices) -> Units:
        """Return the units of which some group is among those given."""
        return frozenset(index for index, unit in enumerate(self.groups) if np.isin(unit, groups).any())

    def n_columns(self, units: Units) -> int:
        """Return the number of columns of some units."""
        return sum(self.columns[unit].size for unit in units)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedSet:
    """A set of units with its held-out losses (rows,), and how far it is behind the chosen one, with the error."""

    units: Units
    losses: Vector
    behind: float
    error: float
    margin: float

    @property
    def is_good(self) -> bool:
        """Whether it is within its margin of the chosen set."""
        return self.behind <= self.margin


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The chosen set, other good ones, the best first, and how the search went.

    ``loss`` and ``null_loss`` are the mean losses of the chosen set and of the empty one. ``either`` are pairs of units
    of the chosen set of which one is enough: each can go, but both together cost more than one after the other.
    """

    chosen: JudgedSet
    good: tuple[JudgedSet, ...]
    loss: float
    null_loss: float
    units: ColumnUnits
    either: tuple[tuple[int, int], ...]
    tried: int
    in_time: bool


class AlternativeSearch:
    """A beam search from the chosen set.

    Every column is dropped in turn. Where a set becomes too bad by that, those left out with the largest gradients are
    tried in its place; and they are tried as additions. A column that is taken in must lower the loss for certain, by
    two standard errors: else noise columns would make any number of sets as good. The search goes on from the best
    sets, without trying again what made the chosen set worse for certain.
    """

    def __init__(
        self,
        task: ConvexTask,
        judge: HeldOutJudge,
        chosen: Indices,
        margin: Callable[[float, float], float],
        max_features: int | None,
        context: Context,
    ) -> None:
        self.judge, self.units = judge, ColumnUnits.of(task)
        self._unweighted = task.with_penalty(GroupLasso())  # what a column costs does not count here
        self._groups, self._margin, self._most, self._context = chosen, margin, max_features, context
        self._known: dict[Units, JudgedSet] = {}
        self._hopeless: set[int] = set()
        start = self.units.containing(chosen) | self.units.free
        self._base = judge.losses_of(self._groups_of(start))
        self.loss = judge.mean_and_error(self._base)[0]
        empty = judge.losses_of(self._groups_of(self.units.free))
        self.null_loss = judge.mean_and_error(empty)[0]
        self._gain = judge.mean_and_error(empty - self._base)[0]
        self.chosen = self._judged(start)

    def run(self, most: int) -> SearchResult:
        """Return up to so many other sets."""
        good: dict[Units, JudgedSet] = {}
        frontier, in_time = [self.chosen], True
        for _ in range(MOVES):
            fresh: list[JudgedSet] = []
            for at in frontier:
                found = [judged for judged in self._around(at) if judged.units not in good]
                fresh += [judged for judged in found if judged.units != self.chosen.units]
                good |= {judged.units: judged for judged in fresh}
                in_time = not self._context.clock.passed()
                if not in_time:
                    break
            frontier = self._best(fresh)[:BEAM]
            if not frontier or len(good) >= most or not in_time:
                break
        ranked = tuple(self._best(good.values())[:most])
        either = tuple(self._either(good)) if in_time else ()
        return SearchResult(
            self.chosen, ranked, self.loss, self.null_loss, self.units, either, len(self._known) - 1, in_time
        )

    def _around(self, at: JudgedSet) -> list[JudgedSet]:
        """Return the good sets one move from a set."""
        found: list[JudgedSet] = []
        for unit in sorted(at.units - self.units.free - self._hopeless):
            if self._context.clock.passed():
                return found
            smaller = self._judged(at.units - {unit})
            if smaller.is_good:
                found.append(smaller)
                continue
            swapped = self._wider(smaller, without=at.units)
            found += [judged for judged in swapped if judged.is_good]
            if at is self.chosen and all(_is_bad_for_certain(judged) for judged in (smaller, *swapped)):
                self._hopeless.add(unit)
        return found + [judged for judged in self._wider(at, without=at.units) if judged.is_good]

    def _either(self, good: dict[Units, JudgedSet]) -> Iterator[tuple[int, int]]:
        """Yield pairs of units that do the same work; of the first few that can go."""
        chosen = self.chosen.units
        spare = [judged for judged in self._best(good.values()) if judged.units < chosen]
        gone = [min(chosen - judged.units) for judged in spare if len(chosen - judged.units) == 1][:BEAM]
        for one, other in combinations(sorted(gone), 2):
            both = self._judged(chosen - {one, other})
            alone = self._judged(chosen - {one}).behind + self._judged(chosen - {other}).behind
            if not both.is_good and both.behind - alone > CLEAR * both.error:
                yield one, other

    def _wider(self, at: JudgedSet, without: Units) -> list[JudgedSet]:
        """Return sets of one unit more that lower the loss for certain."""
        gradients = self._unweighted.slack_at(1.0, self.judge.scores(self._groups_of(at.units)))
        strengths = np.array([gradients[groups].max() for groups in self.units.groups])
        strengths[list(without | at.units)] = 0.0
        found: list[JudgedSet] = []
        for unit in np.argsort(-strengths, kind="stable")[:REPLACEMENTS]:
            wider = at.units | {int(unit)}
            if strengths[unit] <= 0.0 or (self._most is not None and self.units.n_columns(wider) > self._most):
                continue
            judged = self._judged(wider)
            gain, error = self.judge.mean_and_error(at.losses - judged.losses)
            if gain > CLEAR * error + TIE * abs(self.null_loss):
                found.append(judged)
        return found

    def _judged(self, units: Units) -> JudgedSet:
        if units not in self._known:
            losses = self.judge.losses_of(self._groups_of(units))
            behind, error = self.judge.mean_and_error(losses - self._base)
            margin = max(self._margin(self._gain, error), TIE * abs(self.null_loss))
            self._known[units] = JudgedSet(units, losses, behind, error, margin)
            self._context.progress.report("other models", len(self._known))
        return self._known[units]

    def _groups_of(self, units: Units) -> Indices:
        """Return the groups of some units; of one that the chosen set has in part, that part."""
        parts = [np.zeros(0, dtype=np.intp)]
        for unit in sorted(units):
            groups = self.units.groups[unit]
            inside = np.intersect1d(groups, self._groups)
            parts.append(inside if inside.size else groups)
        return np.sort(np.concatenate(parts)).astype(np.intp)

    def _best(self, judged: Iterable[JudgedSet]) -> list[JudgedSet]:
        """Return sets with the fewest columns first, then the lowest loss; losses that rounding may order are equal."""
        unit = TIE * max(abs(self.null_loss), np.finfo(float).tiny)
        return sorted(
            judged,
            key=lambda found: (self.units.n_columns(found.units), round(found.behind / unit), sorted(found.units)),
        )


def _is_bad_for_certain(judged: JudgedSet) -> bool:
    return judged.behind - CLEAR * judged.error > judged.margin


def margin_for(tolerance: Tolerance, rule: Compact) -> Callable[[float, float], float]:
    """Return how far a set may be behind: a function of the chosen set's gain and of the difference's standard error.

    The gain is what the chosen set explains. A number is a share of it. None allows a difference that is not there for
    certain, two standard errors, and at most the share of the gain that the rule gives up.
    """
    if tolerance is not None:
        share = tolerance
        return lambda gain, error: share * max(gain, 0.0)
    return lambda gain, error: min(CLEAR * error, rule.share * max(gain, 0.0))
