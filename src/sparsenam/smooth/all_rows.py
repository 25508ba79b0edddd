"""The smooth fit on all rows of a large table, in passes over its blocks, from a fit on a sample of them.

The sample has decided which terms are fitted and with which knots; all rows decide coefficients and smoothness, and
whether a term needs more knots. Squared loss needs one pass for each set of knots, other losses one for each of
Newton's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context, StageResult
from sparsenam.convex.design import Ramps
from sparsenam.convex.moments import PlacedRows
from sparsenam.families.dispersion import dispersion
from sparsenam.smooth.design import KnotSums, RampBasis, RampDesign
from sparsenam.smooth.fit import (
    COLUMNS,
    COLUMNS_REWEIGHTED,
    FIRST_RAMPS,
    SmoothFit,
    SmoothState,
    Start,
    Steps,
    as_fit,
    doubled,
    has_converged,
    most_ramps,
    no_worse,
    ramps_of,
    resampled,
    solve_squares,
    straightened,
)
from sparsenam.smooth.newton import SHORTEST, SmoothProblem
from sparsenam.smooth.prior import Layout, Posterior, posterior, updated_strengths
from sparsenam.tables.blocks import Block, Blocks, Sum
from sparsenam.tables.sample import Matrix, Vector

ROUNDS = 3  # sets of knots at most: with the pass that draws the sample, four passes for squared loss
ROUNDS_REWEIGHTED = 2
MOST_STEPS = 25  # of Newton's method for one set of knots
AT_REST = 1e-9  # of the objective, a step's gain at which the coefficients are at their best

Reader = Callable[[Block], SmoothProblem]
State = TypeVar("State")


@dataclass(frozen=True, slots=True, eq=False)
class AllRows:
    """All rows of a table: its blocks, and how a block is read on the scale of the fit."""

    blocks: Blocks
    read: Reader

    def sums(self, function: Callable[[Block, State], Sum], state: State, context: Context) -> Sum:
        """Return a sum over all rows, with progress by rows."""
        rows = self.blocks.n_rows

        def report(done: int) -> None:
            context.progress.report("rows", done, rows)

        return self.blocks.reduce(function, state, report)


@dataclass(frozen=True, slots=True, eq=False)
class AllRowsFit:
    """A fit on all rows, and the means (terms, outputs) of its terms' effects over the rows that have them."""

    fit: SmoothFit
    means: Matrix
    passes: int


def fit_all_rows(
    rows: AllRows, sample: SmoothProblem, first: SmoothFit, unordered: NDArray[np.bool_], context: Context
) -> AllRowsFit:
    """Return the fit on all rows, from the fit ``first`` on a sample of them; knots are placed by the sample.

    ``unordered`` (terms,) marks codes of levels. What a pass found is kept in the resume file, if there is one.
    """
    quadratic = sample.family.is_quadratic
    most, columns = most_ramps(sample, unordered, {}), COLUMNS if quadratic else COLUMNS_REWEIGHTED
    sizes: NDArray[np.intp] = np.array([ramps.size for ramps in first.ramps], dtype=np.intp)
    # more rows may see a curve where the sample saw a line
    counts = np.where(unordered, most, np.minimum(np.where(sizes == 1, FIRST_RAMPS, sizes), most)).astype(np.intp)
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
    state = passes.with_lines(state)
    means = [passes.basis.means[place] @ state.coefficients[place] for place in state.layout.slices]
    return AllRowsFit(as_fit(state, {}, {}), np.array(means), passes.made)


