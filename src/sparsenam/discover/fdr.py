"""False discoveries under control: the tests of an `FDR` rule, the columns they keep, and the result in names.

Columns that enter together are one hypothesis. Knockoffs are taken where they can reach q, split halves elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal, Self

import numpy as np
from scipy.stats import false_discovery_control

from sparsenam.codec import Share, unpack
from sparsenam.context import Context
from sparsenam.discover.knockoffs import MOST_KNOCKOFF_COLUMNS, DoubledSample, draw_knockoffs
from sparsenam.discover.question import ColumnUnits, Units
from sparsenam.discover.split_test import split_p_values
from sparsenam.errors import InputError, RefusalError, describe, require
from sparsenam.fit.problem import FamilyProblem, Strategy
from sparsenam.penalties import GroupLasso
from sparsenam.selection import FDR
from sparsenam.selection.choose import Choice
from sparsenam.selection.curve import Indices, Mask, Vector
from sparsenam.selection.task import ConvexTask
from sparsenam.tables.sample import PreparedSample
from sparsenam.text import FINDINGS_SHOWN, Finding, FindingTable, Found, count_text

Test = Literal["knockoffs", "split"]

# times 1/q: columns that the default choice keeps from which knockoffs are taken. At least 1/q must be found, and the
# default choice may hold a few false ones
ENOUGH_FOR_KNOCKOFFS = 1.2
LEAST_P = 1e-300  # a smaller p-value is as good as 0
FEWEST_DISCOVERY_ROWS = 20  # of a table to be halved
HARDLY = 1e-9  # weight of rows that a design must not learn from

HOW = {
    "knockoffs": "every column is compared with a copy that has no share in the target",
    "split": "half of the rows finds the curves, the other tests them, several times over",
}


@dataclass(frozen=True, slots=True)
class Discoveries(Found):
    """The columns that a test keeps, of which at most a share q, on average over tables, has no effect.

    ``method`` is "knockoffs" or "split", and ``reason`` says why that one. ``kept`` are the discovered columns, and
    ``always_kept`` those of ``always_keep``: they are in the model without a test, and q says nothing of them. A tested
    column is a discovery where its number in ``statistics`` is at least the ``threshold``, None where nothing is found.
    For knockoffs that is the area under the path less that of the copy, for split -log₁₀ of the p-value; columns that
    enter together share one. ``p_values`` are None for knockoffs, which have none. ``construction`` is how knockoffs
    were drawn, "gaussian copula", "elliptical copula" or "sequential"; None for split. ``reachable`` says whether there
    are enough tested columns (1/q for knockoffs) or rows (20 for split) for a discovery. Knockoffs need more: at least
    1/q of the columns must act.
    """

    q: Share
    method: Test
    reason: str
    kept: tuple[str, ...]
    always_kept: tuple[str, ...]
    statistics: Mapping[str, float]
    threshold: float | None
    p_values: Mapping[str, Share] | None
    construction: str | None
    reachable: bool

    def sentence(self) -> str:
        """Return in one sentence what was found and how."""
        found = f"{len(self.kept)} of {count_text(len(self.statistics), 'tested column')}"
        what = "is a discovery" if len(self.kept) == 1 else "are discoveries"
        return (
            f"{found} {what}, of which at most a share of {self.q:g} is expected to be false, by "
            f"{self.method} ({self.reason})."
        )

    def notes(self) -> list[str]:
        """Return in sentences what the discoveries do not say."""
        notes: list[str] = []
        by_halves, least = self.method == "split", fewest(self.q)
        if not self.statistics:
            notes.append("No column was tested.")
        elif not self.reachable:
            needed = f"{FEWEST_DISCOVERY_ROWS} rows" if by_halves else f"{least} tested columns"
            notes.append(f"q = {self.q:g} is out of reach: {self.method} needs at least {needed}.")
        elif not self.kept:
            helps = (
                f"Knockoffs find nothing or at least {count_text(least, 'column')} at q = {self.q:g}: where fewer act, "
                "no number of rows helps, and method='split' can find them."
            )
            helps = "With more rows, weaker effects can be found." if by_halves else helps
            notes.append(f"Nothing found does not mean that nothing is there. {helps}")
        if self.always_kept:
            notes.append(f"Kept without a test: {', '.join(self.always_kept)}.")
        return notes

    def finding(self) -> Finding:
        order = sorted(self.statistics, key=lambda name: (-self.statistics[name], name))
        heads = ("column", "statistic", *([] if self.p_values is None else ["p-value"]), "kept")
        rows = list[tuple[str, ...]]()
        for name in order[:FINDINGS_SHOWN]:
            chance = [] if self.p_values is None else [f"{self.p_values[name]:.2g}"]
            rows.append((name, f"{self.statistics[name] + 0.0:.3g}", *chance, "yes" if name in self.kept else "no"))
        bar = "none is large enough" if self.threshold is None else f"kept from {self.threshold:.3g} on"
        more = f"; the first {FINDINGS_SHOWN} of {len(order)}" if len(order) > FINDINGS_SHOWN else ""
        tables = (FindingTable(f"Statistics, {bar}{more}", heads, tuple(rows)),) if rows else ()
        drawn = "" if self.construction is None else f" (drawn by a {self.construction} model of the columns)"
        how = f"The test: {HOW[self.method]}{drawn}."
        return Finding("False discoveries", self.sentence(), tables, (how, *self.notes()))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the discoveries of `to_dict`; raise `InputError` for data that cannot be."""
        try:
            made = unpack(cls, data)
            made.check()
        except RefusalError as error:
            got, remedy = str(error), "fit the model again"
            raise InputError(describe("discoveries", "what to_dict() returns", got, remedy)) from error
        return made

    def check(self) -> None:
        """Raise `RefusalError` unless discoveries, statistics, threshold and p-values fit each other."""
        tested, threshold = set(self.statistics), self.threshold
        right = (
            0.0 < self.q < 1.0
            and set(self.kept) <= tested
            and (self.p_values is None or set(self.p_values) == tested)
            and all(threshold is not None and self.statistics[name] >= threshold for name in self.kept)
        )
        require(right, "discoveries that cannot be")


