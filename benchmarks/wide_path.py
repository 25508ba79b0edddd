"""Time the path on 500 rows x 10,000 groups x 10 columns against skglm and adelie: same design and grid.

    python benchmarks/wide_path.py [result.json]

adelie needs numpy < 2, so it runs in its environment of `bench_environments.py`, or is left out.
Every solver gets one thread. Write times, ratios and final objectives as JSON.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_process import python_of

ROWS, GROUPS, WIDTH, POINTS, RATIO = 500, 10_000, 10, 30, 0.1
REPEATS = 3

ADELIE = """
import json, sys, time
import adelie, numpy as np
folder, repeats = sys.argv[1], int(sys.argv[2])
blocks = np.load(folder + "/blocks.npy").astype(float)
y = np.load(folder + "/y.npy"); alphas = np.load(folder + "/alphas.npy")
p, m, n = blocks.shape
X = np.asfortranarray(blocks.reshape(p * m, n).T); del blocks
times = []
for _ in range(repeats):
    start = time.perf_counter()
    state = adelie.grpnet(
        X=adelie.matrix.dense(X, n_threads=1), glm=adelie.glm.gaussian(y=y), groups=np.arange(0, p * m, m),
        penalty=np.ones(p), lmda_path=alphas, early_exit=False, progress_bar=False, n_threads=1, tol=1e-5,
        intercept=True,
    )
    times.append(time.perf_counter() - start)
beta = state.betas.toarray()[-1]
loss = 0.5 * np.mean((y - state.intercepts[-1] - X @ beta) ** 2)
objective = loss + alphas[-1] * np.sqrt((beta.reshape(p, m) ** 2).sum(1)).sum()
print(json.dumps({"seconds": times, "objective": float(objective)}))
"""


def make_problem():
    """Quantile ramps of normal columns, of which four matter; y standardised."""
    from sparsenam.convex.design import grouped_design

    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, GROUPS))
    x1, x2, x3, x4 = X[:, :4].T
    signal = 2 * x1**2 * np.tanh(x1) + np.sin(x2) * np.cos(x2) + x2**2 + 20 / (1 + np.exp(-5 * np.sin(x3)))
    y = signal + 20 * np.sin(2 * x4) ** 3 - 6 * np.cos(x4) + x4**2 + generator.normal(size=ROWS)
    shares = np.linspace(0, 1, WIDTH + 1)

    def ramps(j):
        knots = np.quantile(X[:, j], shares)
        return np.clip((X[:, j, None] - knots[:-1]) / np.diff(knots), 0, 1)

    start = time.perf_counter()
    design = grouped_design(ramps, GROUPS, np.ones(ROWS), dtype=np.float32)
    return design, (y - y.mean()) / y.std(), time.perf_counter() - start


def objective(design, y, alpha, theta, intercept):
    active = np.flatnonzero(theta.any(axis=1))
    residual = y - intercept - np.einsum("pmn,pm->n", design.blocks[active].astype(float), theta[active])
    return float(0.5 * np.mean(residual**2) + alpha * np.linalg.norm(theta, axis=1).sum())


def run_ours(design, y):
    import torch

    from sparsenam.convex.path import convex_path
    from sparsenam.convex.problem import certify, convex_problem
    from sparsenam.families import Gaussian
    from sparsenam.penalties import GroupLasso

    torch.set_num_threads(1)
    times, weights = [], np.ones((1, ROWS))
    for _ in range(REPEATS):
        start = time.perf_counter()
        points = list(
            convex_path(convex_problem(design, y[:, None], Gaussian(), weights), n_alphas=POINTS, ratio=RATIO)
        )
        times.append(time.perf_counter() - start)
    last = points[-1]
    names = [f"x{j}" for j in range(GROUPS)]
    theta, intercept = last.theta[0], last.intercepts[0]
    proof = certify(
        convex_problem(design, y[:, None], Gaussian(), weights[0]),
        theta,
        intercept,
        last.alpha,
        GroupLasso(),
        names,
        1.1e-4,
    )
    return np.array([p.alpha for p in points]), {
        "seconds": times,
        "objective": objective(design, y, last.alpha, theta[:, :, 0], intercept[0]),
        "largest_gap": float(max(p.gaps.max() for p in points)),
        "certified_gap": proof.gap,
        "sizes": [int(p.supports[0].size) for p in points],
    }


def run_skglm(design, y, alphas):
    from skglm.datafits import QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    X = np.asfortranarray(design.blocks.reshape(-1, ROWS).T.astype(float))
    indices, starts = grp_converter(WIDTH, X.shape[1])
    datafit = compiled_clone(QuadraticGroup(starts, indices))

    def walk(grid):
        coefficients = fitted = None
        for alpha in grid:
            penalty = compiled_clone(WeightedGroupL2(alpha, np.ones(GROUPS), starts, indices))
            solver = GroupBCD(max_iter=200, max_epochs=10_000, tol=1e-3, fit_intercept=False, warm_start=True)
            coefficients, *_ = solver.solve(X, y, datafit, penalty, w_init=coefficients, Xw_init=fitted)
            fitted = X @ coefficients
        return coefficients

    walk(alphas[:2])  # compilation
    start = time.perf_counter()
    coefficients = walk(alphas)
    seconds = [time.perf_counter() - start]
    theta = coefficients.reshape(GROUPS, WIDTH)
    return {"seconds": seconds, "objective": objective(design, y, alphas[-1], theta, 0.0)}


def run_adelie(design, y, alphas):
    python = python_of("adelie")
    if python is None:
        print("adelie left out: make bench-environments", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("blocks", design.blocks), ("y", y), ("alphas", alphas)):
            np.save(f"{folder}/{name}.npy", array)
        command = [python, "-c", ADELIE, folder, str(REPEATS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    design, y, built = make_problem()
    alphas, ours = run_ours(design, y)
    ours["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    results = {"ours": ours, "adelie": run_adelie(design, y, alphas), "skglm": run_skglm(design, y, alphas)}
    mine = statistics.median(ours["seconds"])
    ratios = {
        name: mine / statistics.median(result["seconds"])
        for name, result in results.items()
        if result is not None and name != "ours"
    }
    report = {"design_seconds": built, "results": results, "our_time_over_theirs": ratios}
    text = json.dumps(report, indent=2)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
