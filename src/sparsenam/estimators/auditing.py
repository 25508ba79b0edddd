"""Auditing: who pays for a dropped column, and how right a fitted model is in subgroups of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenam.context import ProgressBar
from sparsenam.estimators.editing import GivenRows, loss_units
from sparsenam.explain.audit import Audit, checks_of, harms_of, rows_of, subgroup_text
from sparsenam.explain.local import read_cells
from sparsenam.fit.summary import kept_columns, reader_of
from sparsenam.text import count_text
from sparsenam.families import Family
from sparsenam.fitting.harm import FEWEST_ROWS, FOLDS, AuditRows, harms
from sparsenam.fitting.subgroups import Partition, binned, read_partitions
from sparsenam.model import AdditiveModel
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import Reading, read_column
from sparsenam.threads import one_thread

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
PairedLosses = tuple[tuple[Vector, Vector], Vector]
MANY_COLUMNS = 60  # beyond, only kept columns make subgroups unless others are asked for


@dataclass(frozen=True, slots=True, eq=False)
class GivenScores:
    """Rows with a model's scores (rows, outputs), target and weights as losses read them.

    Scores and target are to be divided by ``units`` (outputs,) for the loss.
    """

    family: Family
    scores: Matrix
    target: Matrix
    weights: Vector
    units: Vector

    @property
    def losses(self) -> Vector:
        """The loss of each row, shape (rows,)."""
        return self.family.loss(self.scores / self.units, self.target / self.units)


class AuditingMixin:
    """The audit of a fitted estimator."""

    model_: AdditiveModel
    encoder_: TableEncoder

    def audit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        verbose: bool | None = None,
    ) -> Audit:
        """Return what dropping each column cost subgroups of rows, and how right the model is in them.

        For each dropped column and each subgroup a small curve is fitted to what the model leaves unexplained, and
        judged on rows held out from it. Whether the column says anything there is tested, with a correction for all
        columns and subgroups.

        Parameters
        ----------
        X : table of shape (rows, features)
            Rows with the columns of the fit, dropped ones included: those of the fit, or better new ones.
        y : array-like of shape (rows,) or (rows, outputs)
            Their target, as for ``fit``.
        groups : list of names, array-like of shape (rows,), mapping or table, optional
            What the rows are divided by: columns of X by their names, or labels, one for each row and of one or several
            columns. Categories have a subgroup for each level, numbers one for each fifth of the rows, missing cells
            one too. By default every column of X; of more than 60 columns, those that the model keeps.
        sample_weight : array-like of shape (rows,), optional
            Weight of each row.
        exposure : array-like of shape (rows,), optional
            Exposure of each row, for families of rates.
        verbose : bool, optional
            Progress bar for audits of more than two seconds; by default only on a terminal.
        """
        check_is_fitted(cast(Any, self))
        given = cast(Any, self)._given_rows(X, y, sample_weight, exposure, reader_of(self.encoder_, self.model_))
        rows = self._in_loss_units(given)
        readings = self._readings(X)
        dropped = self._dropped()
        count = len(readings)
        default = range(count) if count <= MANY_COLUMNS else kept_columns(self.encoder_, self.model_)
        partitions = read_partitions(self.encoder_, readings, groups, default, "audit")
        folds = folds_of(given, readings, partitions)
        scaled = AuditRows.of(rows.family, rows.scores / rows.units, rows.target / rows.units, rows.weights, folds)
        columns = [binned(index, self.encoder_.columns[index], readings[index]) for index in dropped]
        progress = ProgressBar(verbose)
        try:
            with one_thread():
                found = harms(scaled, columns, partitions, lambda done, total: progress.report("audit", done, total))
        finally:
            progress.close()
        return self._audit(rows, found, partitions, dropped)

    def _audit(self, rows: GivenScores, found: Any, partitions: Sequence[Partition], dropped: Sequence[int]) -> Audit:
        """Return what was found as plain data."""
        names, record = self.encoder_.names, cast(Any, self)._record()
        checks = checks_of(
            partitions,
            rows.weights,
            rows.family.mean(rows.scores),
            rows.target,
            rows.losses,
            record.task == "classification",
        )
        small = [
            subgroup_text(partition.name, label)
            for partition in partitions
            for label, count in zip(partition.labels, rows_of(partition, rows.weights).tolist(), strict=True)
            if 0 < count < FEWEST_ROWS
        ]
        note = () if np.all(rows.units == 1.0) else ("Losses are of y in units of its spread.",)
        made = harms_of(names, found, partitions, rows.weights)
        return Audit(
            rows=int((rows.weights > 0).sum()),
            outputs=record.outputs,
            dropped=tuple(names[index] for index in dropped),
            harms=made,
            checks=checks,
            too_small=tuple(small),
            untested="" if made else _obstacle(rows),
            notes=note,
        )

    def _in_loss_units(self, rows: GivenRows) -> GivenScores:
        """Return the scores of given rows, with target and weights as losses read them."""
        family, scores = self.model_.family, self.model_.scores(rows.terms)
        return GivenScores(family, scores, rows.target, rows.weights, loss_units(family, rows.target, rows.weights))

    def _paired_losses(self, other: AdditiveModel, rows: GivenRows, other_rows: GivenRows) -> PairedLosses:
        """Return the losses of the same rows by this model and another, by the loss of this, and their weights."""
        family, target, weights = self.model_.family, rows.target, rows.weights
        units = loss_units(family, target, weights)
        scores = (self.model_.scores(rows.terms), other.scores(other_rows.terms))
        first, second = (family.loss(each / units, target / units) for each in scores)
        return (first, second), weights

    def _readings(self, X: object) -> list[Reading]:
        """Return the columns of a table in numbers, with the missing cells of each."""
        pairs = zip(self.encoder_.columns, read_cells(self.encoder_, X), strict=True)
        return [read_column(column, cells) for column, cells in pairs]

    def _dropped(self) -> list[int]:
        """Return the indices of the columns that the model does not use and that are not constant."""
        kept = set(kept_columns(self.encoder_, self.model_))
        columns = enumerate(self.encoder_.columns)
        return [index for index, column in columns if index not in kept and column.kind != "constant"]


def _obstacle(rows: GivenScores) -> str:
    """Return in words why no column was tested."""
    counted = rows.target[rows.weights > 0]
    if len(counted) < FEWEST_ROWS:
        return f"{count_text(len(counted), 'row')}, and a test needs {FEWEST_ROWS}"
    if not np.ptp(counted, axis=0).any():
        return "y has one value in all rows"
    return "the dropped columns do not vary in these rows, or the model leaves no errors"


def folds_of(rows: GivenRows, readings: Sequence[Reading], partitions: Sequence[Partition]) -> NDArray[np.intp]:
    """Return the fold of each row, shape (rows,), by what the row holds: the order of the rows does not matter.

    Each run of rows that follow each other in y is spread over all folds.
    """
    values = np.column_stack([rows.target, rows.weights, *(reading.values for reading in readings)])
    labels = np.column_stack([rows.weights, *(partition.codes for partition in partitions)])
    packed = np.ascontiguousarray(np.column_stack([values, labels]) + 0.0)  # which turns -0 into 0
    keys = [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "big") for row in packed]
    key = np.array(keys, dtype=np.uint64)
    order = np.lexsort((key, *rows.target.T[::-1]))
    run = np.empty(key.size, dtype=np.intp)
    run[order] = np.arange(key.size) // FOLDS
    order = np.lexsort((key, run))
    folds = np.empty(key.size, dtype=np.intp)
    folds[order] = np.arange(key.size) % FOLDS
    return folds
