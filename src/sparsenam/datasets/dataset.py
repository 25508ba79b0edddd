"""A table with its target, ready for a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Task = Literal["regression", "classification"]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """X (rows, features), y (rows,) and their names; y of a classification is 0 or 1."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...]
    target_name: str
    task: Task
