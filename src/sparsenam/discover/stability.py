"""How stable a choice of columns is: which columns complementary halves of the rows keep, and what may be promised.

A half is solved at the model's alpha. Two other ways were measured on correlated and uncorrelated columns: alpha · √2,
as gradients of half of the rows are noisier by √2, loses effects beyond doubt, since the model's alpha is the largest
that keeps its columns; as many columns as the model has, those that enter first, lets near copies of one column push
others out. A gap of 1e-3 leaves near copies beside each other that one of 1e-4 tells apart.

The promise is that of R. D. Shah and R. J. Samworth, Variable selection with error control: another look at stability
selection, Journal of the Royal Statistical Society B 75 (2013) 55-80, theorems 1 and 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from sparsenam.codec import Bounds, Positive, Share, Size, unpack
from sparsenam.context import Context, running
from sparsenam.convex.path import alphas_down_to, convex_path
from sparsenam.convex.problem import ConvexPoint, ConvexProblem
from sparsenam.discover.question import Question
from sparsenam.errors import InputError, RefusalError, check_number, describe
from sparsenam.fit.plan import convex_task
from sparsenam.fit.problem import FamilyProblem, Mask, Vector
from sparsenam.penalties import NeedsFirstFit, Penalty
from sparsenam.selection.curve import Indices
from sparsenam.selection.task import ConvexTask
from sparsenam.tables.text import listed
from sparsenam.text import FINDINGS_SHOWN, NOTHING, Finding, FindingTable, Found, count_text, number_text, share_text

if TYPE_CHECKING:
    from sparsenam.fit.pipeline import Fit

FEWEST_STABILITY_ROWS = 8  # from which there are halves to speak of
THRESHOLD = 0.9  # share of the half-samples from which a column is called stable
THRESHOLDS = (1.0, 0.9, 0.75, 0.6)  # shown with their bounds
SELDOM = 0.1  # share of the half-samples below which a dropped column is not shown
PAIRS_AT_ONCE = 5  # solved in one batch: more need more memory and are no faster
HALVING_ATTEMPTS = 100  # attempts to have every value of a rare class in both halves
OFTEN = 0.2  # share of the halves that must keep each of two columns which are said to replace one another
RARE = 0.01  # chance, shared among all pairs of such columns, of as few halves with both


@dataclass(frozen=True, slots=True)
class Replacement:
    """A column and another that may stand in its place.

    ``share`` is that of the half-samples without the column that keep the other, ``share_in_all`` that of all
    half-samples; None where there are none such. ``expressed`` is the share of the column's effect that some
    function of the other has, None below 0.9 and for dropped columns.
    """

    column: str
    other: str
    share: Share | None
    share_in_all: Share | None
    expressed: Annotated[float, Bounds(0.0, 2.0)] | None


@dataclass(frozen=True, slots=True)
class Stability(Found):
    """How often half of the rows would choose the same columns.

    ``frequencies`` are, for each column that could be dropped, the shares of 2 · ``n_pairs`` half-samples that keep it
    at the model's ``alpha``; ``kept_per_half`` of these columns are kept by a half-sample on average. ``kept`` are the
    columns of the model, ``always_kept`` those that nothing could drop, which have no frequency. ``asked_pairs`` is
    above ``n_pairs`` where the time ran out.
    """

    n_pairs: Positive
    asked_pairs: Positive
    alpha: Size
    kept_per_half: Size
    frequencies: dict[str, Share]
    kept: tuple[str, ...]
    always_kept: tuple[str, ...]
    replacements: tuple[Replacement, ...]

    @property
    def n_columns(self) -> int:
        """The number of columns that could be dropped."""
        return len(self.frequencies)

    def stable(self, threshold: float = THRESHOLD) -> tuple[str, ...]:
        """Return the columns that at least this share of the half-samples keeps, the most frequent first."""
        check_number("threshold", threshold, 0.0, highest=1.0)
        # a share of halves is a ratio of whole numbers: rounding must not decide
        return tuple(name for name, share in self._ranked() if share >= threshold - 1e-9)

    def bound(self, threshold: float = THRESHOLD) -> float:
        """Return the most columns of low probability among `stable`, on average: q²/(p(2τ - 1)).

        A column is of low probability when a half-sample keeps it with a chance of at most q/p, for q columns kept
        of p: that of a random choice of as many. Shah and Samworth (2013), theorem 1: no assumption but that rows are
        independent. ∞ for thresholds up to ½.
        """
        check_number("threshold", threshold, 0.0, highest=1.0)
        if threshold <= 0.5:
            return np.inf
        return self.kept_per_half**2 / (self.n_columns * (2.0 * threshold - 1.0)) if self.n_columns else 0.0

    def bound_if_unimodal(self, threshold: float = THRESHOLD) -> float | None:
        """Return the sharper bound of their theorem 2, None where it says nothing.

        It assumes that for every column of low probability the share of pairs with the column in both halves has a
        distribution with one peak. With θ = q/p it is C q²/p; C is 1/(2(2τ - 1 - 1/(2B))) up to τ = ¾ and
        4(1 - τ + 1/(2B))/(1 + 1/B) above, for B pairs. None outside of its conditions: θ ≤ 1/√3 and
        τ > min(½ + θ², ½ + 1/(2B) + ¾θ²).
        """
        check_number("threshold", threshold, 0.0, highest=1.0)
        share, n_pairs = self.kept_per_half / self.n_columns if self.n_columns else 0.0, self.n_pairs
        lowest = min(0.5 + share**2, 0.5 + 0.5 / n_pairs + 0.75 * share**2)
        slack = 2.0 * threshold - 1.0 - 0.5 / n_pairs
        if share > 1.0 / sqrt(3.0) or threshold <= lowest or slack <= 0.0:
            return None
        above = 4.0 * (1.0 - threshold + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)
        return (0.5 / slack if threshold <= 0.75 else above) * share * self.kept_per_half

    def promise(self, threshold: float = THRESHOLD) -> str:
        """Return in a sentence what is known of the columns in this share of the half-samples."""
        count, bound, halves = len(self.stable(threshold)), self.bound(threshold), share_text(threshold)
        chance = f"{number_text(self.kept_per_half, 3)} of {self.n_columns}"
        low = f"kept by a half-sample no more often than by a random choice of as many columns ({chance})"
        if not count:
            return f"No column is in {halves} of the half-samples."
        if bound >= count:
            return f"Nothing is promised of the columns in {halves} of the half-samples: so many are kept."
        found = f"Of the {count_text(count, 'column')} in at least {halves} of the half-samples"
        text = f"{found} at most {number_text(bound, 2)}, on average over tables like this one, are {low}"
        unimodal = self.bound_if_unimodal(threshold)
        if unimodal is not None and unimodal < bound:
            text += f"; at most {number_text(unimodal, 2)} if what the halves have in common has one peak"
        return f"{text} (Shah and Samworth 2013)."

    def finding(self) -> Finding:
        halves, steady = 2 * self.n_pairs, self.stable()
        inside = [name for name in self.kept if name in self.frequencies]
        both = [name for name in inside if name in set(steady)]
        sentence = (
            f"at least {share_text(THRESHOLD)} of {halves} half-samples keep {len(both)} of the "
            f"{count_text(len(inside), 'column')} that the model chose; a half-sample keeps "
            f"{number_text(self.kept_per_half, 3)} of {self.n_columns} on average."
        )
        others = [name for name in steady if name not in set(inside)]
        notes = [self.promise()]
        if others:
            notes.append(f"Kept as often, though not by the model: {listed(others)}.")
        if self.n_pairs < self.asked_pairs:
            notes.append(f"max_seconds ended this after {self.n_pairs} of {self.asked_pairs} pairs of halves.")
        tables = [self._columns_table(), self._thresholds_table()]
        return Finding("Stability of the choice", sentence, tuple([*tables, *self._replacements_table()]), tuple(notes))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the result that ``to_dict`` wrote; raise `InputError` for what it cannot have written."""
        try:
            return unpack(cls, data)
        except RefusalError as error:
            got, remedy = str(error), "measure it again"
            raise InputError(describe("stability", "what to_dict() returns", got, remedy)) from error

    def _ranked(self) -> list[tuple[str, float]]:
        return sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))

    def _columns_table(self) -> FindingTable:
        inside = set(self.kept)
        ranked = [(name, share) for name, share in self._ranked() if name in inside or share >= SELDOM]
        left = len(ranked) - FINDINGS_SHOWN
        rows = [(name, share_text(share), "yes" if name in inside else "no") for name, share in ranked[:FINDINGS_SHOWN]]
        caption = "How often half of the rows keep a column" + (f" ({left} more columns not shown)" if left > 0 else "")
        return FindingTable(caption, ("column", "in half-samples", "in the model"), tuple(rows))

    def _thresholds_table(self) -> FindingTable:
        rows: list[tuple[str, ...]] = []
        for threshold in THRESHOLDS:
            bounds = (number_text(self.bound(threshold), 2), number_text(self.bound_if_unimodal(threshold), 2))
            rows.append((share_text(threshold), str(len(self.stable(threshold))), *bounds))
        heads = ("in at least", "columns", "at most by chance", "if one peak")
        caption = "Columns by threshold, and how many of them, on average, may be no better than a random choice"
        return FindingTable(caption, heads, tuple(rows))

    def _replacements_table(self) -> list[FindingTable]:
        if not self.replacements:
            return []
        rows = list[tuple[str, ...]]()
        for pair in self.replacements[:FINDINGS_SHOWN]:
            shares = (pair.share, pair.share_in_all, pair.expressed)
            texts = (NOTHING if share is None else share_text(share) for share in shares)
            rows.append((pair.column, pair.other, *texts))
        heads = ("column", "replaced by", "in halves without it", "in all halves", "of its effect expressed")
        return [FindingTable("Columns that replace one another", heads, tuple(rows))]


