"""Theorem 4.7 on data: how often the support is exact, against n and λ, and where the theorem's λ lies.

Cells of kind "path" measure the share of exact recoveries on the paper's synthetic regression for λ = multiplier ×
λ_max, with the theorem's λ beside. Cells of kind "example" look for data on which all assumptions hold together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import numpy as np

from paper.experiments.cells import Result, cell_seed, picked, sizes_done, values_by
from paper.theory import (
    Blocks,
    lambda_max,
    largest_dense_lambda,
    paper_path,
    random_feature_blocks,
    recovery_conditions,
    recovery_lambda,
)
from paper.theory.problem import Matrix, Vector
from sparsenam.datasets import make_regression
from sparsenam.errors import InputError

Example = tuple[list[Matrix], Vector, tuple[int, ...]]
TRUE = (0, 1, 2, 3)
# the printed theorem with the norm as the paper defines it, then as its symbol usually means; and the true theorem
VERSIONS: dict[str, Result] = {
    "as_printed": {"reading": "column_sums"},
    "with_the_usual_norm": {"reading": "row_sums"},
    "corrected": {"corrected": True},
}
WIDTH, FEATURES, FIRST_TWO = 3, 6, (0, 1)  # of the examples


def cells(settings: Result) -> list[Result]:
    """Return one cell for each design, n and repeat, and one for each example."""
    paths = [
        {"kind": "path", "design": design, "n": n, "repeat": repeat}
        for design in settings["designs"]
        for n in settings[design]["n"]
        for repeat in range(settings[design]["repeats"])
    ]
    return paths + [{"kind": "example", "example": name} for name in settings["examples"]]


def inputs(cell: Result, settings: Result) -> Result:
    """Return the settings that decide a cell's numbers."""
    if cell["kind"] == "example":
        return picked(settings, "example_rows")
    design = picked(settings[cell["design"]], "hidden", "multipliers", "tol")
    return {**picked(settings, "n_features", "sigma", "feature_seed"), **design}


def run_cell(cell: Result, inputs: Result) -> Result:
    """Return which multipliers of λ_max recover the support, or whether an example meets the assumptions."""
    if cell["kind"] == "example":
        blocks, y, support = EXAMPLES[cell["example"]](inputs["example_rows"])
        return {"cell": cell, "versions": _examined(blocks, y, support)}
    task = make_regression(cell["n"], inputs["n_features"], noise=inputs["sigma"], seed=cell_seed(cell))
    orthonormal = cell["design"] == "orthonormal"
    blocks = random_feature_blocks(
        task.X, inputs["hidden"], orthonormal=orthonormal, seed=inputs["feature_seed"] + cell["repeat"]
    )
    top, lowest = lambda_max(blocks, task.y), float(min(inputs["multipliers"]))
    path = paper_path(blocks, task.y, top * np.array(inputs["multipliers"]), tol=inputs["tol"])
    needed = {name: _needed(blocks, task.y, TRUE, options) for name, options in VERSIONS.items()}
    return {
        "cell": cell,
        "exact": [solution.support == TRUE for solution in path],
        "ratios": {name: None if lam is None else lam / top for name, lam in needed.items()},
        "dense_ratio": largest_dense_lambda(blocks, task.y, TRUE, points=30, ratio=lowest, tol=inputs["tol"]) / top,
    }


def summarise(results: Sequence[Result], settings: Result) -> Result:
    """Return the probability of exact recovery by multiplier of λ_max and n, the theory's λ, and the examples.

    ``by_design`` has the probabilities, ``theory`` a row for each design and n, with the theorem's λ over λ_max
    (None where γ ≤ 0 in some repeat).
    """
    paths = [result for result in results if result["cell"]["kind"] == "path"]
    designs: dict[str, Result] = {}
    theory: list[Result] = []
    for design in settings["designs"]:
        sizes = sizes_done(paths, settings[design]["n"], design=design)
        if sizes:
            designs[design] = _probabilities(paths, design, sizes, settings[design]["multipliers"])
            theory += [_theory_row(paths, design, n) for n in sizes]
    examples = [
        {"example": result["cell"]["example"], "version": version, **found}
        for result in results
        if result["cell"]["kind"] == "example"
        for version, found in result["versions"].items()
    ]
    return {"by_design": designs, "theory": theory, "examples": examples}


