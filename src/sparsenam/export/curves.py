"""The cross-validation curve as a model file keeps it: a table, without the losses of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.export.checks import as_list, as_record, require
from sparsenam.selection import RULES, CVCurve, Rule

COLUMNS: tuple[str, ...] = ("alpha", "features", "mean", "standard_error")


@dataclass(frozen=True, slots=True, eq=False)
class StoredCurve:
    """Means and standard errors along a path, and the point that each rule takes; `CVCurve` without its rows."""

    rows: tuple[dict[str, float], ...]
    choices: dict[str, int]

    @property
    def alphas(self) -> NDArray[np.float64]:
        """The alphas, shape (points,)."""
        return self._column("alpha")

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean held-out loss of each point, shape (points,)."""
        return self._column("mean")

    @property
    def standard_error(self) -> NDArray[np.float64]:
        """Standard error of each mean, shape (points,)."""
        return self._column("standard_error")

    @property
    def n_features(self) -> NDArray[np.intp]:
        """Size of each support, shape (points,)."""
        return self._column("features").astype(np.intp)

    def best(self) -> int:
        """Return the point with the lowest mean."""
        return self.choices["best"]

    def one_se(self) -> int:
        """Return the point of the rule "one_se"."""
        return self.choices["one_se"]

    def compact(self) -> int:
        """Return the point of the rule "compact"."""
        return self.choices["compact"]

    def choose(self, rule: Rule) -> int:
        """Return the point that the rule takes."""
        if rule not in self.choices:
            raise InputError(describe("rule", f"one of {list(self.choices)}", repr(rule), "choose one"))
        return self.choices[rule]

    def table(self) -> list[dict[str, float]]:
        """Return one row for each point: alpha, features, mean and standard error."""
        return [dict(row) for row in self.rows]

    def _column(self, name: str) -> NDArray[np.float64]:
        return np.array([row[name] for row in self.rows])


def curve_to_dict(curve: CVCurve | StoredCurve) -> dict[str, Any]:
    """Return the table of a curve and the points that the rules take."""
    return {
        "rows": [[row[name] for name in COLUMNS] for row in curve.table()],
        "choices": {rule: curve.choose(rule) for rule in RULES},
    }


def read_curve(data: Any) -> StoredCurve:
    """Return the curve that `curve_to_dict` wrote down."""
    words = "a damaged cross-validation curve"
    told = as_record(data, ("rows", "choices"), words)
    choices = as_record(told["choices"], RULES, words)
    points = [as_list(row, words) for row in as_list(told["rows"], words)]
    require(all(len(row) == len(COLUMNS) for row in points), words)
    require(all(type(number) in (int, float) for row in points for number in row), words)
    require(all(type(place) is int and 0 <= place < len(points) for place in choices.values()), words)
    table = tuple(dict(zip(COLUMNS, map(float, row), strict=True)) for row in points)
    return StoredCurve(table, {rule: int(choices[rule]) for rule in RULES})
