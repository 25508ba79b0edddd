"""The tables of `bench.py`: rows to train on and fresh rows, from a seed, written to one file that any numpy reads.

Every library gets the same file. It holds no pickled object: a table of numbers is one matrix for each half; a table
with categories has one array a column, floats with NaN, truth values, or text in which "" is a missing cell.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from mixed import TRUE, mixed_table, target_of
from paper_tables import TASKS
from signal_tables import SHAPES, weak_steps
from sklearn.model_selection import train_test_split


@dataclass(frozen=True, eq=False)
class Halves:
    """X, y to train on, fresh rows to judge by, and the indices of the columns that matter, where they are known."""

    X: np.ndarray | pd.DataFrame
    y: np.ndarray
    X_test: np.ndarray | pd.DataFrame
    y_test: np.ndarray
    true_columns: tuple[int, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of the benchmark: its caption on the page, what is predicted, and how many splits are measured."""

    caption: str
    kind: str
    splits: int
    make: Callable[[int], Halves]
    published: str = ""  # what the paper says of its model on this table


def paper_split(name: str) -> Callable[[int], Halves]:
    """A random fifth of the rows are the fresh ones; the first four columns of synthetic tables matter."""

    def make(seed: int) -> Halves:
        X, y, effects = TASKS[name][0](seed)
        train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
        return Halves(X[train], y[train], X[test], y[test], () if effects is None else (0, 1, 2, 3))

    return make


def wide(seed: int) -> Halves:
    """500 rows of 10,000 columns are all trained on; the fresh rows are another draw."""
    X, y, _ = TASKS["wide"][0](seed)
    X_test, y_test, _ = TASKS["wide"][0](500_000 + seed)
    return Halves(X, y, X_test, y_test, (0, 1, 2, 3))


def additive(seed: int, rows: int, columns: int, n_true: int, fresh: int) -> Halves:
    """Normal columns; the first ``n_true`` act, each by one of nine shapes with variance 1; noise of variance 1."""
    generator = np.random.default_rng(60_000 + seed)
    X = generator.standard_normal((rows + fresh, columns))
    y = generator.standard_normal(rows + fresh)
    for column in range(n_true):
        values = SHAPES[column % len(SHAPES)](X[:, column])
        y += (values - values.mean()) / values.std()
    return Halves(X[:rows], y[:rows], X[rows:], y[rows:], tuple(range(n_true)))


def tall(seed: int) -> Halves:
    return additive(seed, rows=1_000_000, columns=20, n_true=8, fresh=100_000)


def mixed(seed: int) -> Halves:
    """The table of `mixed.py`: numbers, categories of 3 to 100 levels, truth values, missing cells; two classes."""
    rows = 50_000
    X, scores = mixed_table(rows + 20_000, seed)
    y = target_of("classification", scores, np.random.default_rng(61_000 + seed)).astype(float)
    true = tuple(place for place, name in enumerate(X.columns) if name in TRUE)
    return Halves(X.iloc[:rows], y[:rows], X.iloc[rows:], y[rows:], true)


def weak(seed: int) -> Halves:
    draw = weak_steps(400, 30, 0.35, seed)
    return Halves(draw.X, draw.y, draw.X_fresh, draw.y_fresh, draw.true_columns)


TABLES = {
    "regression": Table(
        "synthetic regression, 3000 × 24",
        "regression",
        3,
        paper_split("regression"),
        "MSE 10.61, 4 columns, 48.5 s on a GPU",
    ),
    "classification": Table(
        "synthetic classification, 3000 × 24",
        "classification",
        3,
        paper_split("classification"),
        "cross-entropy 0.15, 4 columns, 10.1 s on a GPU",
    ),
    "california": Table(
        "California Housing, 20,640 × 8",
        "regression",
        3,
        paper_split("california"),
        "MSE 0.567, 7 columns, 340 s on a GPU",
    ),
    "compas": Table(
        "COMPAS, 6,172 × 13",
        "classification",
        3,
        paper_split("compas"),
        "cross-entropy 0.504, 5 columns, 27.4 s on a GPU",
    ),
    "superconductivity": Table(
        "Superconductivity, 21,263 × 131",
        "regression",
        2,
        paper_split("superconductivity"),
        "MSE 280, 72 columns, 688 s on a GPU",
    ),
    "wide": Table("wide, 500 × 10,000, 4 effects", "regression", 3, wide),
    "tall": Table("tall, 1,000,000 × 20, 8 effects", "regression", 1, tall),
    "mixed": Table("mixed, 50,000 × 40: numbers, categories, missing cells, 7 effects", "classification", 2, mixed),
    "weak": Table("weak, 400 × 30, 10 effects", "regression", 5, weak),
}


def shortened(halves: Halves, rows: int = 400, columns: int = 300) -> Halves:
    """Return the first rows and columns only: to see within minutes that every library runs."""
    true = tuple(column for column in halves.true_columns if column < columns)
    if isinstance(halves.X, pd.DataFrame):
        X, X_test = halves.X.iloc[:rows, :columns], halves.X_test.iloc[:rows, :columns]
    else:
        X, X_test = halves.X[:rows, :columns], halves.X_test[:rows, :columns]
    return Halves(X, halves.y[:rows], X_test, halves.y_test[:rows], true)


def write(path: Path, halves: Halves, kind: str, seed: int) -> None:
    """Write a split to one npz file."""
    arrays = {"kind": np.array(kind), "seed": np.array(seed), "true_columns": np.array(halves.true_columns, dtype=int)}
    arrays |= {"y": halves.y, "y_test": halves.y_test}
    if not isinstance(halves.X, pd.DataFrame):
        np.savez(path, **arrays, X=np.ascontiguousarray(halves.X), X_test=np.ascontiguousarray(halves.X_test))
        return
    arrays["names"] = np.array(halves.X.columns, dtype=str)
    for half, frame in (("X", halves.X), ("X_test", halves.X_test)):
        arrays |= {f"{half}/{name}": plain(frame[name]) for name in frame}
    np.savez(path, **arrays)


def plain(column: pd.Series) -> np.ndarray:
    """Return floats, truth values or text; missing text is empty."""
    if pd.api.types.is_bool_dtype(column):
        return column.to_numpy(bool)
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(float)
    return column.astype(object).where(column.notna(), "").to_numpy(str)
