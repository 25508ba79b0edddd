"""Folds, the cross-validation curve as data, and the rules that choose a point on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator, check_cv

from sparsenam.errors import InputError, check_number, describe

Rows = NDArray[np.intp]
Splits = list[tuple[Rows, Rows]]
CrossValidator: TypeAlias = int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]


REPEATED = 1200  # rows below which folds are drawn several times, at most `MOST` times: few rows fall unevenly
MOST = 4


def balanced_splits(target: NDArray[np.float64], n_folds: int, generator: np.random.Generator) -> Splits:
    """Return K random splits in which every fold sees the whole range of the target (or every class).

    Of every K rows that are neighbours in the target each goes to another fold; for few rows this is repeated.
    ``target`` has shape (rows, outputs). What classes are called does not matter.
    """
    rows = target.shape[0]
    if not 2 <= n_folds <= rows:
        got = f"{n_folds} folds for {rows} rows"
        raise InputError(describe("cv", "from 2 folds to one for each row", got, "choose another number"))
    is_class = np.isin(target, (0.0, 1.0)).all()
    key = target.argmax(axis=1) if is_class and target.shape[1] > 1 else target[:, 0]  # several targets: the first
    splits: Splits = []
    for _ in range(min(-(-REPEATED // rows), MOST)):
        shuffled = generator.permutation(rows)
        ranks = key[shuffled]
        if is_class:  # classes in the order in which they turn up, not that of their names
            _, first, codes = np.unique(ranks, return_index=True, return_inverse=True)
            ranks = np.argsort(np.argsort(first))[codes]
        fold = np.empty(rows, dtype=np.intp)
        turns = generator.random((-(-rows // n_folds), n_folds)).argsort(axis=1).ravel()
        fold[shuffled[np.argsort(ranks, kind="stable")]] = turns[:rows]
        splits += [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
    return splits


def splits_of(
    cv: CrossValidator,
    target: NDArray[np.float64],
    counted: NDArray[np.bool_],
    groups: ArrayLike | None,
    generator: np.random.Generator,
    answer: NDArray[np.generic],
) -> Splits:
    """Return the folds as indices among the rows that count.

    Parameters
    ----------
    cv
        A number of folds, a scikit-learn splitter, or pairs of training and test rows.
    target
        Of the rows that count, shape (rows, outputs): a number of folds is balanced by it.
    counted
        Which rows of the table count, shape (table rows,); a splitter speaks of all of them.
    groups
        Groups of the table's rows, for splitters that need them.
    answer
        What a splitter stratifies by, shape (table rows,).
    """
    if isinstance(cv, Integral):
        if groups is not None:
            remedy = "give cv a splitter such as GroupKFold(5)"
            raise InputError(describe("groups", "a splitter that uses them", f"cv={cv}", remedy))
        return balanced_splits(target, int(cv), generator)
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        expected = "a number of folds, a scikit-learn splitter or pairs of row indices"
        raise InputError(describe("cv", expected, repr(cv), "choose one of them"))
    if groups is not None and not hasattr(cv, "split"):
        remedy = "make the pairs by the groups and leave groups out"
        raise InputError(describe("groups", "a splitter that uses them", "pairs of row indices", remedy))
    pairs = check_cv(cast(BaseCrossValidator, cv)).split(np.zeros((counted.size, 1)), answer, groups)
    index = np.cumsum(counted) - 1

    def among_counted(rows: ArrayLike) -> Rows:
        found = np.asarray(rows)
        found = np.flatnonzero(found) if found.dtype == bool else found.astype(np.intp)
        if found.size and not -1 < found.min() <= found.max() < counted.size:
            got = f"row {found.max()} of {counted.size}"
            raise InputError(describe("cv", "indices of rows that there are", got, "correct the splits"))
        return index[found[counted[found]]].astype(np.intp)

    splits = [(among_counted(train), among_counted(test)) for train, test in pairs]
    if not splits or any(train.size == 0 or test.size == 0 for train, test in splits):
        raise InputError(describe("cv", "folds with rows to train and to test on", "an empty one", "use fewer"))
    return splits


def batch_weights(weights: NDArray[np.float64], splits: Splits) -> NDArray[np.float64]:
    """Return the weights of the fit on all rows and of each fold's training rows, shape (1 + folds, rows)."""
    batches = np.zeros((1 + len(splits), weights.size))
    batches[0] = weights
    for batch, (train, _) in enumerate(splits, start=1):
        batches[batch, train] = weights[train]
    return batches


