"""The JSON file of one name: written whole after every record, so that a stopped run loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import cast

from sparsenam.errors import InputError, describe
from sparsenam.files import write_atomically

Record = Mapping[str, object]
Key = tuple[str, str, int]
FACTS = ("versions", "machine")
# failures that another state of the machine may mend; the rest would only fail again
MENDABLE = ("MissingPackageError", "ImportError", "ModuleNotFoundError", "MemoryError", "OSError")


def key_of(record: Record) -> Key:
    """Return what tells records apart: section, method and seed."""
    return str(record["section"]), str(record["method"]), int(cast(int, record["seed"]))


def read_report(path: Path) -> dict[str, object]:
    """Return the content of a report file; raise if it is none."""
    try:
        report: object = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or not isinstance(report.get("records"), list):  # pyright: ignore[reportUnknownMemberType]
            raise ValueError("no records in it")
        content = cast("dict[str, object]", report)
        for record in cast("list[object]", content["records"]):
            _check_record(record)
    except ValueError as error:
        raise InputError(
            describe(str(path), "a report of an earlier run", str(error), "move it away or give another --out")
        ) from error
    return content


def _check_record(record: object) -> None:
    if not isinstance(record, Mapping):
        raise ValueError(f"a record that is no table: {record!r}")
    own = cast(Record, record)
    wanted = {"section": str, "method": str, "seed": int, "recipe": str, "status": str}
    if own.get("status") != "done":
        wanted["reason"] = str
    for name, kind in wanted.items():
        if not isinstance(own.get(name), kind):
            raise ValueError(f"a record with {name!r} of {own.get(name)!r}")


def shown_records(report: Mapping[str, object]) -> list[Record]:
    """Return the records of the seeds that the report is about; those of other seeds stay in the file, unseen."""
    records = cast("list[Record]", report["records"])
    seeds = cast("list[int] | None", report["seeds"])
    return records if seeds is None else [record for record in records if record["seed"] in seeds]


class Store:
    """Records by key, with a header of facts; every change goes to the file at once."""

    def __init__(self, path: Path, header: Mapping[str, object]) -> None:
        self.path = path
        self._header = dict(header)
        old = read_report(path) if path.exists() else {}
        # reports once had these facts in the header, for all records together
        shared = {name: old[name] for name in FACTS if name in old}
        stored = cast("list[Record]", old.get("records", []))
        self._records: dict[Key, Record] = {key_of(record): {**shared, **record} for record in stored}

    def records(self) -> list[Record]:
        """Return all records."""
        return list(self._records.values())

    def has(self, key: Key, enough: Callable[[Record], bool], *, retry: bool) -> bool:
        """Tell whether a record need not be made: it is there and holds enough, or it would only fail again."""
        record = self._records.get(key)
        if record is None:
            return False
        if record["status"] == "done":
            return enough(record)
        return not retry and record.get("error") not in MENDABLE

    def failed(self, keys: Collection[Key]) -> int:
        """Return how many of these records are failures."""
        return sum(record["status"] != "done" for key, record in self._records.items() if key in keys)

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
