"""Folds, the cross-validation curve as data, and the rules that choose a point on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator, check_cv

from sparsenam.codec import Bounds, Count, Indices, Mask, Size, Vector
from sparsenam.errors import InputError, check_number, check_word, describe, nearest

Splits = list[tuple[Indices, Indices]]
CrossValidator: TypeAlias = int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]


def balanced_splits(
    target: NDArray[np.float64], n_folds: int, generator: np.random.Generator, repeats: int = 1
) -> Splits:
    """Return K random splits in which every fold sees the whole range of the target (or every class).

    Of every K rows that are neighbours in the target each goes to another fold; this is repeated with other draws.
    ``target`` has shape (rows, outputs). What classes are called does not matter.
    """
    rows = target.shape[0]
    if not 2 <= n_folds <= rows:
        got = f"{n_folds} folds for {rows} rows"
        raise InputError(describe("cv", "from 2 folds to one for each row", got, "choose another number"))
    is_class = np.isin(target, (0.0, 1.0)).all()
    key = target.argmax(axis=1) if is_class and target.shape[1] > 1 else target[:, 0]  # several targets: the first
    splits: Splits = []
    for _ in range(repeats):
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
    """Return the folds as indices among the rows that count, ``counted`` (table rows,).

    ``cv`` is a number of folds, balanced by the ``target`` (rows, outputs) of these rows, a scikit-learn splitter,
    which speaks of all rows of the table, or pairs of training and test rows. Of all rows are also ``groups``, for
    splitters that need them, and ``answer``, what a splitter stratifies by.
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

    def among_counted(rows: ArrayLike) -> Indices:
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


def among(splits: Splits, rows: Indices) -> Splits:
    """Return the folds of some rows (rows,), sorted, by their places among these; folds that hold none out are gone."""
    inside = [(train[np.isin(train, rows)], test[np.isin(test, rows)]) for train, test in splits]
    return [(np.searchsorted(rows, train), np.searchsorted(rows, test)) for train, test in inside if test.size]


def held_out_counts(splits: Splits, n_rows: int) -> NDArray[np.intp]:
    """Return for each row how many folds hold it out, shape (rows,)."""
    count = np.zeros(n_rows, dtype=np.intp)
    for _, test in splits:
        np.add.at(count, test, 1)
    return count


RuleName = Literal["compact", "one_se", "best"]
Method = Literal["auto", "knockoffs", "split"]

