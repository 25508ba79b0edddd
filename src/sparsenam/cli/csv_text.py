"""Text files of cells, read as a stream: every line has as many cells as the header, every quotation mark is closed.

A cell may be in quotation marks, and then hold separators, line ends and, doubled, quotation marks. A quotation mark
within a cell that does not begin with one stands for itself. Blanks after a separator are left out, and so are those
after a cell in quotation marks.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sparsenam.errors import InputError, describe

if TYPE_CHECKING:
    from _csv import Reader as CsvReader

MAX_BYTES = 1_000_000_000  # of a table once it is unpacked, which takes up to ten times as much memory
GUESSED = "\t;|,"  # separators looked for in the first lines of a .csv or .txt; commas are in numbers and texts too
ROWS_AT_ONCE = 4096
SHARED_CELLS = 5000  # different cells of a column that are kept once; a file that packs to next to nothing has few
LINE_END = re.compile(r"\r\n|\r|\n")
LONE_RETURN = re.compile(r"(?<=\r)(?!\n)")  # the line ends of old Macs
LONGEST_CELL = 2**31 - 1
NOTHING = " \t\x1a"  # blanks, and the end of a file as old programs mark it
SAID_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # a first line for Excel, which is no header


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


@dataclass(frozen=True, slots=True, eq=False)
class TextTable:
    """Names of columns, their cells, None where empty, and what to say of how the file was read."""

    names: list[str]
    columns: list[list[str | None]]
    notes: tuple[str, ...]


WIDE_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}  # the first bytes of a file in UTF-16
BINARY = re.compile("[\x00-\x08\x0e-\x1a]")  # in no text
LATIN = "Not UTF-8: read as Latin-1 (Windows-1252)."


def _lines(stream: io.BufferedReader[Any], path: Path, recent: list[str], notes: list[str]) -> Iterator[str]:
    """Give the lines of a stream as text, and put each into a list of recent ones.

    A file is in UTF-8, in UTF-16 with its mark, or else in Latin-1, as long as no line before says UTF-8.
    """
    wide = WIDE_MARKS.get(stream.peek(2)[:2])
    for line in _wide_lines(stream, path, wide) if wide is not None else _narrow_lines(stream, path, notes):
        for part in LONE_RETURN.split(line) if "\r" in line[:-2] else (line,):
            recent.append(part)
            yield part


def _wide_lines(stream: io.BufferedReader[Any], path: Path, encoding: str) -> Iterator[str]:
    try:
        for number, line in enumerate(io.TextIOWrapper(stream, encoding, newline="\n"), start=1):
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeDecodeError as error:
        expected, remedy = "text in UTF-16, as its first bytes say", "save the file as UTF-8"
        raise InputError(describe(str(path), expected, "something else", remedy)) from error


def _narrow_lines(stream: io.BufferedReader[Any], path: Path, notes: list[str]) -> Iterator[str]:
    encoding, is_ascii = "utf-8", True
    for number, content in enumerate(stream, start=1):
        try:
            line = content.decode("utf-8-sig" if number == 1 else encoding)
            is_ascii = is_ascii and content.isascii()
        except UnicodeDecodeError as error:
            line = content.decode("cp1252", errors="replace")
            if (encoding == "utf-8" and not is_ascii) or BINARY.search(line):
                got = f"another encoding in line {number}"
                raise InputError(describe(str(path), "text in UTF-8", got, "save the file as UTF-8")) from error
            if encoding == "utf-8":
                notes.append(LATIN)
            encoding = "cp1252"
        yield line


def read_rows(path: Path, stream: Metered | io.BufferedReader[Any], separator: str | None) -> TextTable:
    """Return the names of the columns and their cells; without a separator it is guessed.

    Raise `InputError` with the number of the line that has too many or too few cells, or a quotation mark not closed.
    """
    recent: list[str] = []  # lines since the last whole row
    notes: list[str] = []
    buffered: io.BufferedReader[Any] = io.BufferedReader(stream, 1 << 16) if isinstance(stream, Metered) else stream
    lines = _lines(buffered, path, recent, notes)
    skipped, first = 0, ""
    for first in lines:
        if first.strip("\r\n"):
            break
        skipped += 1
        recent.clear()
    if (said := SAID_SEPARATOR.fullmatch(first)) is not None:
        separator, first, skipped = said[1], next(lines, ""), skipped + 1
    second = next(lines, "")
    recent[:] = [first]
    limit = csv.field_size_limit()
    try:
        csv.field_size_limit(LONGEST_CELL)  # a cell may hold a whole document
        if separator is None:
            separator = _separator(first, second)
        given = _tightened(chain([first], _remembered(second, recent), lines), recent, separator)
        reader = csv.reader(given, delimiter=separator, strict=True, skipinitialspace=True)
        names, columns = _parsed(path, reader, recent, skipped)
    finally:
        csv.field_size_limit(limit)
    return named_columns(path, names, columns, notes)


def _remembered(line: str, recent: list[str]) -> Iterator[str]:
    """Give a line that was looked at before, among the recent ones from when it is asked for."""
    if line:
        recent.append(line)
        yield line


OPENED = re.compile(r' *+"')
CLOSED = re.compile(r'[^"]*+(?:""[^"]*+)*+"')  # what follows the first mark, to the last


def _tightened(lines: Iterable[str], recent: list[str], separator: str) -> Iterator[str]:
    """Give lines without the blanks that follow a cell in quotation marks, which the reader of cells would refuse.

    A line begins within a cell where there are others among the recent ones, since these are cleared after every row.
    """
    blanks = re.compile(rf" ++(?={re.escape(separator)}|[\r\n]|$)")
    for line in lines:
        if '" ' not in line:
            yield line
            continue
        kept, start, at, is_open = list[str](), 0, 0, len(recent) > 1
        while True:
            opened = OPENED.match(line, at)
            if is_open or opened is not None:
                closed = CLOSED.match(line, at if is_open or opened is None else opened.end())
                if closed is None:  # the cell goes on in the next line
                    break
                after = blanks.match(line, closed.end())
                if after is not None:
                    kept.append(line[start : after.start()])
                    start = after.end()
                at = max(start, closed.end())
            is_open, at = False, line.find(separator, at) + 1
            if not at:
                break
        yield "".join(kept) + line[start:]


def _separator(first: str, second: str) -> str:
    """Return what separates the cells: what parts the first two lines alike, the one that parts them more often."""

    def parts(line: str, mark: str) -> int:
        return len(next(csv.reader([line], delimiter=mark, skipinitialspace=True), ()))

    scores = {mark: (parts(first, mark) == parts(second, mark), parts(first, mark)) for mark in GUESSED}
    return max(GUESSED, key=lambda mark: (scores[mark][1] > 1, *scores[mark]))


def named_columns(path: Path, names: list[str], columns: list[list[str | None]], notes: Iterable[str]) -> TextTable:
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
    return TextTable([names[at] for at in kept], [columns[at] for at in kept], tuple(notes))


def _parsed(path: Path, reader: CsvReader, recent: list[str], skipped: int) -> tuple[list[str], list[list[str | None]]]:
    names: list[str] | None = None
    columns: list[_Column] = []
    rows: list[list[str]] = []
    line = 0  # where the last whole row ended
    try:
        for row in reader:
            if names is None:
                names = [name.strip() for name in row]
                columns = [_Column() for _ in names]
            elif len(row) == len(columns):
                rows.append(row)
                if len(rows) == ROWS_AT_ONCE:
                    _add(rows, columns)
            elif any(cell.strip(NOTHING) for cell in row) or len(row) > 1:  # a line without anything is none
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


def _quotation(path: Path, text: str, separator: str, line: int) -> str:
    """Return the sentence about the row that begins in a line, whose quotation marks are not as they must be."""
    mark = re.escape(separator)
    cell = re.compile(
        rf' *+(?:"[^"]*+(?:""[^"]*+)*+" *+(?={mark}|\r|\n|$)|(?!")[^{mark}\r\n]*+)(?:{mark}|\r\n|\r|\n|$)'
    )
    start = 0
    while (found := cell.match(text, start)) is not None and found.end() > start:
        start = found.end()
    opened = line + len(LINE_END.findall(text[:start]))
    is_closed = re.compile(r' *+"[^"]*+(?:""[^"]*+)*+"').match(text, start) is not None
    got = f"one that opens in line {opened} and {'closes before its cell ends' if is_closed else 'never closes'}"
    remedy = "close it, or double a mark that belongs to the cell"
    return describe(str(path), "quotation marks around whole cells", got, remedy)
