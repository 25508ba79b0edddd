"""Other sets of columns that predict about as well as the chosen one, found by dropping, swapping and adding.

Each set is judged as the choice was: by smooth fits on the same folds, and by the losses of the rows held out, row by
row beside those of the chosen set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from sparsenam.context import Context, running
from sparsenam.discover.question import ColumnUnits, Question, Units
from sparsenam.errors import check_number
from sparsenam.fit.plan import splitter
from sparsenam.penalties import GroupLasso
from sparsenam.selection import Compact
from sparsenam.selection.choose import HeldOutJudge
from sparsenam.selection.curve import CLEAR, TIE, Indices, Vector
from sparsenam.selection.task import ConvexTask, twins_of
from sparsenam.tables.text import listed
from sparsenam.text import Finding, FindingTable, Found, count_text, number_text

if TYPE_CHECKING:
    from sparsenam.fit.pipeline import Fit

FEWEST_TO_JUDGE = 20  # rows from which those held out tell sets of columns apart: five folds of four
REPLACEMENTS = 3  # columns tried in the place of one, and as additions: those with the largest gradients
BEAM = 5  # sets from which the search goes on
MOVES = 3  # of the search: a set differs from the chosen one by at most so many moves


@dataclass(frozen=True, slots=True)
class OtherModel:
    """The columns of another good model, and how it differs from the chosen one.

    ``explained`` is the share of the empty model's loss that it explains in rows held out, ``behind`` how much
    less that is than the chosen model explains, ``error`` the standard error of this difference, row by row.
    """

    columns: tuple[str, ...]
    dropped: tuple[str, ...]
    added: tuple[str, ...]
    explained: float
    behind: float
    error: float

    @property
    def change(self) -> str:
        """What is done to the chosen model, in words."""
        without, more = ", ".join(self.dropped), ", ".join(self.added)
        if self.dropped and self.added:
            return f"{more} for {without}"
        return f"without {without}" if self.dropped else f"with {more}"


@dataclass(frozen=True, slots=True)
class Alternatives(Found):
    """Sets of columns that predict about as well as those that the model keeps, the smallest first.

    ``needed`` are the columns of the model that every good model found has, ``spare`` those that can be dropped
    without another in their place, ``exchangeable`` those that one other column can replace, be it dropped or kept
    beside them, with how far the model is behind then. ``tolerance`` is the share of what is explained that may be
    lost, None for two standard errors and at most ``share`` of it. ``tried`` counts the sets that were judged;
    ``in_time`` is False where the time ran out.
    """

    columns: tuple[str, ...]
    explained: float
    models: tuple[OtherModel, ...]
    needed: tuple[str, ...]
    spare: tuple[str, ...]
    exchangeable: dict[str, dict[str, float]]
    tolerance: float | None
    tried: int
    in_time: bool = True
    share: float = Compact().share

    def finding(self) -> Finding:
        count = len(self.models)
        others = count_text(count, "other model")
        if not self.columns and count:
            sentence = f"the model keeps no column; {others} may be as good."
        elif not self.columns:
            sentence = "the model keeps no column, and no column lowers the loss of rows held out for certain."
        elif not count:
            sentence = f"none of {self.tried} other models tried predicts as well: every column is needed."
        else:
            need = f"all of them need {listed(list(self.needed))}" if self.needed else "no column is in all of them"
            predict = "predicts" if count == 1 else "predict"
            sentence = f"{others} of these columns {predict} as well, of {self.tried} tried; {need}."
        tables = [*self._models_table(), *self._exchange_table()]
        return Finding("Other models as good", sentence, tuple(tables), tuple(self._notes()))

    def _notes(self) -> list[str]:
        lost = f"{number_text(100 * (self.share if self.tolerance is None else self.tolerance), 3)} % of what"
        margin = f"{lost} the chosen model explains"
        if self.tolerance is None:
            margin = f"two standard errors of the chosen model, and {lost} it explains"
        notes = [
            f"As good means within {margin}, in rows held out by the folds of the choice.",
            "These rows took part in the choice, so that what is explained is a little too good, for all models alike.",
        ]
        if self.spare:
            notes.append(f"Can be dropped without another in its place: {listed(list(self.spare))}.")
        if not self.in_time:
            notes.append("max_seconds ended the search: there may be more.")
        return notes

    def _models_table(self) -> list[FindingTable]:
        chosen = ("chosen", str(len(self.columns)), _points(self.explained), "", "")
        rows = [
            (model.change, str(len(model.columns)), *map(_points, (model.explained, model.behind, model.error)))
            for model in self.models
        ]
        heads = ("model", "columns", "explained", "behind", "±")
        return [FindingTable("Models, in per cent of the empty model's loss", heads, (chosen, *rows))]

    def _exchange_table(self) -> list[FindingTable]:
        rows = [
            (column, other, _points(behind))
            for column, others in self.exchangeable.items()
            for other, behind in others.items()
        ]
        heads = ("column", "exchangeable for", "behind")
        return [FindingTable("Columns that one other can replace", heads, tuple(rows))] if rows else []


def _points(share: float) -> str:
    return number_text(100 * round(share, 5), 3)


def find_alternatives(fit: Fit, question: Question, tolerance: float | Literal["auto"], most: int) -> Alternatives:
    """Return other sets of columns that predict about as well as those of the model."""
    if tolerance != "auto":
        check_number("tolerance", tolerance, 0.0)
    rule, allowed = question.plan.rule, None if tolerance == "auto" else float(tolerance)
    share = (rule if isinstance(rule, Compact) else Compact()).share

    def margin(gain: float, error: float) -> float:
        """Return how far a set may be behind, where the chosen one explains ``gain``."""
        if allowed is not None:
            return allowed * max(gain, 0.0)
        return min(CLEAR * error, share * max(gain, 0.0))

    with running(fit.settings) as context:
        problem = question.problem(question.rows.sample)
        task = question.task(problem, context, "alternatives", FEWEST_TO_JUDGE)
        splits = splitter(question.plan, question.rows, context)(problem).splits
        scores = fit.model.scores(question.rows.sample.terms[problem.counted])
        task, loss = problem.judged_by(task, splits, scores)
        terms, members = problem.prepared.terms, problem.prepared.grouping.members
        inside = [bool(np.isin(terms[each], fit.model.terms).any()) for each in members]
        judge, most_columns = HeldOutJudge(task, splits, loss), question.plan.settings.max_features
        search = AlternativeSearch(task, judge, np.flatnonzero(inside), margin, most_columns, context)
        good, either = search.run(most)
    found = _alternatives(search, good, either, twins_of(task.prepared, fit.model, fit.encoder), allowed)
    return replace(found, share=share)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedSet:
    """A set of units with its held-out losses (rows,), and how far it is behind the chosen one, with the error.

    These are shares of the empty model's loss.
    ``is_good`` says whether that is within the margin, ``is_bad`` whether it is certainly not.
    """

    units: Units
    losses: Vector
    behind: float
    error: float
    is_good: bool
    is_bad: bool


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
        most_columns: int | None,
        context: Context,
    ) -> None:
        self.task, self.judge, self.units, self.in_time = task, judge, ColumnUnits.of(task), True
        self._unweighted = task.with_penalty(GroupLasso())  # what a column costs does not count here
        self._groups, self._margin, self._most, self._context = chosen, margin, most_columns, context
        self._known: dict[Units, JudgedSet] = {}
        self._hopeless: set[int] = set()
        start = self.units.containing(chosen) | self.units.free
        self._base = judge.losses_of(self._groups_of(start))
        empty = judge.losses_of(self._groups_of(self.units.free))
        null_loss = judge.mean_and_error(empty)[0]
        self._unit = max(abs(null_loss), np.finfo(float).tiny)
        self.explained = (null_loss - judge.mean_and_error(self._base)[0]) / self._unit
        self.chosen = self._judged(start)

    @property
    def tried(self) -> int:
        """How many other sets were judged."""
        return len(self._known) - 1

    def run(self, most: int) -> tuple[list[JudgedSet], list[tuple[int, int]]]:
        """Return up to so many other good sets, the best first, and pairs of chosen units of which one is enough."""
        good: dict[Units, JudgedSet] = {}
        frontier = [self.chosen]
        for _ in range(MOVES):
            before = {self.chosen.units, *good}
            for at in frontier:
                good |= {judged.units: judged for judged in self._around(at) if judged.units != self.chosen.units}
                self.in_time = not self._context.clock.passed()
                if not self.in_time:
                    break
            frontier = self._best(judged for units, judged in good.items() if units not in before)[:BEAM]
            if not frontier or len(good) >= most or not self.in_time:
                break
        ranked = self._best(good.values())
        return ranked[:most], list(self._either(ranked)) if self.in_time else []

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
            if at is self.chosen and all(judged.is_bad for judged in (smaller, *swapped)):
                self._hopeless.add(unit)
        return found + [judged for judged in self._wider(at, without=at.units) if judged.is_good]

    def _either(self, good: Sequence[JudgedSet]) -> Iterator[tuple[int, int]]:
        """Yield pairs among the first few units that can go: both together cost more than one after the other."""
        chosen = self.chosen.units
        spare = [judged for judged in good if judged.units < chosen]
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
            if gain > CLEAR * error + TIE * self._unit:
                found.append(judged)
        return found

    def _judged(self, units: Units) -> JudgedSet:
        if units not in self._known:
            losses = self.judge.losses_of(self._groups_of(units))
            behind, error = (part / self._unit for part in self.judge.mean_and_error(losses - self._base))
            margin = max(self._margin(self.explained, error), TIE)
            is_bad = behind - CLEAR * error > margin
            self._known[units] = JudgedSet(units, losses, behind, error, behind <= margin, is_bad)
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
        return sorted(
            judged,
            key=lambda found: (self.units.n_columns(found.units), round(found.behind / TIE), sorted(found.units)),
        )


def _alternatives(
    search: AlternativeSearch,
    good: Sequence[JudgedSet],
    either: Sequence[tuple[int, int]],
    twins: Mapping[str, Mapping[str, float]],
    tolerance: float | None,
) -> Alternatives:
    """Return what a search found in names of columns; ``twins`` of a kept column equal it in every row."""
    units, names, chosen = search.units, search.task.column_names, search.chosen.units

    def columns(inside: Units) -> tuple[str, ...]:
        return tuple(sorted(names[int(column)] for unit in inside for column in units.columns[unit]))

    def other(judged: JudgedSet) -> OtherModel:
        return OtherModel(
            columns=columns(judged.units),
            dropped=columns(chosen - judged.units),
            added=columns(judged.units - chosen),
            explained=search.explained - judged.behind,
            behind=judged.behind,
            error=judged.error,
        )

    def label(units: Units) -> str:
        return " + ".join(columns(units))

    needed = (chosen - units.free).intersection(*(judged.units for judged in good))
    moves = [(chosen - judged.units, judged.units - chosen, judged.behind) for judged in good]
    without = {gone: behind for gone, new, behind in moves if len(gone) == 1 and not new}
    swaps = [(gone, new, behind) for gone, new, behind in moves if len(gone) == len(new) == 1]
    for one, another in (*either, *(pair[::-1] for pair in either)):
        swaps.append((frozenset({one}), frozenset({another}), without.get(frozenset({one}), 0.0)))
    exchangeable: dict[str, dict[str, float]] = {name: dict.fromkeys(others, 0.0) for name, others in twins.items()}
    for gone, new, behind in swaps:
        exchangeable.setdefault(label(gone), {})[label(new)] = behind
    return Alternatives(
        columns=columns(chosen),
        explained=search.explained,
        models=tuple(map(other, good)),
        needed=tuple(name for name in columns(needed) if name not in twins),
        spare=tuple(sorted(name for gone in without for name in columns(gone))),
        exchangeable={name: exchangeable[name] for name in sorted(exchangeable)},
        tolerance=tolerance,
        tried=search.tried,
        in_time=search.in_time,
    )
