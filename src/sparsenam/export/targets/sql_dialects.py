"""SQL dialects: how each writes names, texts and numbers, and reads the cells of a column.

The tests run those of DuckDB, PostgreSQL and SQLite; the others are written from the documentation of their engines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from sqlglot import exp

from sparsenam.export.portable import Label
from sparsenam.tables.text import MARKERS

BLANKS = " \t\n\r\v\f\xa0"
LARGEST_FINITE = 1.7e308  # above it a number counts as infinite
MICROSECONDS = 86_400_000_000  # of a day
BRANCHES = 8  # of a CASE: in DuckDB 30 knots take 23 ns a cell with 6 to 8, 38 with 2, 35 with one CASE of all
# digits with at most two of an exponent: no engine fails to read them; no zero in front, as postal codes have
NUMBER = r"^[+-]?((0|[1-9][0-9]{0,99})([.][0-9]{0,99})?|[.][0-9]{1,99})([eE][+-]?[0-9]{1,2})?$"


class Dialect:
    """What SQL has in common; classes below say what is different.

    ``arrays``: constants are looked up in arrays, not by CASE; ``searches``: many knots, too. ``fence``: the end of a
    query whose columns are not computed again for each use, with ``fenced`` at the end of the query that reads it.
    ``folds``: names that differ in case are one. ``stiff``: arithmetic that leaves the range of numbers is an error,
    below it, too.
    """

    name: ClassVar[str]
    tested: ClassVar[bool] = False
    double: ClassVar[str] = "DOUBLE"
    text_type: ClassVar[str] = "STRING"
    arrays: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    stiff: ClassVar[bool] = False
    folds: ClassVar[bool] = True
    inlined: ClassVar[str] = ""
    fence: ClassVar[str] = ""
    fenced: ClassVar[str] = ""
    longest_name: ClassVar[int] = 255
    most_columns: ClassVar[int] = 1_000
    truth_as_numbers: ClassVar[bool] = False

    def for_constants(self, count: int) -> Dialect:
        """Return the dialect for a query of so many constants."""
        return self

    def identifier(self, name: str) -> str:
        return exp.to_identifier(name, quoted=True).sql(dialect=self.name)

    def text(self, value: str) -> str:
        return exp.Literal.string(value).sql(dialect=self.name)

    def number(self, value: float) -> str:
        """Return a literal that is read back as the same double."""
        digits = repr(float(value))
        return in_brackets(digits if "e" in digits else f"{digits}e0")

    def label(self, value: Label) -> str:
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value)
        return self.text(value) if isinstance(value, str) else self.number(value)

    def as_double(self, expression: str) -> str:
        return f"CAST({expression} AS {self.double})"

    def as_text(self, expression: str) -> str:
        return f"CAST({expression} AS {self.text_type})"

    def blanks(self) -> str:
        """Return a text of all blanks; by number, so that no program that reads lines changes them."""
        return " || ".join(f"CHR({ord(blank)})" for blank in BLANKS)

    def trimmed(self, text: str) -> str:
        return f"TRIM({text}, {self.blanks()})"

    def number_cell(self, column: str) -> str:
        """Return a column's number, NULL where it is NaN."""
        return f"NULLIF({self.as_double(column)}, {self.as_double(self.text('NaN'))})"

    def date_cell(self, column: str) -> str:
        """Return a column's days since 1970-01-01."""
        return f"UNIX_MICROS(CAST({column} AS TIMESTAMP)) / {self.number(MICROSECONDS)}"

    def duration_cell(self, column: str) -> str:
        """Return a column's seconds."""
        return self.number_cell(column)

    def text_cell(self, column: str, truth: tuple[str, str] | None) -> str:
        """Return a column's text, NULL where it is missing, and the given texts of truth values."""
        text = self.as_text(column)
        cases = f"WHEN {self.is_marker(text)} THEN NULL"
        if truth is not None:
            found = f"{self.is_truth(column)} AND " if self.is_truth(column) else ""
            for name, level in zip(("false", "true"), truth, strict=True):
                cases += f" WHEN {found}{text} = {self.text(name)} THEN {self.text(level)}"
        return f"CASE {cases} ELSE {text} END"

    def is_marker(self, text: str) -> str:
        """Return a condition that a text says that the cell is missing."""
        return f"{self.trimmed(text)} IN ({', '.join(self.text(mark) for mark in sorted(MARKERS))})"

    def is_truth(self, column: str) -> str:
        """Return a condition that the column is one of truth values; empty where that cannot be asked."""
        return ""

    def number_in(self, text: str) -> tuple[str, str]:
        """Return a condition that a text writes a number, and the number."""
        pattern = exp.Literal.string(NUMBER)
        match = exp.RegexpLike(this=exp.Var(this=self.trimmed(text)), expression=pattern).sql(dialect=self.name)
        return match, self.as_double(self.trimmed(text))

    def array(self, values: Sequence[float]) -> str:
        raise NotImplementedError

    def piece(self, x: str, knots: Sequence[float]) -> str:
        """Return how many of the knots are not above x."""
        return tree(x, [self.number(knot) for knot in knots], [str(piece) for piece in range(len(knots) + 1)])

    def item(self, values: Sequence[float], place: str) -> str:
        """Return the constant at a place, counted from 0."""
        if self.arrays:
            return f"({self.array(values)})[{place} + 1]"
        return tree(place, [str(at) for at in range(1, len(values))], [self.number(value) for value in values])

    def largest(self, expressions: Sequence[str]) -> str:
        return f"GREATEST({', '.join(expressions)})"


