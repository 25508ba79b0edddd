"""Theorem 5.2 on data: the identification error Var(f̂ⱼ - fⱼ) of every effect against n.

The theorem's proof rests on Theorem 5.1, whose proof applies the law of large numbers to a set of x that depends on
the very rows it is applied to; the measurement below needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from paper.experiments.cells import (
    Result,
    cell_seed,
    cells_of_estimators,
    picked,
    sizes_done,
    slope_of,
    values_by,
)
from paper.methods import make_regressor
from sparsenam.datasets import make_regression

EFFECTS = ("f1", "f2", "f3", "f4")
cells = cells_of_estimators


def inputs(cell: Result, settings: Result) -> Result:
    """Return the settings that decide a cell's numbers."""
    return picked(settings, "sigma", "n_features")


def run_cell(cell: Result, inputs: Result) -> Result:
    """Return min over c of ‖f̂ⱼ - fⱼ - c‖²/n (the paper's section 6.1.2) for f₁ to f₄, and its sum over the rest."""
    seed = cell_seed(cell)
    task = make_regression(cell["n"], inputs["n_features"], noise=inputs["sigma"], seed=seed)
    model = make_regressor(cell["estimator"], seed).fit(task.X, task.y)
    errors = np.var(model.effects(task.X) - task.effects, axis=0)
    error = {name: float(errors[column]) for column, name in enumerate(EFFECTS)}
    error |= {"noise": float(errors[len(EFFECTS) :].sum()), "total": float(errors.sum())}
    return {"cell": cell, "error": error, "kept": int(model.get_support().sum())}


def summarise(results: Sequence[Result], settings: Result) -> Result:
    """Return for each estimator the mean errors by effect and n, and the slope of their sum."""
    found: Result = {}
    for estimator in settings["estimators"]:
        sizes = sizes_done(results, settings["n"], estimator=estimator)
        if sizes:
            errors = [values_by(results, "error", estimator=estimator, n=n) for n in sizes]
            means = {
                name: [float(np.mean([error[name] for error in repeats])) for repeats in errors]
                for name in (*EFFECTS, "noise")
            }
            slope = slope_of(sizes, [[error["total"] for error in repeats] for repeats in errors])
            found[estimator] = {"n": sizes, "error": means, **slope}
    return {"by_estimator": found}
