"""What all exports share: models without columns, files written all or not at all, and errors in a sentence."""

import importlib.util
import os
import sys
from shutil import which

import numpy as np
import pandas as pd
import pytest

from export_cases import random_case
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.export.exporting import cells_of, target_for, write_export
from sparsenam.export.portable import ExportError
from sparsenam.files import write_together

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
    rows = cells_of(model.encoder_, model.portable(), X)
    found = target_for(name, None).load(options).scores(model.portable(), tmp_path / name, rows, options)
    assert found.shape == (len(X), len(model.portable().outputs))


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


def test_of_several_files_none_is_written_where_one_cannot_be(tmp_path):
    path, types = tmp_path / "model.mjs", tmp_path / "model.d.mts"
    path.write_text("older")
    types.mkdir()
    with pytest.raises(ExportError, match=r"model\.d\.mts: expected a file to write, got a folder; name a file"):
        write_export(random_case(0).portable, path, None, {})
    assert path.read_text() == "older"
    assert sorted(tmp_path.iterdir()) == [types, path]


def test_files_written_together_appear_once_all_of_them_are_whole(tmp_path, monkeypatch):
    paths = [tmp_path / "a", tmp_path / "b"]
    calls, sync = [], os.fsync

    def full_at_the_second(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        write_together(dict.fromkeys(paths, b"new"))
    assert list(tmp_path.iterdir()) == []
    paths[1].mkdir()
    with pytest.raises(IsADirectoryError):
        write_together(dict.fromkeys(paths, b"new"))
    assert list(tmp_path.iterdir()) == [paths[1]]
    paths[1].rmdir()
    write_together(dict.fromkeys(paths, b"new"))
    assert [path.read_bytes() for path in paths] == [b"new", b"new"]


def test_an_export_without_room_says_so_in_one_sentence(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ExportError, match="expected a place that can be written to, got No space left on device; "):
        write_export(random_case(0).portable, tmp_path / "model.py", None, {})
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_a_file_is_refused_in_one_sentence(tmp_path):
    portable = random_case(0).portable
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match=r"folder\.py: expected a file to write, got a folder; name a file in it\.$"):
        write_export(portable, tmp_path / "folder.py", None, {})
    with pytest.raises(ExportError, match=r"expected a file in a folder, got .*file, which is a file; name another\.$"):
        write_export(portable, tmp_path / "file" / "below" / "model.py", None, {})


@pytest.mark.parametrize("name", ["model.py", "model.mjs", "model.h", "model.sql", "model.onnx", "model.pmml"])
def test_the_check_of_a_file_that_is_not_there_says_so(empty, tmp_path, name):
    if not RUNS[name]:
        pytest.skip("not here")
    model, X = empty
    with pytest.raises(ExportError, match="expected a file that export wrote, got nothing there; export the model"):
        model.export_difference(tmp_path / name, X)
    (tmp_path / name).mkdir()
    with pytest.raises(ExportError, match="expected a file that export wrote, got a folder; export the model"):
        model.export_difference(tmp_path / name, X)


def test_a_category_of_dates_is_checked_by_the_texts_of_its_levels(tmp_path):
    generator = np.random.default_rng(2)
    days = pd.Series(pd.Timestamp("2024-01-31") + pd.to_timedelta(generator.integers(0, 3, 200), "D"))
    y = days.dt.day + 0.1 * generator.standard_normal(200)
    X = pd.DataFrame({"day": days})
    model = SNAMRegressor(feature_types={"day": "category"}, random_state=0).fit(X, y)
    model.export(tmp_path / "model.py")
    assert model.export_difference(tmp_path / "model.py", X) == 0.0
