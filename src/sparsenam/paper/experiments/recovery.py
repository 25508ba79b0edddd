"""Theorem 4.7 on data: how often the support is exact, against n and λ, and where the theorem's λ lies.

Cells of kind "path" measure the share of exact recoveries on the paper's synthetic regression for λ = multiplier ×
λ_max, with the theorem's λ beside. Cells of kind "example" look for data on which all assumptions hold together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from sparsenam.datasets import make_regression
from sparsenam.errors import InputError
from sparsenam.paper.experiments.examples import EXAMPLES
from sparsenam.paper.experiments.records import Record, cell_seed, picked, sizes_done, values_by
from sparsenam.theory import (
    Blocks,
    lambda_max,
    largest_dense_lambda,
    paper_path,
    random_feature_blocks,
    recovery_conditions,
    recovery_lambda,
)
from sparsenam.theory.blocks import Vector

TRUE = (0, 1, 2, 3)
# the printed theorem with the norm as the paper defines it, then as its symbol usually means; and the true theorem
VERSIONS: dict[str, Record] = {
    "as_printed": {"reading": "column_sums"},
    "with_the_usual_norm": {"reading": "row_sums"},
    "corrected": {"corrected": True},
}


def cells(settings: Record) -> list[Record]:
    """Return one cell for each design, n and repeat, and one for each example."""
    paths = [
        {"kind": "path", "design": design, "n": n, "repeat": repeat}
        for design in settings["designs"]
        for n in settings[design]["n"]
        for repeat in range(settings[design]["repeats"])
    ]
    return paths + [{"kind": "example", "example": name} for name in settings["examples"]]


def inputs(cell: Record, settings: Record) -> Record:
    """Return the settings that decide a cell's numbers."""
    if cell["kind"] == "example":
        return picked(settings, "example_rows")
    own = picked(settings[cell["design"]], "hidden", "multipliers", "tol")
    return {**picked(settings, "n_features", "sigma", "feature_seed"), **own}


def run_cell(cell: Record, inputs: Record) -> Record:
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
    walk = paper_path(blocks, task.y, top * np.array(inputs["multipliers"]), tol=inputs["tol"])
    needed = {name: _needed(blocks, task.y, TRUE, options) for name, options in VERSIONS.items()}
    return {
        "cell": cell,
        "exact": [solution.support == TRUE for solution in walk],
        "ratios": {name: None if lam is None else lam / top for name, lam in needed.items()},
        "dense_ratio": largest_dense_lambda(blocks, task.y, TRUE, points=30, ratio=lowest, tol=inputs["tol"]) / top,
    }


def summarise(records: Sequence[Record], settings: Record) -> Record:
    """Return the probability of exact recovery by multiplier of λ_max and n, the theory's λ, and the examples.

    The entries at the top are those of the first design; ``theory_lambda_ratio`` is each multiplier's λ over the
    one that the corrected theorem needs, at the largest n. ``theory`` has a row for each design and n, with the
    theorem's λ over λ_max (None where γ ≤ 0 in some repeat), and ``by_design`` all probabilities.
    """
    paths = [record for record in records if record["cell"]["kind"] == "path"]
    designs: dict[str, Record] = {}
    theory: list[Record] = []
    for design in settings["designs"]:
        sizes = sizes_done(paths, settings[design]["n"], design=design)
        if sizes:
            designs[design] = _probabilities(paths, design, sizes, settings[design]["multipliers"])
            theory += [_theory_row(paths, design, n) for n in sizes]
    summary: Record = dict(designs.get(settings["designs"][0], {}))
    own = [row for row in theory if row["design"] == settings["designs"][0] and row["corrected"] is not None]
    if own:
        summary["theory_lambda_ratio"] = [share / own[-1]["corrected"] for share in summary["multipliers"]]
    examples = [
        {"example": record["cell"]["example"], "version": version, **found}
        for record in records
        if record["cell"]["kind"] == "example"
        for version, found in record["versions"].items()
    ]
    return {**summary, "theory": theory, "examples": examples, "by_design": designs}


def _probabilities(paths: Sequence[Record], design: str, sizes: list[int], multipliers: list[float]) -> Record:
    exact = [np.array(values_by(paths, "exact", design=design, n=n), dtype=np.float64) for n in sizes]
    probability = [[float(part[:, place].mean()) for part in exact] for place in range(len(multipliers))]
    return {"n": sizes, "multipliers": multipliers, "probability": probability}


def _theory_row(paths: Sequence[Record], design: str, n: int) -> Record:
    """Return medians over the repeats, all λ over λ_max."""
    exact = values_by(paths, "exact", design=design, n=n)
    return {
        "design": design,
        "n": n,
        **{name: _middle(paths, name, design, n) for name in VERSIONS},
        "dense": float(np.median(values_by(paths, "dense_ratio", design=design, n=n))),
        "some_multiplier_exact": sum(any(own) for own in exact) / len(exact),
    }


def _needed(blocks: Blocks, y: Vector, support: Sequence[int], options: Record) -> float | None:
    """Return the theorem's λ, None where γ is not positive or not defined."""
    try:
        lam = recovery_lambda(blocks, y, support, **options)
    except InputError:  # the true features have no full rank: there is no γ
        return None
    return lam if isfinite(lam) else None


def _middle(paths: Sequence[Record], name: str, design: str, n: int) -> float | None:
    """Return the median ratio over the repeats, None when some repeat has none."""
    values = [ratios[name] for ratios in values_by(paths, "ratios", design=design, n=n)]
    return None if None in values else float(np.median(values))


def _examined(blocks: Blocks, y: Vector, support: Sequence[int]) -> Record:
    """Return for each version of the theorem whether some λ meets all its assumptions, and what such a λ keeps."""
    top, limit = lambda_max(blocks, y), largest_dense_lambda(blocks, y, support)
    results: Record = {}
    for name, options in VERSIONS.items():
        needed = _needed(blocks, y, support, options)
        found: Record = {
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
            found |= {
                "gamma": report.gamma,
                "assumptions_hold": report.guaranteed,
                "recovered": solution.support == tuple(support),
            }
        results[name] = found
    return results
