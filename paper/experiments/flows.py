"""Section 3.4 on data: the objective under subgradient and proximal descent, convex problem and full network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paper.experiments.cells import Result, picked
from paper.methods import train_full_batch
from paper.theory import (
    lambda_max,
    objective,
    proximal_descent,
    random_feature_blocks,
    solve_paper_problem,
    subgradient_descent,
)
from paper.theory.problem import Matrix, Vector
from sparsenam.datasets import make_regression

NETWORK_SOLVERS = {"subgradient": "gd", "proximal": "prox_gd", "fista": "fista"}


def cells(settings: Result) -> list[Result]:
    """Return one cell for each method on the convex problem and on the network."""
    convex = [{"kind": "convex", "method": method} for method in settings["methods"]]
    return convex + [{"kind": "network", "method": method} for method in NETWORK_SOLVERS]


def inputs(cell: Result, settings: Result) -> Result:
    """Return the settings that decide a cell's numbers."""
    names = ("network",) if cell["kind"] == "network" else ("hidden", "lambda_ratio", "iterations", "tol")
    return picked(settings, "n", "n_features", "sigma", "seed", *names)


def run_cell(cell: Result, inputs: Result) -> Result:
    """Return where a descent ended, its lowest objective, and its trace as "drawing"."""
    task = make_regression(inputs["n"], inputs["n_features"], noise=inputs["sigma"], seed=inputs["seed"])
    run = _network if cell["kind"] == "network" else _convex
    trace, facts = run(task.X, task.y, cell["method"], inputs)
    ends = {name: trace[name][-1] for name in ("iteration", "objective", "zeros")}
    return {"cell": cell, **ends, "lowest": min(trace["objective"]), **facts, "drawing": trace}


def summarise(results: Sequence[Result], settings: Result) -> Result:
    """Return the results by method, those of the network as "network subgradient" and so on.

    The network's problem is not convex; its ``optimum`` is the lowest objective that any method reached.
    """
    lowest = [result["lowest"] for result in results if result["cell"]["kind"] == "network"]
    summary: Result = {}
    for result in results:
        if result["cell"]["kind"] == "network":
            summary[f"network {result['cell']['method']}"] = {**result, "optimum": min(lowest)}
        else:
            summary[result["cell"]["method"]] = result
    return summary


def _convex(X: Matrix, y: Vector, method: str, inputs: Result) -> tuple[Result, Result]:
    target = (y - y.mean()) / y.std()
    blocks = random_feature_blocks(X, inputs["hidden"], seed=inputs["seed"])
    lam = inputs["lambda_ratio"] * lambda_max(blocks, target)
    generator = np.random.default_rng(inputs["seed"])
    start: list[Vector] = [generator.normal(scale=block.shape[1] ** -0.5, size=block.shape[1]) for block in blocks]
    count = inputs["iterations"]
    if method in ("subgradient", "shrinking_subgradient"):
        trace = subgradient_descent(blocks, target, lam, start, count, shrinking=method != "subgradient")
    else:
        trace = proximal_descent(blocks, target, lam, start, count, accelerated=method == "fista")
    best = solve_paper_problem(blocks, target, lam, tol=inputs["tol"])
    facts = {
        "smallest_norm": min(float(np.linalg.norm(group)) for group in trace.theta),
        "optimum": objective(blocks, target, best.theta, lam),
        "optimum_zeros": len(blocks) - len(best.support),
    }
    return {name: list(getattr(trace, name)) for name in ("iteration", "objective", "zeros")}, facts


def _network(X: Matrix, y: Vector, method: str, inputs: Result) -> tuple[Result, Result]:
    """Train the paper's network; zeros are columns whose parameters are all exactly zero."""
    trained = train_full_batch(X, y, NETWORK_SOLVERS[method], inputs["network"], inputs["seed"])
    zeros = [inputs["n_features"] - kept for kept in trained["kept"]]
    trace = {"iteration": trained["iteration"], "objective": trained["objective"], "zeros": zeros}
    return trace, {"stationarity": trained["stationarity"]}
