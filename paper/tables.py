"""Tables from a report's JSON and nothing else: mean ± sd over splits, the paper's rows beside ours."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paper.experiments import summaries_of
from paper.experiments.cells import Result
from paper.fitted import BY_THRESHOLD
from paper.measures import COLUMNS
from paper.recipe import MethodRecipe, Section, Settings, parse_recipe
from paper.records import Record, Report, shown_records

PUBLISHED = Path(__file__).parent / "published.toml"
OPTIMIZERS = "optimizers"  # the section of the training histories
PAPER_EPOCHS = 300  # of the paper's figure of optimizers
MISSING = "–"
NO_COMMIT = "not recorded"
QUICK = "A quick run, with fewer rows, epochs and candidates than the notes say: it shows that all works, no more."
SECONDS = "Seconds are those of a whole fit, the search for the tuned settings included."
RULE = (
    "The threshold of 0.01 on the mean absolute effect is the authors' notebook's. The paper goes by the ℓ2 norm "
    "of a sub-network's weights, which Adam's subgradient steps never bring to zero."
)
VERSIONS_NOTE = (
    "As printed: ‖Gⱼᵀ‖∞ is the largest ‖gⱼ(xᵢ)‖₁ over the rows, as the paper defines it; with the usual norm: the "
    f"largest row sum of |Gⱼᵀ|; corrected: what can be proved; {MISSING}: no such λ."
)


@dataclass(frozen=True, slots=True)
class Table:
    """Title, headings, cells and footnotes, all text."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [f"## {self.title}", ""]
        if self.headings:
            lines += [_line(self.headings), _line(["---", *["---:"] * (len(self.headings) - 1)])]
            lines += [_line(row) for row in self.rows]
        lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines).rstrip() + "\n"

    def text(self) -> str:
        """Return the table with aligned columns, for a terminal."""
        cells = [self.headings, *self.rows] if self.headings else []
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in cells
        ]
        return "\n".join([self.title, *lines, *(f"· {note}" for note in self.notes)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def shown(value: float) -> str:
    """Return a number with four significant digits, never in powers of ten above 1."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def published(name: str) -> Mapping[str, Any]:
    """Return the paper's table of a name, "rows" as printed and "notes" on how to read it; empty without one.

    A row has the paper's "method", the row of ours "beside" it, and its measures.
    """
    return {"rows": [], "notes": [], **tomllib.loads(PUBLISHED.read_text(encoding="utf-8")).get(name, {})}


def tables_of(report: Report) -> list[Table]:
    """Return all tables of a report."""
    return theory_tables(report) if report["name"] == "theory" else comparison_tables(report)


def comparison_tables(report: Report) -> list[Table]:
    """Return one table for each section of the report's recipe, and one of the training histories if it has any."""
    recipe = parse_recipe(str(report["name"]), report["recipe"])
    records = shown_records(report)
    paper = published(recipe.name)
    common = (*((QUICK,) if report["quick"] else ()), *recipe.notes, *paper["notes"], *_several_versions(records))
    tables = [_section_table(section, records, paper["rows"], common) for section in recipe.sections]
    histories = [record for record in records if record["section"] == OPTIMIZERS]
    return [*tables, _history_table(histories, recipe.optimizers)] if histories and recipe.optimizers else tables


def _several_versions(records: Sequence[Record]) -> tuple[str, ...]:
    """Return a note if the records were not all made with the same packages."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.get("versions", {}).items():
            found.setdefault(package, set()).add(version)
    mixed = [f"{package} {', '.join(sorted(several))}" for package, several in found.items() if len(several) > 1]
    return (f"Not all records were made with the same versions: {'; '.join(mixed)}.",) if mixed else ()


def _history_table(records: Sequence[Record], settings: Settings) -> Table:
    """Return where each solver ended; a solver that failed has a footnote with the reason."""
    rows: list[tuple[str, ...]] = []
    notes = [f"{settings['max_epochs']} epochs; the paper's figure has {PAPER_EPOCHS}."]
    for record in records:
        if record["status"] == "done":
            end: Mapping[str, float] = record["end"]
            numbers = (end["epoch"], end["loss"] + end["penalty"], end["features"], end["seconds"])
            rows.append((str(record["method"]), *map(shown, numbers)))
        else:
            rows.append((str(record["method"]), *[MISSING] * 4))
            notes.append(f"{record['method']}: {MISSING} failed: {record['reason']}")
    headings = ("solver", "epochs", "objective", "features", "seconds")
    return Table("Training by solver: the end of each history", headings, tuple(rows), tuple(notes))


def _section_table(
    section: Section, records: Sequence[Record], printed: Sequence[Settings], common: tuple[str, ...]
) -> Table:
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    left = list(printed)
    ours = [record for record in records if record["section"] == section.name]
    for method in section.methods:
        made = [record for record in ours if record["method"] == method.name]
        if made:
            rows.append(_our_row(method, made, section.measures))
            notes.append(_note(method, made))
            rows += [_paper_row(row, section.measures) for row in left if row["beside"] == method.name]
            left = [row for row in left if row["beside"] != method.name]
    rows += [_paper_row(row, section.measures) for row in left]
    headings = ("method", *(COLUMNS[key][0] for key in section.measures))
    if "seconds" in section.measures:
        common = (*common, SECONDS)
    if any(record.get("support_rule") == BY_THRESHOLD for record in ours):
        common = (*common, RULE)
    return Table(section.title, headings, tuple(rows), (*common, *notes))


def _our_row(method: MethodRecipe, records: Sequence[Record], keys: Sequence[str]) -> tuple[str, ...]:
    done = [record for record in records if record["status"] == "done"]
    return (method.name, *(_cell(done, key) for key in keys))


def _cell(done: Sequence[Record], key: str) -> str:
    found = [{**record["chosen"], **record["measures"]}.get(key) for record in done]
    values = COLUMNS[key][1] * np.array([value for value in found if value is not None], dtype=np.float64)
    if not values.size:
        return MISSING
    spread = f" ± {values.std(ddof=1):.2g}" if values.size > 1 else ""
    return shown(float(values.mean())) + spread


def _note(method: MethodRecipe, records: Sequence[Record]) -> str:
    """Return how many splits a row has, what was tuned, how columns count as kept, what was chosen, what failed."""
    done = [record for record in records if record["status"] == "done"]
    failed = [record for record in records if record["status"] != "done"]
    parts = [f"{len(done)} split{'s' if len(done) != 1 else ''}"] if done else []
    if method.note:
        parts.append(method.note.rstrip("."))
    parts += dict.fromkeys(str(record["support_rule"]) for record in done)
    chosen: dict[str, list[str]] = {}
    for record in done:
        for name, value in record["chosen"].items():
            chosen.setdefault(name, []).append(f"{value:.3g}")
    parts += [f"{name}: {', '.join(dict.fromkeys(values))}" for name, values in chosen.items()]
    parts.append(commits_of(records))
    if failed:
        reasons = ", ".join(dict.fromkeys(str(record["reason"]) for record in failed))
        parts.append(f"{MISSING} failed on {len(failed)} of {len(records)} splits: {reasons.rstrip('.')}")
    return f"{method.name}: {'; '.join(parts)}."


def commits_of(records: Sequence[Record]) -> str:
    """Return which commits of the code made the records; one that names none was made before records did."""
    found = dict.fromkeys(str(record.get("commit") or NO_COMMIT) for record in records)
    return f"commit: {', '.join(found)}"


def _paper_row(row: Settings, keys: Sequence[str]) -> tuple[str, ...]:
    return (f"paper: {row['method']}", *(shown(row[key]) if key in row else MISSING for key in keys))


def theory_tables(report: Report) -> list[Table]:
    """Return the tables of every experiment, and notes on cells that failed."""
    tables = [table for name, summary in summaries_of(report).items() for table in THEORY_TABLES[name](summary)]
    notes = [QUICK] if report["quick"] else []
    notes += [
        f"{record['section']}, {record['method']}: {MISSING} failed: {record['reason']}"
        for record in report["records"]
        if record["status"] != "done"
    ]
    done = [record for record in report["records"] if record["status"] == "done"]
    for name in dict.fromkeys(record["section"] for record in done):
        found = Counter(str(record.get("commit") or NO_COMMIT) for record in done if record["section"] == name)
        notes.append(f"{name}, cells by commit: {', '.join(f'{commit} ({n})' for commit, n in found.items())}.")
    return [*tables, Table("Notes", (), (), tuple(notes))] if notes else tables


def _estimation(summary: Result) -> Iterator[Table]:
    for name, points in summary["by_estimator"].items():
        rows = [("error", *(shown(sum(repeats) / len(repeats)) for repeats in points["error"]))]
        for part in ("bound", "corrected_bound", "overfits", "approximation"):
            if part in points:
                rows.append((part.replace("_", " "), *map(_text, points[part])))
        note = f"{_slope(points)} The theorem's rate is {summary['theorem_slope']}."
        headings = ("mean over repeats", *_sizes(points))
        yield Table(f"Estimation error: {_text(name)}", headings, tuple(rows), (note,))


def _identification(summary: Result) -> Iterator[Table]:
    for name, points in summary["by_estimator"].items():
        rows = tuple((effect, *map(shown, values)) for effect, values in points["error"].items())
        yield Table(f"Identification error: {_text(name)}", ("effect", *_sizes(points)), rows, (_slope(points),))


def _consistency(summary: Result) -> Iterator[Table]:
    levels, effect_level = summary["epsilons"], summary["effect_epsilon"]
    for name, points in summary["by_estimator"].items():
        rows = [_across(f"|f - h| ≥ {level:g}", points["share"], i) for i, level in enumerate(levels)]
        if "printed_bound" in points:  # it bounds the share of the training rows
            rows += [_across(f"training rows: ≥ {level:g}", points["train_share"], i) for i, level in enumerate(levels)]
        for part in ("printed_bound", "corrected_bound"):
            if part in points:
                label = f"{part.replace('_', ' ')}, ε ="
                rows += [_across(f"{label} {level:g}", points[part], i) for i, level in enumerate(levels)]
        rows += [_across("‖f - h‖²/n, training rows", points["train_error"], 0)]
        rows += [_across("‖f - h‖²/n, fresh rows", points["fresh_error"], 0)]
        heading = f"Theorem 5.1, share of fresh rows far from f: {_text(name)}"
        yield Table(heading, ("mean over repeats", *_sizes(points)), tuple(rows), (_slope(points),))
    for name, points in summary["by_estimator"].items():
        rows = [_across("sum of effects", points["whole"], 0)]
        rows += [(effect, *map(shown, values)) for effect, values in points["effects"].items()]
        heading = f"Theorem 5.2, share of fresh rows {effect_level:g} or more from fⱼ and a constant: {_text(name)}"
        yield Table(heading, ("effect", *_sizes(points)), tuple(rows))


def _across(label: str, values: Sequence[Sequence[float]], position: int) -> tuple[str, ...]:
    """Return a row of one entry of the list for each n."""
    return label, *(shown(entries[position]) for entries in values)


def _recovery(summary: Result) -> Iterator[Table]:
    for name, grid in summary["by_design"].items():
        lines = zip(grid["multipliers"], grid["probability"], strict=True)
        rows = tuple((f"{multiplier:g}", *map(shown, values)) for multiplier, values in lines)
        yield Table(f"Probability of the exact support: {name} design", ("λ / λ_max", *_sizes(grid)), rows)
    yield from _listed("The theorem's λ / λ_max", summary["theory"])
    yield from _listed("The theorem's assumptions on examples", summary["examples"])


def _listed(title: str, rows: Sequence[Result]) -> Iterator[Table]:
    """Yield a table of rows that share their entries; none of an empty list."""
    keys = tuple(dict.fromkeys(key for row in rows for key in row))
    if rows:
        cells = tuple(tuple(_text(row.get(key)) for key in keys) for row in rows)
        yield Table(title, tuple(key.replace("_", " ") for key in keys), cells, (VERSIONS_NOTE,))


def _flows(summary: Result) -> Iterator[Table]:
    rows: list[tuple[str, ...]] = []
    for name, flow in summary.items():
        ends = map(shown, (flow["iteration"], flow["objective"], flow["zeros"]))
        gap = f"{flow['objective'] - flow['optimum']:.2g}"
        rows.append((_text(name), *ends, gap, _text(flow.get("optimum_zeros"))))
    headings = ("method", "iterations", "objective", "exact zeros", "objective - optimum", "zeros of the optimum")
    yield Table("Subgradient and proximal descents", headings, tuple(rows))


def _slope(points: Result) -> str:
    if "slope" not in points:
        return "Too few sizes for a slope."
    low, high = points["interval"]
    return f"Slope of log error on log n: {points['slope']:.2f}, 95 % interval {low:.2f} to {high:.2f}."


def _sizes(points: Result) -> tuple[str, ...]:
    return tuple(f"n = {size}" for size in points["n"])


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value.replace("_", " ") if isinstance(value, str) else shown(float(value))


THEORY_TABLES: Mapping[str, Callable[[Result], Iterator[Table]]] = {
    "estimation": _estimation,
    "recovery": _recovery,
    "identification": _identification,
    "consistency": _consistency,
    "flows": _flows,
}