class Passes:
    """The passes of one fit: what was summed last, and how many there were."""

    def __init__(
        self, rows: AllRows, sample: SmoothProblem, unordered: NDArray[np.bool_], steps: Steps, context: Context
    ) -> None:
        self.rows, self.sample, self.unordered, self.steps, self.context = rows, sample, unordered, steps, context
        self.made = self.rounds = 0
        self.basis: RampBasis
        self._sums: KnotSums | None = None

    def first(self, fit: SmoothFit) -> SmoothState:
        """Return the fit on the sample as a state to start from."""
        layout = Layout.of(fit.ramps, self.unordered.tolist())
        coefficients = np.concatenate(fit.coefficients)
        freedom = fit.degrees_of_freedom
        return SmoothState(layout, coefficients, fit.intercept, list(fit.strengths), fit.noise, freedom, (), np.inf)

    def squared(self, layout: Layout, before: SmoothState) -> SmoothState:
        """Return the fit of squared loss with these ramps: one pass."""
        self._sums = self._knot_sums(layout.ramps)
        self.basis = RampBasis(layout, self._sums.sums[:, 0])
        return solve_squares(self.basis, self.basis.least_squares(self._sums), Start(before), self.steps)

    def with_lines(self, state: SmoothState) -> SmoothState:
        """Return the fit in which curves that all rows cannot tell from lines are lines; sums need no further pass."""
        ramps, strengths, straight = straightened(state, self.unordered, {})
        if not straight:
            return state
        layout, basis = Layout.of(ramps, self.unordered.tolist()), self.basis
        if self._sums is not None:
            sums = self._sums.merged(_coarser(state.layout.ramps, ramps))
            self.basis = RampBasis(layout, sums.sums[:, 0])
            quadratic = self.basis.least_squares(sums)
            lines = solve_squares(self.basis, quadratic, Start(state, strengths), self.steps)
        else:
            lines = self.reweighted(layout, state, strengths)
        found = no_worse(lines, state, len(straight))
        if found is state:
            self.basis = basis
        return found

    def reweighted(self, layout: Layout, before: SmoothState, held: list[Vector] | None = None) -> SmoothState:
        """Return the fit of any loss with these ramps, by Newton's steps of a pass each; λ stays if it is ``held``."""
        sample = self.sample
        design = RampDesign(layout, sample.x, sample.weights)
        coefficients, intercept = resampled(layout, before)
        self.basis = design
        base, noise, free = intercept + design.means @ coefficients, before.noise, sample.free_outputs
        strengths, freedoms = list[Vector](), list[float]()
        kept = self._kept_step(layout)
        if kept is None:
            sums = self._newton_sums(layout, coefficients, base)
            # now the means are known of all rows
            self.basis = RampBasis(layout, sums.present)
            base = intercept + self.basis.means @ coefficients
        else:
            sums, coefficients, base, noise = kept.sums, kept.coefficients, kept.base, kept.noise
            strengths, freedoms = list(kept.strengths), list(kept.freedoms)
            self.basis = RampBasis(layout, sums.present)
        spreads, freedom = list[Posterior](), np.zeros(len(layout.ramps))
        for number in range(len(freedoms), MOST_STEPS):
            grams = [self.basis.gram(*each) for each in zip(sums.grams, sums.at_knots, sums.totals, strict=True)]
            if number == 0:
                information = np.mean([gram.matrix for gram in grams], axis=0)
                carried = (before.layout, before.strengths)
                strengths = held or layout.first_strengths(information / noise, carried)
            precisions = layout.precisions(strengths)
            spreads = [posterior(layout, gram.matrix, precisions, noise) for gram in grams]
            freedom = np.mean([each.degrees_of_freedom for each in spreads], axis=0)
            prior = PriorCost(layout, precisions, noise)
            pull = self.basis.to_ramps(sums.slopes) / noise - prior.times(coefficients)
            move, turn = np.empty_like(pull), np.empty_like(base)
            for output in range(base.size):
                part, gram = spreads[output % len(spreads)], grams[output % len(grams)]
                lift = sums.lift[output] / noise
                move[:, output] = part.solve((pull[:, output] - gram.means * lift)[:, None])[:, 0]
                turn[output] = lift * noise / gram.total - gram.means @ move[:, output]
            now, step = prior.objective(sums.loss, coefficients), 1.0
            while True:
                trial = coefficients + step * move, base + step * turn
                found = self._newton_sums(layout, *trial)
                reached = prior.objective(found.loss, trial[0])
                if reached <= now + 1e-10 * abs(now) or step < SHORTEST:
                    break
                step *= 0.5
            if step < SHORTEST:
                break
            (coefficients, base), sums = trial, found
            self.steps.report()
            gain = (now - reached) / max(abs(now), 1.0)
            used, strengths = strengths, strengths if held else self._updated(layout, strengths, spreads, coefficients)
            freedoms.append(float(freedom.sum()))
            at_rest = gain < AT_REST if held else has_converged(freedoms) and gain < AT_REST * 1e3
            if at_rest or self.steps.out_of_time():
                strengths = used
                break
            if held is None:
                scores = base + design.placed.times(self.basis.at_knots(coefficients))
                given = sample.target, sample.weights
                noise = dispersion(sample.family, scores, *given, float(freedom.sum()) + 1.0)
            self._keep_step(layout, KeptStep(coefficients, base, noise, tuple(strengths), tuple(freedoms), sums))
        intercept = base - self.basis.means @ coefficients
        assert free > 0
        return SmoothState(layout, coefficients, intercept, strengths, noise, freedom, spreads, sums.loss)

    def _updated(
        self, layout: Layout, strengths: list[Vector], spreads: Sequence[Posterior], coefficients: Matrix
    ) -> list[Vector]:
        precisions = layout.precisions(strengths)
        return updated_strengths(layout, strengths, precisions, spreads, coefficients, self.sample.free_outputs)

    def _knot_sums(self, ramps: Sequence[Ramps]) -> KnotSums:
        stage, knots = f"rows/{self.made}", _knots(ramps)
        self.made += 1
        stored = self.context.recall(stage)
        if stored is not None and np.array_equal(stored.arrays["knots"], knots):
            kept = stored.arrays
            return KnotSums(kept["gram"], kept["sums"], kept["totals"], kept["squares"])
        sums = self.rows.sums(knot_sums, (self.rows.read, tuple(ramps)), self.context)
        arrays = {"knots": knots, "gram": sums.gram, "sums": sums.sums, "totals": sums.totals, "squares": sums.squares}
        self.context.keep(stage, StageResult(arrays, {}))
        return sums

    def _kept_step(self, layout: Layout) -> KeptStep | None:
        """Return the last step that a fit which was stopped made with these ramps, if it made one."""
        self.rounds += 1
        stored, knots = self.context.recall(f"steps/{self.rounds}"), _knots(layout.ramps)
        same = stored is not None and np.array_equal(stored.arrays["knots"], knots)
        return KeptStep.unpacked(stored, len(layout.ramps)) if stored is not None and same else None

    def _keep_step(self, layout: Layout, step: KeptStep) -> None:
        self.context.keep(f"steps/{self.rounds}", step.packed(_knots(layout.ramps)))

    def _newton_sums(self, layout: Layout, coefficients: Matrix, base: Vector) -> NewtonSums:
        self.made += 1
        values = self.basis.at_knots(coefficients)
        return self.rows.sums(newton_sums, (self.rows.read, layout.ramps, values, base), self.context)