class DuckDB(Dialect):
    """DuckDB; lists of constants are faster than CASE, and CTEs are not to be written out."""

    name, tested, arrays, searches, text_type = "duckdb", True, True, True, "TEXT"
    inlined, longest_name, most_columns = "NOT MATERIALIZED ", 1_000, 100_000

    def date_cell(self, column: str) -> str:
        endless, days = self.as_double("'Infinity'"), f"EPOCH_US({column}) / {self.number(MICROSECONDS)}"
        return f"CASE WHEN ISINF({column}) THEN {endless} ELSE {days} END"

    def duration_cell(self, column: str) -> str:
        return f"EPOCH_US({column}) / {self.number(1e6)}"

    def is_truth(self, column: str) -> str:
        return f"TYPEOF({column}) = 'BOOLEAN'"

    def array(self, values: Sequence[float]) -> str:
        return f"CAST('[{', '.join(repr(float(value)) for value in values)}]' AS DOUBLE[])"


class PostgreSQL(Dialect):
    """PostgreSQL, where results out of range are errors, and width_bucket finds a number among knots."""

    name, tested, arrays, stiff, double, text_type = "postgres", True, True, True, "DOUBLE PRECISION", "TEXT"
    folds, fence, longest_name, most_columns = False, "OFFSET 0", 63, 1_600

    def text(self, value: str) -> str:
        if "\\" in value:  # E'…' means the same whatever standard_conforming_strings says
            return "E" + super().text(value.replace("\\", "\\\\"))
        return super().text(value)

    def number(self, value: float) -> str:
        return f"CAST('{float(value)!r}' AS DOUBLE PRECISION)"  # a bare literal would be a decimal

    def label(self, value: Label) -> str:
        return f"CAST({self.text(value)} AS TEXT)" if isinstance(value, str) else super().label(value)

    def trimmed(self, text: str) -> str:
        return f"BTRIM({text}, {self.blanks()})"

    def date_cell(self, column: str) -> str:
        micros = f"EXTRACT(EPOCH FROM {column}) * 1000000"
        return f"CAST({micros} AS DOUBLE PRECISION) / {self.number(MICROSECONDS)}"

    def duration_cell(self, column: str) -> str:
        return f"CAST(EXTRACT(EPOCH FROM {column}) AS DOUBLE PRECISION)"

    def is_truth(self, column: str) -> str:
        return f"PG_TYPEOF({column}) = CAST('boolean' AS REGTYPE)"

    def array(self, values: Sequence[float]) -> str:
        return f"CAST('{{{', '.join(repr(float(value)) for value in values)}}}' AS DOUBLE PRECISION[])"

    def piece(self, x: str, knots: Sequence[float]) -> str:
        return f"WIDTH_BUCKET({x}, {self.array(knots)})"


