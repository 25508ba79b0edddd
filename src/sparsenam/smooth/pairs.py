"""Fits of mains and pairs together: block after block, with the resolution of each grid chosen by the data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.design import distinct
from sparsenam.families.base import dispersion
from sparsenam.model.pairs import PairFunction
from sparsenam.smooth.design import RampDesign, WeightedGram
from sparsenam.smooth.engine import NEWTON_HALVINGS, OBJECTIVE_ROUNDING, SmoothProblem
from sparsenam.smooth.fit import SmoothFit
from sparsenam.smooth.grid import GridAxis, GridBlock, PairSpread
from sparsenam.smooth.prior import Layout, Posterior, posterior, updated_strengths
from sparsenam.tables.sample import Matrix, Vector

FIRST_INTERVALS, MOST_INTERVALS = 16, 256  # intervals along an axis
# most nodes of one grid; those without rows are filled by their neighbours. California, split 0, three pairs: 0.169,
# and 0.178 with one node a row
NODES_A_ROW, MOST_NODES = 2.0, 2**16
MOST_MEGABYTES = 200.0  # of the factor of one grid; two categories then have at most 4,082 combinations of levels
SWEEPS = 15
SETTLED = 0.005  # relative change of the degrees of freedom, twice in a row, at which the sweeps end
CROWDED_NODES = 0.2  # share of its nodes used as degrees of freedom from which a pair gets more
LEARNING = {1, 2, 3, 5, 8, 12, 20, 40, 60}  # updates of the mains in which their strengths are set anew


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """Mains without a shape, pairs and intercept; pairs hold what either term explains alone, too.

    ``mains`` is the smooth fit of the mains, ``means`` (m_j,) are its ramps' means over the rows in which each term is
    present: a main is Σₖ cₖ(rampₖ - meanₖ), and 0 where it is absent. ``offset`` (rows, outputs) is all that it does
    not add to the scores, and ``spreads`` how uncertain the pairs are; ``freedom`` are the degrees of freedom of all.
    """

    mains: SmoothFit
    means: tuple[Vector, ...]
    pairs: tuple[PairFunction, ...]
    intercept: Vector
    offset: Matrix
    spreads: tuple[PairSpread, ...]
    freedom: float


class MainsBlock:
    """The mains of a fit as one block: all their coefficients are solved for together."""

    def __init__(self, task: SmoothProblem, mains: SmoothFit, levels: Sequence[bool]) -> None:
        self.layout = Layout.of(list(mains.ramps), list(levels))
        self.design = RampDesign(self.layout, task.x, task.weights)
        self.strengths = [strength.copy() for strength in mains.strengths]
        self.values = np.concatenate(mains.coefficients)
        self.freedom = float(mains.degrees_of_freedom.sum())
        self.fitted = self.design.times(self.values)
        self._sums: tuple[list[Vector], list[WeightedGram]] | None = None
        self._known: tuple[list[Posterior], float] | None = None
        self._updates, self._learns = 0, False

    def penalty(self) -> float:
        """Return ½ Σ βᵀPβ over all outputs."""
        parts = zip(self.layout.slices, self.layout.precisions(self.strengths), strict=True)
        betas = [(self.values[columns], precision) for columns, precision in parts]
        return 0.5 * sum(float(np.sum(beta * (precision @ beta))) for beta, precision in betas)

    def update(self, partial: Matrix, weights: Sequence[Vector], noise: float) -> None:
        """Fit partial residuals (rows, outputs) under the strengths as they are; see `GridBlock.update`."""
        if self._sums is None or any(one is not other for one, other in zip(self._sums[0], weights, strict=True)):
            self._sums = (list(weights), [self.design.weighted_gram(weight) for weight in weights])
            self._known = None
        # once pairs have taken what is theirs, the mains' smoothness hardly moves: a factor serves several sweeps
        self._updates += 1
        self._learns = self._known is None or self._updates in LEARNING
        if self._learns:
            precisions = self.layout.precisions(self.strengths)
            found = [posterior(self.layout, gram.matrix, precisions, noise) for gram in self._sums[1]]
            self._known = found, noise
        assert self._known is not None
        found, noise = self._known
        parts = list[Matrix]()
        for index, (each, weight) in enumerate(zip(found, weights, strict=True)):
            outputs = slice(None) if len(found) == 1 else slice(index, index + 1)
            centred = partial[:, outputs] - np.average(partial[:, outputs], axis=0, weights=weight)
            parts.append(each.solve(self.design.transposed_times(weight[:, None] * centred) / noise))
        self.values = np.hstack(parts)
        self.freedom = float(np.mean([each.degrees_of_freedom.sum() for each in found]))
        self.fitted = self.design.times(self.values)

    def learn(self, free: int) -> None:
        """Take a step of Fellner and Schall at the coefficients as they are."""
        if self._learns and self._known is not None:
            precisions, found = self.layout.precisions(self.strengths), self._known[0]
            self.strengths = updated_strengths(self.layout, self.strengths, precisions, found, self.values, free)


Block = MainsBlock | GridBlock


class _State:
    """The scores of all blocks, and the second-order model of the loss there.

    ``held`` (rows, outputs) are effects that stay as they are, those of terms whose shapes were asked for, with
    ``held_freedom`` degrees of freedom.
    """

    def __init__(self, task: SmoothProblem, intercept: Vector, held: Matrix, held_freedom: float) -> None:
        self.task, self.intercept, self.noise = task, intercept, 1.0
        self.held, self.held_freedom = held, held_freedom
        self._constant = [task.weights]

    def scores(self, blocks: Sequence[Block]) -> Matrix:
        return self.intercept + np.sum([self.held, *(block.fitted for block in blocks)], axis=0)

    def freedom(self, blocks: Sequence[Block]) -> float:
        return self.held_freedom + sum(block.freedom for block in blocks)

    def model(self, scores: Matrix, freedom: float) -> tuple[Matrix, list[Vector]]:
        """Return working residuals (rows, outputs) and weights; set the noise."""
        task = self.task
        self.noise = dispersion(task.family, scores, task.target, task.weights, freedom + 1.0)
        if task.family.is_quadratic:
            return task.target - scores, self._constant
        bends = task.curvatures(scores)
        if task.family.dispersion == "fixed":
            self.noise = max(self.noise, self._excess(scores, bends, freedom))
        return -task.family.gradient(scores, task.target) / bends.T, [task.weights * bend for bend in bends]

    def _excess(self, scores: Matrix, bends: Matrix, freedom: float) -> float:
        """Return the dispersion of counts or classes about the scores, by their squared residuals.

        It is above 1 where columns that are not in the fit act. A fixed 1 would take that for signal, and the grids
        would get ever finer.
        """
        task, rows = self.task, float(self.task.weights.sum())
        squares = float(np.sum(task.weights @ task.family.gradient(scores, task.target) ** 2)) / task.free_outputs
        expected = float(np.mean(bends @ task.weights))
        return squares / expected * rows / max(rows - freedom - 1.0, 1.0)


def fit_pairs(
    task: SmoothProblem,
    mains: SmoothFit,
    main_terms: NDArray[np.intp],
    pairs: Sequence[tuple[int, int]],
    levels: NDArray[np.bool_],
    context: Context,
) -> PairFit:
    """Return the fit of mains and pairs, started from that of the mains.

    Parameters
    ----------
    task
        All terms that a main or a pair reads, with target, weights and family.
    mains
        The fit of the mains alone; ``main_terms`` are their indices in ``task.x``. Those whose shapes were asked for
        stay as they are.
    pairs
        The two indices in ``task.x`` of each pair.
    levels
        Marks the terms that are codes of unordered levels, shape (terms,).
    """
    functions = mains.functions()
    parts = [functions[index](task.x[main_terms[index]]) for index in mains.shapes]
    held = np.sum([np.zeros_like(task.target), *parts], axis=0)
    state = _State(task, mains.intercept.copy(), held, float(mains.degrees_of_freedom[list(mains.shapes)].sum()))
    blocks: list[MainsBlock] = []
    moving = [index for index in range(main_terms.size) if index not in mains.shapes]
    if moving:
        terms, free = main_terms[moving], mains.take(moving)
        part = SmoothProblem(task.x[terms], task.target, task.weights, task.family)
        block = MainsBlock(part, free, levels[terms].tolist())
        blocks.append(block)
        state.intercept = state.intercept + block.design.means @ block.values
    counts = {pair: _first_counts(task, pair, levels) for pair in pairs}
    grids = {pair: _grid(task, pair, counts[pair], levels, context) for pair in pairs}
    best = _sweep(state, [*grids.values(), *blocks], context)
    while True:
        finer = {pair: _doubled(task, pair, counts[pair], grids[pair], levels) for pair in pairs}
        if finer == counts or not context.clock.has_room_for(4.0 * best.seconds):
            break
        kept = {pair: copy(grid) for pair, grid in grids.items()}
        before = state.intercept, [copy(block) for block in blocks], kept
        for pair in pairs:
            if finer[pair] != counts[pair]:
                old = grids[pair]
                assert old.strengths is not None
                grids[pair] = _grid(task, pair, finer[pair], levels, context)
                grids[pair].start_from(old.function(task.weights), old.strengths, task.weights)
        tried = _sweep(state, [*grids.values(), *blocks], context)
        if _criterion(task, tried, tried.noise) >= _criterion(task, best, tried.noise):
            state.intercept, blocks, grids = before
            break
        best, counts = tried, finer
    return _finished(state, blocks, [grids[pair] for pair in pairs], context)


@dataclass(frozen=True, slots=True)
class _Round:
    loss: float
    freedom: float
    noise: float
    seconds: float


def _sweep(state: _State, blocks: Sequence[Block], context: Context) -> _Round:
    """Update all blocks in turn until the degrees of freedom rest; return what compares resolutions."""
    task, freedoms = state.task, list[float]()
    started, out_of_time = time.monotonic(), context.clock.laps()
    for number in range(SWEEPS):
        scores = state.scores(blocks)
        residual, weights = state.model(scores, state.freedom(blocks))
        before = None if task.family.is_quadratic else _Point.of(state, blocks, scores)
        for block in blocks:
            partial = residual + block.fitted
            block.update(partial, weights, state.noise)
            residual = partial - block.fitted
        if len(weights) == 1:
            state.intercept = state.intercept + np.average(residual, axis=0, weights=weights[0])
        else:
            means = [np.average(residual[:, k], weights=weight) for k, weight in enumerate(weights)]
            state.intercept = state.intercept + np.array(means)
        if before is not None and before.shorten(state, blocks):
            freedoms.clear()  # a shortened step changes little by itself
        for block in blocks:
            block.learn(task.free_outputs)
        context.progress.report("pairs", number + 1)
        freedoms.append(state.freedom(blocks))
        changes = [abs(now - last) < SETTLED * now + 0.05 for last, now in pairwise(freedoms[-3:])]
        if (len(changes) == 2 and all(changes)) or out_of_time():
            break
    return _Round(task.loss(state.scores(blocks)), freedoms[-1], state.noise, time.monotonic() - started)


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """Where a sweep started, for families whose second-order model may lead too far."""

    objective: float
    noise: float
    intercept: Vector
    blocks: list[Block]

    @classmethod
    def of(cls, state: _State, blocks: Sequence[Block], scores: Matrix) -> _Point:
        cost = state.task.loss(scores) / state.noise + sum(block.penalty() for block in blocks)
        return cls(cost, state.noise, state.intercept, [copy(block) for block in blocks])

    def shorten(self, state: _State, blocks: Sequence[Block]) -> bool:
        """Halve the step until loss and penalty together are no worse than at its start; return whether it was halved.

        Strengths are learned afterwards: those of a step that leads astray would be too weak to hold the next one.
        """
        for number in range(NEWTON_HALVINGS + 1):
            cost = state.task.loss(state.scores(blocks)) / self.noise + sum(block.penalty() for block in blocks)
            if cost <= self.objective + OBJECTIVE_ROUNDING * abs(self.objective):
                return number > 0
            share = 0.0 if number == NEWTON_HALVINGS else 0.5  # of the step: none if even a short one is worse
            state.intercept = _between(self.intercept, state.intercept, share)
            for block, start in zip(blocks, self.blocks, strict=True):
                block.fitted = _between(start.fitted, block.fitted, share)
                block.values = _between(start.values, block.values, share)
        return True


def _between(start: Matrix, end: Matrix, share: float) -> Matrix:
    """Return the point at a share of the way from start to end; the end of a whole step may not be finite."""
    return start + share * (end - start) if share > 0.0 else start


def _criterion(task: SmoothProblem, fit: _Round, noise: float) -> float:
    """Return generalised cross-validation, or Akaike's criterion where the dispersion is known.

    ``noise`` is the dispersion of the larger of two fits that are compared, which explains the most.
    """
    if task.family.dispersion == "fixed":
        return fit.loss / noise + fit.freedom
    least = float(task.weights @ -task.family.conjugate(task.target, task.target))
    return (fit.loss - least) / max(1.0 - fit.freedom / float(task.weights.sum()), 1e-6) ** 2


def megabytes(nodes: tuple[int, int], unordered: tuple[bool, bool]) -> float:
    """Return about how much memory the factor of a grid takes.

    A level is the neighbour of all others. Hence the factor of two categories is full; that of one is made of blocks
    that are, one for each node of the other axis. A number and its index take 12 bytes.
    """
    size = nodes[0] * nodes[1]
    if all(unordered):
        return 12e-6 * size**2
    return 12e-6 * size * (2 * nodes[unordered.index(True)] if any(unordered) else min(nodes))


def least_megabytes(x: tuple[Vector, Vector], unordered: tuple[bool, bool]) -> float:
    """Return the memory that a pair of terms (rows,) takes at least: with all levels, and 3 nodes along a number."""
    first, second = (
        np.unique(cells[~np.isnan(cells)]).size if is_unordered else 3
        for cells, is_unordered in zip(x, unordered, strict=True)
    )
    return megabytes((first, second), unordered)


def _first_counts(task: SmoothProblem, pair: tuple[int, int], levels: NDArray[np.bool_]) -> tuple[int, int]:
    return _capped(task, pair, (FIRST_INTERVALS, FIRST_INTERVALS), levels)


def _capped(
    task: SmoothProblem, pair: tuple[int, int], wanted: tuple[int, int], levels: NDArray[np.bool_]
) -> tuple[int, int]:
    """Return intervals along either axis that the values and the rows allow."""
    found: list[int] = []
    for term, count in zip(pair, wanted, strict=True):
        cells = task.x[term]
        present = ~np.isnan(cells)
        values = distinct(cells[present], task.weights[present])[0].size - 1
        found.append(values if levels[term] else max(min(count, values, MOST_INTERVALS), 1))
    most = min(NODES_A_ROW * float(task.weights.sum()), MOST_NODES)
    unordered = (bool(levels[pair[0]]), bool(levels[pair[1]]))
    first, second = found
    while first > 2 or second > 2:
        nodes = (first + 1, second + 1)
        if nodes[0] * nodes[1] <= most and megabytes(nodes, unordered) <= MOST_MEGABYTES:
            break
        if (first >= second and not levels[pair[0]]) or levels[pair[1]]:
            if first <= 2:
                break
            first //= 2
        else:
            if second <= 2:
                break
            second //= 2
    return first, second


def _doubled(
    task: SmoothProblem, pair: tuple[int, int], counts: tuple[int, int], grid: GridBlock, levels: NDArray[np.bool_]
) -> tuple[int, int]:
    """Return twice the intervals for a pair that uses many of its nodes, else the same."""
    used = np.count_nonzero(grid.mass(task.weights) > 0.5)
    if grid.freedom <= CROWDED_NODES * max(used, 1):
        return counts
    return _capped(task, pair, (2 * counts[0], 2 * counts[1]), levels)


def _grid(
    task: SmoothProblem,
    pair: tuple[int, int],
    counts: tuple[int, int],
    levels: NDArray[np.bool_],
    context: Context,
) -> GridBlock:
    parts = zip(pair, counts, strict=True)
    first, second = (GridAxis.of(task.x[term], task.weights, count, bool(levels[term])) for term, count in parts)
    generator = context.streams.generator(f"pair {pair} {counts}")
    return GridBlock((first, second), (task.x[pair[0]], task.x[pair[1]]), task.target.shape[1], generator)


def _finished(state: _State, mains: Sequence[MainsBlock], grids: Sequence[GridBlock], context: Context) -> PairFit:
    blocks, reference = [*grids, *mains], state.task.weights
    freedom = state.freedom(blocks)
    _, weights = state.model(state.scores(blocks), freedom)
    generator = context.streams.generator("pair bands")
    spreads = tuple(grid.spread(reference, weights, state.noise, generator) for grid in grids)
    functions = tuple(grid.function(reference) for grid in grids)
    offset = np.sum([state.held, *(grid.fitted for grid in grids)], axis=0)
    fit = SmoothFit((), (), state.intercept, np.zeros(0), state.noise, (), ())
    means = tuple[Vector, ...]()
    for block in mains:
        layout, count = block.layout, len(block.layout.ramps)
        fit = SmoothFit(
            ramps=layout.ramps,
            coefficients=tuple(block.values[columns] for columns in layout.slices),
            intercept=state.intercept - block.design.means @ block.values,
            degrees_of_freedom=np.full(count, block.freedom / count),
            noise=state.noise,
            precision=layout.precisions(block.strengths),
            strengths=tuple(block.strengths),
        )
        means = tuple(block.design.means[columns] for columns in layout.slices)
    return PairFit(fit, means, functions, state.intercept, offset, spreads, freedom)
