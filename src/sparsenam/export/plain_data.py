"""What a model file says beside its tensors, as JSON and back: settings, families, labels, encoders and curves.

Whatever is read is checked before it is believed; nothing in a file is run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from os import PathLike, fspath
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sparsenam.errors import InputError, describe
from sparsenam.export.container import ModelFileError
from sparsenam.families import FAMILIES, Family
from sparsenam.forms import RefusalError, as_list, as_record, require
from sparsenam.selection import RULES, CVCurve
from sparsenam.selection.stored_curve import StoredCurve, rule_name
from sparsenam.tables import TableEncoder

ParameterClasses = Mapping[str, type]

PARAMETER_CLASSES = ("Network", "Compact", "OneSE", "Best", "FDR")  # objects of plain parameters that settings may hold
FAMILY_PARAMETERS: dict[str, tuple[str, ...]] = {
    "tweedie": ("power",),
    "negative_binomial": ("overdispersion",),
    "quantile": ("level", "smoothing"),
    "huber": ("width", "scale"),
}
NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")
LONGEST = 10_000  # characters of a label
MOST_PADDED = 1 << 20  # characters of all labels, each as long as the longest
CURVE_COLUMNS: tuple[str, ...] = ("alpha", "features", "mean", "standard_error")


class NotPlainError(TypeError):
    """A value is no plain data, so that no file can hold it."""


def pack_parameters(parameters: Mapping[str, object], prefix: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """Return parameters as JSON has them, and by name the type of those that it cannot have.

    An object of plain parameters, such as a `Network`, is stored by its class and parameters; of these, one that
    is left out is named as scikit-learn does, ``network__schedule``.
    """
    packed: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in parameters.items():
        if _is_parameter_object(value):
            inner, missing = pack_parameters(_parameters_of(value), f"{prefix}{name}__")
            packed[name] = {"object": {"class": type(value).__name__, "parameters": inner}}
            left_out |= missing
            continue
        try:
            packed[name] = pack(value)
        except NotPlainError:
            left_out[f"{prefix}{name}"] = type(value).__name__
    return packed, left_out


def unpack_parameters(data: Any, classes: ParameterClasses) -> dict[str, Any]:
    """Return the parameters that `pack_parameters` wrote; ``classes`` are those that a file may name."""
    require(isinstance(data, dict), "damaged settings")
    parameters: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", data).items():
        content = cast("dict[str, Any]", value).get("object") if isinstance(value, dict) else None
        if content is None:
            parameters[name] = unpack(value)
            continue
        record = as_record(content, ("class", "parameters"), "damaged settings")
        known = isinstance(record["class"], str) and record["class"] in classes
        require(known, f"a setting of the unknown class {str(record['class'])[:40]!r}")
        try:
            parameters[name] = classes[record["class"]](**unpack_parameters(record["parameters"], classes))
        except (InputError, TypeError) as error:
            raise RefusalError(f"a setting that cannot be ({str(error)[:80]})") from error
    return parameters


def pack(value: object) -> Any:
    """Return the value as JSON has it; raise `NotPlainError` for code and for other people's objects.

    Tuples, mappings with any keys, infinite numbers and families survive.
    """
    if isinstance(value, np.generic):
        value = cast(object, value.item())
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, PathLike):
        return fspath(cast("PathLike[str]", value))
    if isinstance(value, list):
        return [pack(item) for item in cast("list[object]", value)]
    if isinstance(value, tuple):
        return {"tuple": [pack(item) for item in cast("tuple[object, ...]", value)]}
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {"mapping": [[pack(key), pack(item)] for key, item in pairs]}
    if _is_known_family(value):
        return {"family": family_to_dict(cast(Family, value))}
    raise NotPlainError(f"{type(value).__name__} is no plain data")


def unpack(value: Any) -> Any:
    """Return the value that `pack` wrote; raise `RefusalError` for anything else."""
    if isinstance(value, list):
        return [unpack(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    record = cast("dict[str, Any]", value)
    require(len(record) == 1, "a setting that is no plain data")
    ((kind, content),) = record.items()
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(unpack(item) for item in cast("list[Any]", content))
    if kind == "mapping" and isinstance(content, list):
        return _mapping(cast("list[Any]", content))
    if kind == "family":
        return read_family(content)
    raise RefusalError(f"a setting of an unknown kind, {kind[:40]!r}")


def _mapping(pairs: list[Any]) -> dict[Any, Any]:
    require(all(isinstance(pair, list) and len(cast("list[Any]", pair)) == 2 for pair in pairs), "a broken mapping")
    keys = [unpack(pair[0]) for pair in pairs]
    require(all(key is None or isinstance(key, str | int | float | tuple) for key in keys), "a broken mapping")
    try:
        return dict(zip(keys, (unpack(pair[1]) for pair in pairs), strict=True))
    except TypeError as error:  # a tuple of lists is no key
        raise RefusalError("a broken mapping") from error


def _is_parameter_object(value: object) -> bool:
    kind = type(value)
    return kind.__name__ in PARAMETER_CLASSES and kind.__module__.partition(".")[0] == "sparsenam"


def _parameters_of(value: object) -> dict[str, Any]:
    if isinstance(value, BaseEstimator):
        return value.get_params(deep=False)
    assert is_dataclass(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _is_known_family(value: object) -> bool:
    return any(type(value) is kind for kind in FAMILIES.values())


def family_to_dict(family: Family) -> dict[str, Any]:
    """Return name and parameters of a family; a custom loss is code, which no file holds."""
    if not _is_known_family(family):
        expected = f"one of {sorted(FAMILIES)}, since a model file holds no code"
        got, remedy = f"a custom loss ({family.name})", "keep the estimator with pickle"
        raise ModelFileError(describe("family of the model to save", expected, got, remedy))
    values = {name: getattr(family, name) for name in FAMILY_PARAMETERS.get(family.name, ())}
    return {"name": family.name, "parameters": {k: v if v == "auto" else float(v) for k, v in values.items()}}


def read_family(data: Any) -> Family:
    """Return the family that `family_to_dict` wrote down; it checks its parameters."""
    damage = "a damaged family"
    record = as_record(data, ("name", "parameters"), damage)
    name: object = record["name"]
    if not (isinstance(name, str) and name in FAMILIES):
        raise RefusalError(f"the unknown family {str(name)[:40]!r}")
    parameters = as_record(record["parameters"], FAMILY_PARAMETERS.get(name, ()), damage)
    require(all(value == "auto" or type(value) in (int, float) for value in parameters.values()), damage)
    try:
        return FAMILIES[name](**parameters)
    except (InputError, TypeError) as error:
        raise RefusalError(f"a family that cannot be ({error})") from error


def labels_to_dict(classes: NDArray[np.generic]) -> dict[str, Any]:
    """Return the type and the values of labels of shape (classes,)."""
    values: list[Any] = classes.tolist()
    kind = f"text{classes.dtype.itemsize // 4}" if classes.dtype.kind == "U" else classes.dtype.name
    if kind not in NUMBERS and not (_are_texts(values) and (kind == "object" or kind.startswith("text"))):
        expected, got = "classes that are text, whole numbers, numbers or truth values", f"{classes.dtype}"
        raise ModelFileError(describe("classes of the model to save", expected, got, "fit with text labels"))
    if kind.startswith("text") and not _fits(int(kind.removeprefix("text")), values):
        expected, got = "labels of like length", f"{len(values)} of which one has {max(map(len, values))} characters"
        raise ModelFileError(describe("classes of the model to save", expected, got, "shorten the longest"))
    return {"type": kind, "values": values}


def _fits(width: int, labels: list[Any]) -> bool:
    """Whether an array of labels of one width takes little, or not much more than the labels themselves."""
    return width * len(labels) <= max(MOST_PADDED, 16 * sum(map(len, labels)))


def read_labels(data: Any) -> NDArray[Any]:
    """Return the labels that `labels_to_dict` wrote down."""
    damage = "damaged class labels"
    record = as_record(data, ("type", "values"), damage)
    kind, values = str(record["type"]), as_list(record["values"], damage)
    require(len(values) > 0, damage)
    if kind in NUMBERS:
        expected = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(kind).kind]
        require(all(type(value) is expected for value in values), damage)
        try:
            labels = np.array(values, dtype=kind)
        except OverflowError as error:
            raise RefusalError(damage) from error
    else:
        require(_are_texts(values), damage)
        labels = np.array(values, dtype=object)
        if kind != "object":
            width = kind.removeprefix("text")
            require(kind.startswith("text") and width.isascii() and width.isdigit() and len(width) <= 6, damage)
            require(max(map(len, values)) <= int(width) and _fits(int(width), values), damage)
            labels = np.array(values, dtype=f"U{width}")
    require(np.unique(labels).size == labels.size, damage)
    return labels


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) and len(value) <= LONGEST for value in values)


def read_encoder(data: Mapping[str, Any]) -> TableEncoder:
    """Return the encoder whose ``to_dict`` is the data, each field of which is of its declared form."""
    names, columns, terms = data["names"], data["columns"], data["terms"]
    matching = len(set(names)) == len(names) and [column["name"] for column in columns] == names
    require(matching, "a table whose columns do not match their names")
    require(all(term["column"] < len(names) for term in terms), "a term of no column")
    require(len({term["name"] for term in terms}) == len(terms), "two terms of one name")
    return TableEncoder.from_dict(data)


def curve_to_dict(curve: CVCurve | StoredCurve, rule: Any) -> dict[str, Any]:
    """Return the table of a curve, and the points that the named rules and the rule of the fit take."""
    return {
        "rows": [[row[name] for name in CURVE_COLUMNS] for row in curve.table()],
        "choices": {rule_name(each): curve.choose(cast(Any, each)) for each in (*RULES, rule) if each is not None},
    }


def read_curve(data: Any) -> StoredCurve:
    """Return the curve that `curve_to_dict` wrote down."""
    damage = "a damaged cross-validation curve"
    record = as_record(data, ("rows", "choices"), damage)
    require(isinstance(record["choices"], dict), damage)
    choices = cast("dict[str, Any]", record["choices"])
    require(set(RULES) <= set(choices) and len(choices) <= len(RULES) + 1, damage)
    points = [as_list(row, damage) for row in as_list(record["rows"], damage)]
    require(all(len(row) == len(CURVE_COLUMNS) for row in points), damage)
    require(all(type(number) in (int, float) for row in points for number in row), damage)
    require(all(type(index) is int and 0 <= index < len(points) for index in choices.values()), damage)
    return StoredCurve(tuple(dict(zip(CURVE_COLUMNS, map(float, row), strict=True)) for row in points), choices)
