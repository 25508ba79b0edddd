"""The smooth fit on all rows of a large table, in passes over its blocks, from a fit on a sample of them.

The sample has decided which terms are fitted and with which knots; all rows decide coefficients and smoothness, and
whether a term needs more knots. Squared loss needs one pass for each set of knots, other losses one for each of
Newton's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import ArrayForm, Context, StageResult
from sparsenam.convex.design import Ramps
from sparsenam.convex.moments import PlacedRows
from sparsenam.errors import require
from sparsenam.families.dispersion import dispersion
from sparsenam.smooth.design import KnotSums, RampBasis, RampDesign, WeightedGram, ramps_of
from sparsenam.smooth.fit import (
    COLUMNS,
    SmoothFit,
    SmoothState,
    Steps,
    as_fit,
    doubled,
    has_converged,
    most_ramps,
    resampled,
    solve_squares,
)
from sparsenam.smooth.newton import SHORTEST, SmoothProblem
from sparsenam.smooth.prior import Layout, Posterior, posterior, updated_strengths
from sparsenam.tables.blocks import Block, Blocks, Sum
from sparsenam.tables.encoder import News
from sparsenam.tables.sample import Matrix, Vector

ROUNDS = 3  # sets of knots at most: with the pass that draws the sample, four passes for squared loss
ROUNDS_REWEIGHTED = 2
NEARLY, TINY = 1.0 + 1e-6, 1e-12  # what rounding may add to a sum
LARGEST_SUM = 1e70  # over rows on the scale of the fit: products of four such numbers are still numbers
MOST_STEPS = 25  # of Newton's method for one set of knots
AT_REST = 1e-6  # of the objective: a step's gain at which coefficients are at their best
ROUNDING = 1e-10  # of the objective: a sum over many rows

State = TypeVar("State")


@dataclass(frozen=True, slots=True, eq=False)
class BlockProblem(SmoothProblem):
    """The rows of a block on the scale of the fit, and what they hold that the sample does not."""

    news: News = field(default_factory=News)


Reader = Callable[[Block], BlockProblem]


@dataclass(frozen=True, slots=True, eq=False)
class AllRows:
    """All rows of a table: its blocks, and how a block is read on the scale of the fit.

    ``news`` has, after the first pass, what the rows hold that the sample does not.
    """

    blocks: Blocks
    read: Reader
    news: list[News] = field(default_factory=list[News])

    def sums(self, function: Callable[[SmoothProblem, State], Sum], state: State, context: Context) -> Sum:
        """Return a sum over all rows, with progress by rows."""
        rows = self.blocks.n_rows

        def report(done: int) -> None:
            context.progress.report("rows", done, rows)

        found = self.blocks.reduce(read_and_summed, (self.read, function, state), report)
        if not self.news:  # further passes read the same
            self.news.append(found.news)
        return found.value


@dataclass(frozen=True, slots=True, eq=False)
class PassSum(Generic[Sum]):
    """A sum over the rows of some blocks, and what they hold that the sample does not."""

    value: Sum
    news: News

    def __add__(self, other: PassSum[Sum]) -> PassSum[Sum]:
        return PassSum(self.value + other.value, self.news + other.news)


def read_and_summed(block: Block, given: tuple[Reader, Callable[[SmoothProblem, State], Sum], State]) -> PassSum[Sum]:
    """Return the sum over a block's rows."""
    read, function, state = given
    rows = read(block)
    return PassSum(function(rows, state), rows.news)


@dataclass(frozen=True, slots=True, eq=False)
class AllRowsFit:
    """A fit on all rows, and the means (terms, outputs) of its terms' effects over the rows that have them."""

    fit: SmoothFit
    means: Matrix