def measure_stability(fit: Fit, question: Question, n_pairs: int) -> Stability:
    """Return how often half of the rows would choose each column."""
    with running(fit.settings) as context:
        problem = question.problem(question.rows.sample)
        task = question.task(problem, context, "stability", FEWEST_STABILITY_ROWS)
        found = kept_in_halves(question, problem, task, fit.alpha, n_pairs, context)
    names, free = fit.encoder.names, task.columns(task.free_groups)
    columns: Indices = np.setdiff1d(task.columns(np.arange(task.design.n_groups)), free)
    inside = np.array([np.isin(columns, each) for each in found])
    candidates = [names[int(column)] for column in columns]
    return Stability(
        n_pairs=len(found) // 2,
        asked_pairs=n_pairs,
        alpha=fit.alpha,
        kept_per_half=float(inside.sum(axis=1).mean()),
        frequencies={name: float(share) for name, share in zip(candidates, inside.mean(axis=0), strict=True)},
        kept=tuple(fit.kept_names),
        always_kept=tuple(names[int(column)] for column in free),
        replacements=replacements_of(inside, candidates, fit.substitutes),
    )


def replacements_of(
    kept: Mask, names: list[str], substitutes: Mapping[str, Mapping[str, float]]
) -> tuple[Replacement, ...]:
    """Return the columns that replace one another in the halves (halves, columns), or by their effects."""
    expressed = {(name, other): share for name, others in substitutes.items() for other, share in others.items()}
    found, place = list[Replacement](), {name: index for index, name in enumerate(names)}
    for name, other in sorted({*expressed, *((names[one], names[two]) for one, two in replacing_columns(kept))}):
        share, in_all = None, None
        if name in place and other in place:
            gone, there = ~kept[:, place[name]], kept[:, place[other]]
            in_all = float(there.mean())
            share = float(there[gone].mean()) if gone.any() else None
        found.append(Replacement(name, other, share, in_all, expressed.get((name, other))))
    return tuple(found)


