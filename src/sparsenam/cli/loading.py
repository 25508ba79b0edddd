"""A saved model, and a table brought to its columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sparsenam
from sparsenam.cli.display import note
from sparsenam.cli.files import MODEL, Folder
from sparsenam.cli.reading import read_file
from sparsenam.cli.table import Table
from sparsenam.errors import InputError, describe
from sparsenam.tables.text import listed


def load_model(path: Path) -> Any:
    """Return the estimator in a file."""
    if not path.is_file():
        got = "a folder" if path.is_dir() else "none of that name"
        remedy = "give the model.snam that sparsenam fit wrote"
        raise InputError(describe(str(path), "a file", got, remedy))
    estimator = sparsenam.load(path)
    if Folder(path.parent).is_preliminary and path.name == MODEL:
        note("A preliminary model of a fit that was stopped; sparsenam fit --resume would finish it.")
    return estimator


def read_for(estimator: Any, path: Path, *, beside: tuple[str, ...] = ()) -> tuple[Table, Table]:
    """Return a file's whole table and its columns for the model; others are not used, which is said."""
    whole = read_file(path)
    wanted = [str(name) for name in estimator.table_.names]
    lacking = [name for name in wanted if name not in whole.names]
    if lacking:
        expected = f"the {len(wanted)} columns of the model"
        raise InputError(describe(str(path), expected, f"none of {listed(lacking)}", "add or rename these columns"))
    unused = [name for name in whole.names if name not in wanted and name not in beside]
    if unused:
        note(f"Not used by the model: {', '.join(unused[:8])}{' …' if len(unused) > 8 else ''}.")
    return whole, whole.select(wanted)