def fit_all_rows(
    rows: AllRows, sample: SmoothProblem, first: SmoothFit, unordered: NDArray[np.bool_], context: Context
) -> AllRowsFit:
    """Return the fit on all rows, from the fit ``first`` on a sample of them; knots are placed by the sample.

    ``unordered`` (terms,) marks codes of levels. What a pass found is kept in the resume file, if there is one.
    """
    quadratic = sample.family.is_quadratic
    most, columns = most_ramps(sample, unordered, {}), 2 * COLUMNS if quadratic else COLUMNS
    sizes: NDArray[np.intp] = np.array([ramps.size for ramps in first.ramps], dtype=np.intp)
    counts = np.where(unordered, most, np.minimum(sizes, most)).astype(np.intp)
    ramps = [
        given if given.size == count else ramps_of(cells, sample.weights, int(count))
        for given, cells, count in zip(first.ramps, sample.x, counts, strict=True)
    ]
    passes = Passes(rows, sample, unordered, Steps(context), context)
    state = passes.first(first)
    for number in range(ROUNDS if quadratic else ROUNDS_REWEIGHTED):
        if number > 0:
            ramps = [ramps_of(cells, sample.weights, int(count)) for cells, count in zip(sample.x, counts, strict=True)]
        layout = Layout.of(ramps, unordered.tolist())
        state = passes.squared(layout, state) if quadratic else passes.reweighted(layout, state)
        more = doubled(counts, most, state.degrees_of_freedom / counts, columns)
        if np.array_equal(more, counts) or passes.steps.out_of_time():
            break
        counts = more
    means = [passes.basis.means[place] @ state.coefficients[place] for place in state.layout.slices]
    return AllRowsFit(as_fit(state, {}, {}), np.array(means))


