"""Print the tables of the committed results without their notes, as `docs/reproduction.md` shows them."""

import json
from dataclasses import replace
from pathlib import Path

from sparsenam.paper.summaries import summary_tables
from sparsenam.paper.tables import comparison_tables

RESULTS = Path(__file__).parent / "results"
NAMES = (
    "synthetic-regression",
    "synthetic-classification",
    "california",
    "compas",
    "superconductivity",
    "penalties",
)


def main() -> None:
    """Print all tables in the order of the paper."""
    for name in (*NAMES, "theory"):
        report = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        tables = summary_tables(report) if name == "theory" else comparison_tables(report)
        for place, table in enumerate(tables):
            if place == 0:
                print(f"<!-- sparsenam reproduce {name} -->")
            if table.headings:
                print(replace(table, notes=table.notes if name == "theory" else ()).markdown())


if __name__ == "__main__":
    main()
