"""PMML documents say what the library says to the bit, run by PMML4S on a JVM, and are well-formed for every name."""

import importlib.util
from dataclasses import replace
from shutil import which
from xml.etree import ElementTree

import numpy as np
import pytest

from export_cases import HOSTILE, random_case
from sparsenam import SNAMRegressor
from sparsenam.export.exporting import target_for, write_export
from sparsenam.export.portable import (
    ExportError,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortableTable,
)
from sparsenam.export.targets.pmml_document import output_names
from sparsenam.export.targets.typed_cells import cell_of

SPACE = "{http://www.dmg.org/PMML-4_4}"
runs_pmml = pytest.mark.skipif(
    which("java") is None or importlib.util.find_spec("pypmml") is None,
    reason="PMML is run by pypmml, which needs Java",
)


@pytest.fixture(scope="module")
def engine():
    """Give pypmml's models, and end its JVM after the last test."""
    from pypmml import Model, PMMLContext

    yield Model
    PMMLContext.shutdown()


def written(portable, folder):
    (path,) = write_export(portable, folder / "model.pmml", None, {})
    return path


def scores_of(portable, rows, folder):
    path = written(portable, folder)
    return target_for(path, None).load({}).scores(portable, path, rows, {})


def answers(engine, portable, rows, folder):
    """Return all outputs of each row of cells."""
    model = engine.fromFile(str(written(portable, folder)))
    cells = [{column.name: cell_of(column, row[column.name]) for column in portable.columns} for row in rows]
    return [model.predict(row) for row in cells]


def table_model(levels, name="city"):
    """Return a model of one category: the level at place k adds k + 1, others 9, and a missing cell 100 more."""
    known = tuple(PortableLevel(text, number, code) for code, (text, number) in enumerate(levels))
    table = PortableTable(0, "level", tuple((code + 1.0,) for code in range(len(levels))), (9.0,))
    gap = PortableTable(0, "missing", ((0.0,), (100.0,)), (0.0,))
    column = PortableColumn(name, "category", known)
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), (column,), (table, gap))


@runs_pmml
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_the_document_gives_the_scores_of_the_library_to_the_bit(first, engine, tmp_path):
    for seed in range(first, first + 10):
        case = random_case(seed, rows=150)
        assert np.array_equal(scores_of(case.portable, case.rows, tmp_path), case.scores, equal_nan=True), seed


@runs_pmml
@pytest.mark.parametrize("family", ["binomial", "multinomial"])
@pytest.mark.parametrize("seed", [3, 13, 23, 33, 43])
def test_probabilities_and_predicted_classes_are_those_of_the_library(family, seed, engine, tmp_path):
    case = random_case(seed, rows=40, family=family)
    found = answers(engine, case.portable, case.rows, tmp_path)
    names = output_names(case.portable)
    means = case.means if family == "multinomial" else np.column_stack([1.0 - case.means, case.means])
    known = ~np.isnan(means).any(axis=1)
    shares = np.array([[row[name] for name in names["probability"]] for row in found], dtype=float)
    assert np.max(np.abs(shares - means)[known]) <= 1e-12
    labels = [case.portable.classes[best] for best in means.argmax(axis=1)]
    predicted = [row[names["prediction"][0]] for row in found]
    assert [each for each, fine in zip(predicted, known, strict=True) if fine] == [
        each for each, fine in zip(labels, known, strict=True) if fine
    ]


@runs_pmml
@pytest.mark.parametrize("family", ["gamma", "gaussian", "multilabel", "poisson", "tweedie"])
def test_means_are_those_of_the_library(family, engine, tmp_path):
    for seed in (2, 6, 8):
        case = random_case(seed, rows=40, family=family)
        names = output_names(case.portable)
        wanted = names.get("probability") or names.get("mean") or names["prediction"]
        found = answers(engine, case.portable, case.rows, tmp_path)
        means = np.array([[row[name] for name in wanted] for row in found], dtype=float)
        known = ~np.isnan(case.means).any(axis=1)
        apart = np.abs(means - case.means)[known] / np.maximum(1.0, np.abs(case.means[known]))
        assert np.max(apart) <= 1e-12