def kept_in_halves(
    question: Question, problem: FamilyProblem, task: ConvexTask, alpha: float, n_pairs: int, context: Context
) -> list[Indices]:
    """Return the columns that complementary halves of the rows keep at an alpha.

    Halves that the time does not suffice for are left out.
    """
    if not alpha > 0.0:
        raise InputError(describe("stability", "an alpha that drops columns", "alpha 0", "choose a larger one"))
    generator = context.streams.generator("halves")
    halves = complementary_halves(problem.fold_target, n_pairs, generator, _codes(question, problem))
    in_batches = problem.solves_in_batches and not isinstance(task.penalty, NeedsFirstFit)
    at_once = 2 * (PAIRS_AT_ONCE if in_batches else 1)
    found, out_of_time = list[Indices](), context.clock.laps()
    context.progress.report("halves", 0, len(halves))
    while len(found) < len(halves) and not (found and out_of_time()):
        some = halves[len(found) : len(found) + at_once]
        if in_batches:
            weights = task.prepared.weights
            several = task.problem(np.vstack([weights[None], weights * some]))  # all rows come first
            found += [task.columns(support) for support in _solved(several, task.penalty, alpha).supports[1:]]
        else:
            found += [_kept_alone(question, problem.counted, half, alpha, context) for half in some]
        context.progress.report("halves", len(found), len(halves))
    return found


