"""Scorecards: points as published formulas have them, errors within what is stated, and workbooks that add up."""

import csv
import json
import math
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import numpy as np
import openpyxl
import pandas as pd
import pytest

from export_cases import random_case
from sparsenam import SNAMClassifier
from sparsenam.export.exporting import write_export
from sparsenam.export.portable import (
    ExportError,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortableTable,
)
from sparsenam.export.scorecard_build import scorecard
from sparsenam.export.targets import scorecard as target

SEEDS = range(40)


def card_of(portable, **options):
    """Return the card, with a wider error where pairs would have too many cells."""
    try:
        return scorecard(portable, **options)
    except ExportError as error:
        assert "raise max_error" in str(error)
        return scorecard(portable, **{**options, "max_error": 30.0})


def model_of(columns, terms, classes=("no", "yes"), intercept=-1.5):
    return PortableModel("classes", "binomial", "logit", (str(classes[1]),), classes, (intercept,), columns, terms)


@pytest.fixture
def small():
    """A curve from 2 at 20 down to -1 at 50, missing 0.25; three levels, of which two are pooled."""
    age = PortableCurve(0, (20.0, 50.0), (20.0, 20.0, 50.0), ((0.0, -0.1, 0.0),), ((2.0, 2.0, -1.0),), (0.25,))
    levels = (PortableLevel("=1+1", None, 0), PortableLevel("+b", None, 1), PortableLevel("@c", None, 1))
    city = PortableTable(1, "level", ((0.7,), (-0.4,)), (0.1,))
    return model_of((PortableColumn("age", "number"), PortableColumn("=city", "category", levels)), (age, city))


def within_knots(portable, row):
    for term in portable.terms:
        if isinstance(term, PortableCurve):
            x = row[portable.columns[term.column].name]
            if x is not None and not term.knots[0] <= x <= term.knots[-1]:
                return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_no_score_is_farther_from_the_model_than_the_card_says(seed):
    case = random_case(seed, rows=300, family="binomial")
    card = card_of(case.portable, max_error=1.0 + seed % 3, digits=seed % 2, good=case.portable.classes[seed % 2])
    for row, score in zip(case.rows, case.scores[:, 0], strict=True):
        points = card.points(row)
        assert math.isnan(points) == math.isnan(score)
        if within_knots(case.portable, row) and not math.isnan(score):
            assert abs(card.scale.model_score(points) - score) * card.scale.factor <= card.largest_error + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_no_column_is_farther_from_its_curve_than_max_error(seed):
    case = random_case(seed, rows=5, family="binomial")
    try:
        card = scorecard(case.portable, max_error=2.5)
    except ExportError:
        return
    for part in (*card.columns, *card.pairs):
        assert part.mean_error <= part.largest_error + 1e-12
        assert part.largest_error <= 2.5 + 1e-6
    for column in card.columns:
        ranges = [found for found in column.binned.bins if found.kind == "range"]
        for one, other in pairwise(ranges):
            assert one.high == other.low
            assert one.points != other.points
        if ranges:
            assert (ranges[0].low, ranges[-1].high) == (None, None)


def test_more_digits_and_smaller_errors_come_as_near_to_the_model_as_asked(small):
    row = {"age": 33.3, "=city": "=1+1"}
    exact = 2.0 - 0.1 * 13.3 + 0.7 - 1.5
    for digits in range(2):
        card = scorecard(small, digits=digits, max_error=0.5 * 10.0**-digits)
        assert card.largest_error <= 1.5 * 10.0**-digits + 1e-6
        assert abs(card.scale.model_score(card.points(row)) - exact) * card.scale.factor <= card.largest_error


