"""Folds as weight vectors, so that one solver serves the fit and its cross-validation at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.streams import Streams

Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


def balanced_splits(target: NDArray[np.float64], n_folds: int, generator: np.random.Generator) -> Splits:
    """Return K random splits in which every fold sees the whole range of the target (or every class).

    Rows are shuffled, sorted by the target and dealt out like cards. ``target`` has shape (rows, outputs).
    """
    rows = target.shape[0]
    shuffled = generator.permutation(rows)
    # several outputs that are classes sort by the class, several targets by the first
    key = target.argmax(axis=1) if target.shape[1] > 1 and np.isin(target, (0.0, 1.0)).all() else target[:, 0]
    dealt = shuffled[np.argsort(key[shuffled], kind="stable")]
    fold = np.empty(rows, dtype=np.intp)
    fold[dealt] = np.arange(rows) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def deal(target: NDArray[np.float64], n_folds: int, random_state: int | np.random.RandomState | None) -> Splits:
    """Return `balanced_splits` for scikit-learn's ``random_state``."""
    rows = target.shape[0]
    if not 2 <= n_folds <= rows:
        got = f"{n_folds} folds for {rows} rows"
        raise InputError(describe("cv", "from 2 folds to one for each row", got, "choose another number"))
    return balanced_splits(target, n_folds, Streams.from_random_state(random_state).generator("folds"))


def batch_weights(weights: NDArray[np.float64], splits: Splits) -> NDArray[np.float64]:
    """Return the weights of the fit proper and of each fold's training rows, shape (1 + folds, rows)."""
    batches = np.zeros((1 + len(splits), weights.size))
    batches[0] = weights
    for place, (train, _) in enumerate(splits, start=1):
        batches[place, train] = weights[train]
    return batches


def held_out_counts(splits: Splits, n_rows: int) -> NDArray[np.intp]:
    """Return for each row how many folds hold it out; refuse splits that train on nothing."""
    count = np.zeros(n_rows, dtype=np.intp)
    for train, test in splits:
        if train.size == 0 or test.size == 0:
            raise InputError(describe("cv", "folds with rows to train and to test on", "an empty one", "use fewer"))
        np.add.at(count, test, 1)
    return count


def splits_of_present(
    pairs: Iterable[tuple[NDArray[np.intp], NDArray[np.intp]]], present: NDArray[np.bool_]
) -> Splits:
    """Return a splitter's folds as numbers among the rows that count."""
    place = np.cumsum(present) - 1

    def among_present(rows: NDArray[np.intp]) -> NDArray[np.intp]:
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.intp)
        if rows.size and not -1 < rows.min() <= rows.max() < present.size:
            got = f"row {rows.max()} of {present.size}"
            raise InputError(describe("cv", "numbers of rows that there are", got, "correct the splits"))
        return place[rows[present[rows]]].astype(np.intp)

    return [(among_present(train), among_present(test)) for train, test in pairs]
