"""The smooth fit on all rows of a large table, in passes over its blocks, from a fit on a sample of them.

The sample has decided which terms are fitted and with which knots; all rows decide coefficients and smoothness, and
whether a term needs more knots. Squared loss needs one pass for each set of knots, other losses one for each of
Newton's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Array, Bounds, pack, unpack
from sparsenam.context import Context, StageResult
from sparsenam.convex.ramps import PlacedRows, Ramps
from sparsenam.errors import require
from sparsenam.families.base import dispersion
from sparsenam.smooth.design import Layout, RampBasis, RampDesign, WeightedGram, ramps_of
from sparsenam.smooth.engine import NEWTON_STEPS, Point, Reached, Rows, SmoothFit, SmoothProblem, Steps, solve
from sparsenam.smooth.fit import COLUMNS, doubled, most_ramps, used_share
from sparsenam.tables.blocks import Block, Blocks, Sum
from sparsenam.tables.encoder import News
from sparsenam.tables.sample import Matrix, Vector

# sets of knots at most: with the sample's pass, four passes for squared loss
KNOT_ROUNDS, KNOT_ROUNDS_REWEIGHTED = 3, 2
SUM_FACTOR = 1.0 + 1e-6  # what rounding may add to a sum
LARGEST_SUM = 1e70  # over rows on the scale of the fit: products of four such numbers are still numbers

Sums = Annotated[Vector, Array(1, -LARGEST_SUM, LARGEST_SUM)]
SumMatrix = Annotated[Matrix, Array(2, -LARGEST_SUM, LARGEST_SUM)]
Weights = Annotated[Vector, Array(1, 0.0, LARGEST_SUM)]
State = TypeVar("State")


@dataclass(frozen=True, slots=True, eq=False)
class BlockProblem(SmoothProblem):
    """The rows of a block on the scale of the fit, and what they hold that the sample does not.

    ``offset`` (rows, outputs) is what the scores hold that is not fitted, as pairs are.
    """

    news: News = field(default_factory=News)
    offset: Matrix | float = 0.0


Reader = Callable[[Block], BlockProblem]


@dataclass(frozen=True, slots=True, eq=False)
class AllRows:
    """All rows of a table: its blocks, and how a block is read on the scale of the fit.

    ``news`` has, after the first pass, what the rows hold that the sample does not.
    """

    blocks: Blocks
    read: Reader
    news: list[News] = field(default_factory=list[News])

    def sums(self, function: Callable[[BlockProblem, State], Sum], state: State, context: Context) -> Sum:
        """Return a sum over all rows, with progress by rows."""
        found = self.blocks.reduce(
            read_and_summed,
            (self.read, function, state),
            lambda done: context.progress.report("rows", done, self.blocks.n_rows),
        )
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


def read_and_summed(block: Block, given: tuple[Reader, Callable[[BlockProblem, State], Sum], State]) -> PassSum[Sum]:
    """Return the sum over a block's rows."""
    read, function, state = given
    rows = read(block)
    return PassSum(function(rows, state), rows.news)


def fit_all_rows(
    rows: AllRows, sample: BlockProblem, first: SmoothFit, unordered: NDArray[np.bool_], context: Context
) -> SmoothFit:
    """Return the fit on all rows, from the fit ``first`` on a sample of them; knots are placed by the sample.

    ``unordered`` (terms,) marks codes of levels. What a pass found is kept in the resume file, if there is one.
    """
    quadratic, steps = sample.family.is_quadratic, Steps(context)
    most, columns = most_ramps(sample, unordered, {}), 2 * COLUMNS if quadratic else COLUMNS
    sizes: NDArray[np.intp] = np.array([ramps.size for ramps in first.ramps], dtype=np.intp)
    counts, fit = np.where(unordered, most, np.minimum(sizes, most)).astype(np.intp), first
    for number in range(KNOT_ROUNDS if quadratic else KNOT_ROUNDS_REWEIGHTED):
        ramps = [
            given if number == 0 and given.size == count else ramps_of(cells, sample.weights, int(count))
            for given, cells, count in zip(first.ramps, sample.x, counts, strict=True)
        ]
        summed = BlockRows(rows, sample, Layout.of(ramps, unordered.tolist()), context, number)
        fit = solve(summed, fit, steps)
        more = doubled(counts, most, used_share(fit), columns)
        if np.array_equal(more, counts) or steps.out_of_time():
            break
        counts = more
    return replace(fit, spreads=())


@dataclass(frozen=True, slots=True, eq=False)
class SummedPoint(Point):
    """A point with the sums over all rows there."""

    sums: NewtonSums


