"""Tables from a report's JSON and nothing else: mean ± sd over splits, the paper's rows beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from sparsenam.paper.columns import COLUMNS
from sparsenam.paper.methods.fitted import BY_THRESHOLD
from sparsenam.paper.optimizers import PAPER_EPOCHS
from sparsenam.paper.optimizers import SECTION as OPTIMIZERS
from sparsenam.paper.published import Published, PublishedRow, published
from sparsenam.paper.recipe import MethodRecipe, Section, Words, parse_recipe
from sparsenam.paper.store import Record, shown_records

MISSING = "–"
QUICK = "A quick run, with fewer rows, epochs and candidates than the notes say: it shows that all works, no more."
SECONDS = "Seconds are those of a whole fit, the search for the tuned settings included."
RULE = (
    "The threshold of 0.01 on the mean absolute effect is the authors' notebook's. The paper goes by the ℓ2 norm "
    "of a sub-network's weights, which Adam's subgradient steps never bring to zero."
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


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def comparison_tables(report: Mapping[str, object]) -> list[Table]:
    """Return one table for each section of the report's recipe, and one of the training histories if it has any."""
    recipe = parse_recipe(str(report["name"]), cast("Mapping[str, object]", report["recipe"]))
    records = shown_records(report)
    paper = published(recipe.name)
    common = (*((QUICK,) if report["quick"] else ()), *recipe.notes, *paper.notes, *_several_versions(records))
    tables = [_section_table(section, records, paper, common) for section in recipe.sections]
    histories = [record for record in records if record["section"] == OPTIMIZERS]
    return [*tables, _history_table(histories, recipe.optimizers)] if histories and recipe.optimizers else tables


def _several_versions(records: Sequence[Record]) -> tuple[str, ...]:
    """Return a note if the records were not all made with the same packages."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in cast("Mapping[str, str]", record.get("versions", {})).items():
            found.setdefault(package, set()).add(version)
    mixed = [f"{package} {', '.join(sorted(own))}" for package, own in found.items() if len(own) > 1]
    return (f"Not all records were made with the same versions: {'; '.join(mixed)}.",) if mixed else ()


def _history_table(records: Sequence[Record], words: Words) -> Table:
    """Return where each solver ended; a solver that failed has a footnote with the reason."""
    rows: list[tuple[str, ...]] = []
    notes = [f"{words['max_epochs']} epochs; the paper's figure has {PAPER_EPOCHS}."]
    for record in records:
        if record["status"] == "done":
            last = cast("Sequence[Mapping[str, float]]", record["history"])[-1]
            numbers = (last["epoch"], last["loss"] + last["penalty"], last["features"], last["seconds"])
            rows.append((str(record["method"]), *map(shown, numbers)))
        else:
            rows.append((str(record["method"]), *[MISSING] * 4))
            notes.append(f"{record['method']}: {MISSING} failed: {record['reason']}")
    headings = ("solver", "epochs", "objective", "features", "seconds")
    return Table("Training by solver: the end of each history", headings, tuple(rows), tuple(notes))


def _section_table(section: Section, records: Sequence[Record], paper: Published, common: tuple[str, ...]) -> Table:
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    left = list(paper.rows)
    for method in section.methods:
        own = [record for record in records if (record["section"], record["method"]) == (section.name, method.name)]
        if own:
            rows.append(_own_row(method, own, section.measures, notes))
            for row in [row for row in left if row.beside == method.name]:
                rows.append(_paper_row(row, section.measures))
                left.remove(row)
    rows += [_paper_row(row, section.measures) for row in left]
    headings = ("method", *(COLUMNS[key].heading for key in section.measures))
    if "seconds" in section.measures:
        common = (*common, SECONDS)
    if any(record["section"] == section.name and record.get("support_rule") == BY_THRESHOLD for record in records):
        common = (*common, RULE)
    return Table(section.title, headings, tuple(rows), (*common, *notes))


def _own_row(
    method: MethodRecipe, records: Sequence[Record], keys: Sequence[str], notes: list[str]
) -> tuple[str, ...]:
    done = [record for record in records if record["status"] == "done"]
    failed = [record for record in records if record["status"] != "done"]
    parts = [f"{len(done)} split{'s' if len(done) != 1 else ''}"] if done else []
    if method.note:
        parts.append(method.note.rstrip("."))
    parts += [str(rule) for rule in dict.fromkeys(str(record["support_rule"]) for record in done)]
    parts += _chosen_words(done)
    if failed:
        reasons = ", ".join(dict.fromkeys(str(record["reason"]) for record in failed))
        parts.append(f"{MISSING} failed on {len(failed)} of {len(records)} splits: {reasons.rstrip('.')}")
    notes.append(f"{method.name}: {'; '.join(parts)}.")
    return (method.name, *(_cell(done, key) for key in keys))


def _chosen_words(done: Sequence[Record]) -> list[str]:
    """Return each chosen setting with its values over the splits, such as ``chosen lambda: 0.2, 0.02``."""
    words: dict[str, list[str]] = {}
    for record in done:
        for name, value in cast("Mapping[str, float]", record["chosen"]).items():
            words.setdefault(name, []).append(f"{value:.3g}")
    return [f"{name}: {', '.join(dict.fromkeys(values))}" for name, values in words.items()]


def _cell(done: Sequence[Record], key: str) -> str:
    found = [{**_numbers(record, "chosen"), **_numbers(record, "measures")}.get(key) for record in done]
    values = COLUMNS[key].factor * np.array([value for value in found if value is not None], dtype=np.float64)
    if not values.size:
        return MISSING
    spread = f" ± {values.std(ddof=1):.2g}" if values.size > 1 else ""
    return shown(float(values.mean())) + spread


def _numbers(record: Record, key: str) -> Mapping[str, float]:
    return cast("Mapping[str, float]", record[key])


def _paper_row(row: PublishedRow, keys: Sequence[str]) -> tuple[str, ...]:
    cells = (shown(row.values[key]) if key in row.values else MISSING for key in keys)
    return (f"paper: {row.method}", *cells)


def shown(value: float) -> str:
    """Return a number with four significant digits, never in powers of ten above 1."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
