"""The cross-validation curve as data, and the rules that choose on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe

Rule = Literal["compact", "one_se", "best"]
RULES: tuple[Rule, ...] = ("compact", "one_se", "best")
TOLERANCE = 0.02  # see docs/choosing.md for what other values keep


@dataclass(frozen=True, slots=True, eq=False)
class CVCurve:
    """Held-out losses along a path of alphas, from the empty model down.

    ``losses`` is (points, rows): how far the loss of each row, under the model that did not see it, is above that
    of a perfect prediction. ``weights`` is (rows,); rows that no fold held out have weight 0. ``supports`` are the
    features of the fit on all rows, the first without any; ``fold_sizes`` (points,) is the mean number of features
    of the folds' own fits, which earned the losses.
    """

    alphas: NDArray[np.float64]
    supports: tuple[NDArray[np.intp], ...]
    losses: NDArray[np.float64]
    weights: NDArray[np.float64]
    fold_sizes: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean held-out loss of each point, shape (points,)."""
        return self.losses[:, self._seen] @ self._shares

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Standard error of each mean, shape (points,)."""
        return self._error(self.losses)

    @property
    def n_features(self) -> NDArray[np.intp]:
        """Size of each support, shape (points,)."""
        return np.array([support.size for support in self.supports], dtype=np.intp)

    def best(self) -> int:
        """Return the point with the lowest mean."""
        mean, apart = self.mean, np.abs(self.n_features - self.fold_sizes)
        return int(min(np.flatnonzero(mean <= mean.min()), key=lambda point: apart[point]))

    def one_se(self, width: float = 1.0) -> int:
        """Return the smallest support that is not worse than the best by more than one standard error.

        The error is that of the *difference* between the two losses row by row: what the rows share, such as
        their noise, does not blur the comparison.
        """
        return self._smallest(self._noise(width))

    def compact(self, tolerance: float = TOLERANCE) -> int:
        """Return the smallest support that is as good as the best, for certain or for practical purposes.

        It is not worse by more than one standard error, or by more than tolerance · √(L (L₀ - L)) with L the best
        loss and L₀ that without features. For squared loss this is an angle: R² = cos²φ between target and fit, and
        φ grows by at most tolerance/2.
        """
        mean, best = self.mean, self.best()
        practical = tolerance * np.sqrt(max(mean[best], 0.0) * max(mean[0] - mean[best], 0.0))
        return self._smallest(np.maximum(self._noise(1.0), practical))

    def choose(self, rule: Rule) -> int:
        """Return the point that the rule takes."""
        if rule not in RULES:
            raise InputError(describe("rule", f"one of {list(RULES)}", repr(rule), "choose one"))
        return {"best": self.best, "one_se": self.one_se, "compact": self.compact}[rule]()

    def table(self) -> list[dict[str, float]]:
        """Return one row for each point: alpha, features, mean and standard error."""
        names = ("alpha", "features", "mean", "standard_error")
        columns = zip(self.alphas, self.n_features, self.mean, self.standard_error, strict=True)
        return [dict(zip(names, map(float, row), strict=True)) for row in columns]

    def _noise(self, width: float) -> NDArray[np.float64]:
        """Standard errors of the differences from the best point, times the width."""
        return width * self._error(self.losses - self.losses[self.best()])

    def _smallest(self, margin: NDArray[np.float64]) -> int:
        """Return the smallest point within its margin of the best.

        A size is that of the folds, as the loss is theirs; among equals the fit on all rows should have it too.
        """
        mean = self.mean
        good = np.flatnonzero(mean - mean[self.best()] <= margin)
        apart = np.abs(self.n_features - self.fold_sizes)
        return int(min(good, key=lambda point: (self.fold_sizes[point], apart[point], mean[point])))

    def _error(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        seen = values[:, self._seen]
        centred = seen - (seen @ self._shares)[:, None]
        return np.sqrt((centred**2) @ self._shares**2)

    @property
    def _seen(self) -> NDArray[np.bool_]:
        return self.weights > 0

    @property
    def _shares(self) -> NDArray[np.float64]:
        return self.weights[self._seen] / self.weights.sum()
