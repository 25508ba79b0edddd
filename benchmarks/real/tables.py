"""The real tables by name, those of the benchmark and those in reserve, and their random splits."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from .labels import LABELS
from .losses import Brier, empty_prediction, row_losses
from .methods import Task
from .numeric import NUMBERS
from .recipe import read

RECIPES = NUMBERS | LABELS
SIZES = {"number": 30, "binary": 22, "classes": 8, "count": 6, "amount": 3, "survival": 8}
TEST_SHARE = 0.25
BLOCKS = 20  # of test rows, whose mean losses are kept: paired standard errors need no more


def benchmark_names():
    """Return the tables of the benchmark: so many of each kind, evenly spaced among the recipes."""
    names = []
    for kind, count in SIZES.items():
        held = [name for name, recipe in RECIPES.items() if recipe.kind == kind]
        names += [held[round(place)] for place in np.linspace(0, len(held) - 1, count)]
    return set(names)


TABLES = {name: RECIPES[name] for name in RECIPES if name in benchmark_names()}
RESERVE = {name: RECIPES[name] for name in RECIPES if name not in TABLES}  # to judge what the others have shaped

read_once = lru_cache(maxsize=2)(read)


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows as a task, and test rows as they are judged."""

    task: Task
    X_test: pd.DataFrame
    judged: object  # y of the test rows, or their Brier score
    empty: np.ndarray  # loss of each test row without any feature

    def judge(self, predicted) -> dict:
        """Return the mean loss and the means of blocks of test rows, in units of the empty model's mean loss."""
        losses = row_losses(self.task.kind, predicted, self.judged) / self.empty.mean()
        blocks = [float(part.mean()) for part in np.array_split(losses, min(BLOCKS, losses.size))]
        return {"loss": float(losses.mean()), "blocks": blocks}


def make_split(kind: str, X: pd.DataFrame, y: np.ndarray, seed: int) -> Split:
    """Return a random split; classes and events are as frequent in both parts."""
    if kind in ("binary", "classes"):
        y = np.unique(y, return_inverse=True)[1]
    stratum = {"binary": y, "classes": y, "survival": y["event"] if kind == "survival" else None}.get(kind)
    train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, random_state=seed, stratify=stratum)
    judged = Brier(y[train], y[test]) if kind == "survival" else y[test]
    empty = row_losses(kind, empty_prediction(kind, y[train], judged), judged)
    parts = [X.iloc[rows].reset_index(drop=True) for rows in (train, test)]
    times = judged.times if kind == "survival" else None
    return Split(Task(kind, parts[0], y[train], seed, times), parts[1], judged, empty)


def split_of(name: str, seed: int) -> Split:
    """Return a random split of a real table."""
    table = read_once(RECIPES[name])
    return make_split(table.kind, table.X, table.y, seed)