class Passes:
    """The passes of one fit: what was summed last, and how many there were."""

    def __init__(
        self, rows: AllRows, sample: SmoothProblem, unordered: NDArray[np.bool_], steps: Steps, context: Context
    ) -> None:
        self.rows, self.sample, self.unordered, self.steps, self.context = rows, sample, unordered, steps, context
        self.made = self.rounds = 0
        self.basis: RampBasis

    def first(self, fit: SmoothFit) -> SmoothState:
        """Return the fit on the sample as a state to start from."""
        layout = Layout.of(fit.ramps, self.unordered.tolist())
        coefficients = np.concatenate(fit.coefficients)
        freedom = fit.degrees_of_freedom
        return SmoothState(layout, coefficients, fit.intercept, list(fit.strengths), fit.noise, freedom, (), np.inf)

    def squared(self, layout: Layout, before: SmoothState) -> SmoothState:
        """Return the fit of squared loss with these ramps: one pass."""
        sums = self._knot_sums(layout.ramps)
        self.basis = RampBasis(layout, sums.sums[:, 0])
        return solve_squares(self.basis, self.basis.least_squares(sums), before, self.steps)

    def reweighted(self, layout: Layout, before: SmoothState) -> SmoothState:
        """Return the fit of any loss with these ramps, by Newton's steps of a pass each."""
        sample = self.sample
        rows = RampDesign(layout, sample.x, sample.weights)
        coefficients, intercept = resampled(layout, before)
        self.basis, self.rounds = rows, self.rounds + 1
        noise, freedoms, strengths, model = before.noise, list[float](), None, None
        kept = self._kept_step(layout)
        if kept is None:
            point = self._point(layout, coefficients, intercept + rows.means @ coefficients)
            self.basis = RampBasis(layout, point.sums.present)  # now the means are known of all rows
            point = replace(point, base=intercept + self.basis.means @ coefficients)
        else:
            point, noise, strengths, freedoms = kept.point, kept.noise, list(kept.strengths), list(kept.freedoms)
            self.basis = RampBasis(layout, point.sums.present)
        for _ in range(len(freedoms), MOST_STEPS):
            grams = point.sums.weighted_grams(self.basis)
            if strengths is None:
                information = np.mean([gram.matrix for gram in grams], axis=0)
                strengths = layout.first_strengths(information / noise, (before.layout, before.strengths))
            model = SecondOrder.of(layout, grams, strengths, noise)
            reached = self._stepped(layout, model, point)
            if reached is None:
                break
            gain, point = reached[1], reached[0]
            self.steps.report()
            freedoms.append(float(model.freedom.sum()))
            if (has_converged(freedoms) and gain < AT_REST) or self.steps.out_of_time():
                break
            spreads, free = model.spreads, sample.free_outputs
            strengths = updated_strengths(layout, strengths, model.precisions, spreads, point.coefficients, free)
            scores = point.base + rows.placed.times(self.basis.at_knots(point.coefficients))
            noise = dispersion(sample.family, scores, sample.target, sample.weights, freedoms[-1] + 1.0)
            if len(freedoms) < MOST_STEPS:  # after the last step nothing would be left to do
                self._keep_step(layout, KeptStep(point, noise, tuple(strengths), tuple(freedoms)))
        assert model is not None
        intercept = point.base - self.basis.means @ point.coefficients
        used, loss = list(model.strengths), point.sums.loss
        return SmoothState(layout, point.coefficients, intercept, used, model.noise, model.freedom, model.spreads, loss)

    def _stepped(self, layout: Layout, model: SecondOrder, point: NewtonPoint) -> tuple[NewtonPoint, float] | None:
        """Return the point after a step of 1, ½, ¼ …, the first that gains, and its relative gain; None if none."""
        move, turn = model.direction(self.basis, point)
        now, step = model.objective(point.sums.loss, point.coefficients), 1.0
        while step >= SHORTEST:
            trial = self._point(layout, point.coefficients + step * move, point.base + step * turn)
            reached = model.objective(trial.sums.loss, trial.coefficients)
            if reached <= now + ROUNDING * abs(now):
                return trial, (now - reached) / max(abs(now), 1.0)
            step *= 0.5
        return None

    def _point(self, layout: Layout, coefficients: Matrix, base: Vector) -> NewtonPoint:
        self.made += 1
        state = layout.ramps, self.basis.at_knots(coefficients), base
        return NewtonPoint(coefficients, base, self.rows.sums(newton_sums, state, self.context))

    def _knot_sums(self, ramps: Sequence[Ramps]) -> KnotSums:
        stage, knots = f"rows/{self.made}", _knots(ramps)
        self.made += 1
        stored = self.context.recall(stage)
        if stored is not None and np.array_equal(stored.arrays.get("knots", np.zeros(0)), knots):
            outputs = self.sample.target.shape[1]
            with self.context.reading(stage):
                return _read_sums(stored, knots.size, outputs)
        sums = self.rows.sums(knot_sums, tuple(ramps), self.context)
        arrays = {"knots": knots, "gram": sums.gram, "sums": sums.sums, "totals": sums.totals, "squares": sums.squares}
        self.context.keep(stage, StageResult(arrays, {}))
        return sums

    def _kept_step(self, layout: Layout) -> KeptStep | None:
        """Return the last step that a fit which was stopped made with these ramps, if it made one."""
        stored, knots = self.context.recall(f"steps/{self.rounds}"), _knots(layout.ramps)
        if stored is None or not np.array_equal(stored.arrays.get("knots", np.zeros(0)), knots):
            return None
        with self.context.reading(f"steps/{self.rounds}"):
            return KeptStep.unpacked(stored, layout, self.sample.target.shape[1])

    def _keep_step(self, layout: Layout, step: KeptStep) -> None:
        self.context.keep(f"steps/{self.rounds}", step.packed(_knots(layout.ramps)))


@dataclass(frozen=True, slots=True, eq=False)
class NewtonPoint:
    """Coefficients (columns, outputs) and base score (outputs,), and the sums over all rows there."""

    coefficients: Matrix
    base: Vector
    sums: NewtonSums