@dataclass(frozen=True, slots=True, eq=False)
class PriorCost:
    """½ Σ βᵀPβ beside Σ w loss/φ."""

    layout: Layout
    precisions: Sequence[Matrix]
    noise: float

    def times(self, coefficients: Matrix) -> Matrix:
        """Return Pβ, shape (columns, outputs)."""
        parts = zip(self.layout.slices, self.precisions, strict=True)
        return np.concatenate([precision @ coefficients[place] for place, precision in parts])

    def objective(self, loss: float, coefficients: Matrix) -> float:
        """Return the penalised loss for the sum of the rows' losses."""
        return loss / self.noise + 0.5 * float(np.sum(coefficients * self.times(coefficients)))


def knot_sums(block: Block, state: tuple[Reader, tuple[Ramps, ...]]) -> KnotSums:
    """Return what squared loss needs of a block's rows."""
    read, ramps = state
    rows = read(block)
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

    coefficients: Matrix
    base: Vector
    noise: float
    strengths: tuple[Vector, ...]
    freedoms: tuple[float, ...]
    sums: NewtonSums

    def packed(self, knots: Vector) -> StageResult:
        """Return the step, and the knots that it belongs to, as a resume file holds it."""
        numbers = {
            "knots": knots,
            "coefficients": self.coefficients,
            "base": self.base,
            "noise": np.array(self.noise),
            "freedoms": np.array(self.freedoms),
        }
        strengths = {f"strengths {index}": each for index, each in enumerate(self.strengths)}
        sums = {f"sums {each.name}": np.array(getattr(self.sums, each.name)) for each in fields(NewtonSums)}
        return StageResult(numbers | strengths | sums, {})

    @classmethod
    def unpacked(cls, stored: StageResult, terms: int) -> KeptStep:
        """Return the step that a resume file holds, to the bit."""
        kept = stored.arrays
        loss, *sums = (kept[f"sums {each.name}"] for each in fields(NewtonSums))
        return cls(
            kept["coefficients"],
            kept["base"],
            float(kept["noise"]),
            tuple(kept[f"strengths {index}"] for index in range(terms)),
            tuple(kept["freedoms"].tolist()),
            NewtonSums(float(loss), *sums),
        )


def _knots(ramps: Sequence[Ramps]) -> Vector:
    return np.concatenate([each.knots for each in ramps])


def newton_sums(block: Block, state: tuple[Reader, tuple[Ramps, ...], Matrix, Vector]) -> NewtonSums:
    """Return the sums over a block's rows at values (knots, outputs) of the terms and a base score (outputs,)."""
    read, ramps, values, base = state
    rows = read(block)
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


def _coarser(fine: Sequence[Ramps], coarse: Sequence[Ramps]) -> Matrix:
    """Return L (fine knots, coarse knots): the values of the coarse hat functions at the fine knots, same ends."""
    result = np.zeros((sum(each.size + 1 for each in fine), sum(each.size + 1 for each in coarse)))
    row = column = 0
    for one, other in zip(fine, coarse, strict=True):
        hats = np.eye(other.size + 1)
        for index in range(other.size + 1):
            values = np.interp(one.knots, other.knots, hats[index])
            result[row : row + one.size + 1, column + index] = values
        row, column = row + one.size + 1, column + other.size + 1
    return result
