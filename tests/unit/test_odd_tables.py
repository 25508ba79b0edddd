"""Cells, dtypes and names of every odd kind: each is read rightly, or refused in one sentence that says where."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from sparsenam import SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.tables.encoder import TableEncoder

ROWS = 30
Z = np.random.default_rng(0).normal(size=ROWS)
LIBRARIES = {
    "pandas": lambda cells: pd.DataFrame({"a": pd.Series(cells, dtype=object), "z": Z}),
    "pandas of Arrow": lambda cells: pd.DataFrame({"a": pd.Series(pd.arrays.ArrowExtensionArray(pa.array(cells)))}),
    "polars": lambda cells: pl.DataFrame({"a": cells, "z": Z}),
    "Arrow": lambda cells: pa.table({"a": pa.array(cells), "z": Z}),
}
LARGE = [2**60 + 10**15 * row for row in range(ROWS)]
INTEGERS = {
    "pandas": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype="Int64")}),
    "pandas of Arrow": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype="int64[pyarrow]")}),
    "polars": lambda cells: pl.DataFrame({"a": cells}),
    "Arrow": lambda cells: pa.table({"a": cells}),
    "Arrow, unsigned": lambda cells: pa.table({"a": pa.array(cells, pa.uint64())}),
    "polars, 128 bits": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.Int128)}),
}


def with_text(table):
    """Return the table with a column of text, so that its columns are read one by one."""
    text = ["x", "y"] * (ROWS // 2)
    if isinstance(table, pd.DataFrame):
        return table.assign(t=text)
    if isinstance(table, pl.DataFrame):
        return table.with_columns(t=pl.Series(text))
    return table.append_column("t", pa.array(text))


def refusal(table):
    """Return the one sentence that refuses a table."""
    with pytest.raises(InputError) as caught:
        TableEncoder.fit(table)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("library", INTEGERS)
@pytest.mark.parametrize("first", [LARGE[0], None])
@pytest.mark.parametrize("beside", [lambda table: table, with_text], ids=["alone", "beside text"])
def test_integers_above_two_to_the_53_are_rounded_alike_by_all_libraries(library, first, beside):
    cells = [first, *LARGE[1:]]
    _, encoded = TableEncoder.fit(beside(INTEGERS[library](cells)))
    expected = np.array([np.nan if cell is None else float(cell) for cell in cells])
    np.testing.assert_array_equal(encoded[:, 0], expected)


NESTED = {
    "structs": [{"u": 1, "v": 2}] * ROWS,
    "lists": [[1, 2]] * ROWS,
    "lists of text": [["x"]] * ROWS,
    "bytes": [b"x", b"y"] * (ROWS // 2),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("cells", NESTED.values(), ids=NESTED)
def test_nested_cells_are_refused_with_column_row_and_cell(library, cells):
    sentence = refusal(LIBRARIES[library](cells))
    assert sentence.startswith("column 'a': expected that every argument must be a string, a number")
    assert "in row 0" in sentence


OTHERS = {
    "polars Array": lambda: pl.DataFrame({"a": pl.Series([[1, 2]] * ROWS, dtype=pl.Array(pl.Int64, 2))}),
    "polars Object": lambda: pl.DataFrame({"a": pl.Series([object()] * ROWS, dtype=pl.Object)}),
    "Arrow's lists of one length": lambda: pa.table({"a": pa.array([[1, 2]] * ROWS, pa.list_(pa.int64(), 2))}),
    "Arrow's maps": lambda: pa.table({"a": pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int64()))}),
    "dictionary-coded structs": lambda: pa.table(
        {"a": pa.DictionaryArray.from_arrays(pa.array([0, 1] * (ROWS // 2)), pa.array([{"u": 1}, {"u": 2}]))}
    ),
    "sets": lambda: pd.DataFrame({"a": [{1}] * ROWS}),
    "arrays": lambda: pd.DataFrame({"a": [np.arange(2)] * ROWS}),
    "complex numbers": lambda: pd.DataFrame({"a": Z + 1j}),
    "complex objects": lambda: pd.DataFrame({"a": np.array(list(Z + 1j), dtype=object)}),
    "periods": lambda: pd.DataFrame({"a": pd.period_range("2020", periods=ROWS, freq="D")}),
    "intervals": lambda: pd.DataFrame({"a": pd.arrays.IntervalArray.from_breaks(np.arange(ROWS + 1))}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_cells_of_no_known_kind_are_refused_with_their_column(name):
    assert refusal(OTHERS[name]()).startswith("column 'a': expected that every argument must be")


@pytest.mark.parametrize("nan", [Decimal("NaN"), Decimal("sNaN"), Decimal("-sNaN"), float("nan"), np.float32("nan")])
def test_numbers_that_are_none_are_missing_signalling_ones_too(nan):
    encoder, encoded = TableEncoder.fit(pd.DataFrame({"a": [nan, *(Decimal(row) for row in range(ROWS - 1))]}))
    assert encoder.columns[0].n_missing == 1
    assert np.isnan(encoded[0, 0])


READ = {
    "durations": ([dt.timedelta(hours=row) for row in range(ROWS)], "number", 3600.0),
    "dates": ([dt.date(2020, 1, 1) + dt.timedelta(row) for row in range(ROWS)], "date", 1.0),
    "zoned moments": (
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(row) for row in range(ROWS)],
        "date",
        1.0,
    ),
    "decimals": ([Decimal(row) for row in range(ROWS)], "number", 1.0),
    "times of day": ([dt.time(0, row) for row in range(ROWS)], "number", 60.0),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("cells, kind, step", READ.values(), ids=READ)
def test_durations_dates_and_decimals_are_the_same_numbers_in_all_libraries(library, cells, kind, step):
    encoder, encoded = TableEncoder.fit(LIBRARIES[library](cells))
    assert encoder.columns[0].kind == kind
    np.testing.assert_allclose(np.diff(encoded[:, 0]), step)


LEVELS = [
    ((1, 2), (3, 4)),
    (1, "a"),
    (dt.date(2020, 1, 1), dt.date(2020, 1, 2)),
    (0.5, 1.5),
    (True, False),
    (b"x", b"y"),
    (1j, 2j),
    (Decimal(1), Decimal(2)),
    (Fraction(1, 3), Fraction(1, 2)),
    (frozenset([1]), frozenset([2])),
]


@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_a_categorical_of_odd_types_is_a_category_of_their_texts(levels):
    encoder, encoded = TableEncoder.fit(pd.DataFrame({"a": pd.Categorical(list(levels) * (ROWS // 2)), "z": Z}))
    assert encoder.columns[0].kind == "category"
    assert len(encoder.columns[0].levels) == 2
    assert set(encoded[:, 0]) == {0.0, 1.0}


TWO = np.column_stack([Z, Z**2])


@pytest.mark.parametrize(
    "names",
    [[3, 4], [("a", "b"), ("a", "c")], pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")]), [1.5, None]],
    ids=["whole numbers", "tuples", "several levels", "a number and nothing"],
)
def test_names_that_are_no_text_are_replaced_by_positions(names):
    encoder, _ = TableEncoder.fit(pd.DataFrame(TWO, columns=names))
    assert encoder.names == ("x0", "x1")
    assert not encoder.named


@pytest.mark.parametrize("other", [3, 1.5, b"b"], ids=str)
def test_names_of_which_some_are_text_are_refused(other):
    assert f"got {other!r} of type" in refusal(pd.DataFrame(TWO, columns=["a", other]))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(TWO, columns=["a", "a"]),
        pd.DataFrame(TWO, columns=[3, 3]),
        pa.Table.from_arrays([pa.array(Z), pa.array(Z)], names=["a", "a"]),
    ],
    ids=["pandas", "pandas, no text", "Arrow"],
)
def test_duplicate_names_are_refused(table):
    assert refusal(table).startswith("X: expected column names that differ, got duplicate names: ")


NO_TABLES = {
    "three dimensions": (lambda: np.zeros((ROWS, 2, 2)), "got 3D array"),
    "one dimension": (lambda: Z, "got 1D array"),
    "a scalar": (lambda: np.array(1.0), "an object of type ndarray"),
    "a nested list": (lambda: [[[1], [2]]] * ROWS, "got 3D array"),
    "a list of dictionaries": (lambda: [{"a": 1.0}] * ROWS, "got 1D array"),
    "an Arrow array": (lambda: pa.array(Z), "got 1D array"),
    "a pandas Series": (lambda: pd.Series(Z), "got 1D array"),
    "a polars Series": (lambda: pl.Series(Z), "got 1D array"),
    "a sparse matrix": (lambda: scipy.sparse.csr_matrix(TWO), "a sparse one (csr_matrix); call its toarray() first"),
    "a sparse array": (lambda: scipy.sparse.coo_array(TWO), "a sparse one (coo_array)"),
    "complex numbers": (lambda: TWO + 1j, "Complex data not supported"),
    "a generator": (lambda: (row for row in TWO), "got a generator"),
    "a dictionary": (lambda: {"a": Z}, "an object of type dict"),
    "a set": (lambda: {1, 2}, "an object of type set"),
    "nothing": (lambda: None, "an object of type NoneType"),
    "a structured array": (lambda: np.zeros(ROWS, dtype=[("a", float)]), "a structured array"),
    "a ragged list": (lambda: [[1], [2, 3]] * ROWS, "a ragged list"),
    "a lazy table": (lambda: pl.DataFrame({"a": Z}).lazy(), "a lazy one"),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_is_refused_in_one_sentence(name):
    make, words = NO_TABLES[name]
    sentence = refusal(make())
    assert sentence.startswith("X: expected ")
    assert words in sentence


def test_an_estimator_refuses_with_the_same_sentences():
    model = SNAMRegressor(alpha=0.1)
    for make, words in NO_TABLES.values():
        with pytest.raises(InputError) as caught:
            model.fit(make(), Z)
        assert "\n" not in str(caught.value)
        assert words in str(caught.value)


@pytest.mark.parametrize("kind", [np.matrix, np.float16, np.longdouble], ids=["matrix", "half", "long double"])
def test_other_arrays_of_numbers_are_read_as_numbers(kind):
    array = TWO.view(np.matrix) if kind is np.matrix else TWO.astype(kind)
    _, encoded = TableEncoder.fit(array)
    np.testing.assert_array_equal(encoded, np.asarray(array, dtype=np.float64))
