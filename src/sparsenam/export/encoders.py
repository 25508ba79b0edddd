"""Table encoders from plain data, checked before they are believed."""

from __future__ import annotations

from typing import Any, get_args

from sparsenam.export.checks import as_record, as_texts, require
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import Kind, Unit

COLUMN = {
    "name": str,
    "kind": str,
    "words": str,
    "n_missing": int,
    "levels": list,
    "pooled": list,
    "unit": str,
    "missing_term": str,
}
TERM = {"name": str, "column": int, "kind": str, "levels": list}
ENCODER = {"names": list, "named": bool, "columns": list, "terms": list, "owner": str}
FILE_KEYS = {"estimator_name": "owner", "description": "words"}  # fields whose keys in the file differ
TERM_KINDS = ("number", "binary", "levels", "missing")


def read_encoder(data: Any) -> TableEncoder:
    """Return the encoder that `encoder_to_dict` wrote."""
    told = _record(data, ENCODER, "table")
    names, columns, terms = as_texts(told["names"], "a damaged table"), told["columns"], told["terms"]
    require(len(set(names)) == len(names) == len(columns), "a table whose columns do not match their names")
    for name, own in zip(names, columns, strict=True):
        column = _record(own, COLUMN, "column")
        require(column["name"] == name and column["kind"] in get_args(Kind), "a column of an unknown kind")
        require(column["unit"] in get_args(Unit) and column["n_missing"] >= 0, "a damaged column")
        as_texts(column["pooled"], "a damaged column")
        levels = as_texts(column["levels"], "a damaged column")
        require(bool(levels) or column["kind"] not in ("category", "ordered"), "a category without levels")
    for own in terms:
        term = _record(own, TERM, "term")
        require(term["kind"] in TERM_KINDS and 0 <= term["column"] < len(names), "a term of no column")
        as_texts(term["levels"], "a damaged term")
    require(len({term["name"] for term in terms}) == len(terms), "two terms of one name")
    return TableEncoder.from_dict(_renamed(told, {file: field for field, file in FILE_KEYS.items()}))


def encoder_to_dict(encoder: TableEncoder) -> dict[str, Any]:
    """Return the encoder as the record that `read_encoder` reads."""
    return _renamed(encoder.to_dict(), FILE_KEYS)


def _renamed(encoder: dict[str, Any], keys: dict[str, str]) -> dict[str, Any]:
    """Return an encoder's record with other keys, in the record itself and in its columns."""
    columns = [{keys.get(key, key): value for key, value in column.items()} for column in encoder["columns"]]
    return {keys.get(key, key): value for key, value in encoder.items()} | {"columns": columns}


def _record(value: Any, expected: dict[str, type], what: str) -> dict[str, Any]:
    """Return the value once it is a record with these keys and types of value."""
    record = as_record(value, expected, f"a damaged {what}")
    require(all(type(record[key]) is kind for key, kind in expected.items()), f"a damaged {what}")
    return record
