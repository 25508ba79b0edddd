"""Speed and memory of an exported ONNX graph in ONNX Runtime: curves of about 30 knots, scores and contributions.

    python benchmarks/export_speed_onnx.py --repeats 3 --out benchmarks/results/export_speed_onnx.json

Times are medians, on the clock and of this process's CPU; on a busy machine only the latter can be compared. Memory is
what the process grew by at its most, outputs included. The same curves are also evaluated in three other ways that ONNX
has: by comparing with all knots, by halving with Gather, and by the same trees without joining columns. All scores
are compared with numpy's first.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from sparsenam.export.portable import PortableColumn, PortableCurve, PortableModel
from sparsenam.export.targets.onnx_effects import GraphBuilder
from sparsenam.export.targets.onnx_graph import graph_of


def model_of(columns, knots, seed=0):
    """Return a model of curves at random."""
    generator = np.random.default_rng(seed)
    terms = []
    for column in range(columns):
        places = np.sort(generator.normal(size=knots))
        slopes, bases = generator.normal(size=(2, 1, knots + 1)).tolist()
        anchors = (float(places[0]), *places.tolist())
        curve = PortableCurve(column, tuple(places.tolist()), anchors, (tuple(slopes[0]),), (tuple(bases[0]),), (0.5,))
        terms.append(curve)
    named = tuple(PortableColumn(f"x{column}", "number") for column in range(columns))
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.25,), named, tuple(terms))


def by_comparing(graph, x, curve):
    """Return the piece of x by comparing it with every knot."""
    above = graph.op("GreaterOrEqual", x, graph.constant([curve.knots]))
    counts = graph.op("Cast", above, to=TensorProto.INT32)
    return graph.op("ReduceSum", counts, graph.constant([1], np.int64), keepdims=1)


def by_halving(graph, x, curve):
    """Return the piece of x by halving, with a Gather for each step."""
    step = 1 << (len(curve.knots).bit_length() - 1)
    knots = np.append(curve.knots, [np.inf] * (2 * step - 1 - len(curve.knots)))
    place = graph.op("Cast", graph.op("Mul", x, graph.constant(0.0)), to=TensorProto.INT64)
    while step:
        knot = graph.op("Gather", graph.constant(knots[step - 1 :]), place)
        further = graph.op("Cast", graph.op("GreaterOrEqual", x, knot), to=TensorProto.INT64)
        place = graph.op("Add", place, graph.op("Mul", further, graph.constant(step, np.int64)))
        step //= 2
    return place


def by_tree(graph, x, curve):
    """Return the piece of x by a tree, as the export does, with all that follows column by column."""
    return graph.pieces([x], [curve.knots])


WAYS = {"comparing": by_comparing, "halving": by_halving, "columns apart": by_tree}


def other_graph(model, way):
    """Return a graph with the same answers, column by column."""
    graph = GraphBuilder("value", "double")
    parts = []
    for column, curve in zip(model.columns, model.terms, strict=True):
        x = column.name
        piece = WAYS[way](graph, x, curve)
        anchor, slope, base = (
            graph.op("Gather", graph.constant(table), piece)
            for table in (curve.anchors, curve.slopes[0], curve.bases[0])
        )
        value = graph.op("Add", graph.op("Mul", slope, graph.op("Sub", x, anchor)), base)
        parts.append(graph.op("Where", graph.op("IsNaN", x), graph.constant([curve.absent]), value))
    graph.op("Concat", *parts, axis=1, output="contributions")
    graph.op("Add", graph.op("Sum", *parts), graph.constant(model.intercept), output="score")
    double = TensorProto.DOUBLE
    inputs = [helper.make_tensor_value_info(column.name, double, ["rows", 1]) for column in model.columns]
    outputs = [helper.make_tensor_value_info(name, double, ["rows", None]) for name in ("score", "contributions")]
    made = helper.make_graph(graph.nodes, "other", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def measured(wanted, way):
    """Return the figures of one graph."""
    model = model_of(wanted.columns, wanted.knots)
    precision = "float32" if way == "exported, float32" else "double"
    content = other_graph(model, way) if way in WAYS else graph_of(model, precision, way != "without contributions")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = wanted.threads
    session = onnxruntime.InferenceSession(content.SerializeToString(), options, providers=["CPUExecutionProvider"])
    real = np.float32 if precision == "float32" else np.float64
    table = np.random.default_rng(1).normal(size=(wanted.columns, wanted.rows, 1)).astype(real)
    inputs = {column.name: table[at] for at, column in enumerate(model.columns)}

    def at_once():
        session.run(None, inputs)

    def in_blocks():
        for start in range(0, wanted.rows, wanted.block):
            session.run(None, {name: cells[start : start + wanted.block] for name, cells in inputs.items()})

    def one_by_one():
        for row in range(200):
            session.run(None, {name: cells[row : row + 1] for name, cells in inputs.items()})

    check(model, session, inputs, 1e-3 if precision == "float32" else 1e-12)
    figures = {"seconds in blocks": timed(in_blocks, wanted.repeats)}
    before = most_memory()
    figures["seconds at once"] = timed(at_once, wanted.repeats)
    figures["megabytes at once"] = round(most_memory() - before)
    clock, cpu = timed(one_by_one, wanted.repeats)
    figures["microseconds for one row"] = [round(each * 1e6 / 200, 1) for each in (clock, cpu)]
    return figures


def check(model, session, inputs, tolerance, rows=1000):
    """Raise unless the scores of the first rows are those of the curves."""
    (found,) = session.run(["score"], {name: cells[:rows] for name, cells in inputs.items()})
    score = np.full(len(found), model.intercept[0])
    for curve, cells in zip(model.terms, inputs.values(), strict=True):
        x = cells[:rows, 0].astype(np.float64)
        piece = np.searchsorted(curve.knots, x, side="right")
        score += np.take(curve.slopes[0], piece) * (x - np.take(curve.anchors, piece)) + np.take(curve.bases[0], piece)
    assert np.max(np.abs(found[:, 0] - score)) <= tolerance * max(1.0, float(np.max(np.abs(score))))


def timed(task, repeats):
    """Return the median seconds of a task: on the clock, and of this process's CPU."""
    task()
    both = []
    for _ in range(repeats):
        clock, cpu = time.perf_counter(), time.process_time()
        task()
        both.append((time.perf_counter() - clock, time.process_time() - cpu))
    return [round(statistics.median(each), 3) for each in zip(*both, strict=True)]


def most_memory():
    """Return the most megabytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--knots", type=int, default=30)
    parser.add_argument("--block", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--way", help="measure one graph in this process")
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    if wanted.way:
        print(json.dumps(measured(wanted, wanted.way)))
        return
    report = {name: getattr(wanted, name) for name in ("rows", "columns", "knots", "block", "threads")}
    report |= {"cores": len(os.sched_getaffinity(0)), "onnxruntime": onnxruntime.__version__}
    report["times"] = "[clock, CPU]"
    for way in ("exported", "without contributions", "exported, float32", *WAYS):
        command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        figures["rows per CPU second, in blocks"] = round(wanted.rows / figures["seconds in blocks"][1])
        report[way] = figures
        print(way, figures, flush=True)
    if wanted.out:
        wanted.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