def test_points_are_those_of_the_published_formula(small):
    # optbinning's pdo_odds: factor = pdo / log 2, offset = points - factor log(odds), points = offset - factor × log
    # odds of the event; a category's points are then -factor × its effect
    pdo, base, odds = 25.0, 500.0, 30.0
    factor = pdo / np.log(2)
    offset = base - factor * np.log(odds)
    card = scorecard(small, pdo=pdo, base_score=base, base_odds=odds)
    assert (card.scale.factor, card.scale.offset) == pytest.approx((factor, offset), rel=1e-15)
    assert card.base_points == round(offset + factor * 1.5)
    city = card.columns[1]
    assert [found.points for found in city.binned.bins] == [round(-factor * effect) for effect in (0.7, -0.4, 0.1, 0.1)]


def test_the_base_score_has_the_base_odds_and_pdo_points_double_them(small):
    scale = scorecard(small, pdo=15, base_score=650, base_odds=20).scale
    assert scale.odds(650) == pytest.approx(20)
    assert scale.odds(665) == pytest.approx(40)
    assert scale.probability(650) == pytest.approx(1 / 21)


def test_the_second_class_is_bad_unless_it_is_said_to_be_good(small):
    card, turned = scorecard(small), scorecard(small, good="yes")
    assert (card.scale.good, card.scale.bad, turned.scale.good, turned.scale.bad) == ("no", "yes", "yes", "no")
    risky, safe = {"age": 20, "=city": "=1+1"}, {"age": 50, "=city": "+b"}
    assert card.points(risky) < card.points(safe)
    assert turned.points(risky) > turned.points(safe)
    for each in (card, turned):
        score = each.scale.model_score(each.points(risky))
        assert score == pytest.approx(2.0 + 0.7 - 1.5, abs=each.largest_error / each.scale.factor)


def test_bins_have_cuts_of_few_digits_named_levels_and_one_for_missing_cells(small):
    age, city = scorecard(small).columns
    cuts = [found.low for found in age.binned.bins if found.low is not None]
    assert all(len(f"{cut:.15g}") <= 4 for cut in cuts)
    assert [found.kind for found in age.binned.bins][-1] == "missing"
    assert age.binned.bins[-1].points == round(-20 / math.log(2) * 0.25)
    assert [found.label for found in city.binned.bins] == ["=1+1", "+b, @c", "missing", "any other level"]


def test_a_curve_that_goes_on_beyond_its_knots_is_said_to(small):
    assert scorecard(small).notes == ()
    rising = PortableCurve(0, (0.0, 1.0), (0.0, 0.0, 1.0), ((0.0, 1.0, 1.0),), ((0.0, 0.0, 1.0),), (0.0,))
    card = scorecard(model_of((PortableColumn("x", "number"),), (rising,)))
    assert card.notes == ("x: the curve goes on beyond 0 and 1, its points do not.",)


def test_the_mean_error_is_that_of_a_fine_grid(small):
    card = scorecard(small, max_error=3.0)
    age = card.columns[0]
    grid = np.linspace(20, 50, 30_001)
    points = np.array([age.part({"age": x}).points for x in grid])
    exact = -card.scale.factor * (2.0 - 0.1 * (grid - 20.0))
    assert np.abs(points - exact).mean() == pytest.approx(age.mean_error, rel=1e-3)
    assert np.abs(points - exact).max() == pytest.approx(age.largest_error, rel=1e-2)


def test_reasons_are_the_columns_that_lose_most_points(small):
    card = scorecard(small)
    row = {"age": 22.0, "=city": "+b"}
    age, city = card.parts(row)
    (reason,) = card.reasons(row)
    assert (reason.name, reason.lost) == ("age", card.columns[0].best - age.points)
    assert city.points == card.columns[1].best
    assert [reason.name for reason in card.reasons({"age": 21, "=city": "=1+1"}, against="average")] == ["age", "=city"]
    assert card.reasons({"age": 21, "=city": "=1+1"}, most=1)[0].name == "age"
    with pytest.raises(ValueError, match="against: expected one of"):
        card.reasons(row, against="worst")


def test_the_card_is_plain_data_and_its_records_are_its_bins(small):
    card = scorecard(small)
    data = json.loads(json.dumps(card.to_dict(), allow_nan=False))
    assert data["scale"]["pdo"] == 20.0
    assert data["largest_error"] == card.largest_error
    frame = card.to_frame()
    assert list(frame.columns) == ["column", "bin", "from", "below", "points"]
    assert len(frame) == 1 + sum(len(column.binned.bins) for column in card.columns)


