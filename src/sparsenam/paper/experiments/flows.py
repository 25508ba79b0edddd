"""Section 3.4 on data: the objective under subgradient and proximal descent, convex problem and full network."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsenam.datasets import make_regression
from sparsenam.estimators import SNAMRegressor
from sparsenam.paper.experiments.records import Record, picked
from sparsenam.theory import (
    lambda_max,
    objective,
    proximal_descent,
    random_feature_blocks,
    solve_paper_problem,
    subgradient_descent,
)
from sparsenam.theory.blocks import Matrix, Vector

NETWORK_SOLVERS = {"subgradient": "gd", "proximal": "prox_gd", "fista": "fista"}


def cells(settings: Record) -> list[Record]:
    """Return one cell for each method on the convex problem and on the network."""
    convex = [{"kind": "convex", "method": method} for method in settings["methods"]]
    return convex + [{"kind": "network", "method": method} for method in NETWORK_SOLVERS]


def inputs(cell: Record, settings: Record) -> Record:
    """Return the settings that decide a cell's numbers."""
    own = ("network",) if cell["kind"] == "network" else ("hidden", "lambda_ratio", "iterations", "tol")
    return picked(settings, "n", "n_features", "sigma", "seed", *own)


def run_cell(cell: Record, inputs: Record) -> Record:
    """Return objective and exact zeros by iteration."""
    task = make_regression(inputs["n"], inputs["n_features"], noise=inputs["sigma"], seed=inputs["seed"])
    if cell["kind"] == "network":
        return {"cell": cell, **_network(task.X, task.y, cell["method"], inputs)}
    y = (task.y - task.y.mean()) / task.y.std()
    blocks = random_feature_blocks(task.X, inputs["hidden"], seed=inputs["seed"])
    lam = inputs["lambda_ratio"] * lambda_max(blocks, y)
    generator = np.random.default_rng(inputs["seed"])
    start: list[Vector] = [generator.normal(scale=block.shape[1] ** -0.5, size=block.shape[1]) for block in blocks]
    count, method = inputs["iterations"], cell["method"]
    if method == "subgradient":
        trace = subgradient_descent(blocks, y, lam, start, count)
    elif method == "shrinking_subgradient":
        trace = subgradient_descent(blocks, y, lam, start, count, shrinking=True)
    else:
        trace = proximal_descent(blocks, y, lam, start, count, accelerated=method == "fista")
    best = solve_paper_problem(blocks, y, lam, tol=inputs["tol"])
    return {
        "cell": cell,
        "iteration": list(trace.iteration),
        "objective": list(trace.objective),
        "zeros": list(trace.zeros),
        "smallest_norm": min(float(np.linalg.norm(own)) for own in trace.theta),
        "optimum": objective(blocks, y, best.theta, lam),
        "optimum_zeros": len(blocks) - len(best.support),
    }


def summarise(records: Sequence[Record], settings: Record) -> Record:
    """Return the traces by method, those of the network as "network subgradient" and so on.

    The network's problem is not convex; its ``optimum`` is the lowest objective that any method reached.
    """
    network = [min(record["objective"]) for record in records if record["cell"]["kind"] == "network"]
    summary: Record = {}
    for record in records:
        own = {name: value for name, value in record.items() if name != "cell"}
        if record["cell"]["kind"] == "network":
            summary[f"network {record['cell']['method']}"] = {**own, "optimum": min(network)}
        else:
            summary[record["cell"]["method"]] = own
    return summary


def _network(X: Matrix, y: Vector, method: str, inputs: Record) -> Record:
    """Train the paper's network with a full batch; zeros are features whose parameters are all exactly zero."""
    own = inputs["network"]
    model = SNAMRegressor(
        alpha=own["alpha"],
        hidden=tuple(own["hidden"]),
        solver=NETWORK_SOLVERS[method],
        init="random",
        refit=False,
        learning_rate=own["learning_rate"] if method == "subgradient" else None,
        max_epochs=own["epochs"],
        tol=1e-12,
        patience=own["epochs"],
        random_state=inputs["seed"],
    )
    with warnings.catch_warnings():  # the experiment shows how far a fixed number of iterations gets
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    history = model.history_
    return {
        "iteration": [entry["epoch"] for entry in history],
        "objective": [float(entry["loss"] or 0.0) + float(entry["penalty"] or 0.0) for entry in history],
        "zeros": [inputs["n_features"] - int(entry["features"] or 0) for entry in history],
        "stationarity": model.stationarity_,
    }
