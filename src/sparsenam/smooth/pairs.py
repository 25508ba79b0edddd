"""Fits of mains and pairs together: block after block, with the resolution of each grid chosen by the data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.convex.ramps import distinct
from sparsenam.families.base import dispersion
from sparsenam.model.curve import FittedCurve
from sparsenam.model.pairs import Purified
from sparsenam.smooth.constraints import Cone
from sparsenam.smooth.design import CachedGrams, Posterior, RampDesign, Spread, solved_by_output, updated_strengths
from sparsenam.smooth.engine import SmoothFit, SmoothProblem, has_converged, step_length
from sparsenam.smooth.grid import GridAxis, GridBlock, PairSpread, output_means
from sparsenam.tables.sample import Matrix, Vector

FIRST_INTERVALS, MOST_INTERVALS = 16, 256  # intervals along an axis
# most nodes of one grid; those without rows are filled by their neighbours. California, split 0, three pairs: 0.169,
# and 0.178 with one node a row
NODES_A_ROW, MOST_NODES = 2.0, 2**16
# in each round, which starts from the strengths of the one before: named tables 0.5 % better with 8, half as long again
SWEEPS = 6
# sweeps in which the strengths of mains, near where they end, are updated once under squared loss: California takes
# 4.5 s of CPU, 6 s with 1, for the same loss; counts that vary more than Poisson's lose 8 % unless it is 1
LEARN_EVERY = 3
SETTLED = 0.005  # relative change of the degrees of freedom, twice in a row, at which the sweeps end
# share of its nodes used as degrees of freedom from which a pair gets more: steps 0.084 of the empty loss, 0.089 with
# 0.2; 0.080 with 0.05, where two classes of clusters take twice as long for the same loss
CROWDED_NODES = 0.1

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class PairFit:
    """Mains without steps, pairs and intercept, with what either term of a pair explains alone beside the pair.

    ``mains`` is the smooth fit of the mains at ``places`` (mains,) in the task, ``held`` has those of steps by place.
    ``intercept`` is the score at which all of them are at their means, as an absent one is. ``offset`` (rows, outputs)
    is all that mains do not add to the scores, ``spreads`` how uncertain the pairs are, and ``freedom`` are the degrees
    of freedom of all.
    """

    mains: SmoothFit
    places: NDArray[np.intp]
    held: dict[int, FittedCurve]
    pairs: tuple[Purified, ...]
    intercept: Vector
    offset: Matrix
    spreads: tuple[PairSpread, ...]
    freedom: float


class MainsBlock:
    """The mains of a fit as one block: all their coefficients are solved for together. Some are ``left`` to pairs."""

    def __init__(self, task: SmoothProblem, mains: SmoothFit, left: Sequence[int]) -> None:
        self.layout, self.strengths, self.values = mains.layout, mains.strengths, mains.coefficients.copy()
        for term in left:
            self.values[self.layout.slices[term]] = 0.0
        self.design = RampDesign(self.layout, task.x, task.weights)
        self.freedoms, self._spreads, self._turn = mains.degrees_of_freedom, list[Spread](), 0
        self.fitted = self.design.times(self.values)
        self._grams = CachedGrams(self.design.weighted_gram)
        self._every = LEARN_EVERY if task.family.is_quadratic else 1
        self.shapes, self._cone = mains.shapes, Cone.of(self.layout, mains.shapes)

    @property
    def freedom(self) -> float:
        """The degrees of freedom of all."""
        return float(self.freedoms.sum())

    def penalty(self) -> float:
        """Return ½ Σ βᵀPβ over all outputs."""
        product = self.layout.times(self.layout.precisions(self.strengths), self.values)
        return 0.5 * float(np.sum(self.values * product))

    def update(self, partial: Matrix, weights: Matrix, noise: float) -> None:
        """Fit partial residuals (rows, outputs) under the strengths as they are; see `GridBlock.update`."""
        grams = [gram.matrix for gram in self._grams(weights)]
        weighted = weights.T * (partial - output_means(partial, weights))
        pull = self.design.transposed_times(weighted) / noise
        self._turn += 1
        if self._cone is None:
            posteriors = [Posterior(self.layout, gram, self.strengths, noise) for gram in grams]
            self.values = solved_by_output(posteriors, pull)
        else:
            self.values, posteriors = self._cone.minima(grams, self.strengths, noise, pull, np.zeros_like(pull))
        self.fitted = self.design.times(self.values)
        if self._turn % self._every == 0:
            self._spreads = [each.spread for each in posteriors]
            self.freedoms = np.mean([each.degrees_of_freedom for each in self._spreads], axis=0)

    def learn(self, free: int) -> None:
        """Take a step of Fellner and Schall at the coefficients as they are, if it is their turn."""
        if self._turn % self._every == 0:
            self.strengths = updated_strengths(self.layout, self.strengths, self._spreads, self.values, free)

    def fit(self, intercept: Vector, noise: float) -> SmoothFit:
        """Return the mains as a fit, given the score (outputs,) at which all effects are at their means."""
        means = self.design.means
        start = intercept - means @ self.values
        known = self.strengths, noise, self.freedoms
        return SmoothFit(self.layout, self.values, means, start, *known, shapes=self.shapes)


class PairModel:
    """A sum of blocks, the pairs and then the mains, and the second-order model of the loss there.

    Mains of steps, whose ramps are no longer those that their strengths were found with, stay as they are: ``held``
    has them by place, ``offset`` (rows, outputs) is their sum and ``held_freedom`` their degrees of freedom.
    """

    def __init__(
        self,
        task: SmoothProblem,
        mains: SmoothFit,
        main_terms: NDArray[np.intp],
        levels: NDArray[np.bool_],
        signs: Mapping[int, int],
        context: Context,
    ) -> None:
        self.task, self.levels, self.signs, self.context, self.noise = task, levels, signs, context, 1.0
        functions, steps = mains.functions(), [i for i, shape in mains.shapes.items() if shape.form == "steps"]
        self.held = {int(main_terms[index]): functions[index] for index in steps}
        parts = [curve(task.x[term]) for term, curve in self.held.items()]
        self.offset = np.sum([np.zeros_like(task.target), *parts], axis=0)
        self.held_freedom = float(mains.degrees_of_freedom[steps].sum())
        self.grids, self.counts = dict[Pair, GridBlock](), dict[Pair, tuple[int, int]]()
        self.intercept, self.places = mains.intercept, np.delete(main_terms, steps)
        self.mains: MainsBlock | None = None
        if self.places.size:
            moving = mains.take(np.delete(np.arange(main_terms.size), steps).tolist())
            # a sum of rising functions is at least as steep as each: pairs start with all that such a main has
            left = [index for index, term in enumerate(self.places) if term in signs]
            self.mains = MainsBlock(replace(task, x=task.x[self.places]), moving, left)
            self.intercept = self.intercept + self.mains.design.means @ moving.coefficients

    @property
    def blocks(self) -> list[MainsBlock | GridBlock]:
        """The pairs, then the mains."""
        return [*self.grids.values(), *([] if self.mains is None else [self.mains])]

    def copy(self) -> PairModel:
        """Return a model whose blocks can be updated without changing these."""
        other = copy(self)
        other.mains, other.grids = copy(self.mains), {pair: copy(grid) for pair, grid in self.grids.items()}
        other.counts = dict(self.counts)
        return other

    def set_grid(self, pair: Pair, counts: tuple[int, int]) -> None:
        """Give a pair a grid of so many intervals, with the values of the grid that it had."""
        task, before = self.task, self.grids.get(pair)
        first, second = (
            GridAxis.of(task.x[term], task.weights, count, bool(self.levels[term]), self.signs.get(term, 0))
            for term, count in zip(pair, counts, strict=True)
        )
        generator = self.context.streams.generator(f"pair {pair} {counts}")
        grid = GridBlock((first, second), (task.x[pair[0]], task.x[pair[1]]), task.target.shape[1], generator)
        if before is not None:
            grid.start_from(before, task.weights)
        self.grids[pair], self.counts[pair] = grid, counts

    def doubled(self, pair: Pair) -> tuple[int, int]:
        """Return twice the intervals for a pair that uses many of its nodes, else the same."""
        counts, grid = self.counts[pair], self.grids[pair]
        used = np.count_nonzero(grid.mass(self.task.weights) > 0.5)
        if grid.freedom <= CROWDED_NODES * grid.free * max(used, 1):
            return counts
        return self.capped(pair, (2 * counts[0], 2 * counts[1]))

    def capped(self, pair: Pair, wanted: tuple[int, int]) -> tuple[int, int]:
        """Return intervals along either axis that the values and the rows allow."""
        task, found = self.task, list[int]()
        for term, count in zip(pair, wanted, strict=True):
            present = ~np.isnan(task.x[term])
            values = distinct(task.x[term, present], task.weights[present])[0].size - 1
            found.append(values if self.levels[term] else max(min(count, values, MOST_INTERVALS), 1))
        most = min(NODES_A_ROW * float(task.weights.sum()), MOST_NODES)
        numbers = [side for side, term in enumerate(pair) if not self.levels[term]]
        while numbers and (found[0] + 1) * (found[1] + 1) > most:
            longer = max(numbers, key=found.__getitem__)
            if found[longer] <= 2:
                break
            found[longer] //= 2
        return found[0], found[1]

    @property
    def scores(self) -> Matrix:
        """The scores, shape (rows, outputs)."""
        return self.intercept + np.sum([self.offset, *(block.fitted for block in self.blocks)], axis=0)

    @property
    def freedom(self) -> float:
        """The degrees of freedom of all blocks."""
        return self.held_freedom + sum(block.freedom for block in self.blocks)

    def objective(self, noise: float) -> float:
        """Return the penalised loss."""
        return self.task.loss(self.scores) / noise + sum(block.penalty() for block in self.blocks)

    def residuals(self) -> tuple[Matrix, Matrix]:
        """Return working residuals (rows, outputs) and weights (outputs or 1, rows); set the noise."""
        task, scores, freedom = self.task, self.scores, self.freedom
        self.noise = dispersion(task.family, scores, task.target, task.weights, freedom + 1.0)
        bends, slopes = task.curvatures(scores), task.family.gradient(scores, task.target)
        if task.family.dispersion == "fixed":
            # by squared residuals the dispersion is above 1 where columns that are not in the fit act: a fixed 1 would
            # take that for signal, and the grids would get ever finer
            squares = float(np.sum(task.weights @ slopes**2)) / task.free_outputs
            expected, rows = float(np.mean(bends @ task.weights)), float(task.weights.sum())
            self.noise = max(self.noise, squares / expected * rows / max(rows - freedom - 1.0, 1.0))
        return -slopes / bends.T, task.weights * bends

    def sweep(self) -> bool:
        """Update all blocks once; return whether the step had to be shortened."""
        residual, weights = self.residuals()
        start = self.standing
        before = None if self.task.family.is_quadratic else self.objective(self.noise)
        for block in self.blocks:
            partial = residual + block.fitted
            block.update(partial, weights, self.noise)
            residual = partial - block.fitted
        self.intercept = self.intercept + output_means(residual, weights)
        is_shortened = before is not None and self._shorten(start, before)
        # those of a step that leads astray would be too weak to hold the next one
        for block in self.blocks:
            block.learn(self.task.free_outputs)
        return is_shortened

    @property
    def standing(self) -> list[Matrix]:
        """Where the model stands: the values and effects of its blocks, and the intercept."""
        return [array for block in self.blocks for array in (block.values, block.fitted)] + [self.intercept]

    def _stand(self, arrays: Sequence[Matrix]) -> None:
        """Put the model where another standing was."""
        *parts, self.intercept = arrays
        for block, values, fitted in zip(self.blocks, parts[::2], parts[1::2], strict=True):
            block.values, block.fitted = values, fitted

    def _shorten(self, start: list[Matrix], before: float) -> bool:
        """Halve the step until the objective is no worse than before; return whether it was halved."""
        end = self.standing

        def objective(step: float) -> float:
            if step < 1.0:
                self._stand([one + step * (other - one) for one, other in zip(start, end, strict=True)])
            return self.objective(self.noise)

        length = step_length(objective, before)
        if length == 0.0:
            self._stand(start)
        return length < 1.0


def fit_pairs(
    task: SmoothProblem,
    mains: SmoothFit,
    main_terms: NDArray[np.intp],
    pairs: Sequence[Pair],
    levels: NDArray[np.bool_],
    signs: Mapping[int, int],
    context: Context,
) -> PairFit:
    """Return the fit of mains and pairs, started from that of the mains.

    ``task`` has all terms that a main or a pair reads; ``main_terms`` are the indices there of those of ``mains``, and
    ``pairs`` and ``signs`` hold such indices too. ``levels`` (terms,) marks codes of unordered levels. No pair may fall
    in terms whose sign is 1, nor rise in those whose sign is -1.
    """
    signs = {term: sign for term, sign in signs.items() if any(term in pair for pair in pairs)}
    model = PairModel(task, mains, main_terms, levels, signs, context)
    for pair in pairs:
        model.set_grid(pair, model.capped(pair, (FIRST_INTERVALS, FIRST_INTERVALS)))
    best = _swept(model, context)
    while True:
        finer = {pair: counts for pair in pairs if (counts := model.doubled(pair)) != model.counts[pair]}
        if not finer or context.clock.passed(4.0 * best.seconds):
            break
        coarse = model.copy()
        for pair, counts in finer.items():
            model.set_grid(pair, counts)
        tried = _swept(model, context)
        if _criterion(task, tried, tried.noise) >= _criterion(task, best, tried.noise):
            model = coarse
            break
        best = tried
    grids, reference, (_, weights) = [model.grids[pair] for pair in pairs], task.weights, model.residuals()
    generator, intercept, noise = context.streams.generator("pair bands"), model.intercept, model.noise
    return PairFit(
        mains=SmoothFit.constant(intercept, noise) if model.mains is None else model.mains.fit(intercept, noise),
        places=model.places,
        held=model.held,
        pairs=tuple(grid.split(grid.spread_out(grid.values), grid.mass(reference)) for grid in grids),
        intercept=intercept,
        offset=np.sum([model.offset, *(grid.fitted for grid in grids)], axis=0),
        spreads=tuple(grid.spread(reference, weights, noise, generator) for grid in grids),
        freedom=model.freedom,
    )


class _Round(NamedTuple):
    loss: float
    freedom: float
    noise: float
    seconds: float


def _swept(model: PairModel, context: Context) -> _Round:
    """Update all blocks in turn until the degrees of freedom rest; return what compares resolutions."""
    freedoms, started, out_of_time = list[float](), time.monotonic(), context.clock.laps()
    for number in range(SWEEPS):
        if model.sweep():
            freedoms.clear()  # a shortened step changes little by itself
        context.progress.report("pairs", number + 1)
        freedoms.append(model.freedom)
        if has_converged(freedoms, SETTLED, 0.05) or out_of_time():
            break
    return _Round(model.task.loss(model.scores), float(np.mean(freedoms[-2:])), model.noise, time.monotonic() - started)


def _criterion(task: SmoothProblem, fit: _Round, noise: float) -> float:
    """Return generalised cross-validation, or Akaike's criterion where the dispersion is known.

    ``noise`` is the dispersion of the larger of two fits that are compared, which explains the most.
    """
    if task.family.dispersion == "fixed":
        return fit.loss / noise + fit.freedom
    least = float(task.weights @ -task.family.conjugate(task.target, task.target))
    return (fit.loss - least) / max(1.0 - fit.freedom / float(task.weights.sum()), 1e-6) ** 2