@pytest.mark.parametrize("family", ["multinomial", "gaussian", "multilabel", "poisson"])
def test_other_models_than_those_of_two_classes_are_refused_in_one_sentence(tmp_path, family):
    case = random_case(1, rows=5, family=family)
    with pytest.raises(ExportError, match="scorecard: expected a model of two classes, got one of"):
        target.files(case.portable, tmp_path / "card.xlsx", {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colour": 1}, r"options among \['pdo'"),
        ({"pdo": 0}, "pdo: expected a number above 0"),
        ({"base_odds": -1}, "base_odds: expected a number above 0"),
        ({"good": "maybe"}, "good: expected one of the classes"),
        ({"digits": 1.5}, "digits: expected a whole number"),
        ({"max_error": 0.4}, "max_error: expected a number of at least 0.5"),
        ({"max_error": 0.5, "pdo": 1e5}, "expected at most 1000 bins, got more; raise max_error"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(tmp_path, small, options, said):
    with pytest.raises(ExportError, match=said):
        write_export(small, tmp_path / "card.xlsx", None, options)
    with pytest.raises(ExportError, match=r"the suffix \.xlsx or \.csv"):
        target.files(small, tmp_path / "card.ods", {})


def test_texts_that_look_like_formulas_are_strings_in_the_workbook_and_harmless_in_csv(tmp_path, small):
    path = tmp_path / "card.xlsx"
    path.write_bytes(target.files(small, path, {})[path])
    book = openpyxl.load_workbook(path)
    for sheet, columns in (("scorecard", (1, 2)), ("lookup", (1, 2)), ("calculator", (1, 2))):
        for line in book[sheet].iter_rows():
            assert all(cell.data_type != "f" for cell in line if cell.column in columns)
    texts = [cell.value for cell in book["lookup"]["B"]]
    assert {"=1+1", "+b", "@c"} <= set(texts)
    content = target.files(small, tmp_path / "card.csv", {})[tmp_path / "card.csv"].decode()
    cells = [cell for line in csv.reader(content.splitlines()) for cell in line[:2]]
    assert "'=1+1" in cells
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_the_same_card_is_the_same_file(tmp_path, small):
    path = tmp_path / "card.xlsx"
    assert target.files(small, path, {}) == target.files(small, path, {})


@pytest.mark.parametrize("seed", range(8))
def test_the_stored_results_of_the_workbook_are_those_of_its_example(tmp_path, seed):
    case = random_case(seed, rows=5, family="binomial")
    card = card_of(case.portable, max_error=4.0)
    path = tmp_path / "card.xlsx"
    path.write_bytes(target.workbook(card))
    sheet = openpyxl.load_workbook(path, data_only=True)["calculator"]
    found = {line[0].value: line[3].value for line in sheet.iter_rows()}
    assert found["score"] == card.points(target.example(card))
    parts = sum(line[3].value for line in sheet.iter_rows(2) if line[0].value and isinstance(line[4].value, int))
    assert parts + card.base_points == found["score"]


def test_a_model_without_columns_has_its_base_points(tmp_path):
    card = scorecard(model_of((), ()))
    assert card.points({}) == card.base_points
    path = tmp_path / "card.xlsx"
    path.write_bytes(target.workbook(card))
    assert openpyxl.load_workbook(path, data_only=True)["calculator"]["D3"].value == card.base_points


@pytest.mark.filterwarnings("ignore::UserWarning")  # levels that the fit never saw
@pytest.mark.parametrize("seed", [0, 3, 5, 9, 17])
def test_columns_that_are_only_in_pairs_have_two_way_tables_and_cells_to_type_into(tmp_path, seed):
    case = random_case(seed, rows=100, family="binomial")
    portable = replace(case.portable, terms=())
    card = card_of(portable, max_error=4.0)
    frame = case.frame.iloc[4:]  # the first rows have infinite numbers
    exact = case.model.pair_effects(case.encoder.encode(frame))[:, :, 0].sum(axis=1) + case.model.intercept[0]
    points = [card.points(row) for row in case.rows[4:]]
    found = np.array([card.scale.model_score(value) for value in points])
    assert np.abs(found - exact).max() * card.scale.factor <= card.largest_error + 1e-6
    path = tmp_path / "card.xlsx"
    path.write_bytes(target.workbook(card))
    sheet = openpyxl.load_workbook(path, data_only=True)["calculator"]
    assert [line[3].value for line in sheet.iter_rows()][-3] == card.points(target.example(card))


def test_a_text_in_a_column_of_numbers_is_refused_in_one_sentence(small):
    with pytest.raises(ExportError, match="cell of 'age': expected a number, got 'old'"):
        scorecard(small).points({"age": "old", "=city": "+b"})


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_libreoffice_computes_the_points_of_typed_cases(tmp_path):
    generator = np.random.default_rng(0)
    wanted = {}
    for seed in range(10):
        case = random_case(seed, rows=60, family="binomial")
        card = card_of(case.portable, max_error=4.0)
        (tmp_path / "card.xlsx").write_bytes(target.workbook(card))
        for row in generator.choice(np.arange(4, 60), 4, replace=False):
            typed = case.rows[int(row)]
            book = openpyxl.load_workbook(tmp_path / "card.xlsx")
            for at, column in enumerate(target._columns(card), start=2):
                cell, value = book["calculator"].cell(at, 2), typed[column.name]
                cell.value = value + 25569 if column.kind == "date" and value is not None else value
                if isinstance(value, str):
                    cell.data_type = "s"
            name = f"case_{seed}_{row}"
            book.save(tmp_path / f"{name}.xlsx")
            wanted[name] = (card, card.points(typed))
    subprocess.run(
        ["soffice", f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}", "--headless", "--convert-to",
         "xlsx:Calc MS Excel 2007 XML", "--outdir", str(tmp_path / "out"),
         *(str(tmp_path / f"{name}.xlsx") for name in wanted)],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    for name, (card, points) in wanted.items():
        sheet = openpyxl.load_workbook(tmp_path / "out" / f"{name}.xlsx", data_only=True)["calculator"]
        score, odds, probability = [line[3].value for line in sheet.iter_rows()][-3:]
        assert score == points, name
        assert odds == pytest.approx(card.scale.odds(points), rel=1e-9)
        assert probability == pytest.approx(card.scale.probability(points), rel=1e-9)


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"age": generator.uniform(20, 80, 400), "city": generator.choice(["a", "b", "c"], 400)})
    X.loc[::9, "age"] = np.nan
    odds = np.sin(X["age"].fillna(50) / 9) * 2 + 1.5 * (X["city"] == "a") - 0.5
    y = np.where(generator.random(400) < 1 / (1 + np.exp(-odds)), "bad", "good")
    return SNAMClassifier(random_state=0).fit(X, y), X


def test_a_check_finds_the_rounding_error_and_no_more(tmp_path, fitted):
    model, X = fitted
    for name in ("card.xlsx", "card.csv"):
        path = tmp_path / name
        assert model.export(path, to="scorecard", good="good") == [path]
        card = scorecard(model.portable(), good="good")
        difference = model.export_difference(path, X, to="scorecard", good="good")
        assert 0.0 < difference <= card.largest_error / card.scale.factor
        with pytest.raises(ExportError, match="got another file, or none"):
            model.export_difference(path, X, to="scorecard", good="good", pdo=40)


def test_the_probability_of_the_card_is_near_that_of_the_model(fitted):
    model, X = fitted
    card = scorecard(model.portable(), good="good", digits=1, max_error=0.5)
    rows = X.astype(object).where(X.notna(), None).to_dict("records")
    probabilities = model.predict_proba(X)[:, list(model.classes_).index("bad")]
    assert np.allclose([card.scale.probability(card.points(row)) for row in rows], probabilities, atol=0.01)
