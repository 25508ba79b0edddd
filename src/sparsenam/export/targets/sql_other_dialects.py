"""SQL dialects written from the documentation of engines that no test runs, and all dialects by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sparsenam.export.portable import Label
from sparsenam.export.targets.sql_dialects import BLANKS, MICROSECONDS, Dialect, DuckDB, PostgreSQL, SQLite


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
