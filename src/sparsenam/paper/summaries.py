"""Tables of the theory experiments from the summaries in their report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from sparsenam.paper.tables import MISSING, QUICK, Table, shown

Summary = Mapping[str, object]
VERSIONS_NOTE = (
    "As printed: ‖Gⱼᵀ‖∞ is the largest ‖gⱼ(xᵢ)‖₁ over the rows, as the paper defines it; with the usual norm: the "
    f"largest row sum of |Gⱼᵀ|; corrected: what can be proved; {MISSING}: no such λ."
)


def summary_tables(report: Mapping[str, object]) -> list[Table]:
    """Return the tables of every experiment, and notes on cells that failed."""
    summaries = cast("Mapping[str, Summary]", report["summaries"])
    tables = [table for name, summary in summaries.items() for table in TABLES[name](summary)]
    records = cast("Sequence[Mapping[str, object]]", report["records"])
    notes = [QUICK] if report["quick"] else []
    notes += [
        f"{record['section']}, {record['method']}: {MISSING} failed: {record['reason']}"
        for record in records
        if record["status"] != "done"
    ]
    return [*tables, Table("Notes", (), (), tuple(notes))] if notes else tables


def _estimation(summary: Summary) -> Iterator[Table]:
    for name, own in cast("Mapping[str, Summary]", summary["by_estimator"]).items():
        errors = cast("Sequence[Sequence[float]]", own["error"])
        rows = [("error", *(shown(float(np.mean(repeats))) for repeats in errors))]
        for part in ("bound", "corrected_bound", "overfits", "approximation"):
            if part in own:
                rows.append((part.replace("_", " "), *_words(own[part])))
        note = f"{_slope(own)} The theorem's rate is {summary['theorem_slope']}."
        yield Table(f"Estimation error: {_word(name)}", ("mean over repeats", *_sizes(own)), tuple(rows), (note,))


def _identification(summary: Summary) -> Iterator[Table]:
    for name, own in cast("Mapping[str, Summary]", summary["by_estimator"]).items():
        errors = cast("Mapping[str, Sequence[float]]", own["error"])
        rows = tuple((effect, *map(shown, values)) for effect, values in errors.items())
        yield Table(f"Identification error: {_word(name)}", ("effect", *_sizes(own)), rows, (_slope(own),))


def _recovery(summary: Summary) -> Iterator[Table]:
    for name, own in cast("Mapping[str, Summary]", summary["by_design"]).items():
        multipliers = cast("Sequence[float]", own["multipliers"])
        chances = cast("Sequence[Sequence[float]]", own["probability"])
        rows = [(f"{ratio:g}", *map(shown, values)) for ratio, values in zip(multipliers, chances, strict=True)]
        yield Table(f"Probability of the exact support: {name} design", ("λ / λ_max", *_sizes(own)), tuple(rows))
    yield from _listed("The theorem's λ / λ_max", summary["theory"], VERSIONS_NOTE)
    yield from _listed("The theorem's assumptions on examples", summary["examples"], VERSIONS_NOTE)


def _listed(title: str, listed: object, note: str) -> Iterator[Table]:
    """Yield a table of a list of rows that share their entries; none of an empty list."""
    rows = cast("Sequence[Mapping[str, object]]", listed)
    keys = tuple(dict.fromkeys(key for row in rows for key in row))
    if rows:
        cells = tuple(tuple(_word(row.get(key)) for key in keys) for row in rows)
        yield Table(title, tuple(key.replace("_", " ") for key in keys), cells, (note,))


def _flows(summary: Summary) -> Iterator[Table]:
    rows: list[tuple[str, ...]] = []
    for name, own in cast("Mapping[str, Summary]", summary).items():
        steps, objective, zeros = (
            cast("Sequence[float]", own[key])[-1] for key in ("iteration", "objective", "zeros")
        )
        gap = objective - float(cast(float, own["optimum"]))
        rows.append(
            (_word(name), *map(shown, (steps, objective, zeros)), f"{gap:.2g}", _word(own.get("optimum_zeros")))
        )
    headings = ("method", "iterations", "objective", "exact zeros", "objective - optimum", "zeros of the optimum")
    yield Table("Subgradient and proximal descents", headings, tuple(rows))


def _slope(own: Summary) -> str:
    if "slope" not in own:
        return "Too few sizes for a slope."
    low, high = cast("Sequence[float]", own["interval"])
    return f"Slope of log error on log n: {cast(float, own['slope']):.2f}, 95 % interval {low:.2f} to {high:.2f}."


def _sizes(own: Summary) -> tuple[str, ...]:
    return tuple(f"n = {size}" for size in cast("Sequence[int]", own["n"]))


def _words(values: object) -> tuple[str, ...]:
    return tuple(_word(value) for value in cast("Sequence[object]", values))


def _word(value: object) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.replace("_", " ")
    return shown(float(cast(float, value)))


TABLES: dict[str, Callable[[Summary], Iterator[Table]]] = {
    "estimation": _estimation,
    "recovery": _recovery,
    "identification": _identification,
    "flows": _flows,
}
