"""Tables from files and back: CSV, TSV and Parquet, plain or compressed.

Cells of a text file stay text: whether a column is a number, a category or a date is decided once, in `tables`, by
the same rules whichever library is installed, and a postal code keeps its zero.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically
from sparsenam.tables.arrow_rows import index_names
from sparsenam.tables.cells import Cells, coded
from sparsenam.tables.frame import Frame, read_series
from sparsenam.tables.text import listed

Texts = dict[str, list[str | None]]

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
PARQUET = (".parquet", ".pq")
GUESSED = ",;\t|"  # separators looked for in the first line of a .csv or .txt


@dataclass(frozen=True, slots=True, eq=False)
class FileTable:
    """Columns of a file; ``data`` is a frame of narwhals, or lists of text where no such library is installed."""

    data: nw.DataFrame[Any] | Texts

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self.data) if isinstance(self.data, dict) else tuple(self.data.columns)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.data.values()))) if isinstance(self.data, dict) else len(self.data)

    @property
    def native(self) -> Any:
        """The table as estimators take it."""
        if not isinstance(self.data, dict):
            return self.data.to_native()
        columns = tuple(coded(name, "text", cells) for name, cells in self.data.items())
        return Frame(self.names, True, self.n_rows, columns)

    def cells(self, name: str) -> Cells:
        """Return one column as read."""
        if isinstance(self.data, dict):
            return coded(name, "text", self.data[name])
        return read_series(name, self.data[name])

    def texts(self, name: str) -> list[str]:
        """Return one column as it is written into a text file, empty where missing."""
        cells = self.data[name] if isinstance(self.data, dict) else self.data[name].to_list()
        return ["" if cell is None or cell != cell else str(cell) for cell in cells]

    def take(self, rows: NDArray[np.intp]) -> FileTable:
        """Return some rows."""
        indices = rows.tolist()
        if isinstance(self.data, dict):
            return FileTable({name: [cells[index] for index in indices] for name, cells in self.data.items()})
        return FileTable(self.data[indices])

    def select(self, names: Sequence[str]) -> FileTable:
        """Return some columns, in this order."""
        if isinstance(self.data, dict):
            return FileTable({name: self.data[name] for name in names})
        return FileTable(self.data.select(*names))

    def without(self, names: Collection[str]) -> FileTable:
        """Return all columns but some."""
        return self.select([name for name in self.names if name not in names])

    def require(self, name: str, option: str) -> str:
        """Return the name of a column; raise when there is none of it."""
        if name in self.names:
            return name
        expected = f"the name of a column ({listed(list(self.names), 12)})"
        raise InputError(describe(option, expected, repr(name), "correct the name"))


def read_file(path: Path) -> FileTable:
    """Return the table in a file; the end of its name says what it is."""
    if not path.is_file():
        got = "a folder" if path.is_dir() else "none of that name"
        raise InputError(describe(str(path), "a file", got, "correct the path"))
    ending, is_compressed = _ending(path)
    content = path.read_bytes()
    if is_compressed:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(describe(str(path), "a gzip file", str(error), "compress it again")) from error
    table = FileTable(_parquet(path, content)) if ending in PARQUET else _text(path, content, ending)
    if not table.names or not table.n_rows:
        raise InputError(describe(str(path), "a header and rows", "no rows", "give a table with rows"))
    return table


def read_columns(path: Path, used: Collection[str | None]) -> FileTable:
    """Return the table in a file without the labels of rows that pandas wrote into it, but with the columns used."""
    table = read_file(path)
    if path.suffix.lower() not in PARQUET:
        return table
    try:
        schema = _library("pyarrow.parquet").read_schema(path)
    except ImportError:
        return table
    labels = [name for name in index_names(schema) if name in table.names and name not in used]
    return table.without(labels) if len(labels) < len(table.names) else table


def check_writable(path: Path) -> None:
    """Raise unless the name is that of a text file in a folder that is there."""
    if Path(path.name.lower().removesuffix(".gz")).suffix not in SEPARATORS:
        expected = "a name that ends in .csv or .tsv, with .gz after it to compress"
        raise InputError(describe("--out", expected, repr(path.name), "choose another name"))
    check_place(path)


def check_place(path: Path) -> None:
    """Raise unless a file can be there."""
    if not path.parent.is_dir() or path.is_dir():
        got = f"{path.parent}, which is not there" if not path.is_dir() else "a folder of that name"
        raise InputError(describe("--out", "a file in a folder", got, "make the folder or choose another"))


def write_table(path: Path, table: FileTable, more: Mapping[str, list[str]]) -> None:
    """Write a table with further columns to its right; a name that the table has gets an underscore."""
    columns = {name: table.texts(name) for name in table.names}
    for name, cells in more.items():
        unused = name
        while unused in columns:
            unused += "_"
        columns[unused] = cells
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=SEPARATORS[_ending(path)[0]], lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    content = buffer.getvalue().encode()
    write_atomically(path, gzip.compress(content, mtime=0) if path.suffix.lower() == ".gz" else content)


def _ending(path: Path) -> tuple[str, bool]:
    """Return what a file is by the end of its name, and whether it is compressed."""
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    if ending not in SEPARATORS and ending not in PARQUET:
        expected = "a name that ends in .csv, .tsv, .txt or .parquet, with .gz after it if compressed"
        raise InputError(describe(str(path), expected, repr(path.name), "convert or rename the file"))
    return ending, name.endswith(".gz")


def _library(name: str) -> Any:
    """Return a library that may not be installed; ImportError where it is not."""
    return import_module(name)


def _parquet(path: Path, content: bytes) -> nw.DataFrame[Any]:
    """Return the frame of the first library that is there: polars, pyarrow or pandas."""
    readers = (("polars", "read_parquet"), ("pyarrow.parquet", "read_table"), ("pandas", "read_parquet"))
    for library, reader in readers:
        try:
            return nw.from_native(getattr(_library(library), reader)(io.BytesIO(content)), eager_only=True)
        except ImportError:  # the next library may be there
            continue
        except Exception as error:  # each library has errors of another class for a damaged file
            got = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(describe(str(path), "a Parquet file", got, "write the file again")) from error
    remedy = "install polars, pyarrow or pandas with pyarrow, or convert the file to CSV"
    raise InputError(describe(str(path), "a library that reads Parquet", "none installed", remedy))


def _text(path: Path, content: bytes, ending: str) -> FileTable:
    try:
        text = content.decode("utf-8-sig").lstrip("\r\n")
    except UnicodeDecodeError as error:
        got = f"another encoding at byte {error.start}"
        raise InputError(describe(str(path), "text in UTF-8", got, "save the file as UTF-8")) from error
    if "\n" not in text:
        text = text.replace("\r", "\n")  # the line ends of old Macs
    first = text.split("\n", 1)[0]
    separator = "," if "," in first else max(GUESSED, key=first.count)
    if ending == ".tsv":
        separator = SEPARATORS[ending]
    limit = csv.field_size_limit()
    try:
        csv.field_size_limit(max(len(text), limit))  # a cell may hold a whole document
        return _parsed(path, text, separator)
    finally:
        csv.field_size_limit(limit)


def _parsed(path: Path, text: str, separator: str) -> FileTable:
    names = _header(path, text, separator)
    for read in (_polars_text, _pandas_text):
        try:
            frame = read(text, separator)
        except ImportError:
            continue
        except Exception:  # a ragged line, for which the slow reader has a message with its number
            break
        renamed = {old: new for old, new in zip(frame.columns, names, strict=True) if old != new}
        return FileTable(nw.from_native(frame, eager_only=True).rename(renamed))
    return FileTable(_plain_text(path, text, separator, names))


def _header(path: Path, text: str, separator: str) -> list[str]:
    first: list[str] = next(csv.reader(io.StringIO(text), delimiter=separator), list[str]())
    names = [name.strip() for name in first]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated or "" in names:
        got = f"{repeated[0]!r} more than once" if repeated and repeated[0] else "a column without a name"
        expected = "a header with a different name for each column"
        raise InputError(describe(str(path), expected, got, "mend the first line"))
    return names


def _polars_text(text: str, separator: str) -> Any:
    return _library("polars").read_csv(io.StringIO(text), separator=separator, infer_schema=False)


def _pandas_text(text: str, separator: str) -> Any:
    return _library("pandas").read_csv(
        io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, index_col=False, on_bad_lines="error"
    )


def _plain_text(path: Path, text: str, separator: str, names: list[str]) -> Texts:
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    columns: list[list[str | None]] = [[] for _ in names]
    next(reader, None)
    for row in reader:
        if not row:
            continue
        if len(row) > len(names):
            got, expected = f"{len(row)} in line {reader.line_num}", f"at most {len(names)} cells in a line"
            raise InputError(describe(str(path), expected, got, "mend this line"))
        row += [""] * (len(names) - len(row))  # cells that a line lacks at its end are missing
        for column, cell in zip(columns, row, strict=True):
            column.append(cell or None)
    return dict(zip(names, columns, strict=True))
