"""From the records of `bench.py` to one row for each peer of a table: medians and means over splits, ratios to ours."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OURS = "sparsenam"


@dataclass(frozen=True)
class Row:
    """A peer on a table; figures are ``None`` where there is no result, and ``note`` says why."""

    name: str
    label: str
    note: str = ""
    seconds: float | None = None
    times_seconds: float | None = None
    at_least: float | None = None  # the limit over our time, for one that was stopped at the limit
    loss: float | None = None
    empty_loss: float | None = None
    times_loss: float | None = None
    kept: float | None = None
    false: float | None = None
    megabytes: float | None = None
    predict_seconds: float | None = None
    row_milliseconds: float | None = None


def results_of(entry: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """Return the splits that gave a result."""
    splits = entry["splits"] if entry else {}
    return {split: record for split, record in splits.items() if "refused" not in record}


def note_of(entry: Mapping[str, Any] | None) -> str:
    """Return why there is no result, or none on some of the splits."""
    if entry is None or not entry["splits"]:
        return "not run"
    reasons = [record["refused"] for record in entry["splits"].values() if "refused" in record]
    if not reasons:
        return ""
    stopped = reasons[0].startswith(("no result", "more than"))
    return " ".join((reasons[0] if stopped else f"refused: {reasons[0]}").replace("|", "/").split())


def least_ratio(note: str, ours: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return how many times our time a peer had until it was stopped."""
    found = re.fullmatch(r"no result in (\d+) s", note)
    mine = median_of(ours, "seconds")
    return float(found[1]) / mine if found and mine else None


def mean_of(records: Mapping[str, Mapping[str, Any]], key: str) -> float | None:
    values = [record[key] for record in records.values() if record.get(key) is not None]
    return statistics.fmean(values) if values else None


def median_of(records: Mapping[str, Mapping[str, Any]], key: str) -> float | None:
    values = [record[key] for record in records.values() if record.get(key) is not None]
    return statistics.median(values) if values else None


def row_of(name: str, label: str, entry: Mapping[str, Any] | None, ours: Mapping[str, Mapping[str, Any]]) -> Row:
    """Return a peer's row; ratios are of the splits that both have."""
    held = results_of(entry)
    if not held:
        return Row(name, label, note_of(entry), at_least=least_ratio(note_of(entry), ours))
    shared = [(held[split], ours[split]) for split in held if split in ours]
    times_seconds = times_loss = None
    if shared:
        times_seconds = statistics.median(theirs["seconds"] / mine["seconds"] for theirs, mine in shared)
        times_loss = sum(theirs["loss"] for theirs, _ in shared) / sum(mine["loss"] for _, mine in shared)
    return Row(
        name,
        label,
        note_of(entry),
        seconds=median_of(held, "seconds"),
        times_seconds=times_seconds,
        loss=mean_of(held, "loss"),
        empty_loss=mean_of(held, "empty_loss"),
        times_loss=times_loss,
        kept=mean_of(held, "kept"),
        false=mean_of(held, "false"),
        megabytes=median_of(held, "megabytes"),
        predict_seconds=median_of(held, "predict_seconds"),
        row_milliseconds=median_of(held, "row_milliseconds"),
    )


def rows_of(found: Mapping[str, Any], peers: Mapping[str, str]) -> list[Row]:
    """Return a row for each of ``peers`` (name and label), ours first, whether it was run on this table or not."""
    ours = results_of(found["peers"].get(OURS))
    names = sorted(peers, key=lambda name: name != OURS)
    return [row_of(name, peers[name], found["peers"].get(name), ours) for name in names]
