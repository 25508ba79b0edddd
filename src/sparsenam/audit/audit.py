"""The audit of a fit: who pays for a dropped column, and how right a fitted model is in subgroups of rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.audit.harm import AUDIT_FOLDS, FEWEST_SUBGROUP_ROWS, AuditRows, Harm, harms, holm
from sparsenam.audit.subgroups import (
    Groups,
    OfSubgroup,
    Partition,
    binned,
    read_partitions,
    subgroup_means,
    subgroup_text,
    with_error,
)
from sparsenam.codec import Matrix, Numbers, Vector
from sparsenam.context import ProgressBar, one_thread
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import GivenRows, GivenScores
from sparsenam.fit.summary import numbers, read_cells
from sparsenam.tables.columns import Reading, read_column
from sparsenam.text import NOTHING, Finding, FindingTable, Found, count_text, number_text

MANY_COLUMNS = 60  # beyond, only kept columns make subgroups unless others are asked for
AUDIT_LEVEL = 0.05  # of a wrong flag anywhere in an audit
ONE_SIDED = 1.6449  # standard errors above 0 of a cost that a test at 5 % takes for one
ROWS_SHOWN, MOST_ROWS_SHOWN = 20, 60  # rows of a table in words, and of one with so many flags


@dataclass(frozen=True, slots=True)
class SubgroupCheck(OfSubgroup):
    """How right the model is in a subgroup; its means are of each output.

    ``gap`` is the mean outcome less the mean prediction, ``gap_error`` its standard error. ``accuracy`` is for classes,
    ``false_positive`` and ``false_negative`` for two of them: the shares of the rows of the first class that are
    predicted to be of the second, and the other way round; None where there are no such rows.
    """

    groups: str | None
    label: str
    rows: int
    mean_prediction: Numbers
    mean_outcome: Numbers
    gap: Numbers
    gap_error: Numbers
    loss: float
    loss_error: float
    accuracy: float | None = None
    false_positive: float | None = None
    false_negative: float | None = None


@dataclass(frozen=True, slots=True)
class Audit(Found):
    """Who pays for dropped columns, and how right the model is in each subgroup.

    ``harms`` has every dropped column in every subgroup that was tested, the smallest p-value first; ``checks`` all
    subgroups, all rows first. ``too_small`` are subgroups of less than 30 rows, which are not tested; ``untested`` says
    in words why there are no tests where there are none.
    """

    rows: int
    outputs: tuple[str, ...]
    dropped: tuple[str, ...]
    harms: tuple[Harm, ...]
    checks: tuple[SubgroupCheck, ...]
    too_small: tuple[str, ...]
    level: float = AUDIT_LEVEL
    untested: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def flagged(self) -> tuple[Harm, ...]:
        """The columns and subgroups in which dropping the column certainly cost something."""
        return tuple(harm for harm in self.harms if harm.flagged)

    def finding(self) -> Finding:
        notes = list(self.notes)
        if self.harms:
            saved = "the mean loss that a small curve of the column would have saved, in rows held out from it"
            count = count_text(len(self.harms), "combination")
            notes.insert(0, f"A cost is {saved}; p-values are corrected for {count}.")
        if self.too_small:
            small = ", ".join(self.too_small[:ROWS_SHOWN]) + (" …" if len(self.too_small) > ROWS_SHOWN else "")
            notes.append(f"Too small to test (less than {FEWEST_SUBGROUP_ROWS} rows): {small}.")
        tables = [self._harm_table()] if self.harms else []
        return Finding("Audit", self._sentence(), (*tables, self._check_table()), tuple(notes))

    def _sentence(self) -> str:
        subgroups = len({(harm.groups, harm.label) for harm in self.harms})
        looked = f"{count_text(len(self.dropped), 'dropped column')} in {count_text(subgroups, 'subgroup')}"
        if not self.dropped:
            return "The model uses every column, so that nobody pays for a dropped one."
        if not self.harms:
            return f"Nothing could be tested: {self.untested}."
        flagged = self.flagged
        if not flagged:
            return f"None of {looked} is shown to have cost anything by being dropped."
        worst = max(flagged, key=lambda harm: harm.cost)
        share = "" if worst.share is None else f", {_percent(worst)} of what the model explains"
        return (
            f"Of {looked}, {count_text(len(flagged), 'combination')} would have been better off with the column; most "
            f"of all {worst.column!r} in {worst.subgroup}: dropping it costs {with_error(worst.cost, worst.error)} of "
            f"loss there{share}."
        )

    def _harm_table(self) -> FindingTable:
        shown = [harm for index, harm in enumerate(self.harms) if harm.flagged or index < ROWS_SHOWN][:MOST_ROWS_SHOWN]
        columns = {
            "dropped column": [harm.column for harm in shown],
            "subgroup": [harm.subgroup for harm in shown],
            "rows": [str(harm.rows) for harm in shown],
            "cost in loss": [with_error(harm.cost, harm.error) for harm in shown],
            "of what is explained": [_percent(harm) for harm in shown],
            "p-value": [number_text(harm.p_value, 2) for harm in shown],
            "certain": ["yes" if harm.flagged else "" for harm in shown],
        }
        more = f", the first {len(shown)} of {len(self.harms)}" if len(shown) < len(self.harms) else ""
        return FindingTable.of(f"What dropping cost, the most certain first{more}", columns)

    def _check_table(self) -> FindingTable:
        order = sorted(self.checks[1:], key=_distance, reverse=True)
        shown = [*self.checks[:1], *order[: ROWS_SHOWN - 1]]
        columns = {
            "subgroup": [check.subgroup for check in shown],
            "rows": [str(check.rows) for check in shown],
            "mean prediction": [_several(check.mean_prediction) for check in shown],
            "mean outcome": [_several(check.mean_outcome) for check in shown],
            "difference": [" / ".join(map(with_error, check.gap, check.gap_error)) for check in shown],
            "loss": [number_text(check.loss, 4) for check in shown],
        }
        measures: dict[str, list[float | None]] = {
            "accuracy": [check.accuracy for check in shown],
            "false positives": [check.false_positive for check in shown],
            "false negatives": [check.false_negative for check in shown],
        }
        for head, values in measures.items():
            if any(value is not None for value in values):
                columns[head] = [number_text(value, 3) for value in values]
        more = f", the {len(shown) - 1} worst of {len(self.checks) - 1}" if len(shown) < len(self.checks) else ""
        outputs = "" if len(self.outputs) == 1 else f" ({' / '.join(self.outputs)})"
        return FindingTable.of(f"How right the model is{outputs}, the farthest from its outcomes first{more}", columns)


def audit(
    fit: Fit,
    X: ArrayLike,
    y: ArrayLike,
    groups: Groups = None,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
    verbose: bool | None = None,
) -> Audit:
    """Return what dropping each column cost subgroups of rows, and how right the model is in them."""
    given = fit.rows(X, y, sample_weight, exposure, fit.reader())
    rows = fit.response.scored(fit.model, given)
    columns, names = fit.encoder.columns, fit.encoder.names
    readings = [read_column(column, cells) for column, cells in zip(columns, read_cells(fit.encoder, X), strict=True)]
    dropped = [place for place, column in enumerate(columns) if place not in fit.kept and column.kind != "constant"]
    default = range(len(readings)) if len(readings) <= MANY_COLUMNS else fit.kept
    partitions = read_partitions(fit.encoder, readings, groups, default, "audit")
    folds = _folds(given, readings, partitions)
    scaled = AuditRows.of(rows.family, rows.scores / rows.units, rows.target / rows.units, rows.weights, folds)
    coarse = [binned(index, columns[index], readings[index]) for index in dropped]
    progress = ProgressBar(verbose)
    try:
        with one_thread():
            found = harms(scaled, names, coarse, partitions, partial(progress.report, "audit"))
    finally:
        progress.close()
    means, has_classes = rows.family.mean(rows.scores), fit.task == "classification"
    checks = _checks(partitions, rows.weights, means, rows.target, rows.losses, has_classes)
    small = [
        subgroup_text(partition.name, label)
        for partition in partitions
        for label, count in zip(partition.labels, partition.counts(rows.weights).tolist(), strict=True)
        if 0 < count < FEWEST_SUBGROUP_ROWS
    ]
    note = () if np.all(rows.units == 1.0) else ("Losses are of y in units of its spread.",)
    made = list[Harm]()  # with p-values corrected for their number
    for harm, p_value in zip(found, holm(np.array([each.p_value for each in found])).tolist(), strict=True):
        flagged = p_value <= AUDIT_LEVEL and harm.cost > ONE_SIDED * harm.error
        made.append(replace(harm, p_value=p_value, flagged=flagged))
    return Audit(
        rows=int((rows.weights > 0).sum()),
        outputs=fit.outputs,
        dropped=tuple(names[index] for index in dropped),
        harms=tuple(sorted(made, key=lambda harm: (harm.p_value, -harm.cost, harm.column, harm.subgroup))),
        checks=checks,
        too_small=tuple(small),
        untested="" if made else _obstacle(rows),
        notes=note,
    )


def _obstacle(rows: GivenScores) -> str:
    """Return in words why no column was tested."""
    counted = rows.target[rows.weights > 0]
    if len(counted) < FEWEST_SUBGROUP_ROWS:
        return f"{count_text(len(counted), 'row')}, and a test needs {FEWEST_SUBGROUP_ROWS}"
    if not np.ptp(counted, axis=0).any():
        return "y has one value in all rows"
    return "the dropped columns do not vary in these rows, or the model leaves no errors"


def _folds(rows: GivenRows, readings: Sequence[Reading], partitions: Sequence[Partition]) -> NDArray[np.intp]:
    """Return the fold of each row, shape (rows,), by what the row holds: the order of the rows does not matter.

    Each run of rows that follow each other in y is spread over all folds.
    """
    values = np.column_stack([rows.target, rows.weights, *(reading.values for reading in readings)])
    labels = np.column_stack([rows.weights, *(partition.codes for partition in partitions)])
    packed = np.ascontiguousarray(np.column_stack([values, labels]) + 0.0)  # which turns -0 into 0
    keys = [int.from_bytes(hashlib.blake2b(row.tobytes(), digest_size=8).digest(), "big") for row in packed]
    key = np.array(keys, dtype=np.uint64)
    run = np.argsort(np.lexsort((key, *rows.target.T[::-1]))) // AUDIT_FOLDS
    return np.argsort(np.lexsort((key, run))) % AUDIT_FOLDS


def _checks(
    partitions: Sequence[Partition], weights: Vector, prediction: Matrix, outcome: Matrix, losses: Vector, classes: bool
) -> tuple[SubgroupCheck, ...]:
    """Return how right predictions (rows, outputs) are in all rows, then in each subgroup that has any."""
    measures = _class_measures(prediction, outcome) if classes else {}
    values = np.column_stack([prediction, outcome, outcome - prediction, losses, *measures.values()])
    outputs, made = outcome.shape[1], list[SubgroupCheck]()
    for place, means, errors in subgroup_means(partitions, weights, values):
        predicted, observed, gap = map(numbers, means[: 3 * outputs].reshape(3, outputs))
        gap_error, loss_error = numbers(errors[2 * outputs : 3 * outputs]), float(errors[3 * outputs])
        loss, *shares = means[3 * outputs :].tolist()
        known = {name: None if math.isnan(share) else share for name, share in zip(measures, shares, strict=True)}
        made.append(SubgroupCheck(*place, predicted, observed, gap, gap_error, loss, loss_error, **known))
    return tuple(made)


def _class_measures(prediction: Matrix, outcome: Matrix) -> dict[str, Vector]:
    """Return for each row whether its class is right, and of two classes which error it is; NaN where it is neither."""
    if prediction.shape[1] > 1:
        if np.allclose(outcome.sum(axis=1), 1.0):  # one class of many, not several labels
            return {"accuracy": (prediction.argmax(axis=1) == outcome.argmax(axis=1)).astype(np.float64)}
        return {"accuracy": ((prediction > 0.5) == (outcome > 0.5)).mean(axis=1)}
    said, was = prediction[:, 0] > 0.5, outcome[:, 0] > 0.5
    return {
        "accuracy": (said == was).astype(np.float64),
        "false_positive": np.where(was, np.nan, said),
        "false_negative": np.where(was, 1.0 - said, np.nan),
    }


def _distance(check: SubgroupCheck) -> float:
    """Return the largest gap in standard errors; 0 where those are not known."""
    pairs = zip(check.gap, check.gap_error, strict=True)
    return max((abs(gap) / error for gap, error in pairs if error > 0), default=0.0)


def _several(values: Numbers) -> str:
    return " / ".join(number_text(value, 4) for value in values)


def _percent(harm: Harm) -> str:
    """Return the share of what is explained, a dash where it is not known."""
    if harm.share is None or harm.share_error is None:
        return NOTHING
    return f"{number_text(100 * harm.share, 3)} % ± {number_text(100 * harm.share_error, 2)} %"
