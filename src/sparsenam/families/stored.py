"""Families in files: by name and parameters; a custom loss is code, which no file holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sparsenam.codec import Size, Via
from sparsenam.errors import RefusalError
from sparsenam.families.base import FAMILIES, Family

PARAMETERS: dict[str, tuple[str, ...]] = {
    "tweedie": ("power",),
    "negative_binomial": ("overdispersion",),
    "quantile": ("level", "smoothing"),
    "huber": ("width", "scale"),
}


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
    values = {name: getattr(family, name) for name in PARAMETERS.get(family.name, ())}
    return FamilyRecord(family.name, {name: v if v == "auto" else float(v) for name, v in values.items()})


def read_family(record: FamilyRecord) -> Family:
    """Return the family of a record; it checks its parameters."""
    if record.name not in FAMILIES:
        raise RefusalError(f"the unknown family {record.name[:40]!r}")
    if set(record.parameters) != set(PARAMETERS.get(record.name, ())):
        raise RefusalError("a family of other parameters")
    return FAMILIES[record.name](**record.parameters)


StoredFamily = Annotated[Family, Via(FamilyRecord, family_record, read_family)]
