"""The files of a fit, each written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically

MODEL, REPORT, METRICS, STAGE = "model.snam", "report.html", "metrics.json", "stage.npz"


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a fit writes."""

    path: Path

    @property
    def model(self) -> Path:
        """The model."""
        return self.path / MODEL

    @property
    def report(self) -> Path:
        """The report."""
        return self.path / REPORT

    @property
    def metrics(self) -> Path:
        """What was measured."""
        return self.path / METRICS

    @property
    def stage(self) -> Path:
        """What a stopped fit had reached."""
        return self.path / STAGE

    def make(self) -> None:
        """Make the folder."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(describe("--out", "a folder", f"the file {self.path}", "name another"))
        self.path.mkdir(parents=True, exist_ok=True)

    @property
    def is_preliminary(self) -> bool:
        """Whether the model is that of a stopped fit."""
        return bool(self._read_metrics().get("preliminary", False))

    @property
    def is_finished(self) -> bool:
        """Whether the model, its report and its metrics are those of a fit that came to its end."""
        whole = self.model.exists() and self.report.exists() and bool(self._read_metrics())
        return whole and not self.is_preliminary

    def finished_fit(self, fingerprint: str) -> Mapping[str, Any] | None:
        """Return the metrics of a finished fit with this fingerprint, None when there is none."""
        metrics = self._read_metrics()
        finished = self.model.exists() and self.report.exists() and metrics.get("fingerprint") == fingerprint
        return metrics if finished and not self.is_preliminary else None

    def _read_metrics(self) -> Mapping[str, Any]:
        """Return the metrics, empty where there are none that read: they only help, the model is what counts."""
        try:
            metrics = json.loads(self.metrics.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return cast("Mapping[str, Any]", metrics) if isinstance(metrics, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write plain data as JSON."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def write_report(explanation: Any, path: Path, local: Any = None) -> None:
    """Write the report of an explanation, whole or not at all."""
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        explanation.report(partial, local)
        os.replace(partial, path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
