"""What explaining needs to know of a fitted estimator, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.certificate import Certificate
from sparsenam.explain.summary import TrainingSummary, kept_columns
from sparsenam.explain.units import Task
from sparsenam.model import AdditiveModel
from sparsenam.selection import CVCurve
from sparsenam.tables import TableEncoder, Term


@dataclass(frozen=True, slots=True, eq=False)
class Story:
    """A fitted model with its table, its units, and the course of its fit.

    ``norms`` (columns,) are the group norms; ``asked`` the columns that the user wanted to keep; ``threshold`` the
    size below which a solver without exact zeros drops a feature, None for others.
    """

    task: Task
    outputs: tuple[str, ...]
    units: str
    model: AdditiveModel
    table: TableEncoder
    summary: TrainingSummary
    norms: NDArray[np.float64]
    alpha: float
    certificate: Certificate | None
    curve: CVCurve | None
    taken: int | None
    woken: frozenset[str]
    stand_ins: Mapping[str, Mapping[str, float]]
    history: Sequence[Mapping[str, float | int | None]]
    asked: frozenset[str]
    threshold: float | None
    estimator: str
    settings: Mapping[str, Any]

    @property
    def columns_kept(self) -> list[int]:
        """The columns of which the model keeps a term."""
        return kept_columns(self.table, self.model)

    def kept_terms(self, column: int) -> list[Term]:
        """Return the terms of a column that the model keeps."""
        terms = (self.table.terms[int(place)] for place in self.model.terms)
        return [term for term in terms if term.column == column]
