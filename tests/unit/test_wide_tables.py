"""Wide tables: the work grows with the number of columns, not with its square. Counted, never timed."""

import sys
from functools import partial

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest

from sparsenam import SNAMRegressor
from sparsenam.errors import ConstantColumnWarning
from sparsenam.explain import build
from sparsenam.tables import sample
from sparsenam.tables.columns import check_feature_types
from sparsenam.tables.encoder import TableEncoder, grouping_of
from sparsenam.tables.frame import check_target_not_inside
from sparsenam.tables.sample import Scaling, equal_columns
from sparsenam.tables.text import numbered

ROWS = 12


class Name(str):
    """A name that counts how often it is compared with another."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def comparisons(work, size):
    """Return how many comparisons of names some work takes on a table of so many columns."""
    names = [Name(f"column {index}") for index in range(size)]
    encoder, _ = TableEncoder.fit(pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, size)), columns=names))
    encoder = type(encoder)(tuple(names), True, encoder.columns, encoder.terms)
    Name.compared = 0
    work(encoder, names)
    return Name.compared


WORK = {
    "feature types": lambda encoder, names: check_feature_types(
        dict.fromkeys(map(str, names), "number"), encoder.names, named=True
    ),
    "groups": lambda encoder, names: grouping_of(encoder, [list(map(str, names))], None, None),
    "penalty weights": lambda encoder, names: grouping_of(encoder, None, dict.fromkeys(map(str, names), 2.0), None),
    "kept columns": lambda encoder, names: grouping_of(encoder, None, None, list(map(str, names))),
    "names made unique": lambda encoder, names: numbered([Name("a") for _ in names]),
}


@pytest.mark.parametrize("name", WORK)
def test_names_are_looked_up_not_searched_for(name):
    assert comparisons(WORK[name], 400) <= 8 * 400


def lines_run(work):
    """Return how many lines of the library some work runs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if "sparsenam" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def is_linear(work, small=150, factor=4):
    """Return whether the lines that the work runs grow hardly more than the number of columns."""
    return lines_run(work(factor * small)) <= 1.3 * factor * lines_run(work(small))


def columns(size, kind="random"):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(ROWS, size))
    if kind == "gaps":
        X[generator.uniform(size=X.shape) < 0.1] = np.nan
    return pd.DataFrame(X, columns=[f"column {index}" for index in range(size)])


@pytest.mark.parametrize("kind", ["random", "gaps"])
def test_reading_a_table_takes_as_long_for_each_column_however_many_there_are(kind):
    assert is_linear(lambda size: partial(TableEncoder.fit, columns(size, kind)))


def test_what_an_encoder_prints_visits_each_column_once():
    assert is_linear(lambda size: TableEncoder.fit(columns(size))[0].__str__)


def test_series_are_taken_from_a_table_in_one_pass(monkeypatch):
    taken = 0
    whole = nw.DataFrame.__getitem__

    def counted(self, item):
        nonlocal taken
        taken += 1
        return whole(self, item)

    monkeypatch.setattr(nw.DataFrame, "__getitem__", counted)
    table = columns(50, "gaps").assign(text="a")
    table.loc[0, "text"] = "b"
    check_target_not_inside(table, np.arange(float(ROWS)))
    TableEncoder.fit(table)
    assert taken == 0  # each would look at all columns


def compared_columns(monkeypatch, X):
    """Return how many pairs of columns are compared cell by cell, and the twins that are found."""
    count = 0
    equal = sample._equal_to_first

    def counted(across):
        nonlocal count
        count += len(across) - 1
        return equal(across)

    monkeypatch.setattr(sample, "_equal_to_first", counted)
    found = equal_columns(X, list(range(X.shape[1])), Scaling.of(X, np.ones(len(X))))
    return count, found


def test_equal_columns_are_compared_with_the_first_of_them_only(monkeypatch):
    X = np.tile(np.random.default_rng(0).normal(size=(ROWS, 1)), (1, 500))
    count, found = compared_columns(monkeypatch, X)
    assert count == 499
    assert found == [(0, column) for column in range(1, 500)]


def test_different_columns_are_hardly_compared_at_all(monkeypatch):
    count, found = compared_columns(monkeypatch, np.random.default_rng(0).normal(size=(ROWS, 2000)))
    assert count < 200
    assert not found


def test_twins_are_found_among_all_up_to_unit_sign_and_missing_cells(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 6))
    X[3, 0] = np.nan
    X = np.column_stack([X, -2.0 * X[:, 0] + 1.0, X[:, 1] * 1e-3, np.where(np.arange(40) == 5, np.nan, X[:, 1])])
    assert compared_columns(monkeypatch, X)[1] == [(0, 6), (1, 7)]


def test_reasons_for_dropped_columns_are_found_in_one_pass():
    def work(size):
        table = columns(size)
        table[table.columns[: size // 3]] = 1.0  # constant ones, and further down equal ones
        table[table.columns[-(size // 3) :]] = np.tile(table[["column 100"]], (1, size // 3))
        with pytest.warns(ConstantColumnWarning):
            model = SNAMRegressor(alpha=10.0).fit(table, table["column 120"] + np.arange(ROWS) % 2)
        dropped = [index for index in range(size) if index not in model.fit_.kept]
        return lambda: build.why_dropped(model.fit_, dropped)

    assert is_linear(work)


@pytest.mark.filterwarnings("error")
def test_equal_columns_are_found_where_rows_of_little_weight_are_beyond_all_whole_numbers():
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[:, 2] = X[:, 0]
    X[0] = 1e25
    weights = np.where(np.arange(30) == 0, 0.0, 1.0)
    found = equal_columns(X[1:], [0, 1, 2], Scaling.of(X, weights))
    assert found == [(0, 2)]
    equal_columns(X, [0, 1, 2], Scaling.of(X, weights))
