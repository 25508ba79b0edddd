"""The JSON file of one name: written whole after every record, so that a stopped run loses nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from sparsenam.datasets.store import write_atomically
from sparsenam.errors import InputError, describe

Record = Mapping[str, object]
Key = tuple[str, str, int]


def key_of(record: Record) -> Key:
    """Return what tells records apart: section, method and seed."""
    return str(record["section"]), str(record["method"]), int(cast(int, record["seed"]))


def read_report(path: Path) -> dict[str, object]:
    """Return the content of a report file."""
    try:
        report: object = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or not isinstance(report.get("records"), list):  # pyright: ignore[reportUnknownMemberType]
            raise ValueError("no records in it")
    except ValueError as error:
        raise InputError(
            describe(str(path), "a report of an earlier run", str(error), "move it away or give another --out")
        ) from error
    return cast("dict[str, object]", report)


class Store:
    """Records by key, with a header of facts; every change goes to the file at once."""

    def __init__(self, path: Path, header: Mapping[str, object]) -> None:
        self.path = path
        self._header = dict(header)
        old = read_report(path) if path.exists() else {}
        stored = cast("list[Record]", old.get("records", []))
        self._records: dict[Key, Record] = {key_of(record): record for record in stored}

    def records(self) -> list[Record]:
        """Return all records."""
        return list(self._records.values())

    def has(self, key: Key) -> bool:
        """Tell whether a record is there and did not fail."""
        record = self._records.get(key)
        return record is not None and record["status"] == "done"

    def drop_outdated(self, current: Mapping[tuple[str, str], str]) -> list[str]:
        """Forget records whose recipe is not the current one; return the methods they belong to."""
        outdated = [
            key for key, record in self._records.items() if current.get((key[0], key[1])) != record["recipe"]
        ]
        for key in outdated:
            del self._records[key]
        return sorted({f"{key[0]} {key[1]}".strip() for key in outdated})

    def put(self, record: Record) -> None:
        """Store a record in the place of an earlier one of its key."""
        self._records[key_of(record)] = record
        self.write()

    def set(self, name: str, value: object) -> None:
        """Store a fact in the header."""
        self._header[name] = value
        self.write()

    def report(self) -> dict[str, object]:
        """Return what the file holds."""
        return {**self._header, "records": self.records()}

    def write(self) -> None:
        """Write the file, which is whole at every moment."""
        text = json.dumps(self.report(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(self.path, (text + "\n").encode())