def complementary_halves(
    target: Vector, n_pairs: int, generator: np.random.Generator, groups: NDArray[np.intp] | None = None
) -> Mask:
    """Return random halves of the rows, each followed by its complement, shape (2 · n_pairs, rows).

    Of an odd number of rows one is in neither. Halves are drawn again where an output of the target (rows, outputs)
    is constant in one. With ``groups`` (rows,) numbered from 0, halves are of groups, and no group is torn apart.
    """
    rows = target.shape[0]
    codes: NDArray[np.intp] = np.arange(rows, dtype=np.intp) if groups is None else groups
    count = int(codes.max(initial=-1)) + 1
    half = count // 2
    found: list[Mask] = []
    for _ in range(n_pairs):
        for _ in range(HALVING_ATTEMPTS):
            order = generator.permutation(count)
            pair = [np.isin(codes, order[:half]), np.isin(codes, order[half : 2 * half])]
            if all(part.any() and (np.ptp(target[part], axis=0) > 0).all() for part in pair):
                found += pair
                break
        else:
            expected = "a target that varies in both halves of the rows"
            got = f"{rows} rows with values too rare for that"
            raise InputError(describe("stability", expected, got, "give more rows"))
    return np.array(found)


def _kept_alone(question: Question, counted: Mask, half: Mask, alpha: float, context: Context) -> Indices:
    """Return the columns that a half keeps as a problem of its rows alone.

    Censored times need this, as each half has a baseline hazard, and penalties with weights from a first fit do.
    """
    sample, strategy = question.rows.sample, question.plan.strategy
    weights = np.zeros(counted.size)
    weights[np.flatnonzero(counted)[half]] = sample.weights[counted][half]
    problem = question.problem(replace(sample, weights=weights))
    task = convex_task(problem, question.plan, context)
    if problem.solves_in_batches or isinstance(task.penalty, NeedsFirstFit):
        support = problem.choose(task, alpha, strategy, context).support
        return task.columns(task.prepared.grouping.group_of[support])

    # at the hazard of no effects, then at that of the effects found: choose would alternate to many digits, and six
    # times keep the same columns
    def at_hazard(scores: Vector) -> ConvexPoint:
        return _solved(task.with_sample(problem.at(scores)[0].prepared).problem(), task.penalty, alpha)

    first = at_hazard(np.zeros((task.prepared.weights.size, 1)))
    return task.columns(at_hazard(first.scores(task.design)).supports[0])


def _solved(problem: ConvexProblem, penalty: Penalty, alpha: float) -> ConvexPoint:
    """Return the solution at an alpha."""
    alphas = alphas_down_to(alpha, problem, penalty)
    (point,) = deque(convex_path(problem, penalty, alphas=alphas), maxlen=1)
    return point


def _codes(question: Question, problem: FamilyProblem) -> NDArray[np.intp] | None:
    """Return the groups of the rows that count, numbered from 0, None where there are none."""
    if question.rows.groups is None:
        return None
    given = np.asarray(question.rows.groups)
    if given.shape != (problem.counted.size,):
        expected, got = f"{problem.counted.size} groups, one for each row", f"shape {given.shape}"
        raise InputError(describe("groups", expected, got, "give one for each row"))
    codes: NDArray[np.intp] = np.unique(given[problem.counted], return_inverse=True)[1]
    if codes.max() < 3:
        raise InputError(describe("groups", "at least 4 groups of rows", f"{int(codes.max()) + 1}", "leave them out"))
    return codes


def replacing_columns(kept: Mask) -> list[tuple[int, int]]:
    """Return the pairs of columns that too few halves (halves, columns) keep together for chance, both ways round.

    Each must be in a fifth of the halves at least. If columns were kept without regard to each other, the number of
    halves with both would be hypergeometric; its lower tail must be below 0.01 over the number of such pairs. Halves
    share rows, so that this is a sign and no test.
    """
    halves, counts = kept.shape[0], kept.sum(axis=0)
    often = [int(column) for column in np.flatnonzero((counts >= OFTEN * halves) & (counts < halves))]
    pairs, found = list(combinations(often, 2)), list[tuple[int, int]]()
    for one, other in pairs:
        together = int(np.count_nonzero(kept[:, one] & kept[:, other]))
        if hypergeom.cdf(together, halves, counts[one], counts[other]) < RARE / len(pairs):
            found += [(one, other), (other, one)]
    return found