def discover(
    rule: FDR, problem: FamilyProblem, choice: Choice | None, strategy: Strategy, names: Sequence[str], context: Context
) -> tuple[Choice | None, Discoveries]:
    """Return the choice with the discovered groups and those that are never penalised, and what was found.

    The target's censored times are rates at the hazard of the default choice: a function of time alone is all that
    rows learn from each other by it.
    """
    if choice is None:  # no column varies
        return None, Discoveries(rule.q, "split", "there is nothing to test", (), (), {}, None, {}, None, False)
    prepared, task = problem.prepared, choice.task
    units = ColumnUnits.of(task)
    tested = [unit for unit in range(len(units.groups)) if unit not in units.free]
    hypotheses = [units.groups[unit] for unit in tested]
    scores = np.zeros((prepared.weights.size, 1)) if choice.start is None else choice.start.reshape(-1, 1)
    posed, _ = problem.at(scores)
    obstacle = obstacle_to_knockoffs(prepared, problem.column_of)
    n_kept = len(units.containing(prepared.grouping.group_of[choice.support]) - units.free)
    method, reason = decide(rule, len(hypotheses), n_kept, obstacle)
    generator = context.streams.generator("discoveries")
    p_values, construction = None, None
    if method == "knockoffs":
        if obstacle is not None:
            got, remedy = obstacle, "choose method='split' or 'auto'"
            raise InputError(describe("method='knockoffs' of FDR", "complete columns of numbers", got, remedy))
        drawn = draw_knockoffs(prepared.x, generator)
        doubled, construction = DoubledSample.of(prepared, drawn.x, generator), drawn.construction
        statistics = doubled.statistics(_task(doubled.prepared, posed, strategy, context))
        threshold, reachable = knockoff_threshold(statistics, rule.q), statistics.size >= fewest(rule.q)
    else:
        p_values = _split(problem, posed, hypotheses, strategy, context, generator)
        statistics = -np.log10(np.maximum(p_values, LEAST_P)) + 0.0  # no negative zero
        rejected, reachable = benjamini_hochberg(p_values, rule.q), prepared.weights.size >= FEWEST_DISCOVERY_ROWS
        threshold = float(statistics[rejected].min()) if rejected.any() else None
    found = np.zeros(statistics.size, dtype=np.bool_) if threshold is None else statistics >= threshold
    discovered = frozenset(unit for unit, is_found in zip(tested, found, strict=True) if is_found)

    def by_name(values: Vector) -> dict[str, float]:
        pairs = zip(tested, values.tolist(), strict=True)
        return {names[int(column)]: value for unit, value in pairs for column in units.columns[unit]}

    def named(some: Units) -> tuple[str, ...]:
        return tuple(names[int(column)] for column in task.columns(units.groups_of(some)))

    chances = None if p_values is None else by_name(p_values)
    told = (by_name(statistics), threshold, chances, construction, reachable)
    discoveries = Discoveries(rule.q, method, reason, named(discovered), named(units.free), *told)
    return replace(choice, support=task.terms(units.groups_of(units.free | discovered))), discoveries