class SQLite(Dialect):
    """SQLite, where cells have types, columns have none, and dates are text."""

    name, tested, double, text_type, truth_as_numbers = "sqlite", True, "REAL", "TEXT", True
    fence, fenced, longest_name, most_columns = "LIMIT -1 OFFSET 0", "WHERE TRUE", 1_000, 2_000

    def number(self, value: float) -> str:
        digits = repr(float(value))
        if sum(character.isdigit() for character in digits.split("e")[0]) > 15:
            digits = f"{value:.17g}"  # SQLite before 3.43 reads one in 20,000 shortest forms as a neighbour
        return in_brackets(digits if "e" in digits or "." in digits else f"{digits}.0")

    def for_constants(self, count: int) -> Dialect:
        return ManySQLite() if count > 2_000 else self

    def label(self, value: Label) -> str:
        return str(int(value)) if isinstance(value, bool) else super().label(value)

    def blanks(self) -> str:
        return f"CHAR({', '.join(str(ord(blank)) for blank in BLANKS)})"

    def number_cell(self, column: str) -> str:
        number = f"WHEN TYPEOF({column}) IN ('integer', 'real') THEN {self.as_double(column)}"
        return f"CASE {number} {self._else_endless(column)}"

    def date_cell(self, column: str) -> str:
        time = (
            f"1000 * CAST(STRFTIME('%s', {column}) AS INTEGER) + CAST(SUBSTR(STRFTIME('%f', {column}), 4) AS INTEGER)"
        )
        known = f"TYPEOF({column}) = 'text' AND STRFTIME('%s', {column}) IS NOT NULL"
        return f"CASE WHEN {known} THEN ({time}) / 86400000.0 {self._else_endless(column)}"

    def _else_endless(self, column: str) -> str:
        """Return the end of a CASE: missing cells are NULL, anything else is infinite and gives no score."""
        return f"WHEN {column} IS NULL OR {self.is_marker(column)} THEN NULL ELSE 9e999 END"

    def text_cell(self, column: str, truth: tuple[str, str] | None) -> str:
        return f"CASE WHEN {self.is_marker(column)} THEN NULL ELSE {column} END"

    def number_in(self, text: str) -> tuple[str, str]:
        zero = f"LTRIM({text}, '+-' || {self.blanks()}) GLOB '0[0-9]*'"
        # beside a number a text that writes a number is compared as one, and any other is unequal; a whole number
        # between 2^53 and 2^63 is compared as an integer, which may lie between two REALs
        same = f"(CAST({text} AS REAL) = {text} OR CAST({text} AS INTEGER) = {text})"
        written = f"TYPEOF({text}) = 'text' AND NOT {zero} AND {same}"
        return f"TYPEOF({text}) IN ('integer', 'real') OR {written}", self.as_double(text)

    def largest(self, expressions: Sequence[str]) -> str:
        return f"MAX({', '.join(expressions)})"


class ManySQLite(SQLite):
    """SQLite with thousands of constants.

    It compares each bare constant with all before it: 25,000 take 4 s to prepare. Those in a function take 0.1 s.
    """

    def number(self, value: float) -> str:
        return f"IFNULL({super().number(value)}, 0)"


class BigQuery(Dialect):
    """BigQuery, as documented."""

    name, double, longest_name, most_columns = "bigquery", "FLOAT64", 300, 10_000

    def number_cell(self, column: str) -> str:
        number = self.as_double(column)
        return f"CASE WHEN IS_NAN({number}) THEN NULL ELSE {number} END"