# Standard errors. With ½ at least, the loss of 77 real tables is 0.1 % higher and 0.3 more features are kept
# (benchmarks/bench_real.py --methods ours). Without a bound above, a feature is lost in one of ten seeds of
# benchmarks/signals.py wide10.
# make constants: LEAST_LUCK halved +0 %, doubled -0.28 % loss
LEAST_LUCK, MOST_LUCK = 1.0, 3.0
# make constants: CLEAR halved -0.04 %, doubled +0.53 % loss
CLEAR = 2.0  # standard errors from which a difference is there for certain

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
    same_as
        For each point the first one whose fits, in every fold and on all rows, keep the same groups, shape (points,).
        Such points have the same losses: which of them is taken is decided by order, not by rounding.
    n_columns
        The number of columns to choose from.
    """

    alphas: Vector
    supports: tuple[NDArray[np.intp], ...]
    losses: Vector
    weights: Vector
    same_as: NDArray[np.intp]
    n_columns: int

    @property
    def mean(self) -> Vector:
        """Mean held-out loss of each point, shape (points,)."""
        seen = self.weights > 0
        return (self.losses[:, seen] @ (self.weights[seen] / self.weights.sum()))[self.same_as]

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
        # the empty model is the first point: where the fit on all rows is empty too, its folds need not be
        allowed = self.n_features > self.n_features[0]
        allowed[0] = True
        if max_features is not None:
            allowed &= self.n_features <= max_features
            if not allowed.any():
                got = f"{int(self.n_features.min())} columns that are always kept"
                raise InputError(describe("max_features", f"at most {max_features} columns", got, "allow more"))
        taken = as_rule(rule).choose(self, allowed)
        if not (0 <= taken < allowed.size and allowed[taken]):
            raise InputError(describe("rule", "an index of an allowed point", repr(taken), "correct its choose"))
        return taken

    def lowest(self, allowed: Mask) -> int:
        """Return the first of the allowed points with the lowest mean."""
        mean = self.mean
        return int(np.flatnonzero(allowed & (mean <= np.min(mean[allowed]) + self._tie))[0])

    def smallest(self, allowed: Mask, margin: Vector) -> int:
        """Return the smallest allowed point within its margin (points,) of the lowest mean.

        Among equally many columns the lower mean counts, then the larger alpha.
        """
        mean, sizes = self.mean, self.n_features
        good = allowed & (mean - mean[self.lowest(allowed)] <= np.maximum(margin, self._tie))
        return self.lowest(good & (sizes == sizes[good].min()))

    def noise(self, point: int) -> Vector:
        """Return the standard errors of the differences from a point, row by row, shape (points,).

        What the rows share, such as their noise, does not blur this comparison.
        """
        return self._error(losses - self.losses[point] for losses in self.losses)

    @property
    def luck(self) -> float:
        """Standard errors of a difference that chance may make among so many columns to choose from."""
        return luck_among(self.n_columns)

    def table(self) -> list[dict[str, float]]:
        """Return one row for each point: alpha, features, mean and standard error."""
        columns = zip(self.alphas, self.n_features, self.mean, self.standard_error, strict=True)
        return [dict(zip(CURVE_COLUMNS, map(float, row), strict=True)) for row in columns]

    @property
    def _tie(self) -> float:
        return TIE * abs(float(self.mean[0]))

    def _error(self, values: Iterable[Vector]) -> Vector:
        return np.array([mean_and_error(row, self.weights)[1] for row in values])


def luck_among(n_columns: int) -> float:
    """Return the standard errors of a difference that chance may make among so many columns to choose from."""
    return float(np.clip(np.log10(max(n_columns, 1) / 3.0), LEAST_LUCK, MOST_LUCK))


def mean_and_error(values: Vector, weights: Vector) -> tuple[float, float]:
    """Return the weighted mean of values (rows,) and its standard error; rows of weight 0 do not count."""
    seen = weights > 0
    shares, values = weights[seen] / weights[seen].sum(), values[seen]
    mean = float(shares @ values)
    # held-out losses of a log link may be so large that their squares are no numbers
    size = max(float(np.abs(values - mean).max(initial=0.0)), np.finfo(np.float64).tiny)
    return mean, float(size * np.sqrt(shares**2 @ ((values - mean) / size) ** 2))


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
    """The smallest model whose held-out loss cannot be told from the best one, and is little above it.

    With L the best held-out loss and L₀ that of the empty model, its loss is above L by at most ``share`` (3 %) of
    L₀ - L, what the best model explains, and of L, what it leaves, and by at most z standard errors of the difference.
    For p columns to choose from, the best of which looks better by chance, z is log₁₀(p/3), 2 to 3. Where L₀ - L is
    within two standard errors there may be nothing to explain: it may also be log₁₀(p/3) standard errors above L.
    """

    share: float = 0.03

    def __post_init__(self) -> None:
        check_number("share of Compact", self.share, 0.0)

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the smallest point within the margin."""
        mean, best = curve.mean, curve.lowest(allowed)
        noise, loss = curve.noise(best), float(mean[best])
        gain = float(mean[0]) - loss
        margin = np.minimum(max(curve.luck, CLEAR) * noise, self.share * max(min(gain, loss), 0.0))
        if gain <= CLEAR * noise[0]:
            margin = np.maximum(margin, curve.luck * noise)
        return curve.smallest(allowed, margin)


