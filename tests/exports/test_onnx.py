"""ONNX graphs say what the library says, run by ONNX Runtime, alone and inside pipelines."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from export_cases import random_case
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.export.exporting import write_export
from sparsenam.export.portable import (
    ExportError,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortableTable,
)
from sparsenam.export.targets.onnx_graph import grid_of
from sparsenam.export.targets.typed_cells import feeds
from sparsenam.interop.onnx_pipelines import register_skl2onnx

TOLERANCE = 1e-12
SEEDS, BLOCK = 200, 10


def session_of(content):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def written(portable, folder, **options):
    (path,) = write_export(portable, folder / "model.onnx", None, options)
    return path


def answers(portable, rows, folder, **options):
    """Return all outputs for rows of cells, by name."""
    path = written(portable, folder, **options)
    onnx.checker.check_model(str(path), full_check=True)
    session = session_of(str(path))
    names = [output.name for output in session.get_outputs()]
    inputs = feeds(portable, rows, options.get("precision", "double"))
    return dict(zip(names, session.run(None, inputs), strict=True))


def table_model(levels, absent=9.0, missing=(0.0, 100.0), texts=(), name="city"):
    """Return a model of one category: the level at place k adds k + 1, and a missing cell 100 more."""
    known = tuple(PortableLevel(text, number, code) for code, (text, number) in enumerate(levels))
    table = PortableTable(0, "level", tuple((code + 1.0,) for code in range(len(levels))), (absent,))
    gap = PortableTable(0, "missing", tuple((value,) for value in missing), (0.0,))
    column = PortableColumn(name, "category", known, *texts)
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), (column,), (table, gap))


def curve_model(name="x"):
    curve = PortableCurve(0, (0.0, 1.0), (0.0, 0.0, 1.0), ((1.0, 2.0, 0.5),), ((0.0, 0.0, 2.0),), (7.0,))
    return PortableModel(
        "regression", "gaussian", "identity", ("y",), (), (0.25,), (PortableColumn(name, "number"),), (curve,)
    )


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_the_graph_gives_the_scores_means_and_contributions_of_the_library(first, tmp_path):
    for seed in range(first, first + BLOCK):
        case = random_case(seed)
        portable, scale = case.portable, max(1.0, float(np.nanmax(np.abs(case.scores))))
        found = answers(portable, case.rows, tmp_path)
        assert np.array_equal(np.isnan(found["score"]), np.isnan(case.scores)), seed
        known = ~np.isnan(case.scores).any(axis=1)
        assert np.max(np.abs(found["score"] - case.scores)[known]) <= TOLERANCE * scale, seed
        together = found["contributions"].sum(axis=1) + np.array(portable.intercept)
        assert found["contributions"].shape[1] == len(portable.columns) + len(portable.pairs)
        assert np.max(np.abs(together - found["score"])[known]) <= TOLERANCE * scale, seed
        means = found.get("probabilities", found["prediction"].reshape(len(known), -1) if found else None)
        wanted = case.means
        if portable.task == "classes" and len(portable.intercept) == 1:
            wanted = np.column_stack([1.0 - wanted, wanted])
        with np.errstate(over="ignore"):
            apart = np.abs(means - wanted)[known] / np.maximum(1.0, np.abs(wanted[known]))
        # the mean of eˢ is as far off as s: by its rounding
        assert np.max(apart) <= TOLERANCE * (100.0 if portable.link == "log" else 1.0), seed
        if portable.task == "classes":
            labels = np.array(portable.classes)[wanted.argmax(axis=1)]
            assert np.array_equal(found["prediction"][known], labels[known]), seed
        if portable.task == "labels":
            assert np.array_equal(found["prediction"][known], wanted[known] > 0.5)


def test_a_missing_number_an_infinite_one_and_knots_are_read_as_the_portable_model_says(tmp_path):
    cells = [None, np.nan, -np.inf, np.inf, 0.0, np.nextafter(0.0, -1.0), 1.0, -2.0, 1e308]
    found = answers(curve_model(), [{"x": cell} for cell in cells], tmp_path)
    below = np.nextafter(0.0, -1.0)
    expected = np.array([7.0, 7.0, np.nan, np.nan, 0.0, below, 2.0, -2.0, 0.5 * (1e308 - 1.0) + 2.0]) + 0.25
    assert np.array_equal(found["prediction"], expected, equal_nan=True)


def test_texts_that_say_missing_are_missing_blanks_aside_and_unseen_levels_are_not(tmp_path):
    model = table_model([("a", None), ("b", None)])
    cells = [None, "", " NA ", "\u2003null\n", "n/a", "a", " a", "b", "zebra"]
    found = answers(model, [{"city": cell} for cell in cells], tmp_path)["prediction"]
    assert found.tolist() == [109.0, 109.0, 109.0, 109.0, 109.0, 1.0, 9.0, 2.0, 9.0]


def test_numbers_written_as_text_find_their_level_in_the_graph(tmp_path):
    model = table_model([("1", 1.0), ("2.5", 2.5), ("seven", None), ("007", None)])
    texts = ["1", " 1.0 ", "+1e0", "25e-1", "2.50", "seven", "007", "07", "1e999", "1e-400", "0x1", "1_0", "."]
    content = written(model, tmp_path).read_bytes()
    cells = np.array(texts, dtype=object).reshape(-1, 1)
    (found,) = session_of(content).run(["prediction"], {"city": cells})
    assert found.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, *[9.0] * 6]


def test_categories_of_numbers_and_truth_values_take_numbers(tmp_path):
    numbers = table_model([("0", 0.0), ("0.5", 0.5), ("1e+300", 1e300)])
    cells = [0.0, -0.0, 0.5, np.nextafter(0.5, 1.0), 1e300, np.inf, None, "0.5", "five", True]
    found = answers(numbers, [{"city": cell} for cell in cells], tmp_path)["prediction"]
    assert found.tolist() == [1.0, 1.0, 2.0, 9.0, 3.0, 9.0, 109.0, 2.0, 9.0, 9.0]
    levels = [PortableLevel("False", None, 0), PortableLevel("True", None, 1)]
    levels += [PortableLevel("0", 0.0, 0), PortableLevel("1", 1.0, 1)]
    truths = replace(numbers, columns=(PortableColumn("city", "category", tuple(levels), 0, 1),))
    found = answers(truths, [{"city": cell} for cell in (True, False, 1.0, "True", "0", None, 2.0)], tmp_path)
    assert found["prediction"].tolist() == [2.0, 1.0, 2.0, 2.0, 1.0, 109.0, 9.0]


@pytest.mark.parametrize("name", ["score", "prediction", "", "value1", "rows", "a\x00b", "x" * 5000])
def test_columns_may_be_named_like_outputs_or_not_at_all(name, tmp_path):
    path = written(curve_model(name), tmp_path)
    session = session_of(str(path))
    (given,) = (each.name for each in session.get_inputs())
    (found,) = session.run(["prediction"], {given: np.array([[0.5]])})
    assert found.tolist() == [1.25]
    (column,) = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert (column["input"], column["column"]) == (given, name)


def test_a_model_that_reads_nothing_answers_its_intercept_for_every_row(tmp_path):
    found = answers(replace(curve_model(), columns=(), terms=()), [{}, {}, {}], tmp_path)
    assert found["prediction"].tolist() == [0.25] * 3
    assert found["contributions"].shape == (3, 0, 1)


def test_metadata_say_what_the_inputs_and_outputs_are(tmp_path):
    case = random_case(1)
    model = onnx.load(written(case.portable, tmp_path))
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["written_by"] == case.portable.written_by
    assert [column["column"] for column in json.loads(facts["columns"])] == [
        each.name for each in case.portable.columns
    ]
    assert json.loads(facts["outputs"]) == list(case.portable.outputs)
    assert json.loads(facts["intercept"]) == list(case.portable.intercept)
    assert {column["unit"] for column in json.loads(facts["columns"])} <= {"", "days since 1970-01-01", "seconds"}


def test_contributions_can_be_left_out(tmp_path):
    assert "contributions" not in answers(curve_model(), [{"x": 0.5}], tmp_path, contributions=False)


@pytest.mark.parametrize("seed", range(30))
def test_single_precision_is_as_far_off_at_knots_and_midpoints_as_the_metadata_say(seed, tmp_path):
    case = random_case(seed)
    portable = case.portable
    numbers = [column for column in portable.columns if column.kind != "category"]
    knots = {portable.columns[term.column].name: term.knots for term in portable.terms if hasattr(term, "knots")}
    for axis in (axis for pair in portable.pairs for axis in pair.axes if axis.reads == "number"):
        knots.setdefault(portable.columns[axis.column].name, axis.knots)
    rows = [dict(row) for row in case.rows[:200]]
    for column in numbers:
        grid = grid_of(knots.get(column.name, (0.0, 1.0)))
        for at, row in enumerate(rows):
            row[column.name] = float(grid[at % grid.size])
    exact = answers(portable, rows, tmp_path)["score"]
    facts = session_of(str(written(portable, tmp_path, precision="float32"))).get_modelmeta().custom_metadata_map
    rough = answers(portable, rows, tmp_path, precision="float32")["score"]
    assert rough.dtype == np.float32
    if not portable.pairs:  # where a pair's axes lie on another grid than the curve's, rows are off both
        assert np.max(np.abs(rough - exact)) <= 1.0001 * float(facts["float32_error"])


def test_what_cannot_be_carried_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "model.onnx"
    for options, words in (
        (
            {"presicion": "double"},
            r"options among \['precision', 'contributions'\], got the option\(s\) \['presicion'\]",
        ),
        ({"precision": "half"}, r"precision: expected one of \['double', 'float32'\], got 'half'"),
        ({"contributions": "no"}, "contributions: expected True or False, got 'no'"),
    ):
        with pytest.raises(ExportError, match=words):
            write_export(curve_model(), path, None, options)
    with pytest.raises(ExportError, match="expected names and levels in UTF-8"):
        write_export(curve_model("half \ud800"), path, None, {})
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"a": generator.normal(size=300), "b": generator.normal(size=300)})
    X["c"] = generator.choice(["u", "v", "w"], 300)
    return X, np.sin(2.0 * X["a"]) + X["b"] + (X["c"] == "u")


def inputs_of(X):
    return {name: X[[name]].to_numpy(dtype=float if X[name].dtype.kind == "f" else object) for name in X}


def test_a_fitted_estimator_agrees_with_its_graph(table, tmp_path):
    X, y = table
    model = SNAMRegressor(random_state=0).fit(X, y)
    model.export(tmp_path / "model.onnx")
    assert model.export_difference(tmp_path / "model.onnx", X) <= TOLERANCE


def test_a_scaler_and_a_regressor_convert_to_one_graph_in_double(table):
    from skl2onnx import to_onnx

    X, y = table[0][["a", "b"]].to_numpy(), table[1]
    register_skl2onnx()
    pipeline = make_pipeline(StandardScaler(), SNAMRegressor(random_state=0)).fit(X, y)
    (found,) = session_of(to_onnx(pipeline, X[:1]).SerializeToString()).run(None, {"X": X})
    assert found.dtype == np.float64
    assert np.max(np.abs(found[:, 0] - pipeline.predict(X))) <= TOLERANCE
    (rough,) = session_of(to_onnx(pipeline, X[:1].astype(np.float32)).SerializeToString()).run(
        None, {"X": X.astype(np.float32)}
    )
    assert rough.dtype == np.float32
    assert np.max(np.abs(rough[:, 0] - found[:, 0])) <= 1e-4


def test_a_pipeline_over_columns_converts_with_its_classifier(table):
    from skl2onnx import to_onnx

    X, y = table
    register_skl2onnx()
    columns = ColumnTransformer([("n", StandardScaler(), ["a", "b"]), ("c", OneHotEncoder(sparse_output=False), ["c"])])
    for labels in (np.where(y > 0, "yes", "no"), y.to_numpy() > 0, np.digitize(y, [-1.0, 1.0])):
        pipeline = make_pipeline(columns, SNAMClassifier(alpha=0.01, random_state=0)).fit(X, labels)
        graph = to_onnx(pipeline, X[:1], options={"zipmap": False})
        label, probabilities = session_of(graph.SerializeToString()).run(None, inputs_of(X))
        assert np.array_equal(label, pipeline.predict(X))
        assert np.max(np.abs(probabilities - pipeline.predict_proba(X))) <= TOLERANCE


def test_an_estimator_alone_converts_with_one_input_for_each_column(table):
    from skl2onnx import to_onnx

    X, y = table
    register_skl2onnx()
    model = SNAMRegressor(random_state=0).fit(X, y)
    (found,) = session_of(to_onnx(model, X[:1]).SerializeToString()).run(None, inputs_of(X))
    assert np.max(np.abs(found[:, 0] - model.predict(X))) <= TOLERANCE


def test_texts_for_a_column_of_numbers_are_refused_in_a_pipeline(table):
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    X, y = table
    register_skl2onnx()
    model = SNAMRegressor(random_state=0).fit(X, y)
    types = [("a", StringTensorType([None, 1])), ("b", DoubleTensorType([None, 1])), ("c", StringTensorType([None, 1]))]
    with pytest.raises(ExportError, match="expected numbers where the model reads numbers, got texts for the number"):
        to_onnx(model, initial_types=types)


def test_dictionaries_of_probabilities_which_are_single_are_refused_in_double(table):
    from skl2onnx import to_onnx

    X, y = table[0][["a", "b"]].to_numpy(), table[1]
    register_skl2onnx()
    model = SNAMClassifier(alpha=0.01, random_state=0).fit(X, y > 0)
    with pytest.raises(ExportError, match=r'expected probabilities in double precision, got a ZipMap.*"zipmap": False'):
        to_onnx(model, X[:1])
    label, *columns = session_of(to_onnx(model, X[:1], options={"zipmap": "columns"}).SerializeToString()).run(
        None, {"X": X}
    )
    assert np.array_equal(label, model.predict(X))
    assert np.max(np.abs(np.column_stack(columns) - model.predict_proba(X))) <= TOLERANCE