def _probabilities(paths: Sequence[Result], design: str, sizes: list[int], multipliers: list[float]) -> Result:
    exact = [np.array(values_by(paths, "exact", design=design, n=n), dtype=np.float64) for n in sizes]
    probability = [[float(part[:, line].mean()) for part in exact] for line in range(len(multipliers))]
    return {"n": sizes, "multipliers": multipliers, "probability": probability}


def _theory_row(paths: Sequence[Result], design: str, n: int) -> Result:
    """Return medians over the repeats, all λ over λ_max."""
    exact = values_by(paths, "exact", design=design, n=n)
    return {
        "design": design,
        "n": n,
        **{name: _middle(paths, name, design, n) for name in VERSIONS},
        "dense": float(np.median(values_by(paths, "dense_ratio", design=design, n=n))),
        "some_multiplier_exact": sum(any(row) for row in exact) / len(exact),
    }


def _needed(blocks: Blocks, y: Vector, support: Sequence[int], options: Result) -> float | None:
    """Return the theorem's λ, None where γ is not positive or not defined."""
    try:
        lam = recovery_lambda(blocks, y, support, **options)
    except InputError:  # the true features have no full rank: there is no γ
        return None
    return lam if isfinite(lam) else None


def _middle(paths: Sequence[Result], name: str, design: str, n: int) -> float | None:
    """Return the median ratio over the repeats, None when some repeat has none."""
    values = [ratios[name] for ratios in values_by(paths, "ratios", design=design, n=n)]
    return None if None in values else float(np.median(values))


def _examined(blocks: Blocks, y: Vector, support: Sequence[int]) -> Result:
    """Return for each version of the theorem whether some λ meets all its assumptions, and what such a λ keeps."""
    top, limit = lambda_max(blocks, y), largest_dense_lambda(blocks, y, support)
    found: Result = {}
    for name, options in VERSIONS.items():
        needed = _needed(blocks, y, support, options)
        verdict: Result = {
            "gamma": None,
            "needed_ratio": None if needed is None else needed / top,
            "dense_ratio": limit / top,
            "assumptions_hold": False,
            "recovered": None,
        }
        if needed is not None and needed < limit:
            lam = float(np.sqrt(max(needed, 1e-3 * limit) * limit))
            report = recovery_conditions(blocks, y, support, lam, **options)
            grid = np.geomspace(top, lam, 12)
            *_, solution = paper_path(blocks, y, grid, tol=1e-9)
            verdict |= {
                "gamma": report.gamma,
                "assumptions_hold": report.guaranteed,
                "recovered": solution.support == tuple(support),
            }
        found[name] = verdict
    return found


def orthogonal(rows: int, *, noise: float = 0.0, false_scale: float = 1.0) -> Example:
    """Return orthogonal blocks of unit mean square, two of them true with effects of one size."""
    generator = np.random.default_rng(7)
    raw = generator.normal(size=(rows, WIDTH * FEATURES))
    columns = np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(rows)
    blocks = [columns[:, WIDTH * feature : WIDTH * (feature + 1)] for feature in range(FEATURES)]
    y = blocks[0].sum(axis=1) - blocks[1].sum(axis=1) + noise * generator.normal(size=rows)
    return (
        [block * (1.0 if feature in FIRST_TWO else false_scale) for feature, block in enumerate(blocks)],
        y,
        FIRST_TWO,
    )


def independent(rows: int) -> Example:
    """Return independent normal blocks with a little noise."""
    generator = np.random.default_rng(8)
    blocks = [generator.normal(size=(rows, WIDTH)) for _ in range(FEATURES)]
    y = blocks[0].sum(axis=1) - blocks[1].sum(axis=1) + 0.5 * generator.normal(size=rows)
    return blocks, y, FIRST_TWO


def paper_task(rows: int, *, orthonormal: bool) -> Example:
    """Return random features of the paper's synthetic regression."""
    task = make_regression(rows, 24, seed=9)
    return random_feature_blocks(task.X, (16,), orthonormal=orthonormal, seed=0), task.y, TRUE


EXAMPLES: dict[str, Callable[[int], Example]] = {
    "orthogonal_noiseless": orthogonal,
    "orthogonal_noisy": lambda rows: orthogonal(rows, noise=0.5),
    "orthogonal_small_false_blocks": lambda rows: orthogonal(rows, noise=0.5, false_scale=0.01),
    "independent_normal": independent,
    "paper_orthonormal": lambda rows: paper_task(rows, orthonormal=True),
    "paper_raw": lambda rows: paper_task(rows, orthonormal=False),
}
