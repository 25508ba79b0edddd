"""The report: one HTML file that can be mailed, printed and kept, made from the dict of an Explanation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sparsenam.explain.report.local_records import read_local_record
from sparsenam.explain.report.page import page
from sparsenam.explain.report.records import read_record
from sparsenam.files import write_atomically

__all__ = ["render_report", "write_report"]


def render_report(explanation: Mapping[str, object], local: Mapping[str, object] | None = None) -> str:
    """Return the report as one HTML page that loads nothing.

    Parameters
    ----------
    explanation
        What ``Explanation.to_dict()`` returns.
    local
        What ``LocalExplanation.to_dict()`` returns, for rows to be shown as waterfalls.
    """
    return page(read_record(explanation), None if local is None else read_local_record(local))


def write_report(
    explanation: Mapping[str, object], path: str | os.PathLike[str], local: Mapping[str, object] | None = None
) -> Path:
    """Write the report to a file, whole or not at all, and return its path."""
    target = Path(path)
    write_atomically(target, render_report(explanation, local).encode())
    return target
