"""Theorem 4.3 on data: the estimation error ‖f - h‖²/n against n, beside the theorem's bound.

Four estimators. "well_specified": the truth lies in the span of the random features, λ is the largest for which
assumption 4.1 holds. "fixed_features": the paper's effects and the same random features at every n, λ of the size
of the noise, which grows like √n. "cross_validated": the library's convex estimator with the alpha of the lowest
held-out loss. "network": the library's default.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
from paper.theory import (
    PaperSolution,
    lambda_max,
    overfits,
    paper_path,
    random_feature_blocks,
    slow_rate_bound,
)
from paper.theory.problem import centred_blocks
from sparsenam.datasets import make_regression

Vector = NDArray[np.float64]
THEOREM_SLOPE = -0.5
TRUE_FEATURES = 4
THEORY = ("well_specified", "fixed_features")
cells = cells_of_estimators


def inputs(cell: Result, settings: Result) -> Result:
    """Return the settings that decide a cell's numbers."""
    if cell["estimator"] in THEORY:
        return {**picked(settings, "sigma", "feature_seed"), **settings[cell["estimator"]]}
    return picked(settings, "sigma", "n_features")


def run_cell(cell: Result, inputs: Result) -> Result:
    """Return the estimation error of one fit; with the bounds and assumption 4.1 for the theory's problem."""
    seed = cell_seed(cell)
    if cell["estimator"] in THEORY:
        return {"cell": cell, **_theory_cell(cell, inputs, seed)}
    task = make_regression(cell["n"], inputs["n_features"], noise=inputs["sigma"], seed=seed)
    model = make_regressor(cell["estimator"], seed).fit(task.X, task.y)
    error = mean_square(task.effects.sum(axis=1) - model.predict(task.X))
    return {"cell": cell, "error": error, "kept": int(model.get_support().sum())}


def summarise(results: Sequence[Result], settings: Result) -> Result:
    """Return for each estimator error by n and repeat, bounds, and slope with its interval."""
    found: Result = {}
    for estimator in settings["estimators"]:
        sizes = sizes_done(results, settings["n"], estimator=estimator)
        if sizes:
            found[estimator] = _summary(results, estimator, sizes)
    return {"theorem_slope": THEOREM_SLOPE, "by_estimator": found}


def _summary(results: Sequence[Result], estimator: str, sizes: list[int]) -> Result:
    errors = [values_by(results, "error", estimator=estimator, n=n) for n in sizes]
    summary: Result = {"n": sizes, "error": errors, **slope_of(sizes, errors)}
    if estimator in THEORY:
        for name in ("bound", "corrected_bound", "overfits", "approximation"):
            summary[name] = [float(np.mean(values_by(results, name, estimator=estimator, n=n))) for n in sizes]
    return summary


def _theory_cell(cell: Result, inputs: Result, seed: int) -> Result:
    n, sigma = int(cell["n"]), float(inputs["sigma"])
    task = make_regression(n, inputs["n_features"], noise=sigma, seed=seed)
    blocks = random_feature_blocks(task.X, inputs["hidden"], orthonormal=True, seed=inputs["feature_seed"])
    effects, noise = task.effects, task.y - task.effects.sum(axis=1)
    if cell["estimator"] == "well_specified":
        # the projection of the paper's effects on the random features
        effects = np.stack([block @ (block.T @ effects[:, j]) / n for j, block in enumerate(blocks)], axis=1)
    truth: Vector = effects.sum(axis=1)
    y = truth + noise
    solution = theory_solution(cell["estimator"], blocks, y, truth, sigma, inputs)

    def bound(corrected: bool) -> float:
        return slow_rate_bound(
            n=n,
            sigma=sigma,
            mu=solution.mu,
            bounds=np.abs(effects).max(axis=0),
            second_moments=np.ones(len(blocks)),  # the blocks are orthonormal
            widths=[block.shape[1] for block in blocks],
            corrected=corrected,
        )

    return {
        "error": mean_square(truth - solution.fitted),
        "kept": len(solution.support),
        "lambda_ratio": solution.lam / lambda_max(blocks, y),
        "mu": solution.mu,
        "bound": bound(False),
        "corrected_bound": bound(True),
        "overfits": overfits(y, solution.fitted, truth),
        "approximation": _approximation_error(blocks, truth),
    }


def theory_solution(
    estimator: str, blocks: Sequence[Vector], y: Vector, truth: Vector, sigma: float, inputs: Result
) -> PaperSolution:
    """Return the solution at the λ of an estimator of the theory's problem."""
    top = lambda_max(blocks, y)
    if estimator == "fixed_features":
        # ‖Gⱼᵀε‖₂ is about σ√n(√mⱼ + √(2 log p)) for the largest of p features
        widest = max(block.shape[1] for block in blocks)
        lam = float(sigma * np.sqrt(y.size) * (np.sqrt(widest) + np.sqrt(2 * np.log(len(blocks)))))
        falling = _falling(top, lam, 8) if lam < top else [lam]
        *_, last = paper_path(blocks, y, falling, tol=inputs["tol"])
        return last
    last = None
    for last in paper_path(blocks, y, _falling(top, top * inputs["ratio"], inputs["points"]), tol=inputs["tol"]):
        if overfits(y, last.fitted, truth):
            break
    assert last is not None  # the grid has points
    return last


def _falling(first: float, last: float, count: int) -> list[float]:
    return [float(first * (last / first) ** (step / (count - 1))) for step in range(count)]


def _approximation_error(blocks: Sequence[Vector], truth: Vector) -> float:
    """Return the mean square of what least squares on the true features' blocks leaves of f."""
    columns = np.hstack(centred_blocks(blocks[:TRUE_FEATURES]))
    target = truth - truth.mean()
    coefficients = np.asarray(np.linalg.lstsq(columns, target, rcond=None)[0], dtype=np.float64)
    return mean_square(target - columns @ coefficients)


def mean_square(values: Vector) -> float:
    """Return Σ v² / rows, v of shape (rows,)."""
    return float(values @ values) / values.size