def held_out_counts(splits: Splits, n_rows: int) -> NDArray[np.intp]:
    """Return for each row how many folds hold it out, shape (rows,)."""
    count = np.zeros(n_rows, dtype=np.intp)
    for _, test in splits:
        np.add.at(count, test, 1)
    return count


RuleName = Literal["compact", "one_se", "best"]
Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Means closer than this share of the empty model's loss are equal: far above rounding, which differs between
# processors (1e-7 of a loss in single precision), and far below what any rule calls a difference.
TIE = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class CVCurve:
    """Held-out losses along a path of alphas, from the empty model down.

    Attributes
    ----------
    alphas
        The alphas, falling, shape (points,).
    supports
        The columns kept by the fit on all rows at each point; the first keeps none that is penalised.
    losses
        How far the loss of each row, under the model that did not see it, is above that of a perfect prediction,
        shape (points, rows).
    weights
        Weights of the rows, shape (rows,); rows that no fold held out have weight 0.
    fold_sizes
        Mean number of columns kept by the fits of the folds, which earned the losses, shape (points,).
    same_as
        For each point the first one whose fits, in every fold and on all rows, keep the same groups, shape (points,).
        Such points have the same losses: which of them is taken is decided by order, not by rounding.
    """

    alphas: Vector
    supports: tuple[NDArray[np.intp], ...]
    losses: Vector
    weights: Vector
    fold_sizes: Vector
    same_as: NDArray[np.intp]

    @property
    def mean(self) -> Vector:
        """Mean held-out loss of each point, shape (points,)."""
        return (self.losses[:, self._seen] @ self._shares)[self.same_as]

    @property
    def standard_error(self) -> Vector:
        """Standard error of each mean, shape (points,)."""
        return self._error(self.losses)

    @property
    def n_features(self) -> NDArray[np.intp]:
        """Number of columns kept at each point, shape (points,)."""
        return np.array([support.size for support in self.supports], dtype=np.intp)

    def choose(self, rule: RuleName | Rule = "compact", max_features: int | None = None) -> int:
        """Return the index of the point that a rule takes among those with at most ``max_features`` columns."""
        allowed = np.ones(len(self.supports), dtype=np.bool_)
        if max_features is not None:
            allowed = self.n_features <= max_features
            if not allowed.any():
                got = f"{int(self.n_features.min())} columns that are always kept"
                raise InputError(describe("max_features", f"at most {max_features} columns", got, "allow more"))
        taken = as_rule(rule).choose(self, allowed)
        if not (0 <= taken < allowed.size and allowed[taken]):
            raise InputError(describe("rule", "an index of an allowed point", repr(taken), "correct its choose"))
        return taken

    def lowest(self, allowed: Mask) -> int:
        """Return the allowed point with the lowest mean; among equals the one whose size is that of its folds."""
        mean = self.mean
        lowest = np.min(mean[allowed])
        equal = np.flatnonzero(allowed & (mean <= lowest + self._tie))
        return int(min(equal, key=lambda point: (self._apart[point], point)))

    def smallest(self, allowed: Mask, margin: Vector) -> int:
        """Return the smallest allowed point within its margin (points,) of the lowest mean.

        A size is that of the folds, as the loss is theirs; among equals the fit on all rows should have it too, then
        the lower mean counts, then the larger alpha.
        """
        mean = self.mean
        good = np.flatnonzero(allowed & (mean - mean[self.lowest(allowed)] <= np.maximum(margin, self._tie)))
        good = good[self._earned[good]] if self._earned[good].any() else good
        sizes = [(self.fold_sizes[point], self._apart[point]) for point in good]
        equal = [int(point) for point, size in zip(good, sizes, strict=True) if size == min(sizes)]
        lowest = min(mean[point] for point in equal)
        return next(point for point in equal if mean[point] <= lowest + self._tie)

    def noise(self, point: int) -> Vector:
        """Return the standard errors of the differences from a point, row by row, shape (points,).

        What the rows share, such as their noise, does not blur this comparison.
        """
        return self._error(self.losses - self.losses[point])

    def table(self) -> list[dict[str, float]]:
        """Return one row for each point: alpha, features, mean and standard error."""
        names = ("alpha", "features", "mean", "standard_error")
        columns = zip(self.alphas, self.n_features, self.mean, self.standard_error, strict=True)
        return [dict(zip(names, map(float, row), strict=True)) for row in columns]

    @property
    def _earned(self) -> Mask:
        """Whether the losses of a point were earned by fits no larger than the one on all rows, by half a column."""
        return self.fold_sizes <= self.n_features + 0.5

    @property
    def _apart(self) -> Vector:
        return np.abs(self.n_features - self.fold_sizes)

    @property
    def _tie(self) -> float:
        return TIE * abs(float(self.mean[0]))

    def _error(self, values: Vector) -> Vector:
        seen = values[:, self._seen]
        centred = seen - (seen @ self._shares)[:, None]
        return np.sqrt((centred**2) @ self._shares**2)

    @property
    def _seen(self) -> Mask:
        return self.weights > 0

    @property
    def _shares(self) -> Vector:
        return self.weights[self._seen] / self.weights.sum()


