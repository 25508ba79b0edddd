"""Files to tables: CSV, TSV and Parquet, plain or compressed.

Cells of a text file stay text: whether a column is a number, a category or a date is decided once, in `tables`, by
the same rules whichever library is installed, and a postal code keeps its zero.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from sparsenam.cli.table import Table
from sparsenam.errors import InputError, describe

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
PARQUET = (".parquet", ".pq")
GUESSED = ",;\t|"  # separators looked for in the first line of a .csv or .txt


def read_file(path: Path) -> Table:
    """Return the table in a file; what it is, is told by the end of its name."""
    if not path.is_file():
        got = "a folder" if path.is_dir() else "none of that name"
        raise InputError(describe(str(path), "a file", got, "correct the path"))
    ending, packed = _ending(path)
    content = path.read_bytes()
    if packed:
        content = _unpacked(path, content)
    table = Table(_parquet(path, content)) if ending in PARQUET else _text(path, content, ending)
    if not table.names or not table.rows:
        raise InputError(describe(str(path), "a header and rows", "no rows", "give a table with rows"))
    return table


def separator_of(path: Path) -> str:
    """Return the separator that a text file of this name is written with."""
    return SEPARATORS.get(_ending(path)[0], ",")


def _ending(path: Path) -> tuple[str, bool]:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] == ".gz"
    own = suffixes[:-1] if packed else suffixes
    ending = own[-1] if own else ""
    if ending not in SEPARATORS and ending not in PARQUET:
        expected = "a name that ends in .csv, .tsv, .txt or .parquet, with .gz after it if compressed"
        raise InputError(describe(str(path), expected, repr(path.name), "convert or rename the file"))
    return ending, packed


def _unpacked(path: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(describe(str(path), "a gzip file", str(error), "compress it again")) from error


def _parquet(path: Path, content: bytes) -> nw.DataFrame[Any]:
    """Return the frame of the first library that is there: polars, pandas or pyarrow."""
    failures: list[str] = []
    for read in (_polars_parquet, _pyarrow_parquet, _pandas_parquet):
        try:
            return nw.from_native(read(content), eager_only=True)
        except ImportError:  # the next library may be there
            continue
        except Exception as error:  # each library has errors of its own for a damaged file
            failures.append(str(error).splitlines()[0] if str(error) else type(error).__name__)
            break
    if failures:
        raise InputError(describe(str(path), "a Parquet file", failures[0], "write the file again"))
    remedy = "install polars, pyarrow or pandas with pyarrow, or convert the file to CSV"
    raise InputError(describe(str(path), "a library that reads Parquet", "none installed", remedy))


def _library(name: str) -> Any:
    """Return a library that may not be installed; ImportError where it is not."""
    return import_module(name)


def _polars_parquet(content: bytes) -> Any:
    return _library("polars").read_parquet(io.BytesIO(content))


def _pyarrow_parquet(content: bytes) -> Any:
    return _library("pyarrow.parquet").read_table(io.BytesIO(content))


def _pandas_parquet(content: bytes) -> Any:
    return _library("pandas").read_parquet(io.BytesIO(content))


def _text(path: Path, content: bytes, ending: str) -> Table:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        got = f"another encoding at byte {error.start}"
        raise InputError(describe(str(path), "text in UTF-8", got, "save the file as UTF-8")) from error
    text = text.lstrip("\r\n")
    if "\n" not in text:
        text = text.replace("\r", "\n")  # the line ends of old Macs
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a cell may hold a whole document
    separator = SEPARATORS[ending] if ending == ".tsv" else _separator(text)
    names = _header(path, text, separator)
    for read in (_polars_text, _pandas_text):
        try:
            frame = read(text, separator)
        except ImportError:
            continue
        except Exception:  # a ragged line, for which the slow reader has a message with its number
            break
        return Table(nw.from_native(frame, eager_only=True).rename(_renamed(frame, names)))
    return Table(_plain_text(path, text, separator, names))


def _separator(text: str) -> str:
    """Return the separator that the header has most of: a comma, unless another one is the only one there."""
    first = text.lstrip("\n\r").split("\n", 1)[0]
    return "," if "," in first else max(GUESSED, key=first.count)


def _header(path: Path, text: str, separator: str) -> list[str]:
    first: list[str] = next(csv.reader(io.StringIO(text), delimiter=separator), list[str]())
    names = [name.strip() for name in first]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated or "" in names:
        got = f"{repeated[0]!r} more than once" if repeated and repeated[0] else "a column without a name"
        remedy = "mend the first line"
        raise InputError(describe(str(path), "a header with a different name for each column", got, remedy))
    return names


def _renamed(frame: Any, names: list[str]) -> dict[str, str]:
    return {old: new for old, new in zip(frame.columns, names, strict=True) if old != new}


def _polars_text(text: str, separator: str) -> Any:
    return _library("polars").read_csv(io.StringIO(text), separator=separator, infer_schema=False)


def _pandas_text(text: str, separator: str) -> Any:
    return _library("pandas").read_csv(
        io.StringIO(text), sep=separator, dtype=str, keep_default_na=False, index_col=False, on_bad_lines="error"
    )


def _plain_text(path: Path, text: str, separator: str, names: list[str]) -> dict[str, list[str | None]]:
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
