"""Text files of cells, read as a stream: every line has as many cells as the header, every quotation mark is closed.

A cell may be in quotation marks, and then hold separators, line ends and, doubled, quotation marks. A quotation mark
within a cell that does not begin with one stands for itself.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sparsenam.errors import InputError, describe

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

MAX_BYTES = 1_000_000_000  # of a table once it is unpacked, which takes up to ten times as much memory
GUESSED = ",;\t|"  # separators looked for in the first line of a .csv or .txt
ROWS_AT_ONCE = 4096
SHARED_CELLS = 5000  # different cells of a column that are kept once; a file that packs to next to nothing has few
LINE_END = re.compile(r"\r\n|\r|\n")
LONE_RETURN = re.compile(r"(?<=\r)(?!\n)")  # the line ends of old Macs
LONGEST_CELL = 2**31 - 1


class Metered(io.RawIOBase):
    """A stream of bytes with a digest of what was read, which refuses to go on beyond a number of bytes."""

    def __init__(self, source: BinaryIO | io.BufferedIOBase, most: int | None, path: Path) -> None:
        self._source, self._most, self._path = source, most, path
        self._count, self._digest = 0, hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes into a buffer; return how many."""
        content = self._source.read(len(buffer))
        self._count += len(content)
        if self._most is not None and self._count > self._most:
            expected, got = f"at most {self._most:,} bytes once unpacked", "more"
            remedy = "raise --max-bytes if the memory is there"
            raise InputError(describe(str(self._path), expected, got, remedy))
        self._digest.update(content)
        buffer[: len(content)] = content
        return len(content)

    def digest(self) -> bytes:
        """Return the digest of what was read."""
        return self._digest.digest()


def _lines(stream: io.BufferedReader, path: Path, recent: list[str]) -> Iterator[str]:
    """Give the lines of a stream as text, and put each into a list of recent ones."""
    for number, content in enumerate(stream, start=1):
        try:
            line = content.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            got = f"another encoding in line {number}"
            raise InputError(describe(str(path), "text in UTF-8", got, "save the file as UTF-8")) from error
        for part in LONE_RETURN.split(line) if "\r" in line[:-2] else (line,):
            recent.append(part)
            yield part


def read_rows(path: Path, stream: Metered, separator: str | None) -> tuple[list[str], list[list[str | None]]]:
    """Return the names of the columns and their cells, None where empty; without a separator it is guessed.

    Raise `InputError` with the number of the line that has too many or too few cells, or a quotation mark not closed.
    """
    recent: list[str] = []  # lines since the last whole row
    lines = _lines(io.BufferedReader(stream, 1 << 16), path, recent)
    skipped, first = 0, ""
    for first in lines:
        if first.strip("\r\n"):
            break
        skipped += 1
        recent.clear()
    if separator is None:
        separator = "," if "," in first else max(GUESSED, key=first.count)
    limit = csv.field_size_limit()
    try:
        csv.field_size_limit(LONGEST_CELL)  # a cell may hold a whole document
        return _parsed(path, csv.reader(chain([first], lines), delimiter=separator, strict=True), recent, skipped)
    finally:
        csv.field_size_limit(limit)


def _parsed(path: Path, reader: CsvReader, recent: list[str], skipped: int) -> tuple[list[str], list[list[str | None]]]:
    names: list[str] | None = None
    columns: list[_Column] = []
    rows: list[list[str]] = []
    line = 0  # where the last whole row ended
    try:
        for row in reader:
            if names is None:
                names = _header(path, row)
                columns = [_Column() for _ in names]
            elif len(row) == len(columns):
                rows.append(row)
                if len(rows) == ROWS_AT_ONCE:
                    _add(rows, columns)
            elif row:  # a line without anything is none
                started = skipped + reader.line_num - sum(len(LINE_END.findall(cell)) for cell in row)
                expected, got = f"{len(columns)} cells in every line, as in the header", f"{len(row)} in line {started}"
                raise InputError(describe(str(path), expected, got, "mend this line"))
            line = reader.line_num
            recent.clear()
    except csv.Error as error:
        raise InputError(_quotation(path, "".join(recent), reader.dialect.delimiter, skipped + line + 1)) from error
    _add(rows, columns)
    return names or [], [column.cells for column in columns]


class _Column:
    """The cells of a column, None where empty; equal ones share their memory while few are different."""

    def __init__(self) -> None:
        self.cells: list[str | None] = []
        self._known: dict[str, str | None] = {"": None}

    def add(self, cells: tuple[str, ...]) -> None:
        if len(self._known) < SHARED_CELLS:
            self._known |= {cell: cell for cell in set(cells).difference(self._known)}
        known = self._known.get
        self.cells.extend([known(cell, cell) for cell in cells])


def _add(rows: list[list[str]], columns: list[_Column]) -> None:
    for column, cells in zip(columns, zip(*rows, strict=True), strict=bool(rows)):
        column.add(cells)
    rows.clear()


def _header(path: Path, first: list[str]) -> list[str]:
    names = [name.strip() for name in first]
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated or "" in names:
        got = f"{repeated[0]!r} more than once" if repeated and repeated[0] else "a column without a name"
        expected = "a header with a different name for each column"
        raise InputError(describe(str(path), expected, got, "mend the first line"))
    return names


def _quotation(path: Path, text: str, separator: str, line: int) -> str:
    """Return the sentence about the row that begins in a line, whose quotation marks are not as they must be."""
    mark = re.escape(separator)
    cell = re.compile(rf'(?:"[^"]*+(?:""[^"]*+)*+"(?={mark}|\r|\n|$)|(?!")[^{mark}\r\n]*+)(?:{mark}|\r\n|\r|\n|$)')
    start = 0
    while (found := cell.match(text, start)) is not None and found.end() > start:
        start = found.end()
    opened = line + len(LINE_END.findall(text[:start]))
    is_closed = re.compile(r'"[^"]*+(?:""[^"]*+)*+"').match(text, start) is not None
    got = f"one that opens in line {opened} and {'closes before its cell ends' if is_closed else 'never closes'}"
    remedy = "close it, or double a mark that belongs to the cell"
    return describe(str(path), "quotation marks around whole cells", got, remedy)
