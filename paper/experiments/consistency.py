"""Theorems 5.1 and 5.2 on rows that no fit has seen: how often h is far from f, and hⱼ from fⱼ, against n.

Four estimators. "well_specified": random features that are the same at every n, a truth in their span, λ the largest
for which assumption 4.1 holds; here the bounds on ρ can be evaluated. "random_features": the library's convex estimator
with the alpha of the lowest held-out loss. "jointly_trained": the paper's network and optimizer, λ falling like 1/√n.
"default": the library with nothing set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from paper.experiments.estimation import mean_square, theory_solution
from paper.methods import make_paper_snam, make_regressor
from paper.theory import consistency_bound, exceedance, identification, random_feature_blocks
from paper.theory.problem import NEGLIGIBLE, Matrix, Vector
from sparsenam.datasets import make_regression, true_effects

WELL_SPECIFIED, JOINT = "well_specified", "jointly_trained"
EFFECTS = ("f1", "f2", "f3", "f4")
FRESH_SEED, REFERENCE_SEED = 1, 2  # cells have seeds of 1000 n and more
REFERENCE_ROWS = 20_000  # on which the fixed features are made orthonormal
cells = cells_of_estimators


def inputs(cell: Result, settings: Result) -> Result:
    """Return the settings that decide a cell's numbers."""
    found = picked(settings, "sigma", "n_features", "fresh_rows", "epsilons", "effect_epsilon")
    return {**found, **settings.get(cell["estimator"], {})}


def run_cell(cell: Result, inputs: Result) -> Result:
    """Return shares of fresh rows by ε for the sum and at one ε for each effect, and errors on both sets of rows."""
    run = _well_specified if cell["estimator"] == WELL_SPECIFIED else _estimated
    on_train, on_fresh, facts = run(cell, inputs)
    levels = inputs["epsilons"]
    shares = identification(*on_fresh.effects, inputs["effect_epsilon"])
    effects = dict(zip(EFFECTS, shares.effects, strict=False)) | {
        "others": max(shares.effects[len(EFFECTS) :], default=0.0)
    }
    return {
        "cell": cell,
        "share": [exceedance(*on_fresh.sums, level) for level in levels],
        "train_share": [exceedance(*on_train.sums, level) for level in levels],
        "train_error": on_train.error,
        "fresh_error": on_fresh.error,
        "whole": shares.whole,
        "effects": effects,
        **facts,
    }


def summarise(results: Sequence[Result], settings: Result) -> Result:
    """Return for each estimator the mean shares by ε and n, errors, bounds, and the slope of the fresh error."""
    found: Result = {}
    for estimator in settings["estimators"]:
        sizes = sizes_done(results, settings["n"], estimator=estimator)
        if sizes:
            found[estimator] = _summary(results, estimator, sizes)
    return {**picked(settings, "epsilons", "effect_epsilon"), "by_estimator": found}


def _summary(results: Sequence[Result], estimator: str, sizes: list[int]) -> Result:
    def means(name: str) -> list[list[float]]:
        """Return a mean over repeats for each n, of each number in the list of that name."""
        rows = [values_by(results, name, estimator=estimator, n=n) for n in sizes]
        return [np.mean(np.reshape(repeats, (len(repeats), -1)), axis=0).tolist() for repeats in rows]

    errors = [values_by(results, "fresh_error", estimator=estimator, n=n) for n in sizes]
    effects = [values_by(results, "effects", estimator=estimator, n=n) for n in sizes]
    summary: Result = {"n": sizes, **slope_of(sizes, errors)}
    summary |= {name: means(name) for name in ("share", "train_share", "train_error", "fresh_error", "whole")}
    summary["effects"] = {
        name: [float(np.mean([shares[name] for shares in repeats])) for repeats in effects]
        for name in (*EFFECTS, "others")
    }
    if estimator == WELL_SPECIFIED:
        summary |= {name: means(name) for name in ("printed_bound", "corrected_bound")}
    return summary


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """True and fitted effects at the same rows (rows, columns), and the intercepts of both sums."""

    effects: tuple[Matrix, Matrix]
    intercept: float

    @property
    def sums(self) -> tuple[Vector, Vector]:
        """Both sums at the rows, f and h, of shape (rows,)."""
        truth, fitted = self.effects
        return truth.sum(axis=1), fitted.sum(axis=1) + self.intercept

    @property
    def error(self) -> float:
        """‖f - h‖² over the number of rows."""
        truth, fitted = self.sums
        return mean_square(truth - fitted)


