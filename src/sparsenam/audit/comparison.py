"""Two models side by side as plain data: columns, curves and predictions that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.audit.harm import mean_and_error
from sparsenam.audit.results import ROUNDING, rows_of, subgroup_text, with_error
from sparsenam.audit.subgroups import NOWHERE, Partition
from sparsenam.codec import to_plain
from sparsenam.findings import Finding, FindingTable
from sparsenam.plain import Numbers, numbers, rows_of_numbers
from sparsenam.tables.columns import Column
from sparsenam.tables.text import date_key
from sparsenam.text import count_text, number_text, share_text

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
SHOWN = 20  # rows of a table in words
POINTS = 101  # of a curve
BEYOND = 2.0  # standard deviations of a difference that count as more than chance


@dataclass(frozen=True, slots=True)
class CurveChange:
    """How the effect of a column differs, second model less first, both of mean 0 over the rows.

    ``x`` are values of the rows in rising order, or ``levels`` of a category; ``first`` and ``second`` (points,
    outputs) the effects there. ``where`` is the value with the largest difference. ``beyond`` is the share of the
    rows whose difference is more than two standard deviations of the effects, None where the models do not know these.
    """

    column: str
    mean_absolute: float
    largest: float
    where: str
    beyond: float | None
    x: Numbers
    levels: tuple[str, ...]
    first: tuple[Numbers, ...]
    second: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class PredictionChange:
    """How predictions of a subgroup differ, second model less first; means over rows and outputs.

    ``changed`` is the share of the rows whose class differs, None without classes. ``losses`` of both models and the
    mean of their paired ``difference`` with its error are None where no target was given.
    """

    groups: str | None
    label: str
    rows: int
    mean: Numbers
    mean_absolute: float
    changed: float | None
    losses: tuple[float, float] | None
    difference: float | None
    difference_error: float | None

    @property
    def subgroup(self) -> str:
        """The subgroup in words."""
        return subgroup_text(self.groups, self.label)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from the first model to the second.

    ``curves`` has each column that both keep, the largest mean difference first; ``predictions`` all rows first, then
    each subgroup. ``pairs_first`` and ``pairs_second`` are pairs of columns that only one of the models has.
    """

    rows: int
    outputs: tuple[str, ...]
    units: str
    response: str
    both: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    pairs_first: tuple[tuple[str, str], ...]
    pairs_second: tuple[tuple[str, str], ...]
    curves: tuple[CurveChange, ...]
    predictions: tuple[PredictionChange, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return to_plain(self)

    def __str__(self) -> str:
        return str(self.finding())

    def finding(self) -> Finding:
        """Return the comparison in words and tables."""
        columns = (
            ("kept by both", ", ".join(self.both)),
            ("only in the first", ", ".join(self.only_first)),
            ("only in the second", ", ".join(self.only_second)),
        )
        table = FindingTable("Columns", ("", "columns"), tuple((name, names or "none") for name, names in columns))
        tables = [table, *([self._curve_table()] if self.curves else []), self._prediction_table()]
        return Finding("Comparison", self._sentence(), tuple(tables), self._all_notes())

    def _sentence(self) -> str:
        whole = self.predictions[0]
        kept = f"Both models keep {count_text(len(self.both), 'column')}"
        alone = f"the first has {len(self.only_first)} more and the second {len(self.only_second)}"
        moved = f"predictions differ by {number_text(whole.mean_absolute, 3)} on average ({self.response})"
        text = f"{kept}, {alone}; {moved}"
        if whole.changed is not None:
            text += f", and the class of {share_text(whole.changed)} of the rows"
        if whole.difference is not None and whole.difference_error is not None:
            text += f"; the loss of the second less the first is {with_error(whole.difference, whole.difference_error)}"
        return f"{text}."

    def _all_notes(self) -> tuple[str, ...]:
        notes = list(self.notes)
        for name, pairs in (("first", self.pairs_first), ("second", self.pairs_second)):
            if pairs:
                notes.append(f"Pairs only in the {name}: {', '.join(' × '.join(pair) for pair in pairs)}.")
        if self.curves and all(curve.beyond is None for curve in self.curves):
            notes.append("How sure the effects are is not known of both models, so differences may be chance.")
        return tuple(notes)

    def _curve_table(self) -> FindingTable:
        rows = tuple(
            (
                curve.column,
                number_text(curve.mean_absolute, 3),
                number_text(curve.largest, 3),
                curve.where,
                "not known" if curve.beyond is None else share_text(curve.beyond),
            )
            for curve in self.curves[:SHOWN]
        )
        heads = ("column", "mean difference", "largest", "where", "rows beyond bands")
        return FindingTable(f"Changed curves, in {self.units}", heads, rows)

    def _prediction_table(self) -> FindingTable:
        order = sorted(self.predictions[1:], key=lambda change: -change.mean_absolute)
        shown = [*self.predictions[:1], *order[: SHOWN - 1]]
        heads = ["subgroup", "rows", "mean difference", "mean absolute"]
        with_classes, with_losses = shown[0].changed is not None, shown[0].losses is not None
        heads += ["classes changed"] if with_classes else []
        heads += ["first's loss", "second's loss", "difference"] if with_losses else []
        rows: list[tuple[str, ...]] = []
        for change in shown:
            least = ROUNDING * change.mean_absolute  # below, a mean is nothing but rounding
            means = " / ".join(number_text(value if abs(value) > least else 0.0, 3) for value in change.mean)
            row = [change.subgroup, str(change.rows), means, number_text(change.mean_absolute, 3)]
            row += [share_text(change.changed)] if change.changed is not None else []
            if change.losses is not None and change.difference is not None and change.difference_error is not None:
                row += [number_text(loss, 4) for loss in change.losses]
                row.append(with_error(change.difference, change.difference_error))
            rows.append(tuple(row))
        more = f", the {len(shown) - 1} largest of {len(self.predictions) - 1}" if len(order) >= SHOWN else ""
        return FindingTable(f"Changed predictions, in {self.response}{more}", tuple(heads), tuple(rows))


def curve_change(
    column: Column, values: Vector, effects: tuple[Matrix, Matrix], deviations: tuple[Matrix, Matrix] | None
) -> CurveChange:
    """Return how the effects (rows, outputs) of a column differ; ``values`` (rows,) are its numbers or codes.

    ``deviations`` (rows, outputs) are the standard deviations of both effects.
    """
    first, second = (effect - effect.mean(axis=0) for effect in effects)
    change = np.abs(second - first).max(axis=1)
    beyond = None
    if deviations is not None:
        spread = np.sqrt(deviations[0] ** 2 + deviations[1] ** 2)
        beyond = float((np.abs(second - first) > BEYOND * spread).any(axis=1).mean())
    order = np.argsort(values, kind="stable")
    known = order[~np.isnan(values[order])]
    distinct = known[np.flatnonzero(np.diff(values[known], prepend=-np.inf))]
    if not column.levels:
        distinct = distinct[np.unique(np.linspace(0, distinct.size - 1, POINTS).astype(np.intp))]
    # among rows of an equally large difference the smallest value, whatever their order
    widest = change >= change.max() - 1e-9 * max(float(change.max()), 1e-300)
    place = order[np.flatnonzero(widest[order])[0]]
    return CurveChange(
        column=column.name,
        mean_absolute=float(np.abs(second - first).mean()),
        largest=float(change.max()),
        where=_value_text(column, float(values[place])),
        beyond=beyond,
        x=numbers(values[distinct]),
        levels=tuple(_value_text(column, float(code)) for code in values[distinct]) if column.levels else (),
        first=rows_of_numbers(first[distinct]),
        second=rows_of_numbers(second[distinct]),
    )


def prediction_changes(
    partitions: tuple[Partition, ...],
    weights: Vector,
    predictions: tuple[Matrix, Matrix],
    classes: tuple[NDArray[Any], NDArray[Any]] | None,
    losses: tuple[Vector, Vector] | None,
) -> tuple[PredictionChange, ...]:
    """Return how predictions (rows, outputs), classes (rows, …) and losses (rows,) differ in all rows and subgroups."""
    everyone = Partition("", None, ("",), np.zeros(weights.size, dtype=np.intp))
    change = predictions[1] - predictions[0]
    moved = None
    if classes is not None:
        moved = (classes[0] != classes[1]).reshape(weights.size, -1).any(axis=1).astype(np.float64)
    made: list[PredictionChange] = []
    for partition in (everyone, *partitions):
        inside = np.flatnonzero((partition.codes != NOWHERE) & (weights > 0))
        given, codes, groups = weights[inside], partition.codes[inside], len(partition.labels)
        means = [mean_and_error(change[inside, k], given, codes, groups)[0] for k in range(change.shape[1])]
        sizes = mean_and_error(np.abs(change[inside]).mean(axis=1), given, codes, groups)[0]
        shares = None if moved is None else mean_and_error(moved[inside], given, codes, groups)[0]
        paired = None
        if losses is not None:
            both = [mean_and_error(each[inside], given, codes, groups)[0] for each in losses]
            paired = (*both, *mean_and_error((losses[1] - losses[0])[inside], given, codes, groups))
        counts = rows_of(partition, weights)
        for group in np.flatnonzero(counts).tolist():
            figures = None if paired is None else [float(values[group]) for values in paired]
            made.append(
                PredictionChange(
                    groups=None if partition is everyone else partition.name,
                    label=partition.labels[group],
                    rows=int(counts[group]),
                    mean=tuple(float(mean[group]) for mean in means),
                    mean_absolute=float(sizes[group]),
                    changed=None if shares is None else float(shares[group]),
                    losses=None if figures is None else (figures[0], figures[1]),
                    difference=None if figures is None else figures[2],
                    difference_error=None if figures is None else figures[3],
                )
            )
    return tuple(made)


def _value_text(column: Column, value: float) -> str:
    if np.isnan(value):
        return "(missing)"
    if column.levels:
        return column.levels[int(value)]
    return date_key(value) if column.kind == "date" else number_text(value, 4)
