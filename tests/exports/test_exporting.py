"""What all exports share: models without columns, files written all or not at all, and errors in a sentence."""

import importlib.util
import sys
from shutil import which

import numpy as np
import pandas as pd
import pytest

from export_cases import random_case
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.export.exporting import write_export
from sparsenam.export.portable import ExportError

RUNS = {
    "model.py": True,
    "model.mjs": which("node") is not None,
    "model.h": which("cc") is not None,
    "model.sql": importlib.util.find_spec("duckdb") is not None,
    "model.onnx": importlib.util.find_spec("onnxruntime") is not None,
    "model.pmml": which("java") is not None and importlib.util.find_spec("pypmml") is not None,
}


@pytest.fixture(scope="module", autouse=True)
def engine():
    """End the JVM that runs PMML after the last test."""
    yield
    if RUNS["model.pmml"]:
        from pypmml import PMMLContext

        PMMLContext.shutdown()


@pytest.fixture(scope="module", params=["constant", "classes"])
def empty(request):
    """A model that keeps no column, and the rows of its fit."""
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"city": generator.choice(["a", "b", None], 100), "size": generator.standard_normal(100)})
    if request.param == "constant":
        model = SNAMRegressor(random_state=0).fit(X, np.full(100, 2.5))
    else:
        model = SNAMClassifier(random_state=0).fit(X, generator.integers(0, 3, 100))
    assert model.portable().columns == ()
    return model, X


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(pytest.param(name, {}, marks=pytest.mark.skipif(not runs, reason="not here")) for name, runs in RUNS.items()),
        ("model.sql", {"dialect": "sqlite"}),
        ("model.sql", {"dialect": "sqlite", "key": ["id"]}),
    ],
)
def test_a_model_that_keeps_no_column_is_exported_and_has_a_score_for_each_row(empty, tmp_path, name, options):
    model, X = empty
    model.export(tmp_path / name, **options)
    assert model.export_difference(tmp_path / name, X, **options) <= 1e-12


def test_a_path_in_csv_is_told_to_name_the_scorecard(tmp_path):
    with pytest.raises(ExportError, match=r"got '\.csv'; say to=\"scorecard\"\.$"):
        write_export(random_case(0).portable, tmp_path / "points.csv", None, {})


def test_points_in_csv_need_no_library_and_a_workbook_names_the_one_that_it_needs(tmp_path, monkeypatch):
    case = random_case(0, family="binomial")
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    monkeypatch.delitem(sys.modules, "sparsenam.export.targets.scorecard", raising=False)
    assert write_export(case.portable, tmp_path / "points.csv", "scorecard", {}) == [tmp_path / "points.csv"]
    with pytest.raises(ExportError, match="got an environment without xlsxwriter"):
        write_export(case.portable, tmp_path / "card.xlsx", None, {})
    assert not (tmp_path / "card.xlsx").exists()