def _estimated(cell: Result, inputs: Result) -> tuple[_Pair, _Pair, Result]:
    n, seed = int(cell["n"]), cell_seed(cell)
    task = make_regression(n, inputs["n_features"], noise=inputs["sigma"], seed=seed)
    if cell["estimator"] == JOINT:
        penalty = inputs["lambda_root"] / np.sqrt(n)
        model = make_paper_snam("regression", float(penalty), inputs["network"], seed)
    else:
        model = make_regressor(cell["estimator"], seed)
    model.fit(task.X, task.y)

    def pair(X: Matrix) -> _Pair:
        effects = np.asarray(model.effects(X), dtype=np.float64)
        intercept = float(model.predict(X[:1])[0] - effects[0].sum())
        return _Pair((true_effects(X), effects), intercept)

    facts = {"kept": int(model.get_support().sum())}
    return pair(np.asarray(task.X, dtype=np.float64)), pair(_fresh(inputs)), facts


def _well_specified(cell: Result, inputs: Result) -> tuple[_Pair, _Pair, Result]:
    n, sigma = int(cell["n"]), float(inputs["sigma"])
    task = make_regression(n, inputs["n_features"], noise=sigma, seed=cell_seed(cell))
    features = _FixedFeatures.made(inputs)
    blocks, coefficients = features.blocks(task.X), features.coefficients()
    truth = _effects(blocks, coefficients)
    total: Vector = truth.sum(axis=1)
    y = total + task.y - task.effects.sum(axis=1)
    solution = theory_solution(WELL_SPECIFIED, blocks, y, total, sigma, inputs)
    means = sum(float(block.mean(axis=0) @ theta) for block, theta in zip(blocks, solution.theta, strict=True))
    intercept = float(y.mean()) - means
    fresh = features.blocks(_fresh(inputs))
    on_train = _Pair((truth, _effects(blocks, solution.theta)), intercept)
    on_fresh = _Pair((_effects(fresh, coefficients), _effects(fresh, solution.theta)), intercept)

    def bounds(corrected: bool) -> list[float]:
        return [
            consistency_bound(
                on_train.error,
                level,
                n=n,
                mu=solution.mu,
                second_moments=np.ones(len(blocks)),
                widths=[block.shape[1] for block in blocks],
                intercept=abs(intercept),
                corrected=corrected,
            )
            for level in inputs["epsilons"]
        ]

    facts = {"kept": len(solution.support), "mu": solution.mu}
    return on_train, on_fresh, {**facts, "printed_bound": bounds(False), "corrected_bound": bounds(True)}


def _effects(blocks: Sequence[Matrix], coefficients: Sequence[Vector]) -> Matrix:
    return np.stack([block @ theta for block, theta in zip(blocks, coefficients, strict=True)], axis=1)


def _fresh(inputs: Result) -> Matrix:
    return make_regression(inputs["fresh_rows"], inputs["n_features"], seed=FRESH_SEED).X


@dataclass(frozen=True, slots=True, eq=False)
class _FixedFeatures:
    """Random features with mean 0, mean square 1 and no correlation over X, made on rows that no fit sees."""

    hidden: tuple[int, ...]
    seed: int
    reference: Matrix
    means: tuple[Vector, ...]
    turns: tuple[Matrix, ...]

    @classmethod
    def made(cls, inputs: Result) -> _FixedFeatures:
        reference = make_regression(REFERENCE_ROWS, inputs["n_features"], seed=REFERENCE_SEED).X
        hidden, seed = tuple(inputs["hidden"]), int(inputs["feature_seed"])
        means: list[Vector] = []
        turns: list[Matrix] = []
        for block in random_feature_blocks(reference, hidden, seed=seed):
            means.append(block.mean(axis=0))
            values, vectors = np.linalg.eigh(np.cov(block.T, bias=True))
            kept = values > NEGLIGIBLE * values[-1]
            turns.append(vectors[:, kept] / np.sqrt(values[kept]))
        return cls(hidden, seed, reference, tuple(means), tuple(turns))

    def blocks(self, X: Matrix) -> list[Matrix]:
        raw = random_feature_blocks(X, self.hidden, seed=self.seed)
        return [(block - mean) @ turn for block, mean, turn in zip(raw, self.means, self.turns, strict=True)]

    def coefficients(self) -> list[Vector]:
        """Return θ of the projection of the paper's effects on the features, shapes (m_j,)."""
        effects = true_effects(self.reference)
        return [block.T @ effects[:, j] / len(effects) for j, block in enumerate(self.blocks(self.reference))]
