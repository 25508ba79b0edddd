"""Folds as weight vectors, so that one solver serves the fit and its cross-validation at once."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator, check_cv

from sparsenam.errors import InputError, describe

Rows = NDArray[np.intp]
Splits = list[tuple[Rows, Rows]]
CrossValidator: TypeAlias = int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]


def balanced_splits(target: NDArray[np.float64], n_folds: int, generator: np.random.Generator) -> Splits:
    """Return K random splits in which every fold sees the whole range of the target (or every class).

    Rows are shuffled, sorted by the target and assigned to the folds in turn. ``target`` has shape (rows, outputs).
    """
    rows = target.shape[0]
    if not 2 <= n_folds <= rows:
        got = f"{n_folds} folds for {rows} rows"
        raise InputError(describe("cv", "from 2 folds to one for each row", got, "choose another number"))
    shuffled = generator.permutation(rows)
    # several outputs that are classes sort by the class, several targets by the first
    key = target.argmax(axis=1) if target.shape[1] > 1 and np.isin(target, (0.0, 1.0)).all() else target[:, 0]
    ordered = shuffled[np.argsort(key[shuffled], kind="stable")]
    fold = np.empty(rows, dtype=np.intp)
    fold[ordered] = np.arange(rows) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


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
