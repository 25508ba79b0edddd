"""A model as an ONNX graph: one input for each column, scores, predictions and contributions as outputs.

Numbers, dates (days since 1970) and durations (seconds) are float64 (rows, 1), missing where NaN. A category is of
texts (rows, 1), missing where a text says so; where all its levels are numbers or truth values it is float64 as well.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from onnx import ModelProto, TensorProto, helper

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import (
    HIGHEST_EXPONENT,
    PortableAxis,
    PortableCurve,
    PortableModel,
    PortablePair,
    PortableTerm,
    refusal,
)
from sparsenam.export.targets.code_parts import HALVES, check_texts
from sparsenam.export.targets.onnx_effects import LEARNING, GraphBuilder, InputCells, Real, contributions
from sparsenam.export.targets.typed_cells import feeds, input_names

PRECISIONS = ("double", "float32")
OPSET, OPSET_WITH_PATTERNS, LEARNING_OPSET, IR_VERSION = 17, 20, 3, 8  # old ones, which old runtimes read
UNITS = {"number": "", "date": "days since 1970-01-01", "duration": "seconds", "category": ""}
HIGHEST_SINGLE_EXPONENT = 88.0  # eˢ is infinite in single precision a little beyond it


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the graph.

    The options are ``precision``, "double" or "float32" (the error that this makes is measured and put into the
    metadata), and ``contributions``, False for a graph without that output.
    """
    precision, explained = _options(options)
    return {path: graph_of(model, precision, explained).SerializeToString()}


