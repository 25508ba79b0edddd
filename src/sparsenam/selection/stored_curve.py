"""A cross-validation curve as a model file keeps it: without the losses of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Bounds, Count, Size, Via
from sparsenam.errors import InputError, describe
from sparsenam.selection.curve import RULES, CVCurve, Rule, RuleName

COLUMNS = ("alpha", "features", "mean", "standard_error")
CurveRow = Annotated[
    dict[str, float],
    Via(
        tuple[Annotated[float, Bounds(0.0, 1e100)], Size, float, Size],
        lambda row: tuple(row[name] for name in COLUMNS),
        lambda row: dict(zip(COLUMNS, row, strict=True)),
    ),
]


@dataclass(frozen=True, slots=True, eq=False)
class StoredCurve:
    """Means and standard errors along a path, and the point that each rule takes; `CVCurve` without its rows."""

    rows: Annotated[tuple[CurveRow, ...], Bounds(1)]
    choices: dict[str, Count]

    @classmethod
    def of(cls, curve: CVCurve | StoredCurve, rule: object) -> StoredCurve:
        """Return the table of a curve, and the points that the named rules and the rule of the fit take."""
        rules = cast("list[RuleName | Rule]", [each for each in (*RULES, rule) if each is not None])
        return cls(tuple(curve.table()), {rule_name(each): curve.choose(each) for each in rules})

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

    def choose(self, rule: object) -> int:
        """Return the point that a rule takes: one by name, or the object with which the model was fitted."""
        if rule_name(rule) not in self.choices:
            expected = f"one of {list(self.choices)}, as a saved curve has no losses of rows"
            raise InputError(describe("rule", expected, repr(rule), "choose one"))
        return self.choices[rule_name(rule)]

    def table(self) -> list[dict[str, float]]:
        """Return one row for each point: alpha, features, mean and standard error."""
        return [dict(row) for row in self.rows]

    def _column(self, name: str) -> NDArray[np.float64]:
        return np.array([row[name] for row in self.rows])


def rule_name(rule: object) -> str:
    """Return the name by which a curve knows a rule."""
    return rule if isinstance(rule, str) else repr(rule)
