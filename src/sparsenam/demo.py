"""The main job on embedded data: fit, see what was kept, and how well it predicts."""

from __future__ import annotations

import sys
import time

import numpy as np

from sparsenam import SNAMRegressor
from sparsenam.datasets import make_regression


def main() -> None:
    """Fit the paper's synthetic regression and print the result."""
    task = make_regression(seed=0)
    train, test = slice(0, 2400), slice(2400, None)
    say = sys.stdout.write
    say("Sparse Neural Additive Model: 2400 rows, 24 columns, of which x0, x1, x2 and x3 matter.\n")
    started = time.perf_counter()
    model = SNAMRegressor(random_state=0).fit(task.X[train], task.y[train])
    seconds = time.perf_counter() - started
    error = np.mean((model.predict(task.X[test]) - task.y[test]) ** 2)
    spread = np.var(task.y[test])
    kept = ", ".join(model.get_feature_names_out())
    say(f"kept: {kept} of {model.n_features_in_} columns, {seconds:.1f} s\n")
    say(f"test mean squared error: {error:.2f} (variance of y {spread:.0f}, noise 1.00)\n")
    effects = model.effects(task.X[test])
    for place in np.flatnonzero(model.get_support()):
        say(f"  x{place}: effect from {effects[:, place].min():+.1f} to {effects[:, place].max():+.1f}\n")


if __name__ == "__main__":
    main()
