"""What is chosen depends on the data, not on the processor: the same answers from other kernels of linear algebra."""

import json
import os
import subprocess
import sys

import pytest

PROCESSORS = {
    "default": {},
    "haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default"},
}
SCRIPT = """
import json
import numpy as np
import pandas as pd
from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival
from sparsenam.datasets import make_classification, make_regression, make_survival

regression = make_regression(600, 12, seed=0)
wide = make_regression(120, 600, seed=1)
tutorial = make_regression(n_rows=500, n_features=2000, seed=0)  # docs/tutorials/wide.md
classes = make_classification(600, 12, seed=2)
survival = make_survival(250, 8, seed=0)
generator = np.random.default_rng(3)
table = pd.DataFrame({
    "number": generator.normal(size=500), "gaps": generator.normal(size=500), "noise": generator.normal(size=500),
    "colour": generator.choice(["red", "green", "blue"], 500), "other": generator.choice(list("pqrst"), 500),
})
y = np.sin(2 * table.number) + table.gaps + table.colour.map({"red": 1.0, "green": 0.0, "blue": -1.0})
y = y + 0.5 * generator.normal(size=500)
table.loc[generator.uniform(size=500) < 0.2, "gaps"] = np.nan
cells = np.digitize(regression.y, np.quantile(regression.y, [0.3, 0.7]))
fits = {
    "regression": (SNAMRegressor, regression.X, regression.y),
    "best": (lambda **given: SNAMRegressor(rule="best", **given), regression.X, regression.y),
    "classification": (SNAMClassifier, classes.X, classes.y),
    "several classes": (SNAMClassifier, regression.X[:300, :8], cells[:300]),
    "wide": (SNAMRegressor, wide.X, wide.y),
    "tutorial": (SNAMRegressor, tutorial.X, tutorial.y),
    "survival": (SNAMSurvival, survival.X, survival.y),
    "categories and missing cells": (SNAMRegressor, table, y.to_numpy()),
}
answers = {}
for name, (estimator, X, target) in fits.items():
    model = estimator(random_state=0).fit(X, target)
    answers[name] = [list(model.get_feature_names_out()), model.alpha_]
print(json.dumps(answers))
"""


def answers():
    """The answers of all processors, found at the same time."""
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    running = {
        name: subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | one_thread | kernels,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, kernels in PROCESSORS.items()
    }
    found = {}
    for name, process in running.items():
        out, err = process.communicate()
        assert process.returncode == 0, err
        found[name] = json.loads(out)
    return found


def test_other_kernels_choose_the_same():
    found = answers()  # by one test, since several would be run by several workers, each asking all processors
    here = found.pop("default")
    for processor, there in found.items():
        assert here.keys() == there.keys()
        for name, (kept, alpha) in here.items():
            assert there[name][0] == kept, (processor, name)
            assert there[name][1] == pytest.approx(alpha, rel=1e-6), (processor, name)
    assert here["tutorial"][0] == ["x0", "x1", "x2", "x3"]  # as the page on wide data says