@dataclass(frozen=True, slots=True, eq=False)
class SecondOrder:
    """Σ w loss/φ + ½ Σ βᵀPβ to second order, with one Gram matrix for each output or one for all."""

    layout: Layout
    grams: Sequence[WeightedGram]
    strengths: Sequence[Vector]
    precisions: Sequence[Matrix]
    noise: float
    spreads: Sequence[Posterior]

    @classmethod
    def of(
        cls, layout: Layout, grams: Sequence[WeightedGram], strengths: Sequence[Vector], noise: float
    ) -> SecondOrder:
        """Factorise the curvature of data and prior."""
        precisions = layout.precisions(strengths)
        spreads = [posterior(layout, gram.matrix, precisions, noise) for gram in grams]
        return cls(layout, grams, strengths, precisions, noise, spreads)

    @property
    def freedom(self) -> Vector:
        """The degrees of freedom of each term, the mean over outputs, shape (terms,)."""
        return np.mean([each.degrees_of_freedom for each in self.spreads], axis=0)

    def direction(self, basis: RampBasis, point: NewtonPoint) -> tuple[Matrix, Vector]:
        """Return the changes of the coefficients (columns, outputs) and of the base score (outputs,)."""
        pull = basis.to_ramps(point.sums.slopes) / self.noise - self._prior_times(point.coefficients)
        move, turn = np.empty_like(pull), np.empty_like(point.base)
        for output in range(turn.size):
            spread, gram = self.spreads[output % len(self.spreads)], self.grams[output % len(self.grams)]
            lift = point.sums.lift[output] / self.noise
            move[:, output] = spread.solve((pull[:, output] - gram.means * lift)[:, None])[:, 0]
            turn[output] = lift * self.noise / gram.total - gram.means @ move[:, output]
        return move, turn

    def objective(self, loss: float, coefficients: Matrix) -> float:
        """Return the penalised loss for the sum of the rows' losses."""
        return loss / self.noise + 0.5 * float(np.sum(coefficients * self._prior_times(coefficients)))

    def _prior_times(self, coefficients: Matrix) -> Matrix:
        parts = zip(self.layout.slices, self.precisions, strict=True)
        return np.concatenate([precision @ coefficients[place] for place, precision in parts])


def knot_sums(rows: SmoothProblem, ramps: tuple[Ramps, ...]) -> KnotSums:
    """Return what squared loss needs of a block's rows."""
    return KnotSums.of(PlacedRows.of(ramps, rows.x), rows.weights, rows.target)


@dataclass(frozen=True, slots=True, eq=False)
class NewtonSums:
    """What one of Newton's steps needs of the rows: the loss, its slopes and its curvatures at the knots.

    ``slopes`` (knots, outputs) and ``lift`` (outputs,) are the negative gradient by values at the knots and by the
    base score; ``grams`` (parts, knots, knots), ``at_knots`` (parts, knots) and ``totals`` (parts,) are the sums under
    the working weights of each output, or of all; ``present`` (knots,) those of the rows' weights.
    """

    loss: float
    slopes: Matrix
    lift: Vector
    grams: NDArray[np.float64]
    at_knots: Matrix
    totals: Vector
    present: Vector

    def weighted_grams(self, basis: RampBasis) -> list[WeightedGram]:
        """Return the products of columns under each set of working weights."""
        parts = zip(self.grams, self.at_knots, self.totals.tolist(), strict=True)
        return [basis.gram(gram, at_knots, total) for gram, at_knots, total in parts]

    def __add__(self, other: NewtonSums) -> NewtonSums:
        return NewtonSums(
            self.loss + other.loss,
            self.slopes + other.slopes,
            self.lift + other.lift,
            self.grams + other.grams,
            self.at_knots + other.at_knots,
            self.totals + other.totals,
            self.present + other.present,
        )


