"""What explaining needs to know of a fit, and why the fit kept or dropped each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.certificate import Certificate
from sparsenam.explain.explanation import Dropped
from sparsenam.explain.summary import TrainingSummary, kept_columns
from sparsenam.explain.text import Task
from sparsenam.model import AdditiveModel
from sparsenam.selection import CVCurve
from sparsenam.tables import TableEncoder, Term


@dataclass(frozen=True, slots=True, eq=False)
class FitRecord:
    """A fitted model with its encoder, its units, and the course of its fit; all names are names of columns.

    ``norms`` (columns,) are the group norms; ``taken`` is the index of the chosen point of ``curve``;
    ``readmitted`` the columns that the convex choice dropped and the final residuals let in; ``substitutes`` those
    that could replace a kept column, with the share of its effect; ``history`` one entry an epoch, empty or None
    for fits without training; ``always_keep`` the columns that the user wanted to keep; ``threshold`` the size
    below which a solver without exact zeros drops a column, None for others.
    """

    task: Task
    outputs: tuple[str, ...]
    units: str
    model: AdditiveModel
    encoder: TableEncoder
    summary: TrainingSummary
    norms: NDArray[np.float64]
    alpha: float
    certificate: Certificate | None
    curve: CVCurve | None
    taken: int | None
    readmitted: frozenset[str]
    substitutes: Mapping[str, Mapping[str, float]]
    history: Sequence[Mapping[str, float | int | None]] | None
    always_keep: frozenset[str]
    threshold: float | None
    estimator: str
    settings: Mapping[str, Any]

    @property
    def columns_kept(self) -> list[int]:
        """Indices of the columns of which the model keeps a term."""
        return kept_columns(self.encoder, self.model)

    def kept_terms(self, column: int) -> list[tuple[int, Term]]:
        """Return the terms of a column that the model keeps, each after its index in the model."""
        terms = ((index, self.encoder.terms[int(term)]) for index, term in enumerate(self.model.terms))
        return [(index, term) for index, term in terms if term.column == column]

    def slack(self, name: str) -> float | None:
        """Return the certified share of the gradient at which a column, or its group, would enter."""
        slack: Mapping[str, float] = {} if self.certificate is None else self.certificate.slack
        if name in slack:
            return slack[name]
        return next((share for group, share in slack.items() if name in group.split(" + ")), None)


def why_kept(record: FitRecord, column: int, entry: int | None) -> str:
    """Return why a column is kept."""
    encoder = record.encoder
    name, gaps = encoder.columns[column].name, encoder.columns[column].missing_term
    if all(term.kind == "missing" for _, term in record.kept_terms(column)):
        others = [repr(other.name) for other in encoder.columns if other.missing_term == gaps and other.name != name]
        shared = f" ({', '.join(others)} missing in the same rows)" if others else ""
        return f"its values do not matter, its missing cells do{shared}"
    if name in record.always_keep:
        return "it was asked to stay, and is not penalised"
    if name in record.readmitted:
        return "the convex choice dropped it, but the final residuals let it in"
    if record.alpha == 0.0:
        return "no penalty: every column stays"
    if entry is not None:
        return f"it was number {entry} to enter the path"
    return "its effect is worth the penalty"


def why_dropped(record: FitRecord, column: int) -> Dropped:
    """Return a dropped column with the reason."""
    encoder, summary = record.encoder, record.summary
    name = encoder.columns[column].name
    if encoder.columns[column].kind == "constant" and not any(term.column == column for term in encoder.terms):
        return Dropped(name, f"constant: one single value ({encoder.columns[column].levels[0]})")
    if name in summary.constant:
        return Dropped(name, "constant in the rows that count")
    slack, twin = record.slack(name), summary.twins.get(name)
    if twin is not None:
        kept = {encoder.columns[index].name for index in record.columns_kept}
        too = "" if twin in kept else ", which is dropped too"
        return Dropped(name, f"equal to {twin!r} in every row, up to unit and sign{too}", slack)
    if slack is not None:
        return Dropped(name, f"its gradient is {slack:.2f} of the alpha at which it would enter", slack)
    if record.certificate is not None:
        return Dropped(name, "the convex problem kept it, but the training under the penalty switched it off")
    if record.threshold is not None:
        return Dropped(name, f"its mean absolute effect stayed within the threshold of {record.threshold:g}")
    return Dropped(name, "the penalty switched its sub-network off")
