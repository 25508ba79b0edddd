"""Theorem 5.2 on data: the identification error Var(f̂ⱼ - fⱼ) of every effect against n.

The theorem's proof rests on Theorem 5.1, whose proof applies the law of large numbers to a set of x that depends on
the very rows it is applied to; the measurement below needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparsenam.datasets import make_regression
from sparsenam.estimators import RandomFeatureSNAMRegressor, SNAMRegressor
from sparsenam.paper.experiments.records import Record, cell_seed, picked, sizes_done, values_by
from sparsenam.paper.experiments.slopes import log_log_slope

EFFECTS = ("f1", "f2", "f3", "f4")


def cells(settings: Record) -> list[Record]:
    """Return one cell for each estimator, n and repeat."""
    return [
        {"estimator": estimator, "n": n, "repeat": repeat}
        for estimator in settings["estimators"]
        for n in settings["n"]
        for repeat in range(settings["repeats"])
    ]


def inputs(cell: Record, settings: Record) -> Record:
    """Return the settings that decide a cell's numbers."""
    return picked(settings, "sigma", "n_features")


def run_cell(cell: Record, inputs: Record) -> Record:
    """Return min over c of ‖f̂ⱼ - fⱼ - c‖²/n (the paper's section 6.1.2) for f₁ to f₄, and its sum over the rest."""
    seed = cell_seed(cell)
    task = make_regression(cell["n"], inputs["n_features"], noise=inputs["sigma"], seed=seed)
    if cell["estimator"] == "network":
        model = SNAMRegressor(random_state=seed)
    else:
        model = RandomFeatureSNAMRegressor(rule="best", random_state=seed)
    model.fit(task.X, task.y)
    errors = np.var(model.effects(task.X) - task.effects, axis=0)
    result = {name: float(errors[place]) for place, name in enumerate(EFFECTS)}
    result["noise"] = float(errors[len(EFFECTS) :].sum())
    result["total"] = float(errors.sum())
    return {"cell": cell, "error": result, "kept": int(model.get_support().sum())}


def summarise(records: Sequence[Record], settings: Record) -> Record:
    """Return mean errors by effect and n, at the top those of the first estimator, and a row for each other one."""
    found: dict[str, Record] = {}
    rows: list[Record] = []
    for estimator in settings["estimators"]:
        sizes = sizes_done(records, settings["n"], estimator=estimator)
        if not sizes:
            continue
        errors = [values_by(records, "error", estimator=estimator, n=n) for n in sizes]
        means = {
            name: [float(np.mean([own[name] for own in repeats])) for repeats in errors]
            for name in (*EFFECTS, "noise", "total")
        }
        kept = [float(np.mean(values_by(records, "kept", estimator=estimator, n=n))) for n in sizes]
        line = log_log_slope(sizes, [[own["total"] for own in repeats] for repeats in errors])
        slope: Record = {} if line is None else {"slope": line[0], "interval": list(line[1])}
        found[estimator] = {"n": sizes, "error": {name: means[name] for name in (*EFFECTS, "noise")}, **slope}
        rows.append({"estimator": estimator, "n": sizes, **means, "kept": kept, **slope})
    return {**found.get(settings["estimators"][0], {}), "estimators": rows, "by_estimator": found}
