"""Files as columns of text: cells in lines, JSON lines, and the first sheet of an Excel workbook.

A cell in a line may be in quotation marks, and then hold separators, line ends and, doubled, quotation marks. A
quotation mark within a cell that does not begin with one stands for itself. Blanks after a separator are left out, and
so are those after a cell in quotation marks.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from importlib import import_module
from itertools import islice, zip_longest
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from sparsenam.errors import InputError, describe
from sparsenam.tables.text import number_key

GUESSED = "\t;|,"  # separators looked for in the first lines of a .csv or .txt; commas are in numbers and texts too
TEXT_ROWS_AT_ONCE = 4096
SHARED_CELLS = 5000  # different cells of a column that are kept once; a file that packs to next to nothing has few
LONGEST_CELL = 2**31 - 1
MOST_SHEET_COLUMNS = 16_384  # of a sheet, as Excel has it
NOTHING = " \t\x1a"  # blanks, and the end of a file as old programs mark it
LINE_END = re.compile(r"\r\n|\r|\n")
SAID_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # a first line for Excel, which is no header
BINARY = re.compile("[\x00-\x08\x0e-\x1a]")  # in no text
QUOTED = r' *+"[^"]*+(?:""[^"]*+)*+"'
LATIN = "Not UTF-8: read as Latin-1 (Windows-1252)."


class JsonRecord(list[tuple[str, object]]):
    """The names and values of a record in a line of JSON, in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class TextTable:
    """Names of columns, their cells, None where empty, and what to say of how the file was read."""

    names: list[str]
    columns: list[list[str | None]]
    notes: tuple[str, ...]


def too_large(path: Path, max_bytes: int, got: str = "more") -> InputError:
    """Return the error for a file that takes more memory than is allowed."""
    expected, remedy = f"at most {max_bytes:,} bytes once unpacked", "raise --max-bytes if the memory is there"
    return InputError(describe(str(path), expected, got, remedy))


def damaged(path: Path, expected: str, error: Exception, remedy: str) -> InputError:
    """Return the error for a file that a library could not read, with the first line of what the library says."""
    got = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(describe(str(path), expected, got, remedy))


def named_columns(
    path: Path, names: list[str], columns: list[list[str | None]], notes: tuple[str, ...] = ()
) -> TextTable:
    """Return the columns under their names, without those that have neither name nor cells.

    The first column may be without a name: the labels of rows, as pandas writes them. Raise for names given twice.
    """
    empty = {at for at, name in enumerate(names) if not name and not any(cell and cell.strip() for cell in columns[at])}
    kept = [at for at in range(len(names)) if at not in empty]
    repeated = [name for name, times in Counter(names[at] for at in kept).items() if times > 1]
    if repeated or "" in [names[at] for at in kept if at > 0]:
        got = f"{repeated[0]!r} more than once" if repeated and repeated[0] else "a column without a name"
        expected = "a header with a different name for each column"
        raise InputError(describe(str(path), expected, got, "mend the first line"))
    return TextTable([names[at] for at in kept], [columns[at] for at in kept], notes)


def read_lines(path: Path, content: bytes, separator: str | None) -> TextTable:
    """Return the columns of a file of cells in lines; without a separator it is guessed.

    Raise `InputError` with the number of the line that has too many or too few cells, or a quotation mark not closed.
    """
    text, notes = _decoded(path, content)
    limit = csv.field_size_limit(LONGEST_CELL)  # a cell may hold a whole document
    try:
        names, columns = _cells(path, text, separator)
    finally:
        csv.field_size_limit(limit)
    return named_columns(path, names, columns, notes)


