import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sparsenam.codec import pack, unpack
from sparsenam.errors import InputError
from sparsenam.tables.encoder import TableEncoder

pytestmark = pytest.mark.filterwarnings(
    "ignore::sparsenam.errors.ConstantColumnWarning",
    "ignore::sparsenam.errors.IdentifierWarning",
    "ignore::sparsenam.errors.ExtremeCellWarning",  # 1e-194 and 1 in one column are beyond reason, and drawn here
)

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
enough = settings(max_examples=60)
KINDS = {
    "numbers": st.floats(-1e9, 1e9),
    "integers": st.integers(-5, 5),
    "levels": st.sampled_from(["red", "green", "blue", "grey"]) | WORDS,
    "truths": st.booleans(),
    "days": st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
}


@st.composite
def tables(draw):
    """Columns of every kind with holes, as lists of Python values."""
    rows = draw(st.integers(2, 12))
    columns = {}
    for index in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        cell = KINDS[kind] if draw(st.booleans()) else st.none() | KINDS[kind]
        columns[f"{kind}{index}"] = draw(st.lists(cell, min_size=rows, max_size=rows))
    return columns


def by_term(encoder, encoded):
    return {term.name: encoded[:, index] for index, term in enumerate(encoder.terms)}


def assert_same_terms(left, right):
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name])


def in_pandas(columns):
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


@enough
@given(columns=tables())
def test_encoding_the_table_of_the_fit_gives_the_fit(columns):
    table = in_pandas(columns)
    encoder, encoded = TableEncoder.fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(encoder.encode(table), encoded)


@enough
@given(columns=tables(), data=st.data())
def test_rows_in_another_order_give_the_same_encoder_and_rows_in_that_order(columns, data):
    table = in_pandas(columns)
    encoder, encoded = TableEncoder.fit(table)
    order = data.draw(st.permutations(range(len(table))))
    other, reordered = TableEncoder.fit(table.iloc[order])
    assert [term for term in other.terms] == [term for term in encoder.terms]
    np.testing.assert_array_equal(reordered, encoded[order])


@enough
@given(columns=tables(), data=st.data())
def test_columns_in_another_order_change_no_term(columns, data):
    names = data.draw(st.permutations(list(columns)))
    table = in_pandas(columns)
    encoder, encoded = TableEncoder.fit(table)
    assert_same_terms(by_term(*TableEncoder.fit(table[names])), by_term(encoder, encoded))
    np.testing.assert_array_equal(encoder.encode(table[names]), encoded)


@enough
@given(columns=tables())
def test_pandas_polars_and_arrow_hold_the_same_table(columns):
    encoder, encoded = TableEncoder.fit(in_pandas(columns))
    inferred = pd.DataFrame(columns)
    for table in (inferred, inferred.convert_dtypes(), pl.DataFrame(columns, strict=False), pa.table(columns)):
        other, values = TableEncoder.fit(table)
        assert other.terms == encoder.terms
        np.testing.assert_array_equal(values, encoded)


@enough
@given(cells=st.lists(st.none() | st.integers(-3, 3), min_size=2, max_size=12))
def test_levels_are_the_same_whatever_dtype_holds_them(cells):
    assume(any(cell is not None for cell in cells))
    floats = [np.nan if cell is None else float(cell) for cell in cells]
    texts = [None if cell is None else str(cell) for cell in cells]
    columns = [pd.array(cells, dtype="Int64"), floats, texts, pd.Categorical(cells), pd.Categorical(texts)]
    encoder, encoded = TableEncoder.fit(pd.DataFrame({"a": columns[0]}), feature_types={"a": "category"})
    for column in columns[1:]:
        table = pd.DataFrame({"a": column})
        other, values = TableEncoder.fit(table, feature_types={"a": "category"})
        assert other.terms == encoder.terms
        np.testing.assert_array_equal(values, encoded)
        np.testing.assert_array_equal(encoder.encode(table), encoded)


@enough
@given(columns=tables())
def test_an_encoder_comes_back_from_json_as_it_was(columns):
    table = in_pandas(columns)
    encoder, encoded = TableEncoder.fit(table)
    again = unpack(TableEncoder, json.loads(json.dumps(pack(encoder)[0])))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(table), encoded)


@enough
@given(columns=tables(), value=st.integers() | st.just("same"))
def test_a_constant_column_changes_no_term(columns, value):
    table = in_pandas(columns)
    alone = by_term(*TableEncoder.fit(table))
    assert_same_terms(by_term(*TableEncoder.fit(table.assign(always=value))), alone)


@enough
@given(columns=tables(), max_levels=st.integers(2, 5))
def test_codes_are_whole_numbers_below_the_number_of_levels_and_missing_terms_are_0_or_1(columns, max_levels):
    assume(all(len(set(cells)) <= 4 * max_levels for name, cells in columns.items() if "levels" in name))
    encoder, encoded = TableEncoder.fit(in_pandas(columns), max_levels=max_levels)
    for index, term in enumerate(encoder.terms):
        values = encoded[:, index]
        if term.kind == "missing":
            assert set(values) == {0.0, 1.0}
        elif term.kind in ("binary", "levels"):
            assert set(values[~np.isnan(values)]) == set(range(len(term.levels)))
            assert len(term.levels) <= 4 * max_levels + 1 and (term.kind == "binary") == (len(term.levels) == 2)


@given(max_levels=st.integers(2, 5), frequency=st.integers(2, 3))
def test_too_many_levels_that_are_all_as_frequent_are_refused(max_levels, frequency):
    names = [f"level {index}" for index in range(4 * max_levels + 1)]
    with pytest.raises(InputError, match=f"{len(names)} levels of {frequency} row"):
        TableEncoder.fit(in_pandas({"a": names * frequency}), max_levels=max_levels)
    TableEncoder.fit(in_pandas({"a": names[1:] * frequency}), max_levels=max_levels)
