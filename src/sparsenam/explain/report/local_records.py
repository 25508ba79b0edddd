"""Explanations of single rows, as frozen data read from the dict of a LocalExplanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenam.explain.report.reading import effects_of, entry, items_of, mapping_of
from sparsenam.explain.report.records import Effects, check_schema


@dataclass(frozen=True)
class Contribution:
    """What one column's cell adds to a row's score."""

    feature: str
    value: str
    effects: Effects
    words: str


@dataclass(frozen=True)
class Row:
    """One row: intercept + Σ contributions = score, and the prediction on the response scale."""

    label: str
    prediction: Effects
    score: Effects
    intercept: Effects
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class LocalRecord:
    """The explained rows."""

    outputs: tuple[str, ...]
    units: str
    reference: str
    rows: tuple[Row, ...]


def read_local_record(source: Mapping[str, object]) -> LocalRecord:
    """Return the record of a local explanation's dict."""
    check_schema(source, "local explanation")
    outputs = tuple(str(name) for name in items_of(entry(source, "outputs", "local explanation"), "outputs"))
    rows = items_of(entry(source, "rows", "local explanation"), "rows")
    return LocalRecord(
        outputs,
        str(source.get("units", "")),
        str(source.get("reference", "")),
        tuple(_row(mapping_of(row, "rows"), len(outputs)) for row in rows),
    )


def _row(source: Mapping[str, object], outputs: int) -> Row:
    label = str(entry(source, "row", "local row"))
    where = f"local row '{label}'"
    prediction = items_of(entry(source, "prediction", where), where)
    contributions = items_of(entry(source, "contributions", where), where)
    return Row(
        label,
        # a two-class prediction may hold both probabilities beside one score
        effects_of(prediction, len(prediction), where),
        effects_of(entry(source, "score", where), outputs, where),
        effects_of(entry(source, "intercept", where), outputs, where),
        tuple(_contribution(mapping_of(item, where), outputs, where) for item in contributions),
    )


def _contribution(source: Mapping[str, object], outputs: int, where: str) -> Contribution:
    return Contribution(
        str(entry(source, "feature", where)),
        str(source.get("value", "")),
        effects_of(entry(source, "effect", where), outputs, where),
        str(source.get("words", "")),
    )
