"""Nothing but the training of networks loads PyTorch: all else works where it is not installed."""

import subprocess
import sys

import numpy as np
import pytest

from sparsenam import Network, SNAMRegressor
from sparsenam.training import SOLVERS

MOST_MODULES = 175  # of ours, that the first estimator loads
WITHOUT_TORCH = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NotInstalled())
"""
TABLE = """
import sys
import warnings
import numpy as np
import pandas as pd
import sparsenam
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target

warnings.simplefilter("ignore")
draw = np.random.default_rng(0)
X = pd.DataFrame({"a": draw.normal(size=150), "b": draw.normal(size=150), "c": draw.choice(["x", "y", "z"], 150)})
X.loc[::9, "b"] = np.nan
y = np.sin(2 * X["a"]) + (X["c"] == "x") + 0.3 * draw.normal(size=150)
"""
DEFAULT_FLOW = """
model = SNAMRegressor(random_state=0).fit(X, y)
model.save("model.snam")
loaded = sparsenam.load("model.snam")
assert np.array_equal(loaded.predict(X), model.predict(X))
for each in (model, loaded):
    each.effects(X), each.predict_interval(X), each.effect_bands(X), each.explain_local(X[:3])
    each.explain().report("report.html")
    edited = each.edit().flatten("a", -0.5, 0.5, reason="noise").drop("c", reason="unfair")
    edited.save("edited.snam")
    assert np.array_equal(sparsenam.load("edited.snam").predict(X), edited.predict(X))
    for name in ("model.json", "model.py", "model.mjs", "model.h", "model.sql", "model.pmml"):
        each.export(name)
"""
OTHER_FITS = """
SNAMClassifier(random_state=0).fit(X, np.digitize(y, [-0.3, 0.6])).predict_proba(X)
SNAMClassifier(random_state=0).fit(X, y > 0.5).export("card.csv", to="scorecard")
SNAMRegressor(random_state=0, pairs=[("a", "b")]).fit(X, y).predict(X)
SNAMRegressor(random_state=0, shapes={"a": "increasing"}).fit(X, y).predict(X)
SNAMSurvival(random_state=0).fit(X, survival_target(y > 0.5, np.exp(y))).predict(X)
for settings in ({}, {"features": "hinges"}, {"features": "random", "activation": "gelu", "hidden": (8,)}):
    sparsenam.RandomFeatureSNAMRegressor(random_state=0, **settings).fit(X[["a", "b"]].fillna(0.0), y).predict(X)
"""
REFUSED = """
try:
    SNAMRegressor(network=Network()).fit(X, y)
except sparsenam.errors.InputError as error:
    print(error)
"""


def run(code, folder):
    """Run code in a folder and a process of its own, and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("flow", [DEFAULT_FLOW, OTHER_FITS], ids=["default", "others"])
def test_all_but_networks_works_without_torch(flow, tmp_path):
    run(WITHOUT_TORCH + TABLE + flow, tmp_path)


def test_a_network_without_torch_says_what_to_install(tmp_path):
    message = run(WITHOUT_TORCH + TABLE + REFUSED, tmp_path)
    assert message.startswith("a network: expected PyTorch") and message.count("\n") == 1
    assert 'pip install "sparsenam[networks]"' in message


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_network_from_a_file_predicts_the_same_to_the_bit_without_torch(activation, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    network = Network(hidden=(8, 4), activation=activation, max_epochs=3)
    model = SNAMRegressor(alpha=0.0, network=network, random_state=0).fit(X, np.sin(X[:, 0]))
    model.save(tmp_path / "model.snam")
    np.save(tmp_path / "X.npy", X)
    run(
        WITHOUT_TORCH
        + "import numpy as np, sparsenam\nnp.save('y.npy', sparsenam.load('model.snam').predict(np.load('X.npy')))",
        tmp_path,
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model.predict(X))


def test_an_installed_torch_is_not_loaded_by_a_default_fit(tmp_path):
    code = TABLE + "SNAMRegressor(random_state=0).fit(X, y).predict(X)\n"
    assert run(code + "print('torch' in sys.modules)", tmp_path).strip() == "False"


def test_the_first_estimator_loads_few_modules_and_nothing_that_a_fit_may_do_without(tmp_path):
    code = "import sys; from sparsenam import SNAMRegressor; print(*sys.modules)"
    loaded = set(run(code, tmp_path).split())
    assert not loaded & {"torch", "matplotlib", "numba", "polars", "pyarrow.dataset", "typer", "onnx"}
    assert len([name for name in loaded if name.split(".")[0] == "sparsenam"]) <= MOST_MODULES


def test_every_solver_is_known_without_torch(tmp_path):
    assert run(WITHOUT_TORCH + "from sparsenam.training import SOLVERS; print(*SOLVERS)", tmp_path).split() == list(
        SOLVERS
    )
