"""Families by name and parameters."""

from __future__ import annotations

from typing import Any

from sparsenam.errors import InputError, describe
from sparsenam.export.checks import as_record, require
from sparsenam.export.problems import ModelFileError, RefusalError
from sparsenam.families import FAMILIES, Family

PARAMETERS: dict[str, tuple[str, ...]] = {
    "tweedie": ("power",),
    "negative_binomial": ("dispersion",),
    "quantile": ("level", "smoothing"),
    "huber": ("width", "scale"),
}
FIELDS = {"dispersion": "overdispersion"}  # where a parameter's key in the file differs


def is_known_family(value: object) -> bool:
    """Whether the value is one of the library's families."""
    return any(type(value) is kind for kind in FAMILIES.values())


def family_to_dict(family: Family) -> dict[str, Any]:
    """Return name and parameters of a family; a loss of one's own is code, which no file holds."""
    if not is_known_family(family):
        expected = f"one of {sorted(FAMILIES)}, since a model file holds no code"
        got, remedy = f"a loss of your own ({family.name})", "keep the estimator with pickle"
        raise ModelFileError(describe("family of the model to save", expected, got, remedy))
    values = {name: getattr(family, FIELDS.get(name, name)) for name in PARAMETERS.get(family.name, ())}
    return {"name": family.name, "parameters": {k: v if v == "auto" else float(v) for k, v in values.items()}}


def read_family(data: Any) -> Family:
    """Return the family that `family_to_dict` wrote down; it checks its own parameters."""
    words = "a damaged family"
    told = as_record(data, ("name", "parameters"), words)
    name: object = told["name"]
    if not (isinstance(name, str) and name in FAMILIES):
        raise RefusalError(f"the unknown family {str(name)[:40]!r}")
    parameters = as_record(told["parameters"], PARAMETERS.get(name, ()), words)
    require(all(value == "auto" or type(value) in (int, float) for value in parameters.values()), words)
    try:
        return FAMILIES[name](**{FIELDS.get(key, key): value for key, value in parameters.items()})
    except (InputError, TypeError) as error:
        raise RefusalError(f"a family that cannot be ({error})") from error