@runs_pmml
def test_texts_that_say_missing_are_missing_and_numbers_as_text_find_their_level(engine, tmp_path):
    model = table_model([("a", None), ("1", 1.0), ("2.5", 2.5), ("007", None), ("b\n\r\t]]>&", None)])
    cells = [None, "", " NA ", "-", "a", " a", "1.0", "+1e0", " 25e-1", "007", "07", " b\n\r\t]]>&", "1_0", "inf"]
    found = scores_of(model, [{"city": cell} for cell in cells], tmp_path)[:, 0].tolist()
    assert found == [109.0, 109.0, 109.0, 109.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 9.0, 5.0, 9.0, 9.0]


@runs_pmml
def test_many_levels_terms_and_knots_are_carried(engine, tmp_path):
    levels = [(f"level {code}", None) for code in range(1500)]
    model = table_model(levels)
    knots = tuple(float(knot) for knot in range(2000))
    values = tuple(float(at % 7) for at in range(2001))
    long = PortableCurve(1, knots, (0.0, *knots), (values,), (values,), (0.0,))
    short = PortableCurve(1, (0.0,), (0.0, 0.0), ((0.0, 1.0),), ((0.0, 0.0),), (0.0,))
    columns = (*model.columns, PortableColumn("x", "number"))
    model = replace(model, columns=columns, terms=(*model.terms, long, *[short] * 150))
    rows = [{"city": "level 1499", "x": 1234.5}, {"city": "level 7", "x": None}]
    piece = 1235 % 7
    assert scores_of(model, rows, tmp_path)[:, 0].tolist() == [1500.0 + piece * 0.5 + piece + 150 * 1234.5, 8.0]


@runs_pmml
def test_a_model_that_reads_nothing_answers_its_intercept(engine, tmp_path):
    model = replace(table_model([("a", None)]), columns=(), terms=(), intercept=(0.25,))
    assert scores_of(model, [{}, {}], tmp_path).tolist() == [[0.25], [0.25]]


@runs_pmml
def test_a_fitted_estimator_agrees_with_its_document(engine, tmp_path):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    model = SNAMRegressor(random_state=0).fit(X, np.sin(2.0 * X[:, 0]) + X[:, 1])
    model.export(tmp_path / "model.pmml")
    assert model.export_difference(tmp_path / "model.pmml", X) <= 1e-12


def test_hostile_names_and_levels_come_back_from_the_document_unchanged(tmp_path):
    for name in HOSTILE:
        model = table_model([(text, None) for text in HOSTILE], name)
        document = ElementTree.parse(written(model, tmp_path)).getroot()
        assert document.get("version") == "4.4"
        assert document.find(f".//{SPACE}DataField").get("name") == name
        assert {each.get("value") for each in document.iter(f"{SPACE}NormDiscrete")} == {*HOSTILE, ""}


def test_derived_fields_never_have_the_name_of_a_column_and_refer_to_what_is_there(tmp_path):
    model = table_model([("a", None)], "code.1")
    for name in ("code.1", "total.4", "score", "target.1", "prediction"):
        named = replace(model, columns=(replace(model.columns[0], name=name),))
        document = ElementTree.parse(written(named, tmp_path)).getroot()
        tags = ("DataField", "DerivedField", "OutputField")
        defined = [each.get("name") for tag in tags for each in document.iter(SPACE + tag)]
        assert len(defined) == len(set(defined))
        assert {each.get("field") for each in document.iter(f"{SPACE}FieldRef")} <= set(defined)


@pytest.mark.parametrize("text", ["nul\x00", "bell\x07", "\x1b[0m", "half \ud800", "\ufffe", "vertical\x0btab"])
def test_characters_that_xml_does_not_have_are_refused_before_anything_is_written(text, tmp_path):
    models = [table_model([(text, None)]), table_model([("a", None)], text)]
    models.append(replace(models[1], columns=(PortableColumn("fine", "category"),), terms=(), outputs=(text,)))
    for model in models:
        with pytest.raises(ExportError, match=r"expected names and levels of characters that XML 1\.0 has, got '"):
            write_export(model, tmp_path / "model.pmml", None, {})
    assert list(tmp_path.iterdir()) == []


def test_options_and_empty_names_are_refused(tmp_path):
    with pytest.raises(ExportError, match=r"export to pmml: expected no options, got the option\(s\) \['indent'\]"):
        write_export(table_model([("a", None)]), tmp_path / "model.pmml", None, {"indent": 2})
    with pytest.raises(ExportError, match="export to pmml: expected columns with names, got an empty name"):
        write_export(table_model([("a", None)], ""), tmp_path / "model.pmml", None, {})
    assert list(tmp_path.iterdir()) == []
