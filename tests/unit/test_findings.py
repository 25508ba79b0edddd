"""What is found out about a model is text, and a section of the report in which nothing becomes markup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenam import SNAMRegressor
from sparsenam.explain.report import render_report
from sparsenam.text import Finding, FindingTable


@dataclass(frozen=True)
class Made:
    shown: Finding

    def finding(self) -> Finding:
        return self.shown

    def to_dict(self) -> dict[str, Any]:
        return {}


TABLE = FindingTable("Columns", ("column", "share"), (("a", "0.5"), ("<b>bold</b>", "10"), ("n" * 50, "1")))
FINDING = Finding("Who <pays>", "One & all.", (TABLE,), ("A note.",))


def test_a_table_prints_names_to_the_left_numbers_to_the_right_and_shortens_long_cells() -> None:
    lines = str(TABLE).splitlines()
    assert lines[0] == "Columns"
    assert lines[2] == "  a" + " " * 43 + "0.5"
    assert lines[4].startswith("  " + "n" * 39 + "…")


def test_a_finding_prints_its_sentence_first() -> None:
    assert str(FINDING).startswith("Who <pays>: One & all.\n\nColumns\n")
    assert str(FINDING).endswith("A note.")


def test_a_finding_is_a_section_of_the_report_and_its_text_stays_text() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    explanation = SNAMRegressor(random_state=0).fit(x, x[:, 0]).explain()
    page = render_report(explanation, beside=[Made(FINDING)])
    assert "Who &lt;pays&gt;" in page and "&lt;b&gt;bold" in page
    assert "<b>bold" not in page and "One &amp; all." in page
    assert "Who &lt;pays&gt;" not in render_report(explanation)
