"""The portable model itself, as strict JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import PortableModel, refusal


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the JSON; it takes no options."""
    return {path: model.to_json().encode()}


def require_engine(path: Path, options: Options) -> None:
    """Raise: data cannot be run."""
    got, remedy = "JSON, which is data", "check what is written from it, such as Python"
    raise refusal(f"check of {path}", "a target that can be run", got, remedy)


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Raise: data have no scores."""
    require_engine(path, options)
    return np.empty((0, len(model.outputs)))
