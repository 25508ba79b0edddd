"""A model as a PMML 4.4 document: a regression on the score, which derived fields compute exactly.

Columns are fields of their names: numbers, dates (days since 1970) and durations (seconds) are doubles; a category is
of strings, or of doubles where all its levels are numbers or truth values (0 and 1).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any
from xml.etree.ElementTree import Element, indent, tostring

import numpy as np

from sparsenam.errors import describe
from sparsenam.export.exporting import Matrix, Rows
from sparsenam.export.portable import HIGHEST_EXPONENT, ExportError, Label, PortableModel
from sparsenam.export.targets.code_parts import refuse_options
from sparsenam.export.targets.pmml_effects import EffectWriter, apply, constant, field, sub
from sparsenam.export.targets.typed_cells import cell_of, takes_texts

NAMESPACE = "http://www.dmg.org/PMML-4_4"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
DOUBLE = {"optype": "continuous", "dataType": "double"}
UNITS = {"date": "days since 1970-01-01", "duration": "seconds"}


def files(model: PortableModel, path: Path, options: Mapping[str, Any]) -> dict[Path, bytes]:
    """Return the document; it takes no options."""
    refuse_options("pmml", options)
    _check(model)
    document = _document(model)
    indent(document, " ")
    return {path: tostring(document, encoding="utf-8", xml_declaration=True)}


def require_engine(path: Path, options: Mapping[str, Any]) -> None:
    """Raise where there is no pypmml, or no Java for it."""
    if find_spec("pypmml") is None:
        got, remedy = "an environment without pypmml", "pip install pypmml"
        raise ExportError(describe(f"check of {path}", "something that runs PMML", got, remedy))
    if which("java") is None:
        raise ExportError(describe(f"check of {path}", "Java, which runs PMML", "none", "install Java 8 or newer"))


def scores(model: PortableModel, path: Path, rows: Rows, options: Mapping[str, Any]) -> Matrix:
    """Return the scores that PMML4S computes from the file, by pypmml and Java."""
    require_engine(path, options)
    from pypmml import Model  # pyright: ignore

    loaded: Any = Model.fromFile(str(path))  # pyright: ignore
    wanted = output_names(model)["score"]
    cells = [{column.name: cell_of(column, row[column.name]) for column in model.columns} for row in rows]
    # JSON, which is quick, has no infinite numbers
    plain = [all(not isinstance(cell, float) or math.isfinite(cell) for cell in row.values()) for row in cells]
    together = [row for row, single in zip(cells, plain, strict=True) if single]
    found: list[dict[str, Any]] = json.loads(loaded.predict(json.dumps(together))) if together else []
    answers = iter(found)
    lines = [next(answers) if single else loaded.predict(row) for row, single in zip(cells, plain, strict=True)]
    numbers = [[line.get(name) for name in wanted] for line in lines]
    return np.array([[math.nan if value is None else value for value in line] for line in numbers], dtype=np.float64)


def output_names(model: PortableModel) -> dict[str, list[str]]:
    """Return the names of the outputs: the scores, the means where there are several, probabilities, the prediction."""
    several = len(model.intercept) > 1
    columns = {column.name for column in model.columns}

    def free(name: str) -> str:
        while name in columns:
            name += "_"
        return name

    found = {"score": [free(f"score({name})" if several else "score") for name in model.outputs]}
    if model.task in ("classes", "labels"):
        found["probability"] = [free(f"probability({label})") for label in model.classes]
    elif several:
        found["mean"] = [free(f"prediction({name})") for name in model.outputs]
    if model.task == "classes" or not several:
        found["prediction"] = [free("prediction")]
    return found


def _check(model: PortableModel) -> None:
    texts = [text for column in model.columns for text in (column.name, *(level.text for level in column.levels))]
    for text in [*texts, *model.outputs, *(str(label) for label in model.classes), model.written_by]:
        if NOT_XML.search(text):
            expected, remedy = "names and levels of characters that XML 1.0 has", "rename it in the table and fit again"
            raise ExportError(describe("export to pmml", expected, repr(text), remedy))
    if any(not column.name for column in model.columns):
        raise ExportError(describe("export to pmml", "columns with names", "an empty name", "rename it and fit again"))


def _names(model: PortableModel) -> Callable[[str], str]:
    """Return a function that gives names which no column and no output has."""
    taken = {column.name for column in model.columns}
    taken.update(name for names in output_names(model).values() for name in names)
    count = 0

    def named(purpose: str) -> str:
        nonlocal count
        count += 1
        name = f"{purpose}.{count}"
        while name in taken:
            name += "_"
        return name

    return named


def _document(model: PortableModel) -> Element:
    named = _names(model)
    document = Element("PMML", version="4.4", xmlns=NAMESPACE)
    header = sub(document, "Header", description="an additive model: its scores are sums of effects of columns")
    name, _, version = model.written_by.partition(" ")
    sub(header, "Application", name=name, version=version or "0")
    dictionary = sub(document, "DataDictionary", numberOfFields=len(model.columns) + 1)
    target = named("target")
    for column in model.columns:
        kind = "string" if takes_texts(column) else "double"
        optype = "categorical" if column.kind == "category" else "continuous"
        made = sub(dictionary, "DataField", name=column.name, optype=optype, dataType=kind)
        if column.kind in UNITS:
            made.set("displayName", f"{column.name} ({UNITS[column.kind]})")
    of_target = sub(dictionary, "DataField", name=target, **_target_type(model))
    if model.task == "classes":
        for label in model.classes:
            sub(of_target, "Value", value=_written(label))
    function = "classification" if model.task == "classes" else "regression"
    regression = sub(document, "RegressionModel", functionName=function, modelName="sparsenam")
    schema = sub(regression, "MiningSchema")
    for column in model.columns:
        sub(schema, "MiningField", name=column.name, invalidValueTreatment="asIs")
    sub(schema, "MiningField", name=target, usageType="target")
    writer = EffectWriter(model, named)
    totals = _totals(model, writer)
    _write_output(model, sub(regression, "Output"), totals)
    transformations = sub(regression, "LocalTransformations")
    _write_tables(model, regression, writer, totals)
    transformations.extend(writer.derived)
    return document


def _totals(model: PortableModel, writer: EffectWriter) -> list[str]:
    """Return the derived fields of the scores."""
    pairs = [writer.pair(pair) for pair in model.pairs]
    totals: list[str] = []
    for output, intercept in enumerate(model.intercept):
        parts = [field(writer.derive("effect", writer.term(term, output))) for term in model.terms]
        parts += [field(writer.derive("effect", pair(output))) for pair in pairs]
        totals.append(writer.total([*parts, constant(intercept)]))
    return totals


def _write_output(model: PortableModel, output: Element, totals: list[str]) -> None:
    names = output_names(model)
    for name, total in zip(names["score"], totals, strict=True):
        sub(output, "OutputField", name=name, feature="transformedValue", **DOUBLE).append(field(total))
    for name in names.get("prediction", []):
        sub(output, "OutputField", name=name, feature="predictedValue", **_target_type(model))
    for name, total in zip(names.get("mean", []), totals, strict=False):
        sub(output, "OutputField", name=name, feature="transformedValue", **DOUBLE).append(field(total))
    for at, name in enumerate(names.get("probability", [])):
        if model.task == "classes":
            label = _written(model.classes[at])
            sub(output, "OutputField", name=name, feature="probability", value=label, **DOUBLE)
            continue
        grown = apply("exp", apply("-", constant(0.0), field(totals[at])))
        share = apply("/", constant(1.0), apply("+", constant(1.0), grown))
        sub(output, "OutputField", name=name, feature="transformedValue", **DOUBLE).append(share)


def _write_tables(model: PortableModel, regression: Element, writer: EffectWriter, totals: list[str]) -> None:
    """Add the regression on the scores, by the link; those of classes are first lowered by the highest of them."""
    if model.task != "classes":
        regression.set("normalizationMethod", "exp" if model.link == "log" else "none")
        predictor = totals[0]
        if model.link == "log":
            highest = apply("greaterThan", field(predictor), constant(HIGHEST_EXPONENT))
            limited = apply("if", highest, constant(HIGHEST_EXPONENT), field(predictor))
            predictor = writer.derive("limited", limited)
        sub(sub(regression, "RegressionTable", intercept=0), "NumericPredictor", name=predictor, coefficient=1)
        return
    regression.set("normalizationMethod", "softmax")
    fields = totals if len(totals) > 1 else [writer.derive("total", constant(0.0)), *totals]
    highest = writer.derive("highest", apply("max", *(field(name) for name in fields)))
    for name, label in zip(fields, model.classes, strict=True):
        lowered = writer.derive("lowered", apply("-", field(name), field(highest)))
        table = sub(regression, "RegressionTable", intercept=0, targetCategory=_written(label))
        sub(table, "NumericPredictor", name=lowered, coefficient=1)


def _target_type(model: PortableModel) -> dict[str, str]:
    if model.task != "classes":
        return DOUBLE
    kinds: dict[type, str] = {bool: "boolean", int: "integer", float: "double"}
    return {"optype": "categorical", "dataType": kinds.get(type(model.classes[0]), "string")}


def _written(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)