class BlockRows(Rows):
    """All rows of a table at one set of ramps, the one of this ``number``: each point takes a pass."""

    def __init__(self, rows: AllRows, sample: BlockProblem, layout: Layout, context: Context, number: int) -> None:
        super().__init__(sample, layout)
        self.rows, self.context, self.number, self._offset = rows, context, number, sample.offset
        self._knots = np.concatenate([each.knots for each in layout.ramps])
        self.basis = self._sample = RampDesign(layout, sample.x, sample.weights)

    def at(self, coefficients: Matrix, intercept: Vector) -> SummedPoint:
        """Return a point; with the first one the ramps' means over all rows are known."""
        base = intercept + self.basis.means @ coefficients
        state = self.layout.ramps, self.basis.at_knots(coefficients), base
        sums = self.rows.sums(newton_sums, state, self.context)
        self.basis = RampBasis(self.layout, sums.present)
        return SummedPoint(coefficients, intercept, sums.loss, sums)

    def grams(self, point: Point) -> Sequence[WeightedGram]:
        assert isinstance(point, SummedPoint)
        sums = point.sums
        parts = zip(sums.grams, sums.at_knots, sums.totals.tolist(), strict=True)
        return [self.basis.gram(gram, at_knots, total) for gram, at_knots, total in parts]

    def pulls(self, point: Point) -> tuple[Matrix, Vector]:
        assert isinstance(point, SummedPoint)
        return self.basis.to_ramps(point.sums.slopes), point.sums.lift

    def dispersion(self, point: Point, freedom: float) -> float:
        """Return φ of the sample at a point."""
        sample, base = self.task, point.intercept + self.basis.means @ point.coefficients
        scores = base + self._offset + self._sample.placed.times(self.basis.at_knots(point.coefficients))
        return dispersion(sample.family, scores, sample.target, sample.weights, freedom + 1.0)

    def first(self, before: SmoothFit | None) -> Reached:
        """Return the last step that a fit which was stopped made with these ramps; where it made none, the start."""
        stage = f"steps/{self.number}"
        stored = self.context.recall(stage)
        if stored is None or not np.array_equal(stored.arrays.get("knots", np.zeros(0)), self._knots):
            start = super().first(before)
            self.keep(start)
            return start
        with self.context.reading(stage):
            reached, sums = unpacked_step(stored, self.layout, self.task.target.shape[1])
        self.basis = RampBasis(self.layout, sums.present)
        return reached

    def keep(self, reached: Reached) -> None:
        """Keep where the fit stands; after the last step nothing would be left to do."""
        if len(reached.freedoms) < NEWTON_STEPS:
            point, strengths, freedoms = reached.point, tuple(reached.strengths), tuple(reached.freedoms)
            assert isinstance(point, SummedPoint)
            given = self._knots, point.coefficients, point.intercept, reached.noise, freedoms, strengths, point.sums
            facts, arrays = pack(StoredStep(*given))
            self.context.keep(f"steps/{self.number}", StageResult(arrays, facts))


@dataclass(frozen=True, slots=True, eq=False)
class NewtonSums:
    """What one of Newton's steps needs of the rows: the loss, its slopes and its curvatures at the knots.

    ``slopes`` (knots, outputs) and ``lift`` (outputs,) are the negative gradient by values at the knots and by the
    scores at means; ``grams`` (parts, knots, knots), ``at_knots`` (parts, knots) and ``totals`` (parts,) are the sums
    under the working weights of each output, or of all; ``present`` (knots,) those of the rows' weights.
    """

    loss: float
    slopes: SumMatrix
    lift: Sums
    grams: Annotated[NDArray[np.float64], Array(3, 0.0, LARGEST_SUM)]
    at_knots: Annotated[Matrix, Array(2, 0.0, LARGEST_SUM)]
    totals: Weights
    present: Weights

    def __add__(self, other: NewtonSums) -> NewtonSums:
        return NewtonSums(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class StoredStep:
    """Where a fit stands in a resume file, and the knots that it belongs to."""

    knots: Sums
    coefficients: SumMatrix
    intercept: Sums
    noise: Annotated[float, Bounds(0.0, LARGEST_SUM)]
    freedoms: tuple[Annotated[float, Bounds(0.0, LARGEST_SUM)], ...]
    strengths: tuple[Weights, ...]
    sums: NewtonSums


def unpacked_step(stored: StageResult, layout: Layout, outputs: int) -> tuple[Reached, NewtonSums]:
    """Return where a resume file says that a fit stood, to the bit; raise `RefusalError` for what cannot be."""
    step = unpack(StoredStep, stored.facts, stored.arrays)
    sums, knots, parts = step.sums, sum(each.size + 1 for each in layout.ramps), step.sums.totals.size
    require(parts in (1, outputs) and len(step.freedoms) < NEWTON_STEPS, "steps that cannot be")
    right = (
        step.knots.shape == sums.present.shape == (knots,)
        and step.coefficients.shape == (layout.size, outputs)
        and step.intercept.shape == sums.lift.shape == (outputs,)
        and sums.slopes.shape == (knots, outputs)
        and sums.grams.shape == (parts, knots, knots)
        and sums.at_knots.shape == (parts, knots)
    )
    require(right, "sums of another shape")
    expected = [len(matrices) for matrices in layout.roughness]
    require([each.size for each in step.strengths] == expected, "strengths of other terms")
    held = np.einsum("pkk->pk", sums.grams)
    within = bool((sums.totals > 0.0).all() and (held <= SUM_FACTOR * sums.totals[:, None]).all())
    symmetric = np.allclose(sums.grams, sums.grams.transpose(0, 2, 1))
    require(step.noise > 0.0 and within and symmetric, "sums that cannot be")
    point = SummedPoint(step.coefficients, step.intercept, sums.loss, sums)
    return Reached(point, step.noise, list(step.strengths), list(step.freedoms)), sums


def newton_sums(rows: BlockProblem, state: tuple[tuple[Ramps, ...], Matrix, Vector]) -> NewtonSums:
    """Return the sums over a block's rows at values (knots, outputs) of the terms and a base score (outputs,)."""
    ramps, values, base = state
    placed = PlacedRows.of(ramps, rows.x)
    scores = base + rows.offset + placed.times(values)
    slopes = -rows.weights[:, None] * rows.family.gradient(scores, rows.target)
    working = rows.weights * rows.curvatures(scores)
    outputs, grams = len(base), np.stack([placed.gram(each) for each in working])
    sums = placed.sums(np.column_stack([slopes, rows.weights, working.T]))
    return NewtonSums(
        loss=rows.loss(scores),
        slopes=sums[:, :outputs],
        lift=slopes.sum(axis=0),
        grams=grams,
        at_knots=sums[:, outputs + 1 :].T,
        totals=working.sum(axis=1),
        present=sums[:, outputs],
    )
