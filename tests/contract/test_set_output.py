"""`transform` hands on the kept columns in the library that ``set_output`` names, with the types they came with."""

from copy import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sparsenam
from page_cases import small_table
from sparsenam.datasets import make_regression

KEPT = ["size", "age", "district"]
SELECTORS = [
    sparsenam.SNAMRegressor(random_state=0),
    sparsenam.RandomFeatureSNAMRegressor(random_state=0, max_features=3, always_keep=KEPT),
    sparsenam.FDRSelector(random_state=0),
]
SOURCES = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "arrow": lambda table: pl.from_pandas(table).to_arrow(),
}


def giving(selector, library):
    """Return a copy of the fitted selector with another kind of output."""
    return copy(selector).set_output(transform=library)


@pytest.fixture(scope="module")
def table():
    df, y = small_table()
    df["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(len(df)), unit="D")
    return df, y.to_numpy()


@pytest.fixture(scope="module", params=SELECTORS, ids=lambda case: type(case).__name__)
def selector(request, table):
    return clone(request.param).fit(*table)


@pytest.mark.parametrize("source", SOURCES)
def test_tables_of_polars_keep_names_types_and_cells(selector, table, source):
    given = SOURCES[source](table[0])
    handed = giving(selector, "polars").transform(given)
    assert handed.equals(pl.from_pandas(table[0][KEPT]))
    assert handed.dtypes == [pl.Float64, pl.Float64, pl.String]


@pytest.mark.parametrize("source", SOURCES)
def test_tables_of_pandas_keep_names_types_and_cells(selector, table, source):
    given = SOURCES[source](table[0])
    handed = giving(selector, "pandas").transform(given)
    pd.testing.assert_frame_equal(handed, table[0][KEPT], check_dtype=False)
    assert [kind.kind for kind in handed.dtypes[:2]] == ["f", "f"]


def test_tables_of_pandas_keep_their_index(selector, table):
    given = table[0].set_index(np.arange(300) * 7)
    assert giving(selector, "pandas").transform(given).index.equals(given.index)


def test_without_a_request_there_is_an_array(selector, table):
    array = giving(selector, "default").transform(table[0])
    assert isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array[:, 0].astype(float), table[0]["size"])


@pytest.mark.parametrize("library, kind", [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_an_array_becomes_a_table_with_the_names_x0_x1(library, kind):
    task = make_regression(n_rows=300, seed=0)
    model = sparsenam.SNAMRegressor(random_state=0)
    handed = model.set_output(transform=library).fit(task.X, task.y).transform(task.X)
    assert isinstance(handed, kind)
    assert list(handed.columns) == list(model.get_feature_names_out())


def test_the_global_setting_is_followed(selector, table):
    with config_context(transform_output="polars"):
        assert isinstance(selector.transform(pl.from_pandas(table[0])), pl.DataFrame)


def test_a_selector_hands_polars_on_to_the_next_step_of_a_pipeline(table):
    df, y = table
    seen = []
    watch = FunctionTransformer(lambda rows: seen.append(rows) or rows)
    steps = make_pipeline(sparsenam.FDRSelector(random_state=0), watch, sparsenam.SNAMRegressor(random_state=0))
    steps.set_output(transform="polars").fit(pl.from_pandas(df), y)
    assert [type(rows) for rows in seen] == [pl.DataFrame]
    assert list(steps[-1].get_feature_names_out()) == KEPT
    assert steps[-1].encoder_.columns[2].kind == "category"


def test_other_columns_than_those_of_the_fit_are_refused(selector, table):
    other = pl.from_pandas(table[0]).rename({"size": "area"})
    with pytest.raises(ValueError, match="feature names"):
        giving(selector, "polars").transform(other)


def test_a_table_of_which_nothing_is_kept_has_rows_and_no_columns():
    draw = np.random.default_rng(0)
    noise = pl.DataFrame(draw.normal(size=(60, 3)), schema=["a", "b", "c"])
    selector = sparsenam.FDRSelector(q=0.01, random_state=0).set_output(transform="polars")
    selector.fit(noise, draw.normal(size=60))
    with pytest.warns(UserWarning, match="No features were selected"):
        assert selector.transform(noise).columns == []
