"""Tables that are no lines of cells: JSON lines, a record each, and the first sheet of an Excel workbook, as text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import date, datetime, time
from importlib import import_module
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile, ZipFile

from sparsenam.cli.csv_text import TextTable, named_columns
from sparsenam.errors import InputError, describe
from sparsenam.tables.text import number_key

MOST_COLUMNS = 16_384  # of a sheet, as Excel has it


def read_json_lines(path: Path, stream: io.BufferedReader[Any]) -> TextTable:
    """Return the records of a file, one a line; a name that a record does not have is a missing cell.

    Numbers stay as they are written, so that the rules of `tables` decide as for any other text.
    """
    columns: dict[str, list[str | None]] = {}
    rows = 0
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        for name, cell in _record(path, line, number).items():
            cells = columns.setdefault(name, [])
            cells.extend([None] * (rows - len(cells)))
            cells.append(cell)
        rows += 1
    for cells in columns.values():
        cells.extend([None] * (rows - len(cells)))
    return named_columns(path, list(columns), list(columns.values()), ())


def _record(path: Path, line: bytes, number: int) -> dict[str, str | None]:
    """Return the names and texts of a record."""
    expected, remedy = 'a record such as {"age": 41, "zone": "north"} in every line', "mend this line"
    try:
        found: object = json.loads(
            line.decode("utf-8-sig"), object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=str
        )
    except (ValueError, RecursionError) as error:
        raise InputError(describe(str(path), expected, f"something else in line {number}", remedy)) from error
    if not isinstance(found, tuple):
        raise InputError(describe(str(path), expected, f"something else in line {number}", remedy))
    record: dict[str, str | None] = {}
    for given, cell in cast("tuple[tuple[str, object], ...]", found):
        name = given.strip()
        if name in record:
            got = f"{name!r} twice in line {number}"
            raise InputError(describe(str(path), "a different name for each value", got, remedy))
        if isinstance(cell, tuple | list):
            got = f"several under {name!r} in line {number}"
            raise InputError(describe(str(path), "one value for each name", got, "write them as names of the record"))
        record[name] = None if cell in (None, "") else str(cell)
    return record


def read_excel(path: Path, content: bytes, max_bytes: int) -> TextTable:
    """Return the first sheet of a workbook, whose first line with a cell has the names; formulas as last shown."""
    try:
        unpacked = sum(entry.file_size for entry in ZipFile(io.BytesIO(content)).infolist())
    except BadZipFile as error:
        raise InputError(describe(str(path), "an Excel workbook (.xlsx)", str(error), "save it again")) from error
    if unpacked > max_bytes:
        got, remedy = f"{unpacked:,}", "raise --max-bytes if the memory is there"
        raise InputError(describe(str(path), f"at most {max_bytes:,} bytes once unpacked", got, remedy))
    try:
        library = import_module("openpyxl")
    except ImportError as error:
        remedy = "install sparsenam[excel], or save the sheet as CSV"
        raise InputError(describe(str(path), "openpyxl, which reads Excel", "none installed", remedy)) from error
    try:
        book: Any = library.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        rows = list(_rows(book.worksheets[0])) if book.worksheets else []
        sheets = [str(name) for name in book.sheetnames]
        book.close()
    except Exception as error:  # the library has no class of errors for a damaged file
        got = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(describe(str(path), "an Excel workbook (.xlsx)", got, "save it again")) from error
    if not rows:
        return TextTable([], [], ())
    width = max(map(len, rows))
    names = [(cell or "").strip() for cell in _padded(rows[0], width)]
    across = list(zip(*(_padded(row, width) for row in rows[1:]), strict=True)) or [()] * width
    notes = (f"Of {len(sheets)} sheets the first, {sheets[0]!r}, was read.",) if len(sheets) > 1 else ()
    return named_columns(path, names, [list(cells) for cells in across], notes)


def _rows(sheet: Any) -> Iterator[list[str | None]]:
    """Yield the cells of each row as text, without empty ones at its end; rows without any cell are none."""
    for row in sheet.iter_rows(values_only=True, max_col=MOST_COLUMNS):
        cells = [_as_text(cell) for cell in row]
        while cells and cells[-1] is None:
            cells.pop()
        if cells:
            yield cells


def _as_text(cell: object) -> str | None:
    """Return a cell of a sheet as a text file would have it."""
    if cell is None or cell == "":
        return None
    if isinstance(cell, datetime):
        return (cell.date() if cell.time() == time.min else cell).isoformat()
    if isinstance(cell, date | time):
        return cell.isoformat()
    return number_key(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else str(cell)


def _padded(cells: list[str | None], width: int) -> list[str | None]:
    return [*cells, *[None] * (width - len(cells))]