@dataclass(frozen=True, slots=True)
class FDR:
    """Keep columns of which, on average over tables, at most a share q has no effect given the others.

    Parameters
    ----------
    q
        The false discovery rate, above 0 and below 1.
    method
        "knockoffs" compares every column with a copy that cannot matter; at least 1/q columns must be found for any to
        be. "split" finds curves on half of the rows and tests them on the other; it finds few columns too, and takes
        categories and missing cells. "auto" takes what can reach q.
    """

    q: float = 0.1
    method: Method = "auto"

    def __post_init__(self) -> None:
        check_number("q of FDR", self.q, 0.0, 1.0, open_below=True, open_above=True)
        check_word("method of FDR", self.method, ("auto", "knockoffs", "split"))

    def choose(self, curve: CVCurve, allowed: Mask) -> int:
        """Return the point of the default rule, whose curve and certificate stand beside the tests."""
        return Compact().choose(curve, allowed)


RULES: dict[str, Callable[[], Rule]] = {"compact": Compact, "one_se": OneSE, "best": Best}


def as_rule(rule: RuleName | Rule) -> Rule:
    """Return the rule of a name, or the object itself."""
    if isinstance(rule, str):
        if rule not in RULES:
            expected = f"one of {sorted(RULES)} or an object such as Compact(share=0.01)"
            raise InputError(describe("rule", expected, repr(rule), nearest(rule, RULES, "choose one")))
        return RULES[rule]()
    if isinstance(rule, type) or not callable(getattr(rule, "choose", None)):
        expected = f"one of {sorted(RULES)} or an object with choose(curve, allowed)"
        raise InputError(describe("rule", expected, repr(rule), "write for example Compact(share=0.01)"))
    return rule


CURVE_COLUMNS = ("alpha", "features", "mean", "standard_error")
CurveRow = tuple[Annotated[float, Bounds(0.0, 1e100)], Size, float, Size]


@dataclass(frozen=True, slots=True, eq=False)
class StoredCurve:
    """A curve as a model file keeps it, without the losses of single rows, and the point that each rule takes."""

    rows: Annotated[tuple[CurveRow, ...], Bounds(1)]
    choices: dict[str, Count]

    @classmethod
    def of(cls, curve: CVCurve | StoredCurve, rule: object) -> StoredCurve:
        """Return the table of a curve, and the points that the named rules and the rule of the fit take."""
        rules = cast("list[RuleName | Rule]", [each for each in (*RULES, rule) if each is not None])
        rows = [(row["alpha"], row["features"], row["mean"], row["standard_error"]) for row in curve.table()]
        return cls(tuple(rows), {rule_name(each): curve.choose(each) for each in rules})

    @property
    def alphas(self) -> NDArray[np.float64]:
        """The alphas, shape (points,)."""
        return self._column(0)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean held-out loss of each point, shape (points,)."""
        return self._column(2)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Standard error of each mean, shape (points,)."""
        return self._column(3)

    @property
    def n_features(self) -> NDArray[np.intp]:
        """Size of each support, shape (points,)."""
        return self._column(1).astype(np.intp)

    def choose(self, rule: object) -> int:
        """Return the point that a rule takes: one by name, or the object with which the model was fitted."""
        if rule_name(rule) not in self.choices:
            expected = f"one of {list(self.choices)}, as a saved curve has no losses of rows"
            raise InputError(describe("rule", expected, repr(rule), "choose one"))
        return self.choices[rule_name(rule)]

    def table(self) -> list[dict[str, float]]:
        """Return one row for each point: alpha, features, mean and standard error."""
        return [dict(zip(CURVE_COLUMNS, row, strict=True)) for row in self.rows]

    def _column(self, place: int) -> NDArray[np.float64]:
        return np.array([row[place] for row in self.rows])


def rule_name(rule: object) -> str:
    """Return the name by which a curve knows a rule."""
    return rule if isinstance(rule, str) else repr(rule)
