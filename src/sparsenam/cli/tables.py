"""Tables from files and back: CSV, TSV, JSON lines, Excel and Parquet, plain or compressed, or standard input.

Cells of a text file stay text: whether a column is a number, a category or a date is decided once, in `tables`, by
the same rules, and a postal code keeps its zero. A file is opened once.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import sys
import warnings
import zlib
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, cast

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.cli.options import MAX_BYTES
from sparsenam.cli.text_files import damaged, named_columns, read_excel, read_json_lines, read_lines, too_large
from sparsenam.errors import ExtremeCellWarning, InputError, RowError, RowNumbers, describe, nearest
from sparsenam.files import write_atomically
from sparsenam.tables.blocks import PARQUET
from sparsenam.tables.cells import coded, read_series, some_rows
from sparsenam.tables.columns import Cells, decide, read_numbers
from sparsenam.tables.frame import Frame
from sparsenam.tables.text import listed
from sparsenam.text import no_formula

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
JSON_LINES, EXCEL = (".jsonl", ".ndjson"), (".xlsx", ".xlsm")
STREAM = Path("-")  # standard input or output
FIRST_BYTES = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx"}  # what stands in for the end of a name
UNNAMED = "Unnamed: 0"  # what pandas calls a column of labels that it wrote and read again


@dataclass(frozen=True, slots=True, eq=False)
class FileTable:
    """Columns of a file by their names, as lists of text, or as series of narwhals where they came from Parquet.

    ``digest`` is that of the file's bytes, as they were when they were read; ``notes`` say how they were read.
    """

    columns: Mapping[str, list[str | None] | nw.Series[Any]]
    path: Path = Path("the table")
    digest: bytes = b""
    notes: tuple[str, ...] = ()
    _known: dict[str, Cells] = field(default_factory=dict[str, Cells])  # columns that were read, which takes long

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def native(self) -> ArrayLike:
        """The table as estimators take it."""
        return cast("ArrayLike", Frame(self.names, True, self.n_rows, tuple(map(self.cells, self.names))))

    def cells(self, name: str) -> Cells:
        if name not in self._known:
            column = self.columns[name]
            self._known[name] = coded(name, "text", column) if isinstance(column, list) else read_series(name, column)
        return self._known[name]

    def texts(self, name: str) -> list[str]:
        """Return one column as it is written into a text file, empty where missing."""
        column = self.columns[name]
        cells: Sequence[object] = column if isinstance(column, list) else column.to_list()
        return ["" if cell is None or cell != cell else str(cell) for cell in cells]

    def typed(self, name: str) -> Sequence[object]:
        """Return one column as it is written into a Parquet file: a text that is a number in every cell as numbers."""
        column = self.columns[name]
        if not isinstance(column, list) and column.dtype != nw.String:
            return column.to_list()
        if decide(cells := self.cells(name), None).kind == "number" and not cells.missing.all():
            return [None if number != number else number for number in read_numbers(cells).tolist()]
        return [text or None for text in self.texts(name)]

    def take(self, rows: NDArray[np.intp]) -> FileTable:
        indices: list[int] = rows.tolist()
        taken = {
            name: [column[index] for index in indices] if isinstance(column, list) else column[indices]
            for name, column in self.columns.items()
        }
        return replace(
            self, columns=taken, _known={name: some_rows(cells, rows) for name, cells in self._known.items()}
        )

    def select(self, names: Iterable[str]) -> FileTable:
        columns = {name: self.columns[name] for name in names}
        return replace(
            self, columns=columns, _known={name: self._known[name] for name in columns if name in self._known}
        )

    def without(self, names: Collection[str]) -> FileTable:
        return self.select(name for name in self.names if name not in names)

    def require(self, name: str, option: str) -> str:
        """Return the name of a column; raise when there is none of it."""
        if name in self.names:
            return name
        expected = f"the name of a column of {self.path} ({listed(list(self.names), 12)})"
        raise InputError(describe(option, expected, repr(name), nearest(name, self.names, "correct the name")))

    @contextmanager
    def naming_rows(self, rows: RowNumbers | None = None) -> Generator[None]:
        """Let errors within name this file, and rows by their numbers in it, as warnings do; None for all rows."""
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if rows is not None and isinstance(message, ExtremeCellWarning):
                message = message.at(rows)
            shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            yield
        except RowError as error:
            where, *more = (error if rows is None else error.at(rows)).args
            raise type(error)(f"{self.path}: {where}", *more) from error
        finally:
            warnings.showwarning = shown


def read_file(path: Path, max_bytes: int = MAX_BYTES, used: Collection[str | None] | None = None) -> FileTable:
    """Return the table in a file; the end of its name says what it is, or its first bytes on standard input.

    The file may have ``max_bytes`` bytes once it is unpacked. Where the columns are known that will be ``used``, the
    labels of rows that pandas wrote into a file are left out, but for those.
    """
    if path == STREAM:
        packed = sys.stdin.buffer.read(max_bytes + 1)
        ending, is_compressed = "", packed.startswith(b"\x1f\x8b")
    elif not path.is_file():
        got = "a folder" if path.is_dir() else "a device or pipe" if path.exists() else "none of that name"
        raise InputError(describe(str(path), "a file", got, "correct the path"))
    else:
        ending, is_compressed = _ending(path)
        with path.open("rb") as file:
            packed = file.read(-1 if is_compressed else max_bytes + 1)
    content = packed
    try:
        if is_compressed:
            content = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(max_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(describe(str(path), "a gzip file", str(error), "compress it again")) from error
    if len(content) > max_bytes:
        raise too_large(path, max_bytes)
    if not ending:
        ending = FIRST_BYTES.get(content[:4], ".jsonl" if content[:64].lstrip().startswith(b"{") else ".csv")
    table = replace(_read(path, content, ending, max_bytes, used), digest=hashlib.sha256(packed).digest())
    if not table.names or not table.n_rows:
        raise InputError(describe(str(path), "a header and rows", "no rows", "give a table with rows"))
    return table if used is None else _without_labels(table, used)


def _without_labels(table: FileTable, used: Collection[str | None]) -> FileTable:
    """Return a table without a first column of labels of rows: one without a name, or all-different whole numbers."""
    first = table.names[0]
    if len(table.names) < 2 or first in used or first not in ("", UNNAMED):
        return table
    texts = table.texts(first)
    if first and not (len(set(texts)) == len(texts) and all(text.removesuffix(".0").isdecimal() for text in texts)):
        return table
    said = repr(first) if first else "without a name"
    return replace(
        table.without([first]), notes=(*table.notes, f"The first column, {said}, numbers the rows: left out.")
    )


def _read(path: Path, content: bytes, ending: str, max_bytes: int, used: Collection[str | None] | None) -> FileTable:
    if ending in PARQUET:
        return _parquet(path, content, max_bytes, used)
    if ending in EXCEL:
        read = read_excel(path, content, max_bytes)
    elif ending in JSON_LINES:
        read = read_json_lines(path, content)
    else:
        read = read_lines(path, content, None if ending != ".tsv" else SEPARATORS[ending])
    return FileTable(dict(zip(read.names, read.columns, strict=True)), path, notes=read.notes)


def _parquet(path: Path, content: bytes, max_bytes: int, used: Collection[str | None] | None) -> FileTable:
    """Return the table in a Parquet file, without the labels of rows that pandas wrote into it unless they are used.

    Repeated cells take next to no room in such a file, so eight bytes are counted for each.
    """
    parquet = _library("pyarrow.parquet", path, "convert the file to CSV")
    from sparsenam.tables.parquet import index_names

    try:
        footer = parquet.read_metadata(io.BytesIO(content))
        size = sum(footer.row_group(index).total_byte_size for index in range(footer.num_row_groups))
        size = max(8 * footer.num_rows * footer.num_columns, size)
        table = None if size > max_bytes else parquet.read_table(io.BytesIO(content))
    except Exception as error:  # the library has errors of several classes for a damaged file
        raise damaged(path, "a Parquet file", error, "write the file again") from error
    if table is None:
        raise too_large(path, max_bytes, f"{size:,}")
    labels = (
        []
        if used is None
        else [name for name in index_names(table.schema) if name in table.column_names and name not in used]
    )
    labels = labels if len(labels) < table.num_columns else []
    notes = (f"{listed(labels)} numbers the rows: left out.",) if labels else ()
    frame = nw.from_native(table, eager_only=True)
    columns = {name: frame[name] for name in frame.columns if name not in labels}
    names = [name.strip() for name in columns]
    named_columns(path, names, [["1"]] * len(names))
    return FileTable(dict(zip(names, columns.values(), strict=True)), path, notes=notes)


def _library(name: str, path: Path, remedy: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        expected, remedy = "pyarrow, for Parquet", f"install sparsenam[files], or {remedy}"
        raise InputError(describe(str(path), expected, "none installed", remedy)) from error


def check_writable(path: Path) -> None:
    """Raise unless the name is that of a table to write in a folder that is there, or ``-``."""
    if path == STREAM:
        return
    if Path(path.name.lower().removesuffix(".gz")).suffix not in SEPARATORS and path.suffix.lower() not in PARQUET:
        expected = "a name that ends in .csv, .tsv (with .gz after it to compress) or .parquet"
        raise InputError(describe("--out", expected, repr(path.name), "choose another name"))
    check_place(path, "--out")


def check_place(path: Path | None, option: str) -> None:
    """Raise unless a file can be at a path, where one is named."""
    if path is not None and (not path.parent.is_dir() or path.is_dir()):
        got = f"{path.parent}, which is not there" if not path.is_dir() else f"{path}, which is a folder"
        raise InputError(describe(option, "a file in a folder", got, "make the folder or choose another"))


def write_table(
    path: Path, table: FileTable, more: Mapping[str, list[str] | list[float]], *, quote_formulas: bool = False
) -> None:
    """Write a table with further columns to its right; a name that the table has gets an underscore.

    ``quote_formulas`` puts an apostrophe before texts that a spreadsheet would take for formulas. In a Parquet file
    numbers are numbers.
    """
    names = list(table.names)
    for name in more:
        unused = name
        while unused in names:
            unused += "_"
        names.append(unused)
    if path.suffix.lower() in PARQUET:
        cells = [*(table.typed(name) for name in table.names), *more.values()]
        arrow, written = _library("pyarrow", path, "write a .csv"), io.BytesIO()
        parquet = _library("pyarrow.parquet", path, "write a .csv")
        parquet.write_table(arrow.table(dict(zip(names, cells, strict=True))), written)
        write_atomically(path, written.getvalue())
        return
    texts = [*map(table.texts, table.names), *([*map(_as_text, added)] for added in more.values())]
    if quote_formulas:
        names, texts = [*map(no_formula, names)], [[*map(no_formula, cells)] for cells in texts]
    buffer = io.StringIO(newline="")
    separator = "," if path == STREAM else SEPARATORS[_ending(path)[0]]
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*texts, strict=True))
    content = buffer.getvalue().encode()
    if path != STREAM:
        write_atomically(path, gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)
        return
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _as_text(cell: str | float) -> str:
    """Return a cell as text, a number with all its digits, and no negative zero."""
    return cell if isinstance(cell, str) else repr(float(cell) + 0.0)


def _ending(path: Path) -> tuple[str, bool]:
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    if ending not in (*SEPARATORS, *PARQUET, *JSON_LINES, *EXCEL):
        expected = "a name that ends in .csv, .tsv, .txt, .jsonl, .xlsx or .parquet, with .gz after it if compressed"
        raise InputError(describe(str(path), expected, repr(path.name), "convert or rename the file"))
    return ending, name.endswith(".gz")