def require_engine(path: Path, options: Options) -> None:
    """Raise where there is no ONNX Runtime."""
    _options(options)
    if find_spec("onnxruntime") is None:
        got, remedy = "an environment without onnxruntime", "pip install onnxruntime"
        raise refusal(f"check of {path}", "something that runs ONNX", got, remedy)


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the scores that ONNX Runtime computes from the file."""
    require_engine(path, options)
    import onnxruntime  # pyright: ignore[reportMissingTypeStubs]

    precision, _ = _options(options)
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])  # pyright: ignore
    (found,) = session.run(["score"], feeds(model, rows, precision))
    return np.asarray(found, dtype=np.float64)


def graph_of(model: PortableModel, precision: str, explained: bool) -> ModelProto:
    """Return the ONNX model."""
    check_texts("onnx", model, HALVES, "names and levels in UTF-8")
    names, texts = input_names(model), [column.takes_texts for column in model.columns]
    prefix = "value"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    graph = GraphBuilder(prefix, precision)
    real = graph.real_type
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.STRING if text else real, ["rows", 1])
        for name, text in zip(names, texts, strict=True)
    ]
    if not names:  # nothing is read, but how many rows there are
        names, inputs = ["rows"], [helper.make_tensor_value_info("rows", real, ["rows", 1])]
    added = answers(graph, model, InputCells(graph, model, names, texts), explained)
    outputs = [helper.make_tensor_value_info(name, kind, ["rows", *shape]) for name, kind, shape in added]
    patterns = any(node.op_type == "RegexFullMatch" for node in graph.nodes)
    opset = OPSET_WITH_PATTERNS if patterns else OPSET
    made = helper.make_model(
        helper.make_graph(graph.nodes, "sparsenam", inputs, outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(LEARNING, LEARNING_OPSET)],
        ir_version=IR_VERSION + patterns,
        producer_name="sparsenam",
        producer_version=model.written_by.removeprefix("sparsenam").strip(),
    )
    helper.set_model_props(made, _metadata(model, precision))
    return made


def answers(
    graph: GraphBuilder, model: PortableModel, cells: InputCells, explained: bool, prefix: str = ""
) -> list[tuple[str, int, list[int]]]:
    """Add the outputs to a graph, named after a prefix; return the name, type and shape, but for the rows, of each."""
    width = len(model.intercept)
    real = graph.real_type
    effects = contributions(graph, model, cells)
    first = graph.constant([1], np.int64)
    if width == 1:  # ONNX Runtime sums the rows of a matrix several times as quickly as those of a cube
        matrix = graph.op("Squeeze", effects, graph.constant([2], np.int64))
        total = graph.op("ReduceSum", matrix, first, keepdims=1)
    else:
        total = graph.op("ReduceSum", effects, first, keepdims=0)
    score = graph.op("Add", total, graph.constant(model.intercept), output=prefix + "score")
    added: list[tuple[str, int, list[int]]] = [("score", real, [width])]
    mean = _mean(graph, model, score)
    if model.task in ("classes", "labels"):
        if model.task == "classes" and width == 1:
            mean = graph.op("Concat", graph.op("Sub", graph.constant(1.0), mean), mean, axis=1)
        probabilities = graph.op("Identity", mean, output=prefix + "probabilities")
        kind, shape = _labels(graph, model, probabilities, prefix)
        count = width if model.task == "labels" else len(model.classes)
        added += [("prediction", kind, shape), ("probabilities", real, [count])]
    elif width == 1:
        graph.op("Squeeze", mean, first, output=prefix + "prediction")
        added.append(("prediction", real, []))
    else:
        graph.op("Identity", mean, output=prefix + "prediction")
        added.append(("prediction", real, [width]))
    if explained:
        graph.op("Identity", effects, output=prefix + "contributions")
        added.append(("contributions", real, [len(model.columns) + len(model.pairs), width]))
    return added


def _mean(graph: GraphBuilder, model: PortableModel, score: str) -> str:
    if model.link == "log":
        highest = HIGHEST_EXPONENT if graph.real is np.float64 else HIGHEST_SINGLE_EXPONENT
        return graph.op("Exp", graph.op("Min", score, graph.constant(highest)))
    if model.link == "logit":
        half = graph.constant(0.5)
        bent = graph.op("Tanh", graph.op("Mul", score, half))
        return graph.op("Mul", graph.op("Add", bent, graph.constant(1.0)), half)
    return graph.op("Softmax", score, axis=1) if model.link == "softmax" else score


def _labels(graph: GraphBuilder, model: PortableModel, probabilities: str, prefix: str) -> tuple[int, list[int]]:
    """Add the predicted class, the first of the most probable, or 0 or 1 for each of several labels."""
    if model.task == "labels":
        likely = graph.op("Greater", probabilities, graph.constant(0.5))
        graph.op("Cast", likely, to=TensorProto.INT64, output=prefix + "prediction")
        return TensorProto.INT64, [len(model.intercept)]
    kinds: dict[type, tuple[int, DTypeLike]] = {
        bool: (TensorProto.BOOL, bool),
        int: (TensorProto.INT64, np.int64),
        float: (TensorProto.DOUBLE, np.float64),
    }
    kind, dtype = kinds.get(type(model.classes[0]), (TensorProto.STRING, object))
    labels = [str(label) for label in model.classes] if dtype is object else list(model.classes)
    best = graph.op("ArgMax", probabilities, axis=1, keepdims=0)
    graph.op("Gather", graph.constant(labels, dtype), best, output=prefix + "prediction")
    return kind, []


def _metadata(model: PortableModel, precision: str) -> dict[str, str]:
    columns = [
        {
            "input": name,
            "column": column.name,
            "kind": column.kind,
            "unit": UNITS[column.kind],
            "cells": "text" if column.takes_texts else precision,
            "levels": [level.text for level in column.levels],
        }
        for name, column in zip(input_names(model), model.columns, strict=True)
    ]
    facts: dict[str, object] = {
        "columns": columns,
        "pairs": [model.names_of(pair) for pair in model.pairs],
        "outputs": model.outputs,
        "classes": model.classes,
        "intercept": model.intercept,
    }
    found = {"written_by": model.written_by, "task": model.task, "link": model.link, "precision": precision}
    found |= {name: json.dumps(fact, ensure_ascii=False) for name, fact in facts.items()}
    if precision == "float32":
        found["float32_error"] = repr(single_precision_error(model))
    return found


def _options(options: Options) -> tuple[str, bool]:
    """Return the precision and whether contributions are among the outputs."""
    precision, explained = options.get("precision", "double"), options.get("contributions", True)
    if precision not in PRECISIONS:
        raise refusal("precision", f"one of {list(PRECISIONS)}", repr(precision), "choose one")
    if not isinstance(explained, bool):
        raise refusal("contributions", "True or False", repr(explained), "choose one")
    return precision, explained


def single_precision_error(model: PortableModel) -> float:
    """Return how far scores in single precision are off: the largest errors of all effects, summed.

    Curves and pairs are compared at their knots, midway between them and a little beyond; the rounding of the sums is
    added. Numbers far beyond the knots, where a score is large, can be further off.
    """
    epsilon = float(np.finfo(np.float32).eps)
    intercept = np.array(model.intercept)
    error, size = epsilon * np.abs(intercept), np.abs(intercept)
    for term in model.terms:
        exact, rough = (_term(term, real) for real in (np.float64, np.float32))
        error, size = error + np.abs(rough - exact).max(axis=0), size + np.abs(exact).max(axis=0)
    for pair in model.pairs:
        exact, rough = (_bilinear(pair, real) for real in (np.float64, np.float32))
        error, size = error + np.abs(rough - exact).max(axis=(0, 1)), size + np.abs(exact).max(axis=(0, 1))
    count = len(model.terms) + len(model.pairs)
    return float(np.max(error + count * epsilon * size))


def grid_of(knots: tuple[float, ...]) -> NDArray[np.float64]:
    """Return knots, the points midway between them, and one beyond either end."""
    points = np.array(knots)
    beyond = 0.1 * float(np.ptp(points))
    return np.concatenate([points, (points[1:] + points[:-1]) / 2.0, [points[0] - beyond, points[-1] + beyond]])


def _term(term: PortableTerm, real: Real) -> NDArray[np.floating]:
    """Return a curve on its grid or a table, (points, outputs), in a precision."""
    if not isinstance(term, PortableCurve):
        return np.array([*term.values, term.absent], dtype=real)
    x, knots = grid_of(term.knots).astype(real), np.array(term.knots, dtype=real)
    piece = np.searchsorted(knots, x, side="right")
    anchors, slopes, bases = (np.array(each, dtype=real) for each in (term.anchors, term.slopes, term.bases))
    return (slopes[:, piece] * (x - anchors[piece]) + bases[:, piece]).T


def _bilinear(pair: PortablePair, real: Real) -> NDArray[np.floating]:
    """Return a pair on the grid of both axes, (points, points, outputs), in a precision."""
    values = np.array(pair.values, dtype=real)
    (i, u), (j, v) = (_place(axis, real) for axis in pair.axes)
    u, v = u[:, None, None], v[None, :, None]
    low, high = ((1 - v) * values[k][:, j] + v * values[k][:, j + 1] for k in (i, i + 1))
    return (1 - u) * low + u * high


def _place(axis: PortableAxis, real: Real) -> tuple[NDArray[np.intp], NDArray[np.floating]]:
    knots = np.array(axis.knots, dtype=real)
    inside = np.clip(grid_of(axis.knots).astype(real), knots[0], knots[-1])
    node = np.searchsorted(knots[1:-1], inside, side="right")
    width = np.diff(np.array(axis.knots)).astype(real)
    return node, (inside - knots[node]) / width[node]