class Snowflake(Dialect):
    """Snowflake, as documented; quoted names keep their case."""

    name, text_type, folds = "snowflake", "VARCHAR", False

    def number(self, value: float) -> str:
        return f"CAST('{float(value)!r}' AS DOUBLE)"

    def date_cell(self, column: str) -> str:
        micros = f"DATE_PART(EPOCH_MICROSECOND, CAST({column} AS TIMESTAMP_NTZ))"
        return f"CAST({micros} AS DOUBLE) / {self.number(MICROSECONDS)}"


class SQLServer(Dialect):
    """SQL Server from 2022 on, as documented: no NaN, no truth values but bits, texts compared by their bytes."""

    name, double, text_type, truth_as_numbers, longest_name = "tsql", "FLOAT", "NVARCHAR(MAX)", True, 128

    def text(self, value: str) -> str:
        return f"N{super().text(value)}"

    def label(self, value: Label) -> str:
        return f"CAST({int(value)} AS BIT)" if isinstance(value, bool) else super().label(value)

    def as_text(self, expression: str) -> str:
        return f"{super().as_text(expression)} COLLATE Latin1_General_100_BIN2"

    def trimmed(self, text: str) -> str:
        return f"TRIM({' + '.join(f'NCHAR({ord(blank)})' for blank in BLANKS)} FROM {text})"

    def number_cell(self, column: str) -> str:
        return self.as_double(column)

    def date_cell(self, column: str) -> str:
        since = f"DATEDIFF_BIG(MICROSECOND, '1970-01-01', CAST({column} AS DATETIME2))"
        return f"{since} / {self.number(MICROSECONDS)}"

    def number_in(self, text: str) -> tuple[str, str]:
        number, trimmed = f"TRY_CAST({text} AS FLOAT)", self.trimmed(text)
        zero = " AND ".join(f"{trimmed} NOT LIKE '{sign}0[0-9]%'" for sign in ("", "-", "+"))
        return f"{number} IS NOT NULL AND {zero}", number


class Spark(Dialect):
    """Spark SQL, as documented."""

    name, most_columns = "spark", 10_000

    def trimmed(self, text: str) -> str:
        return f"TRIM(BOTH {self.blanks()} FROM {text})"

    def is_truth(self, column: str) -> str:
        return f"TYPEOF({column}) = 'boolean'"


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {kind.name: kind() for kind in (DuckDB, PostgreSQL, SQLite, BigQuery, Snowflake, SQLServer, Spark)}
)


def in_brackets(digits: str) -> str:
    """Return a number with brackets about it where it is negative."""
    return f"({digits})" if digits.startswith("-") else digits


def tree(x: str, bounds: Sequence[str], leaves: Sequence[str]) -> str:
    """Return CASEs within CASEs that choose a leaf by the number of bounds not above x; there is one leaf more."""
    if len(leaves) == 1:
        return leaves[0]
    size = BRANCHES ** max(0, math.ceil(math.log(len(leaves), BRANCHES) - 1e-9) - 1)
    starts = range(0, len(leaves), size)
    parts = [tree(x, bounds[start : start + size - 1], leaves[start : start + size]) for start in starts]
    cases = [
        f"WHEN {x} < {bounds[start + size - 1]} THEN {part}" for start, part in zip(starts, parts[:-1], strict=False)
    ]
    return f"CASE {' '.join(cases)} ELSE {parts[-1]} END"


class Names:
    """Quoted aliases that differ from all others, in case, too, and after engines cut them."""

    def __init__(self, dialect: Dialect, taken: Iterable[str]) -> None:
        self._dialect = dialect
        self._taken = {cut(name, dialect.longest_name).casefold() for name in taken}

    def new(self, *parts: str) -> str:
        """Return an alias made of the parts, cut and numbered where it must be."""
        wanted, number = "_".join(parts), 1
        name = cut(wanted, self._dialect.longest_name)
        while name.casefold() in self._taken:
            number += 1
            name = cut(wanted, self._dialect.longest_name - len(f"_{number}")) + f"_{number}"
        self._taken.add(name.casefold())
        return self._dialect.identifier(name)


def cut(name: str, longest: int) -> str:
    """Return as many of the name's characters as fit into so many bytes of UTF-8."""
    return name.encode()[:longest].decode(errors="ignore")
