"""Cells far from all others of their column: what they do to a fit, and where they are named."""

import warnings

import numpy as np
import pandas as pd
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor, load
from sparsenam.datasets import make_regression
from sparsenam.errors import ExtremeCellWarning
from sparsenam.explain.report import write_report
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.frame import LIMIT, far_cells, find_far_cells, limited, looks_filled
from sparsenam.tables.sample import Sample, prepare

ROWS = 600


def table(seed=0, rows=ROWS):
    """Four columns of which the first two matter."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 4))
    return X, 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * generator.normal(size=rows)


def fitted(X, y, kind=SNAMRegressor):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtremeCellWarning)
        return kind(random_state=0).fit(X, y)


@pytest.mark.parametrize("value", [1e20, -1e20, 1e12, 1e6, 9999.0, -999.0, 1e300])
@pytest.mark.parametrize("cells", [1, 60])
def test_a_fill_value_in_a_column_leaves_the_fit_of_all_other_rows_as_it_is(value, cells):
    X, y = table()
    spoilt = X.copy()
    spoilt[:cells, 0] = value
    clean, model = fitted(X, y), fitted(spoilt, y)
    fresh, truth = table(seed=1)
    assert list(model.get_feature_names_out()) == list(clean.get_feature_names_out()) == ["x0", "x1"]
    assert model.score(fresh, truth) > clean.score(fresh, truth) - 0.01


def test_a_fill_value_in_a_column_without_effect_stays_without_effect():
    X, y = table()
    X[:30, 3] = 1e20
    assert list(fitted(X, y).get_feature_names_out()) == ["x0", "x1"]


def test_a_fill_value_leaves_the_columns_of_a_classifier():
    X, score = table()
    X[0, 0] = 1e20
    assert list(fitted(X, (score > 0).astype(int), SNAMClassifier).get_feature_names_out()) == ["x0", "x1"]


def test_a_prediction_beyond_the_limit_is_that_at_the_limit():
    X, y = table()
    X[:20, 0] = 1e20
    model = fitted(X, y)
    rows = np.zeros((3, 4))
    rows[:, 0] = 1e20, 1e12, 1e300
    assert np.ptp(model.predict(rows)) == 0.0


def test_a_row_of_fill_values_does_not_make_its_columns_equal():
    X, y = table()
    X[5] = 1e20
    model = fitted(X, y)
    assert list(model.get_feature_names_out()) == ["x0", "x1"]
    assert not model.summary_.twins


def test_tables_without_such_cells_are_prepared_as_they_are():
    X, y = table()
    X[:, 1] = np.exp(3.0 * X[:, 1])
    X[3, 2] = np.nan
    assert limited(X, np.ones(ROWS), None) is X
    sample = Sample(X, y[:, None], np.ones(ROWS), ["a", "b", "c", "d"])
    plain, other = (prepare(sample, standardize=True, limits=limits) for limits in (False, True))
    np.testing.assert_array_equal(plain.x, other.x)


def test_cells_are_moved_to_a_million_spreads_from_the_median():
    column = np.concatenate([np.linspace(0.0, 1.0, 101), [1e20, -1e30, np.nan]])
    moved = limited(column[:, None], np.ones(column.size), None)[:, 0]
    quartiles = np.sort(column[:101])[[25, 75]]
    spread = np.ptp(quartiles)
    assert moved[101] == pytest.approx(LIMIT * spread, rel=0.05)
    assert moved[102] == pytest.approx(-LIMIT * spread, rel=0.05)
    np.testing.assert_array_equal(moved[:101], column[:101])
    assert np.isnan(moved[103])


def test_a_weight_counts_as_so_many_rows_for_the_limit():
    column = np.concatenate([np.arange(40.0), [1e20]])
    weights = np.where(column < 10.0, 4.0, 1.0)
    once = limited(column[:, None], weights, None)[-1, 0]
    repeated = np.repeat(column, weights.astype(int))
    assert once == limited(repeated[:, None], np.ones(repeated.size), None)[-1, 0]


def test_codes_of_levels_are_never_moved():
    codes = np.concatenate([np.arange(20.0) % 2, [1e20]])[:, None]
    assert limited(codes, np.ones(21), np.array([True])) is codes


def test_one_warning_names_column_row_and_value_of_a_cell_beyond_reason():
    X, y = table()
    X[17, 0], X[[4, 9], 2] = 1e20, -1e30
    frame = pd.DataFrame(X, columns=["age", "b", "height", "d"])
    with pytest.warns(ExtremeCellWarning) as caught:
        SNAMRegressor(random_state=0).fit(frame, y)
    (warning,) = caught
    assert str(warning.message) == (
        "cells beyond reason: 1e+20 in row 17 of column 'age', -1e+30 in row 4 of column 'height' (and 1 more); "
        "correct these cells or leave them empty."
    )
    assert "in row 117 of column 'age'" in str(warning.message.at(range(100, 100 + ROWS)))


def test_a_warning_of_many_columns_is_still_one_sentence():
    X, _ = table()
    X = np.tile(X, (1, 5))
    X[0] = 1e20
    with pytest.warns(ExtremeCellWarning, match=r"'x2' and 17 more column\(s\); correct"):
        TableEncoder.fit(X)


HEAVY = {
    "normal": lambda generator, size: generator.normal(size=size),
    "lognormal": lambda generator, size: np.exp(2.0 * generator.normal(size=size)),
    "Cauchy": lambda generator, size: generator.standard_cauchy(size=size),
    "Pareto": lambda generator, size: generator.pareto(1.0, size=size),
    "counts": lambda generator, size: generator.poisson(0.3, size=size),
    "mostly zero": lambda generator, size: (
        (generator.uniform(size=size) < 0.1) * np.exp(2.0 * generator.normal(size=size))
    ),
    "whole amounts": lambda generator, size: np.round(generator.gamma(0.2, 1000.0, size=size), -1),
    "Zipf": lambda generator, size: generator.zipf(2.0, size=size),
    "rare marks": lambda generator, size: generator.uniform(size=size) < 0.01,
}


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("rows", [100, 2000])
def test_heavy_tails_are_neither_warned_of_nor_noted(name, rows):
    columns = HEAVY[name](np.random.default_rng(7), (rows, 100)).astype(float)
    noted = [index for index, column in enumerate(columns.T) if far_cells(column, False) is not None]
    assert not noted


@pytest.mark.parametrize("value", [99.0, -99.0, 999.0, 9999.0, -999.0, 1e6, 32767.0, -9999.0, 12345.0])
def test_repeated_values_far_from_all_others_are_noted(value):
    column = np.random.default_rng(0).normal(size=ROWS)
    column[:5] = value
    far = far_cells(column, False)
    assert far.values.tolist() == [value]
    assert far.counts.tolist() == [5]


def test_two_codes_on_one_side_and_one_on_the_other_are_all_noted():
    column = np.random.default_rng(0).uniform(size=ROWS)
    column[:9] = [998, 999, 998, 999, 998, -99, -99, -99, -99]
    assert far_cells(column, False).values.tolist() == [-99.0, 998.0, 999.0]


def test_ends_of_a_scale_and_values_that_occur_once_are_not_noted():
    generator = np.random.default_rng(0)
    capped = np.minimum(generator.exponential(size=ROWS), 2.0)
    single = np.append(generator.normal(size=ROWS), 40.0)
    grades = generator.choice([1.0, 2.0, 3.0, 99.0], size=ROWS)
    assert [far_cells(column, False) for column in (capped, single, grades)] == [None] * 3


@pytest.mark.parametrize("value", [99, -9, -99, 9999, 8888, 1000, 1e20, -1e30, 2147483647, -32768, 65535])
def test_values_that_people_fill_in_are_known(value):
    assert looks_filled(float(value), False)


@pytest.mark.parametrize("value", [9, 10, 98, 1200, 0.5, 99.5, 4321])
def test_other_values_are_no_fill_values(value):
    assert not looks_filled(float(value), False)


def test_explain_report_and_file_name_the_repeated_values(tmp_path):
    X, y = table()
    X[:20, 0], X[:4, 3] = -999.0, 99.0
    frame = pd.DataFrame(X, columns=list("abcd"))
    days = np.random.default_rng(0).integers(0, 900, size=ROWS)
    frame["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")
    frame.loc[:7, "when"] = pd.Timestamp("9999-12-31")
    model = fitted(frame, y)
    note = (
        "Values far from all others of their column: 'a' has -999 in 20 cells; 'd' has 99 in 4 cells; "
        "'when' has 9999-12-31 in 8 cells; where they stand for missing cells, leave these empty."
    )
    explanation = model.explain()
    assert note in explanation.notes
    assert note in str(explanation)
    write_report(explanation, tmp_path / "report.html")
    assert "-999 in 20 cells" in (tmp_path / "report.html").read_text("utf-8")
    model.save(tmp_path / "model.snam")
    assert load(tmp_path / "model.snam").explain().notes == explanation.notes
    assert "far from all other values: -999 in 20 cells" in str(model.encoder_)


def test_a_table_without_far_cells_has_no_such_note():
    task = make_regression(n_rows=400, n_features=6)
    assert not any("far from all others" in note for note in fitted(task.X, task.y).explain().notes)


def test_a_gap_beyond_float64_is_a_far_cell_and_no_warning():
    found = far_cells(np.r_[np.linspace(0.0, 1.0, 30) * 1e-290, 1e90, 1e95], False)
    assert found is not None and found.unreasonable.all()


@pytest.mark.parametrize("fill", [-999.0, -9.0, 9999.0, 1e20])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_fill_value_is_named_however_many_cells_have_it(fill, share, gaps):
    random = np.random.default_rng(0)
    cells = random.uniform(0.0, 2.0, 400)
    cells[random.permutation(400)[: int(400 * share)]] = fill
    cells[:4] = np.nan if gaps else 1.0
    count = int((cells == fill).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = find_far_cells({"a": (cells, False)}, "")
    assert (fill, count) in zip(found["a"].values, found["a"].counts, strict=True)


@pytest.mark.parametrize(
    "cells",
    [
        np.repeat([0.0, 1.0], 200),  # switches
        np.repeat([0.0, 100.0], 200),
        np.append(np.arange(60.0), np.full(40, 99.0)),  # no further away than the others lie apart
        np.append(np.arange(61.0), np.full(200, 100.0)),
        np.append(np.full(200, -9.0), np.arange(-8.0, 8.0)),
        np.append(np.random.default_rng(0).gamma(2.0, 30.0, 300).clip(0, 99), np.full(100, 99.0)),
    ],
    ids=["0 and 1", "0 and 100", "to 60 and 99", "shares", "from -9", "cut off"],
)
def test_a_frequent_end_that_lies_among_the_others_is_no_fill_value(cells):
    assert find_far_cells({"a": (cells, False)}, "") == {}