class Rule(Protocol):
    """A way to choose a point of the curve."""

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the index of one of the allowed points, shape (points,)."""
        ...


@dataclass(frozen=True, slots=True)
class Best:
    """The point with the lowest held-out loss."""

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the point with the lowest mean."""
        return curve.lowest(allowed)


@dataclass(frozen=True, slots=True)
class OneSE:
    """The smallest model whose loss is within ``width`` standard errors of the best.

    The error is that of the difference between the two losses, row by row.
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        check_number("width of OneSE", self.width, 0.0)

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the smallest point within the standard error."""
        return curve.smallest(allowed, self.width * curve.noise(curve.lowest(allowed)))


@dataclass(frozen=True, slots=True)
class Compact:
    """The smallest model that is as good as the best, for certain or for practical purposes.

    Its loss is not above the best by more than one standard error, or by more than tolerance · √(L (L₀ - L)) with L
    the best loss and L₀ that of the empty model. For squared loss this is an angle: R² = cos²φ between target and fit,
    and φ grows by at most tolerance/2. ``docs/choosing.md`` has what other tolerances keep.
    """

    tolerance: float = 0.02

    def __post_init__(self) -> None:
        check_number("tolerance of Compact", self.tolerance, 0.0)

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the smallest point within the larger of the two margins."""
        mean, best = curve.mean, curve.lowest(allowed)
        practical = self.tolerance * np.sqrt(max(mean[best], 0.0) * max(mean[0] - mean[best], 0.0))
        return curve.smallest(allowed, np.maximum(curve.noise(best), practical))


RULES: dict[str, Callable[[], Rule]] = {"compact": Compact, "one_se": OneSE, "best": Best}


def as_rule(rule: RuleName | Rule) -> Rule:
    """Return the rule of a name, or the object itself."""
    if isinstance(rule, str):
        if rule not in RULES:
            expected = f"one of {sorted(RULES)} or an object such as Compact(tolerance=0.02)"
            raise InputError(describe("rule", expected, repr(rule), "choose one"))
        return RULES[rule]()
    if isinstance(rule, type) or not callable(getattr(rule, "choose", None)):
        expected = f"one of {sorted(RULES)} or an object with choose(curve, allowed)"
        raise InputError(describe("rule", expected, repr(rule), "write for example Compact(tolerance=0.02)"))
    return rule