@dataclass(frozen=True, slots=True, eq=False)
class KeptStep:
    """Where Newton's method stands after a step: coefficients, base score, φ, λ, degrees of freedom, and sums."""

    point: NewtonPoint
    noise: float
    strengths: tuple[Vector, ...]
    freedoms: tuple[float, ...]

    def packed(self, knots: Vector) -> StageResult:
        """Return the step, and the knots that it belongs to, as a resume file holds it."""
        numbers = {
            "knots": knots,
            "coefficients": self.point.coefficients,
            "base": self.point.base,
            "noise": np.array(self.noise),
            "freedoms": np.array(self.freedoms),
        }
        strengths = {f"strengths {index}": each for index, each in enumerate(self.strengths)}
        sums = {f"sums {each.name}": np.array(getattr(self.point.sums, each.name)) for each in fields(NewtonSums)}
        return StageResult(numbers | strengths | sums, {})

    @classmethod
    def unpacked(cls, stored: StageResult, layout: Layout, outputs: int) -> KeptStep:
        """Return the step that a resume file holds, to the bit; raise `RefusalError` for what cannot be one."""
        kept, terms, knots = stored.arrays, len(layout.ramps), sum(each.size + 1 for each in layout.ramps)
        parts, steps, columns = kept["sums totals"].size, kept["freedoms"].size, layout.slices[-1].stop
        require(parts in (1, outputs) and 1 <= steps < MOST_STEPS, "steps that cannot be")
        shapes: dict[str, tuple[int | None, ...]] = {
            "knots": (knots,),
            "coefficients": (columns, outputs),
            "base": (outputs,),
            "sums slopes": (knots, outputs),
            "sums lift": (outputs,),
        }
        above: dict[str, tuple[int | None, ...]] = {
            "noise": (),
            "freedoms": (steps,),
            "sums grams": (parts, knots, knots),
            "sums at_knots": (parts, knots),
            "sums totals": (parts,),
            "sums present": (knots,),
            **{f"strengths {index}": (None,) for index in range(terms)},
        }
        forms = {name: ArrayForm(shape, lowest=-LARGEST_SUM, highest=LARGEST_SUM) for name, shape in shapes.items()}
        forms |= {name: ArrayForm(shape, lowest=0.0, highest=LARGEST_SUM) for name, shape in above.items()}
        stored.check(forms | {"sums loss": ArrayForm(())})
        loss, *sums = (kept[f"sums {each.name}"] for each in fields(NewtonSums))
        strengths = tuple(kept[f"strengths {index}"] for index in range(terms))
        blocks = zip(layout.ramps, layout.roughness, layout.jumping, strict=True)
        expected = [each.size if jumps else len(matrices) for each, matrices, jumps in blocks]
        require([each.size for each in strengths] == expected, "strengths of other terms")
        require(float(kept["noise"]) > 0.0 and bool((kept["sums totals"] > 0.0).all()), "sums that cannot be")
        return cls(
            NewtonPoint(kept["coefficients"], kept["base"], NewtonSums(float(loss), *sums)),
            float(kept["noise"]),
            strengths,
            tuple(kept["freedoms"].tolist()),
        )


def _read_sums(stored: StageResult, knots: int, outputs: int) -> KnotSums:
    """Return the sums that a resume file holds; raise `RefusalError` for what cannot be sums at so many knots."""
    finite = ArrayForm(None, lowest=-LARGEST_SUM, highest=LARGEST_SUM)
    forms = {
        "knots": replace(finite, shape=(knots,)),
        "gram": replace(finite, shape=(knots, knots)),
        "sums": replace(finite, shape=(knots, 1 + outputs)),
        "totals": replace(finite, shape=(1 + outputs,)),
        "squares": replace(finite, shape=(outputs,), lowest=0.0),
    }
    stored.check(forms)
    kept = stored.arrays
    gram, sums, totals, squares = (kept[name] for name in ("gram", "sums", "totals", "squares"))
    held, total = np.diag(gram), totals[0]
    within = total > 0.0 and bool((gram >= 0.0).all() and (held <= NEARLY * total).all())
    require(within and np.allclose(gram, gram.T), "sums that cannot be")
    # Cauchy and Schwarz: no sum of products is larger than the root of the product of the sums of squares
    largest = np.sqrt(np.outer(held, np.append(total, squares)))
    right = bool((np.abs(sums) <= NEARLY * largest + TINY).all() and (sums[:, 0] >= 0.0).all())
    require(right and bool((totals[1:] ** 2 <= NEARLY * total * squares + TINY).all()), "sums that cannot be")
    return KnotSums(gram, sums, totals, squares)


def _knots(ramps: Sequence[Ramps]) -> Vector:
    return np.concatenate([each.knots for each in ramps])


def newton_sums(rows: SmoothProblem, state: tuple[tuple[Ramps, ...], Matrix, Vector]) -> NewtonSums:
    """Return the sums over a block's rows at values (knots, outputs) of the terms and a base score (outputs,)."""
    ramps, values, base = state
    placed = PlacedRows.of(ramps, rows.x)
    scores = base + placed.times(values)
    slopes = -rows.weights[:, None] * rows.family.gradient(scores, rows.target)
    working = rows.weights * rows.curvatures(scores)
    return NewtonSums(
        rows.loss(scores),
        placed.sums(slopes),
        slopes.sum(axis=0),
        np.stack([placed.gram(each) for each in working]),
        placed.sums(working.T).T,
        working.sum(axis=1),
        placed.sums(rows.weights[:, None])[:, 0],
    )
