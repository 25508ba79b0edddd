"""Cross-validation along the convex path, on relaxed fits.

Shrinkage misleads the curve of the penalised fits: on the synthetic classification none of its rules found the true
features in any of 8 seeds. So every point is judged by the fit without penalty on its support, fold by fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from sparsenam.convex.design import GroupedDesign
from sparsenam.convex.gram import GramCache
from sparsenam.convex.path_solver import ConvexPoint, convex_path
from sparsenam.convex.relaxed import RelaxedFits
from sparsenam.families import Family
from sparsenam.penalties import Penalty
from sparsenam.selection.curve import CVCurve
from sparsenam.selection.folds import Splits, batch_weights, held_out_counts

PATH_TOL = 1e-3  # choosing a support needs no more; the chosen alpha is solved again to the user's tolerance
TIRED, LOST = (
    6,
    3,
)  # new supports without a better loss, and points clearly worse than the best, before stopping


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedPath:
    """The points walked, the empty one first, and their cross-validation curve."""

    points: tuple[ConvexPoint, ...]
    curve: CVCurve
    in_time: bool = True


def validate_path(
    design: GroupedDesign,
    target: NDArray[np.float64],
    family: Family,
    weights: NDArray[np.float64],
    splits: Splits,
    penalty: Penalty,
    *,
    n_alphas: int = 30,
    verbose: bool | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> ValidatedPath:
    """Walk down the path with all folds at once until the held-out loss has clearly turned.

    ``target`` is (rows, outputs), ``weights`` (rows,).
    """
    counts = held_out_counts(splits, weights.size)
    batches = batch_weights(weights, splits)
    gram = GramCache(design, batches) if family.name == "gaussian" else None
    fits = RelaxedFits(design, target, family, batches, gram=gram, held_out=[test for _, test in splits])
    walk = convex_path(design, target, family, batches, penalty=penalty, n_alphas=n_alphas, tol=PATH_TOL, gram=gram)
    hidden = None if verbose is None else not verbose
    points: list[ConvexPoint] = []
    losses: list[NDArray[np.float64]] = []
    judge, in_time = Judge(weights * (counts > 0)), True
    for point in tqdm(with_empty(walk), "choose", n_alphas, delay=2.0, disable=hidden, leave=False, unit="alpha"):
        held_out = _losses(family, fits, point, target, counts)
        points.append(point)
        losses.append(held_out)
        if judge.has_seen_enough(point, held_out):
            break
        if out_of_time():
            in_time = False
            break
    curve = CVCurve(
        np.array([point.alpha for point in points]),
        tuple(point.supports[0] for point in points),
        np.array(losses),
        judge.weights,
        np.array([_mean_size(point) for point in points]),
    )
    return ValidatedPath(tuple(points), curve, in_time)


class Judge:
    """Decides when walking further down the path cannot pay."""

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights
        self._best: NDArray[np.float64] | None = None
        self._last: tuple[NDArray[np.intp], ...] = ()
        self._stale = self._lost = 0

    def has_seen_enough(self, point: ConvexPoint, losses: NDArray[np.float64]) -> bool:
        """Take a point in; return whether to stop."""
        seen = self.weights > 0
        share = self.weights[seen] / self.weights[seen].sum()
        worse = np.zeros(share.size) if self._best is None else (losses - self._best)[seen]
        mean = float(share @ worse)
        error = float(np.sqrt(share**2 @ (worse - mean) ** 2))
        changed = not all(np.array_equal(a, b) for a, b in zip(point.supports, self._last, strict=False))
        self._last = point.supports
        if self._best is None or mean < 0:
            self._best, self._stale, self._lost = losses, 0, 0
        else:
            self._stale += changed
            self._lost = self._lost + 1 if mean > 2 * error else 0
        full = all(support.size == point.n_features for support in point.supports)
        return full or self._stale >= TIRED or self._lost >= LOST


def _mean_size(point: ConvexPoint) -> float:
    sizes = [support.size for support in point.supports[1:]]
    return sum(sizes) / len(sizes)


def with_empty(walk: Iterator[ConvexPoint]) -> Iterator[ConvexPoint]:
    """Put the empty model first: at alpha_max only the fit on all rows is empty, its folds need not be."""
    first = next(walk)
    none = np.zeros(0, dtype=np.intp)
    yield ConvexPoint(
        alpha=first.alpha,
        n_features=first.n_features,
        active=none,
        values=np.zeros((first.values.shape[0], 0, *first.values.shape[2:])),
        intercepts=first.intercepts,
        supports=tuple(none for _ in first.supports),
        gaps=np.zeros_like(first.gaps),
        gradient_norms=first.gradient_norms,
    )
    yield first
    yield from walk


def _losses(
    family: Family,
    fits: RelaxedFits,
    point: ConvexPoint,
    target: NDArray[np.float64],
    counts: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return each row's mean loss over the folds that test on it, less that of y itself; NaN where none does."""
    least = -family.conjugate(target, target)
    total = np.zeros(target.shape[0])
    for batch, rows in enumerate(fits.held_out[1:], start=1):
        scores = fits.scores(batch, point.supports[batch], point)
        np.add.at(total, rows, family.loss(scores, target[rows]) - least[rows])
    return np.divide(total, counts, out=np.full(total.size, np.nan), where=counts > 0)
