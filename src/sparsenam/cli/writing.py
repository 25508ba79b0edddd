"""Tables to text files."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping
from pathlib import Path

from sparsenam.cli.reading import SEPARATORS, separator_of
from sparsenam.cli.table import Table
from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically


def check_writable(path: Path) -> None:
    """Raise unless the name is that of a text file in a folder that is there."""
    name = path.name.lower().removesuffix(".gz")
    if Path(name).suffix not in SEPARATORS:
        expected = "a name that ends in .csv or .tsv, with .gz after it to compress"
        raise InputError(describe("--out", expected, repr(path.name), "choose another name"))
    if not path.parent.is_dir() or path.is_dir():
        got = f"{path.parent}, which is not there" if not path.is_dir() else "a folder of that name"
        raise InputError(describe("--out", "a file in a folder", got, "make the folder or choose another"))


def write_table(path: Path, table: Table, more: Mapping[str, list[str]]) -> None:
    """Write a table with further columns to its right; a name that the table has gets an underscore."""
    columns = {name: table.texts(name) for name in table.names}
    for name, cells in more.items():
        own = name
        while own in columns:
            own += "_"
        columns[own] = cells
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=separator_of(path), lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    content = buffer.getvalue().encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)