def fewest(q: float) -> int:
    """Return the fewest discoveries that knockoffs can make at q: (1 + 0)/k ≤ q."""
    return ceil(1.0 / q - 1e-9)


def knockoff_threshold(statistics: Vector, q: float) -> float | None:
    """Return the smallest t > 0 with (1 + #{W ≤ -t})/#{W ≥ t} ≤ q, or None (Barber and Candès 2015, knockoff+)."""
    for t in np.unique(np.abs(statistics[statistics != 0.0])):
        if 1 + np.count_nonzero(statistics <= -t) <= q * np.count_nonzero(statistics >= t) * (1.0 + 1e-12):
            return float(t)
    return None


def benjamini_hochberg(p_values: Vector, q: float) -> Mask:
    """Return which hypotheses are rejected: those with the k smallest p-values, k the largest with p₍ₖ₎ ≤ qk/m."""
    if not p_values.size:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(false_discovery_control(p_values) <= q * (1.0 + 1e-12), dtype=np.bool_)


def decide(rule: FDR, n_hypotheses: int, n_kept: int, obstacle: str | None) -> tuple[Test, str]:
    """Return the test that a rule takes, and why.

    ``n_kept`` is the number of columns that the default choice keeps, ``obstacle`` what stands against knockoffs.
    """
    if rule.method != "auto":
        return rule.method, "it was asked for"
    least = fewest(rule.q)
    if obstacle is not None:
        return "split", f"{obstacle}, for which no knockoffs are drawn"
    if n_hypotheses < least:
        return "split", f"knockoffs find nothing or at least {least} columns at q = {rule.q:g}, and there are fewer"
    keeps = f"the default choice keeps {count_text(n_kept, 'column')}"
    if n_kept < ENOUGH_FOR_KNOCKOFFS * least:
        return "split", f"{keeps}, and knockoffs find nothing or at least {least} at q = {rule.q:g}"
    return "knockoffs", f"{keeps}, more than the {least} that knockoffs need at q = {rule.q:g}"


def obstacle_to_knockoffs(prepared: PreparedSample, column_of: Indices) -> str | None:
    """Return in words what stands against knockoffs of a sample, None where nothing does."""
    if prepared.levels.any():
        return "the table has categories"
    if np.isnan(prepared.x).any():
        return "the table has missing cells"
    columns = column_of[prepared.terms]
    if np.unique(columns).size < columns.size:
        return "a column has several terms"
    if columns.size > MOST_KNOCKOFF_COLUMNS:
        return f"the table has more than {MOST_KNOCKOFF_COLUMNS} columns"
    return None


def _split(
    problem: FamilyProblem,
    posed: FamilyProblem,
    hypotheses: list[Indices],
    strategy: Strategy,
    context: Context,
    generator: np.random.Generator,
) -> Vector:
    """Return the p-values of hypotheses by halves of the rows; 1 where there are too few rows."""
    prepared = problem.prepared
    if prepared.weights.size < FEWEST_DISCOVERY_ROWS:
        return np.ones(len(hypotheses))
    whole = _task(prepared, posed, strategy, context)

    def task_for(rows: Mask) -> ConvexTask:
        # columns of categories read the target: those of a half must not see the other, only that its levels are there
        task = whole
        if prepared.levels.any():
            seen = prepared.weights * np.where(rows, 1.0, HARDLY)
            task = _task(replace(prepared, weights=seen), posed, strategy, context)
        return task.with_sample(replace(task.prepared, weights=posed.prepared.weights * rows))

    return split_p_values(task_for, problem.fold_target, hypotheses, generator, context)


def _task(prepared: PreparedSample, posed: FamilyProblem, strategy: Strategy, context: Context) -> ConvexTask:
    """Return the convex problem of a sample's terms, with target and weights of the posed problem."""
    terms = np.arange(prepared.n_terms)
    names = tuple(f"{term}" for term in terms)
    features = strategy.features(prepared, context)
    task = ConvexTask.of(prepared, posed.family, features, GroupLasso(), terms, names, strategy.norm)
    sample = replace(prepared, target=posed.prepared.target, weights=posed.prepared.weights)
    return task.with_sample(sample)
