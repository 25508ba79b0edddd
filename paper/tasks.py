"""The paper's tasks as training and test rows, with the true effects where they are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from paper import data as real_tables
from paper.recipe import Settings, check_known
from sparsenam import datasets

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Kind = Literal["regression", "classification"]
TEST_SHARE = 0.2
TRUE_COLUMNS = 4  # of the synthetic tasks, the first ones
LOADERS = {
    "california": "load_california",
    "compas": "load_compas",
    "compas-recidivism": "load_compas_recidivism",
    "superconductivity": "load_superconductivity",
}
SYNTHETIC = {
    "synthetic-regression": datasets.make_regression,
    "synthetic-classification": datasets.make_classification,
}


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns (rows, columns) and target (rows,); classes are 0 and 1."""

    X: Matrix
    y: Vector

    def take(self, indices: NDArray[np.intp]) -> Rows:
        """Return some of the rows."""
        return Rows(self.X[indices], self.y[indices])


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Training and test rows of one task; ``truth_of`` gives the true effects (rows, columns) where known."""

    kind: Kind
    train: Rows
    test: Rows
    names: tuple[str, ...]
    truth_of: Callable[[Matrix], Matrix] | None = None
    true_support: tuple[int, ...] | None = None


class Task:
    """A recipe's task; real tables are read once, at the first split."""

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        known = [*SYNTHETIC, *LOADERS]
        self.dataset = str(settings.get("dataset"))
        check_known([self.dataset], known, "task.dataset")
        self._settings = {key: value for key, value in settings.items() if key != "dataset"}
        self._folder = folder
        self._table: tuple[Kind, Rows, tuple[str, ...]] | None = None

    def split(self, seed: int) -> Split:
        """Return the split of a seed: 80 % of the rows to train on, 20 % to test."""
        if self.dataset in SYNTHETIC:
            return self._synthetic(seed)
        kind, rows, names = self._real()
        limit = cast("int | None", self._settings.get("n_rows"))
        if limit is not None and limit < rows.y.size:
            rows = rows.take(np.random.default_rng(seed).permutation(rows.y.size)[:limit])
        return _split(kind, rows, names, seed)

    def _synthetic(self, seed: int) -> Split:
        known = ["n_rows", "n_features", "correlation", "noise"]
        check_known(list(self._settings), known, "task")
        make = cast("Callable[..., datasets.SyntheticTask]", SYNTHETIC[self.dataset])
        task = make(**self._settings, seed=seed)
        names = tuple(f"x{index + 1}" for index in range(task.X.shape[1]))
        kind: Kind = "regression" if self.dataset == "synthetic-regression" else "classification"
        true = tuple(range(min(TRUE_COLUMNS, task.X.shape[1])))
        return _split(kind, Rows(task.X, task.y), names, seed, datasets.true_effects, true)

    def _real(self) -> tuple[Kind, Rows, tuple[str, ...]]:
        check_known(list(self._settings), ["n_rows"], "task")
        if self._table is None:
            data = getattr(real_tables, LOADERS[self.dataset])(self._folder)
            X = np.asarray(data.X, dtype=np.float64)
            self._table = data.task, Rows(X, np.asarray(data.y, dtype=np.float64)), tuple(data.feature_names)
        return self._table


def _split(
    kind: Kind,
    rows: Rows,
    names: tuple[str, ...],
    seed: int,
    truth_of: Callable[[Matrix], Matrix] | None = None,
    true_support: tuple[int, ...] | None = None,
) -> Split:
    train, test = train_test_split(np.arange(rows.y.size), test_size=TEST_SHARE, random_state=seed)
    return Split(kind, rows.take(train), rows.take(test), names, truth_of, true_support)
