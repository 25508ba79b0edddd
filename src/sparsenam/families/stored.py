"""Families in files: by name and parameters; a custom loss is code, which no file holds."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Literal

from sparsenam.codec import Size, Via
from sparsenam.errors import RefusalError
from sparsenam.families.base import FAMILIES, Family


@dataclass(frozen=True, slots=True)
class FamilyRecord:
    """Name and parameters of a family."""

    name: str
    parameters: dict[str, Size | Literal["auto"]]


def is_known_family(value: object) -> bool:
    """Return whether a value is a family of this library, not a custom loss."""
    return any(type(value) is kind for kind in FAMILIES.values())


def family_record(family: Family) -> FamilyRecord:
    """Return name and parameters of a family of this library."""
    values = {name: getattr(family, name) for name in _parameters(type(family))}
    return FamilyRecord(family.name, {name: v if v == "auto" else float(v) for name, v in values.items()})


def read_family(record: FamilyRecord) -> Family:
    """Return the family of a record; it checks its parameters."""
    if record.name not in FAMILIES:
        raise RefusalError(f"the unknown family {record.name[:40]!r}")
    if set(record.parameters) != set(_parameters(FAMILIES[record.name])):
        raise RefusalError("a family of other parameters")
    return FAMILIES[record.name](**record.parameters)


def _parameters(kind: type[Family]) -> list[str]:
    """Return the names of the parameters that a family is made with."""
    assert is_dataclass(kind)
    return [field.name for field in fields(kind) if field.init]


StoredFamily = Annotated[Family, Via(FamilyRecord, family_record, read_family)]