def _decoded(path: Path, content: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, and what to say of its encoding.

    That is UTF-8, UTF-16 with its mark, or else Latin-1, unless a line before the first odd one is in UTF-8.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16"), ()
        except UnicodeDecodeError as error:
            expected, remedy = "text in UTF-16, as its first bytes say", "save the file as UTF-8"
            raise InputError(describe(str(path), expected, "something else", remedy)) from error
    has_mark = content.startswith(codecs.BOM_UTF8)
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode(), ()
    except UnicodeDecodeError as error:
        start, end = content.rfind(b"\n", 0, error.start) + 1, content.find(b"\n", error.start)
        text = content.decode("cp1252", errors="replace")
        if has_mark or not content[:start].isascii() or BINARY.search(text, start, len(text) if end < 0 else end):
            number = 1 + content.count(b"\n", 0, start)
            got = f"another encoding in line {number}"
            raise InputError(describe(str(path), "text in UTF-8", got, "save the file as UTF-8")) from error
    return text, (LATIN,)


def _lines(text: str) -> io.TextIOWrapper:
    """Return a text to read by the line, in less memory than `io.StringIO` takes."""
    return io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8", newline="")


def _separator(first: str, second: str) -> str:
    """Return what separates the cells: what parts the first two lines alike, the one that parts them more often."""

    def parts(line: str, mark: str) -> int:
        return len(next(csv.reader([line], delimiter=mark, skipinitialspace=True), ()))

    scores = {mark: (parts(first, mark) == parts(second, mark), parts(first, mark)) for mark in GUESSED}
    return max(GUESSED, key=lambda mark: (scores[mark][1] > 1, *scores[mark]))


def _tightened(text: str, separator: str) -> str:
    """Return a text without the blanks after cells in quotation marks, which the reader of cells would refuse."""
    mark = re.escape(separator)
    cell = re.compile(rf"({QUOTED})(?: ++(?={mark}|[\r\n]|\Z))?|[^{mark}\r\n]++")
    return cell.sub(lambda found: found[1] or found[0], text)


def _header(text: str) -> tuple[int, str | None, str, str]:
    """Return how many lines come before the header, the separator that is said there, and the header with its next."""
    lines, skipped = _lines(text), 0
    first = lines.readline()
    while first and not first.strip("\r\n"):
        first, skipped = lines.readline(), skipped + 1
    said = SAID_SEPARATOR.fullmatch(first)
    if said is not None:
        first, skipped = lines.readline(), skipped + 1
    return skipped, None if said is None else said[1], first, lines.readline()


def _cells(path: Path, text: str, separator: str | None) -> tuple[list[str], list[list[str | None]]]:
    """Return the names and the cells of the columns, equal cells in the same memory while few are different."""
    skipped, said, first, second = _header(text)
    separator = said or separator or _separator(first, second)
    text = _tightened(text, separator) if '" ' in text else text
    reader = csv.reader(islice(_lines(text), skipped, None), delimiter=separator, strict=True, skipinitialspace=True)
    columns, known, rows = list[list[str | None]](), list[dict[str, str | None]](), list[list[str]]()
    names, line = list[str](), skipped  # where the last whole row ended

    def add_rows() -> None:
        for column, shared, cells in zip(columns, known, zip(*rows, strict=True), strict=bool(rows)):
            if len(shared) < SHARED_CELLS:
                shared.update((cell, cell) for cell in set(cells).difference(shared))
            column.extend([shared.get(cell, cell) for cell in cells])
        rows.clear()

    try:
        for row in reader:
            if not columns:
                names = [name.strip() for name in row]
                columns, known = [list[str | None]() for _ in names], [{"": None} for _ in names]
            elif len(row) == len(columns):
                rows.append(row)
                if len(rows) == TEXT_ROWS_AT_ONCE:
                    add_rows()
            elif any(cell.strip(NOTHING) for cell in row) or len(row) > 1:  # a line without anything is none
                started = skipped + reader.line_num - sum(len(LINE_END.findall(cell)) for cell in row)
                expected, got = f"{len(columns)} cells in every line, as in the header", f"{len(row)} in line {started}"
                raise InputError(describe(str(path), expected, got, "mend this line"))
            line = skipped + reader.line_num
    except csv.Error as error:
        rest = "".join(islice(_lines(text), line, None))
        raise InputError(_quotation(path, rest, separator, line + 1)) from error
    add_rows()
    return names, columns


def _quotation(path: Path, text: str, separator: str, line: int) -> str:
    """Return the sentence about the first cell of a text, from a line on, whose quotation marks are not closed."""
    mark = re.escape(separator)
    cell = re.compile(rf'(?:{QUOTED} *+(?={mark}|[\r\n]|\Z)| *+(?!")[^{mark}\r\n]*+)(?:{mark}|\r\n|\r|\n|\Z)')
    start = 0
    while (found := cell.match(text, start)) is not None and found.end() > start:
        start = found.end()
    opened = line + len(LINE_END.findall(text, 0, start))
    is_closed = re.compile(QUOTED).match(text, start) is not None
    got = f"one that opens in line {opened} and {'closes before its cell ends' if is_closed else 'never closes'}"
    remedy = "close it, or double a mark that belongs to the cell"
    return describe(str(path), "quotation marks around whole cells", got, remedy)


def read_json_lines(path: Path, content: bytes) -> TextTable:
    """Return the records of a file, one a line; a name that a record does not have is a missing cell.

    Numbers stay as they are written, so that the rules of `tables` decide as for any other text.
    """
    lines = enumerate(io.BytesIO(content), start=1)
    records = [_record(path, line, number) for number, line in lines if line.strip()]
    names = list(dict.fromkeys(name for record in records for name in record))
    return named_columns(path, names, [[record.get(name) for record in records] for name in names])


def _record(path: Path, line: bytes, number: int) -> dict[str, str | None]:
    expected, remedy = 'a record such as {"age": 41, "zone": "north"} in every line', "mend this line"
    other = InputError(describe(str(path), expected, f"something else in line {number}", remedy))
    try:
        found: object = json.loads(
            line.decode("utf-8-sig"), object_pairs_hook=JsonRecord, parse_float=str, parse_int=str, parse_constant=str
        )
    except (ValueError, RecursionError) as error:
        raise other from error
    if not isinstance(found, JsonRecord):
        raise other
    record: dict[str, str | None] = {}
    for given, cell in found:
        name = given.strip()
        if name in record:
            got = f"{name!r} twice in line {number}"
            raise InputError(describe(str(path), "a different name for each value", got, remedy))
        if isinstance(cell, list):
            got = f"several under {name!r} in line {number}"
            raise InputError(describe(str(path), "one value for each name", got, "write them as names of the record"))
        record[name] = None if cell in (None, "") else str(cell)
    return record


def read_excel(path: Path, content: bytes, max_bytes: int) -> TextTable:
    """Return the first sheet of a workbook, whose first line with a cell has the names; formulas as last shown."""
    expected, remedy = "an Excel workbook (.xlsx)", "save it again"
    try:
        unpacked = sum(entry.file_size for entry in ZipFile(io.BytesIO(content)).infolist())
    except BadZipFile as error:
        raise damaged(path, expected, error, remedy) from error
    if unpacked > max_bytes:
        raise too_large(path, max_bytes, f"{unpacked:,}")
    try:
        library = import_module("openpyxl")
    except ImportError as error:
        install = "install sparsenam[excel], or save the sheet as CSV"
        raise InputError(describe(str(path), "openpyxl, which reads Excel", "none installed", install)) from error
    try:
        book = library.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        sheet = book.worksheets[0].iter_rows(values_only=True, max_col=MOST_SHEET_COLUMNS) if book.worksheets else ()
        rows = list(_rows(sheet))
        sheets = [str(name) for name in book.sheetnames]
        book.close()
    except Exception as error:  # the library has no class of errors for a damaged file
        raise damaged(path, expected, error, remedy) from error
    if not rows:
        return TextTable([], [], ())
    header, *rows = zip(*zip_longest(*rows), strict=True)
    across = [list(cells) for cells in zip(*rows, strict=True)] or [[] for _ in header]
    notes = (f"Of {len(sheets)} sheets the first, {sheets[0]!r}, was read.",) if len(sheets) > 1 else ()
    return named_columns(path, [(cell or "").strip() for cell in header], across, notes)


def _rows(sheet: Iterable[Iterable[object]]) -> Iterator[list[str | None]]:
    """Yield the cells of each row as text, without empty ones at its end; rows without any cell are none."""
    for row in sheet:
        cells = [_as_text(cell) for cell in row]
        while cells and cells[-1] is None:
            cells.pop()
        if cells:
            yield cells


def _as_text(cell: object) -> str | None:
    if cell is None or cell == "":
        return None
    if isinstance(cell, datetime):
        return (cell.date() if cell.time() == time.min else cell).isoformat()
    if isinstance(cell, date | time):
        return cell.isoformat()
    return number_key(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else str(cell)
