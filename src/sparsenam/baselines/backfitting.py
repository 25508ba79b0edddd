"""SPAM's backfitting (Ravikumar et al., 2009; the paper's Algorithm 1), for the fit and all its folds at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sparsenam.baselines.smoothers import Smoother

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FixedSmoother:
    """S of one column with its smoothing chosen; ``factors`` has shape (batches, size)."""

    smoother: Smoother
    factors: Matrix

    def of_first_batch(self) -> FixedSmoother:
        """Return the smoother of the first batch alone."""
        return FixedSmoother(self.smoother.of_first_batch(), self.factors[:1])

    @property
    def degrees(self) -> Vector:
        """Degrees of freedom of each batch, the constant not counted, shape (batches,)."""
        return self.factors.sum(axis=1) - 1


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveState:
    """Coordinates of every effect, each (batches, size), and the residuals they leave, (rows, batches)."""

    coordinates: tuple[Matrix, ...]
    residual: Matrix

    @property
    def norms(self) -> Matrix:
        """‖fⱼ‖, the root mean square of each effect over the rows, shape (features, batches)."""
        if not self.coordinates:
            return np.zeros((0, self.residual.shape[1]))
        return np.stack([_norm(part) for part in self.coordinates])


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The state after a pass over features, its change relative to the effects (the worst of the batches).

    ``is_last`` says that all features were visited and nothing changed any more.
    """

    state: AdditiveState
    change: float
    is_last: bool


def empty_state(smoothers: Sequence[FixedSmoother], target: Matrix) -> AdditiveState:
    """Return fⱼ = 0; ``target`` (rows, batches) is centred over the rows of each batch."""
    return AdditiveState(tuple(np.zeros_like(each.factors) for each in smoothers), target)


@dataclass(frozen=True, slots=True)
class Limits:
    """When backfitting ends (relative change of ``tol``, or ``max_sweeps``), and whether it shows a bar."""

    tol: float
    max_sweeps: int
    verbose: bool | None = False


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """Where backfitting ended: after how many sweeps, and whether ``change`` is below the tolerance."""

    state: AdditiveState
    n_sweeps: int
    change: float
    is_converged: bool


def backfit(
    smoothers: Sequence[FixedSmoother], state: AdditiveState, alpha: float | Matrix, limits: Limits
) -> Ended:
    """Sweep until nothing changes or the limit is reached; the bar appears after two seconds."""
    hidden = None if limits.verbose is None else not limits.verbose
    number, change = 0, np.inf
    with tqdm(desc="backfit", unit="sweep", delay=2.0, disable=hidden, leave=False) as bar:
        for sweep in sweeps(smoothers, state, alpha, limits.tol):
            state, number, change = sweep.state, number + 1, sweep.change
            bar.update()
            if sweep.is_last or number >= limits.max_sweeps:
                return Ended(state, number, change, sweep.is_last)
    raise AssertionError("the sweeps end with the last one")


def smoothed_norms(smoothers: Sequence[FixedSmoother], state: AdditiveState) -> Matrix:
    """Return sⱼ = ‖Sⱼ Rⱼ‖ for the partial residuals Rⱼ, shape (features, batches)."""
    norms = np.zeros((len(smoothers), state.residual.shape[1]))
    for place, (each, own) in enumerate(zip(smoothers, state.coordinates, strict=True)):
        norms[place] = _norm(_smoothed(each, own, state.residual))
    return norms


def sweeps(
    smoothers: Sequence[FixedSmoother], state: AdditiveState, alpha: float | Matrix, tol: float
) -> Iterator[Sweep]:
    """Yield sweeps of fⱼ ← [1 - α/sⱼ]₊ Sⱼ Rⱼ until a sweep over all features changes nothing.

    ``alpha`` may be (features, batches): ∞ keeps a feature out of one batch. Between sweeps over all features
    those that are not zero converge by themselves. Centring, the algorithm's last step, is no work here: S keeps
    constants and is symmetric, so an effect has mean 0 when the residual has.
    """
    thresholds = np.broadcast_to(alpha, (len(smoothers), state.residual.shape[1]))
    allowed = np.flatnonzero(np.isfinite(thresholds).any(axis=1))
    every, visited = True, allowed
    while True:
        before = state.norms > 0
        state, change = _sweep(smoothers, state, thresholds, visited)
        done = change <= tol and np.array_equal(before, state.norms > 0)
        yield Sweep(state, change, done and every)
        if done and every:
            return
        every = done
        active = np.flatnonzero((state.norms > 0).any(axis=1))
        visited = allowed if every else active


def _sweep(
    smoothers: Sequence[FixedSmoother], state: AdditiveState, thresholds: Matrix, visited: NDArray[np.intp]
) -> tuple[AdditiveState, float]:
    coordinates, residual = list(state.coordinates), state.residual.copy()
    moved = np.zeros(residual.shape[1])
    for place in map(int, visited):
        each, own = smoothers[place], coordinates[place]
        target = _smoothed(each, own, residual)
        size = _norm(target)
        # α = 0 keeps a zero-size function too, whatever 0/0 would say
        shrink = np.maximum(size - thresholds[place], 0) / np.where(size > 0, size, 1.0)
        step = shrink[:, None] * target - own
        if step.any():
            residual -= each.smoother.values(step)
            coordinates[place] = own + step
            moved += np.sum(step**2, axis=1)
    total = np.zeros_like(moved)
    for part in coordinates:
        total += np.sum(part**2, axis=1)
    change = np.sqrt(np.divide(moved, total, out=np.where(moved > 0, np.inf, 0.0), where=total > 0))
    return AdditiveState(tuple(coordinates), residual), float(np.max(change, initial=0.0))


def _smoothed(each: FixedSmoother, own: Matrix, residual: Matrix) -> Matrix:
    """Return the coordinates of Sⱼ Rⱼ with Rⱼ = residual + fⱼ; those of fⱼ are known and need no rows."""
    return each.factors * (each.smoother.coordinates(residual) + own)


def _norm(coordinates: Matrix) -> Vector:
    return np.sqrt(np.sum(coordinates**2, axis=1))
