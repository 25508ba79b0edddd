"""The audit of a fit: who pays for a dropped column, and how right a fitted model is in subgroups of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.audit.harm import FEWEST_ROWS, FOLDS, AuditRows, harms
from sparsenam.audit.results import Audit, checks_of, harms_of, rows_of, subgroup_text
from sparsenam.audit.subgroups import Partition, binned, read_partitions
from sparsenam.context import ProgressBar
from sparsenam.fit import Fit
from sparsenam.fit.response import GivenRows, GivenScores
from sparsenam.fit.summary import read_cells
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import Reading, read_column
from sparsenam.text import count_text
from sparsenam.threads import one_thread

Vector = NDArray[np.float64]
MANY_COLUMNS = 60  # beyond, only kept columns make subgroups unless others are asked for


def audit(
    fit: Fit,
    X: ArrayLike,
    y: ArrayLike,
    groups: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    verbose: bool | None = None,
) -> Audit:
    """Return what dropping each column cost subgroups of rows, and how right the model is in them."""
    given = fit.rows(X, y, sample_weight, exposure, fit.reader())
    rows = fit.response.scored(fit.model, given)
    readings = _readings(fit.encoder, X)
    dropped = _dropped(fit)
    count = len(readings)
    default = range(count) if count <= MANY_COLUMNS else fit.kept
    partitions = read_partitions(fit.encoder, readings, groups, default, "audit")
    folds = folds_of(given, readings, partitions)
    scaled = AuditRows.of(rows.family, rows.scores / rows.units, rows.target / rows.units, rows.weights, folds)
    columns = [binned(index, fit.encoder.columns[index], readings[index]) for index in dropped]
    progress = ProgressBar(verbose)
    try:
        with one_thread():
            found = harms(scaled, columns, partitions, lambda done, total: progress.report("audit", done, total))
    finally:
        progress.close()
    return _audit(fit, rows, found, partitions, dropped)


def _audit(fit: Fit, rows: GivenScores, found: Any, partitions: Sequence[Partition], dropped: Sequence[int]) -> Audit:
    """Return what was found as plain data."""
    names = fit.encoder.names
    checks = checks_of(
        partitions,
        rows.weights,
        rows.family.mean(rows.scores),
        rows.target,
        rows.losses,
        fit.task == "classification",
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
        outputs=fit.outputs,
        dropped=tuple(names[index] for index in dropped),
        harms=made,
        checks=checks,
        too_small=tuple(small),
        untested="" if made else _obstacle(rows),
        notes=note,
    )


def _readings(encoder: TableEncoder, X: object) -> list[Reading]:
    """Return the columns of a table in numbers, with the missing cells of each."""
    pairs = zip(encoder.columns, read_cells(encoder, X), strict=True)
    return [read_column(column, cells) for column, cells in pairs]


def _dropped(fit: Fit) -> list[int]:
    """Return the indices of the columns that the model does not use and that are not constant."""
    kept = set(fit.kept)
    columns = enumerate(fit.encoder.columns)
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
