import json
import warnings
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from sparsenam.codec import pack, unpack
from sparsenam.errors import ConstantColumnWarning, IdentifierWarning, InputError
from sparsenam.explain.local import cell_texts, read_cells
from sparsenam.penalties import GroupLasso, spread
from sparsenam.tables.columns import OTHER_LEVELS
from sparsenam.tables.encoder import TableEncoder, grouping_of
from sparsenam.tables.frame import check_target_not_inside
from sparsenam.tables.notes import descriptions
from sparsenam.tables.prediction import known_value
from sparsenam.tables.sample import Grouping
from sparsenam.tables.text import CellTypeError, UnseenLevelWarning, UnseenMissingWarning

NAN = float("nan")


def same(left, right):
    return np.array_equal(left, right, equal_nan=True)


def only(column, **settings):
    """The single column of a table, encoded: (column, its values, all terms)."""
    encoder, encoded = TableEncoder.fit(pd.DataFrame({"a": column}), **settings)
    return encoder.columns[0], encoded[:, 0], encoder.terms


# what a column is


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", "Int64", "Float64"])
def test_numbers_of_any_dtype_are_numbers(dtype):
    column, values, terms = only(pd.Series([3, 1, 2], dtype=dtype))
    assert column.kind == "number" and [term.kind for term in terms] == ["number"]
    assert values.tolist() == [3.0, 1.0, 2.0]


def test_decimals_in_an_object_column_are_numbers():
    assert only([Decimal("1.5"), Decimal(2), Decimal(3)])[1].tolist() == [1.5, 2.0, 3.0]


def test_truth_values_are_a_category_of_two_levels_and_one_binary_term():
    column, values, terms = only([True, False, True])
    assert column.kind == "category" and column.levels == ("True", "False")
    assert terms[0].kind == "binary" and values.tolist() == [0.0, 1.0, 0.0]


def test_text_is_a_category_coded_by_frequency_with_ties_by_name():
    column, values, terms = only(["b", "c", "c", "a", "b", "c", "a"])
    assert column.levels == ("c", "a", "b") and terms[0].kind == "levels"
    assert values.tolist() == [2, 0, 0, 1, 2, 0, 1]


def test_unused_levels_of_a_categorical_are_no_levels():
    assert only(pd.Categorical(["b", "a", "b"], categories=["z", "a", "b"]))[0].levels == ("b", "a")


def test_an_ordered_categorical_becomes_ranks_and_keeps_levels_not_yet_seen():
    sizes = pd.Categorical(["high", "low", "high"], categories=["low", "mid", "high"], ordered=True)
    encoder, encoded = TableEncoder.fit(pd.DataFrame({"size": sizes}))
    assert encoder.columns[0].kind == "ordered" and encoder.terms[0].kind == "number"
    assert encoded[:, 0].tolist() == [2.0, 0.0, 2.0]
    assert encoder.encode(pd.DataFrame({"size": ["mid"]})).tolist() == [[1.0]]


def test_ordered_levels_are_found_in_polars_and_arrow_too():
    enum = pl.DataFrame({"a": pl.Series(["y", "x", "y"], dtype=pl.Enum(["x", "y"]))})
    codes = pa.array([1, 0, 1], pa.int8())
    arrow = pa.table({"a": pa.DictionaryArray.from_arrays(codes, pa.array(["x", "y"]), ordered=True)})
    for table in (enum, arrow):
        encoder, encoded = TableEncoder.fit(table)
        assert encoder.columns[0].kind == "ordered" and encoded[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_bins_of_pandas_cut_are_in_order():
    column, values, _ = only(pd.cut(pd.Series([1, 5, 9]), [0, 3, 6, 10]))
    assert column.kind == "ordered" and column.levels[0] == "(0, 3]" and values.tolist() == [0, 1, 2]


DATES = [datetime(1970, 1, 2), datetime(2024, 2, 29, 12), datetime(1969, 12, 31)]
DAYS = [1.0, 19782.5, -1.0]


@pytest.mark.parametrize(
    "column",
    [
        DATES,
        pd.Series(DATES).astype("datetime64[s]"),
        pd.Series(DATES).astype("datetime64[ns]"),
        pd.Series(DATES).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        np.array(DATES, dtype="datetime64[ms]"),
        [moment.replace(tzinfo=UTC) for moment in DATES],
        [moment.isoformat() for moment in DATES],
        pd.Series([np.datetime64(moment) for moment in DATES], dtype=object),
    ],
    ids=["python", "seconds", "nanoseconds", "zone", "numpy", "aware", "text", "objects"],
)
def test_dates_are_days_since_1970_whatever_holds_them(column):
    described, values, terms = only(column)
    assert described.kind == "date" and "1970-01-01" in descriptions([described])[0] and terms[0].kind == "number"
    assert values.tolist() == DAYS


def test_days_without_time_are_dates():
    assert only([date(1970, 1, 3), date(1970, 1, 1), None])[1].tolist()[:2] == [2.0, 0.0]


def test_durations_are_seconds():
    for column in ([timedelta(minutes=1), timedelta(seconds=2)], np.array([60, 2], dtype="timedelta64[s]")):
        described, values, _ = only(column)
        assert (described.kind, described.unit) == ("number", "seconds") and values.tolist() == [60.0, 2.0]


def test_times_of_day_are_seconds_since_midnight():
    _, encoded = TableEncoder.fit(pl.DataFrame({"at": [time(0, 1), time(1, 0)]}))
    assert encoded[:, 0].tolist() == [60.0, 3600.0]


def test_text_that_reads_as_numbers_is_a_number_and_its_markers_are_missing():
    column, values, terms = only(["1.5", "?", " 2 ", " NA ", "-3e1"])
    assert column.kind == "number" and column.n_missing == 2 and column.markers == ("?", "NA")
    assert same(values, [1.5, NAN, 2.0, NAN, -30.0])
    assert [term.kind for term in terms] == ["number", "missing"]


@pytest.mark.parametrize("marker", ["", "?", "NA", "N/A", "na", "n/a", "NaN", "nan", "null", "NULL", "None", "-", "  "])
def test_each_marker_is_a_missing_cell_in_numbers_and_in_categories(marker):
    assert only(["1", marker, "2"])[0].n_missing == 1
    assert only(["red", marker, "green"])[0].n_missing == 1


def test_numbers_and_text_that_reads_as_numbers_in_one_column_are_numbers():
    assert only(pd.Series([1, "2", 3.5, "?"], dtype=object))[1].tolist()[:3] == [1.0, 2.0, 3.5]


def test_text_with_zeros_in_front_stays_a_category():
    column, _, _ = only(["01234", "99999", "01234"])
    assert column.kind == "category" and column.levels == ("01234", "99999") and column.zero == "01234"


def test_numbers_with_two_values_stay_numbers():
    assert only([0, 1, 1])[2][0].kind == "number"


# what the user says


def test_feature_types_override_what_is_found():
    table = pd.DataFrame({"zip": [10, 20, 20], "day": ["2024-01-01", "2024-01-03", "2024-01-03"], "n": ["1", "2", "3"]})
    encoder, encoded = TableEncoder.fit(table, {"zip": "category", "day": "category", "n": "ordered"})
    assert [column.kind for column in encoder.columns] == ["category", "category", "ordered"]
    assert encoder.columns[0].levels == ("20", "10")
    assert encoded[:, 2].tolist() == [0.0, 1.0, 2.0]


def test_feature_types_of_an_array_are_keyed_by_position():
    encoder, _ = TableEncoder.fit(np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]), {1: "category"})
    assert [column.kind for column in encoder.columns] == ["number", "category"]
    assert encoder.columns[1].levels == ("5", "6", "7")


def test_text_ordered_by_number_not_by_letters():
    assert only(["10", "9", "10"], feature_types={"a": "ordered"})[0].levels == ("9", "10")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"b": "category"}, "'b'"),
        ({"a": "colour"}, "'colour'"),
        ({0: "category"}, "names of columns"),
        ("category", "a dictionary"),
        ({"a": "date"}, "dates"),
        ({"a": "number"}, "numbers"),
        ({"a": "ordered"}, "order is declared"),
    ],
)
def test_wrong_feature_types_are_an_error(types, message):
    with pytest.raises(InputError, match=message):
        TableEncoder.fit(pd.DataFrame({"a": ["x", "y", "z"]}), types)


def test_a_date_cannot_be_made_of_numbers():
    with pytest.raises(InputError, match="'a': expected dates, got numbers"):
        only([1, 2, 3], feature_types={"a": "date"})


# levels


def test_rare_levels_are_pooled_and_found_again_at_prediction():
    column = ["a"] * 4 + ["b"] * 3 + ["c"] * 2 + ["d"]
    encoder, encoded = TableEncoder.fit(pd.DataFrame({"x": column}), max_levels=3)
    assert encoder.columns[0].levels == ("a", "b", OTHER_LEVELS) and encoder.columns[0].pooled == ("c", "d")
    assert "2 rarest" in descriptions(encoder.columns)[0]
    assert encoded[:, 0].tolist() == [0.0] * 4 + [1.0] * 3 + [2.0] * 3
    assert encoder.encode(pd.DataFrame({"x": ["d", "c", "a"]}))[:, 0].tolist() == [2.0, 2.0, 0.0]


def test_a_level_never_seen_contributes_nothing_and_is_named():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"x": ["a", "b", "a"], "n": [1, 2, 3]}))
    with pytest.warns(UnseenLevelWarning, match="'x'.*'q'"):
        values = encoder.encode(pd.DataFrame({"x": ["q", "b"], "n": [1, 2]}))
    assert same(values, [[NAN, 1.0], [1.0, 2.0]])


@pytest.mark.parametrize("later", [[1.0, 2.0], np.array([1, 2], dtype="int8"), ["1", "2"], pd.Categorical([1, 2])])
def test_levels_of_numbers_are_matched_by_value_whatever_their_dtype(later):
    encoder, _ = TableEncoder.fit(pd.DataFrame({"x": [2, 2, 1, 3]}), {"x": "category"})
    assert encoder.encode(pd.DataFrame({"x": later}))[:, 0].tolist() == [1.0, 0.0]


def test_truth_values_written_as_0_and_1_are_the_same_levels():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"x": [True, True, False]}))
    assert encoder.encode(pd.DataFrame({"x": [0, 1]}))[:, 0].tolist() == [1.0, 0.0]
    assert encoder.encode(pd.DataFrame({"x": ["False", "True"]}))[:, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("train", [[True, True, False], ["True", "True", "False"]])
def test_truth_values_written_as_texts_of_0_and_1_are_the_same_levels(train):
    encoder, _ = TableEncoder.fit(pd.DataFrame({"x": train}))
    texts, codes = ["0", "1", "0.0", " 1 ", "True", "False", "1e0"], [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    assert encoder.encode(pd.DataFrame({"x": texts}))[:, 0].tolist() == codes
    assert [encoder.encode(pd.DataFrame({"x": [text]}))[0, 0] for text in texts] == codes
    assert [known_value(encoder.columns[0], text) for text in texts] == codes
    (cells,) = read_cells(encoder, pd.DataFrame({"x": texts}))
    shown = [words for _, words in cell_texts(encoder.columns[0], cells)]
    assert shown == [f"x '{bool(1 - code)}'" for code in codes]
    with pytest.warns(UnseenLevelWarning):
        assert np.isnan(encoder.encode(pd.DataFrame({"x": ["01", "2", "true"]}))[:, 0]).all()


@pytest.mark.parametrize("rows", [12, 100, 480, 520, 2000, 100_000])
def test_text_that_is_different_in_too_many_rows_is_left_out_at_every_size(rows):
    different = [f"id{row % (rows - rows // 5)}" for row in range(rows)]
    table = pd.DataFrame({"id": different, "half": [f"id{row // 2}" for row in range(rows)], "x": np.arange(rows)})
    with pytest.warns(IdentifierWarning, match=r"1 column\(s\) of text.*left out of the model: 'id'"):
        encoder, terms = TableEncoder.fit(table if rows <= 20_000 else table[["id", "x"]])
    assert terms.shape[1] == len(encoder.names) - 1
    assert encoder.columns[0].is_identifier and f"{len(set(different))} levels" in str(encoder)
    encoder.encode(table.assign(id=7))  # whatever it holds
    restored = unpack(TableEncoder, json.loads(json.dumps(pack(encoder)[0])))
    assert restored.columns[0].is_identifier


def test_few_cells_declared_categories_and_numbers_are_no_identifiers():
    texts = [f"id{row}" for row in range(300)]
    assert only(texts[:9])[0].kind == "category"
    assert only(pd.Categorical(texts))[0].kind == "category"
    assert only(pd.Categorical(texts, categories=texts, ordered=True))[0].kind == "ordered"
    assert only(texts, feature_types={"a": "category"})[0].kind == "category"
    assert only(np.arange(300))[0].kind == "number"


def test_where_an_identifier_is_missing_counts():
    table = pd.DataFrame({"id": [f"id{row}" if row < 40 else None for row in range(90)], "x": np.arange(90.0)})
    with pytest.warns(IdentifierWarning, match="'id'"):
        encoder, _ = TableEncoder.fit(table)
    assert [term.name for term in encoder.terms] == ["id (missing)", "x"]


def test_a_column_that_is_called_a_category_and_has_too_many_levels_is_an_error():
    with pytest.raises(InputError, match=r"'a'.*1500 levels in 2000 cells.*identifier"):
        only([f"id{row % 1500}" for row in range(2000)], feature_types={"a": "category"})
    assert (
        len(only([f"id{row % 900}" for row in range(2000)], max_levels=128)[0].pooled) == 700
    )  # 200 of them have three rows


def test_levels_that_are_numbers_too_large_to_tell_apart_are_an_error():
    with pytest.raises(InputError, match="convert the column to text"):
        only([2**53 + 1, 2**53 + 2, 5], feature_types={"a": "category"})


# missing cells


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [1.0, NAN, 3.0]}),
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}),
        pd.DataFrame({"a": pd.Series([1, None, 3], dtype=object)}),
        pd.DataFrame({"a": pd.Series([1, pd.NA, 3], dtype=object)}),
        pl.DataFrame({"a": [1, None, 3]}),
        pl.DataFrame({"a": [1.0, NAN, 3.0]}),
        pa.table({"a": [1, None, 3]}),
        np.array([[1.0], [NAN], [3.0]]),
        np.array([[1], [None], [3]], dtype=object),
        np.ma.masked_array([[1], [2], [3]], mask=[[False], [True], [False]]),
        [[1], [None], [3]],
    ],
)
def test_every_way_to_miss_a_number_is_one(table):
    encoder, encoded = TableEncoder.fit(table)
    name = encoder.names[0]
    assert [(term.name, term.kind) for term in encoder.terms] == [
        (name, "number"),
        (f"{name} (missing)", "missing"),
    ]
    assert same(encoded, [[1.0, 0.0], [NAN, 1.0], [3.0, 0.0]])


@pytest.mark.parametrize(
    "column",
    [
        ["x", None, "y"],
        pd.Series(["x", NAN, "y"], dtype=object),
        pd.Series(["x", pd.NaT, "y"], dtype=object),
        pd.Categorical(["x", None, "y"]),
        pd.Series([True, None, False], dtype=object),
        pd.array([True, None, False], dtype="boolean"),
        pd.to_datetime(["2024-01-01", None, "2024-01-02"]),
    ],
)
def test_every_way_to_miss_something_else_is_one(column):
    described, values, terms = only(column)
    assert described.n_missing == 1 and terms[1].name == "a (missing)"
    assert np.isnan(values).tolist() == [False, True, False]


def test_a_constant_with_missing_cells_keeps_only_where_it_is_missing():
    for column in ([1.0, NAN, 1.0], ["x", None, "x"]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            described, values, terms = only(column)
        assert described.kind == "constant"
        assert [(term.name, term.kind) for term in terms] == [("a (missing)", "missing")]
        assert values.tolist() == [0.0, 1.0, 0.0]


def test_columns_missing_in_the_same_rows_share_one_term_of_the_first_by_name():
    table = pd.DataFrame({"b": [NAN, 1.0, 2.0], "a": [None, "x", "y"], "c": [1.0, NAN, 3.0]})
    encoder, _ = TableEncoder.fit(table)
    assert [term.name for term in encoder.terms] == ["b", "a", "a (missing)", "c", "c (missing)"]
    assert [column.missing_term for column in encoder.columns] == ["a (missing)", "a (missing)", "c (missing)"]
    assert "'a'" in descriptions(encoder.columns)[0] and "'b'" in descriptions(encoder.columns)[1]


def test_a_missing_term_never_takes_the_name_of_a_column():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"a": [NAN, 1.0, 2.0], "a (missing)": [1, 2, 3]}))
    names = [term.name for term in encoder.terms]
    assert len(set(names)) == 3


def test_a_cell_missing_only_at_prediction_contributes_nothing_with_one_warning():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]}))
    with pytest.warns(UnseenMissingWarning, match="'a', 'b'") as caught:
        values = encoder.encode(pd.DataFrame({"a": [NAN, 1.0], "b": ["y", None]}))
    assert len(caught) == 1 and same(values, [[NAN, 1.0], [1.0, NAN]])


def test_a_column_wholly_missing_at_prediction_is_accepted_whatever_its_dtype():
    table = pl.DataFrame({"a": [1, 2, None], "b": ["x", None, "y"], "c": [date(2024, 1, 1), None, date(2024, 1, 2)]})
    encoder, _ = TableEncoder.fit(table)
    values = encoder.encode(pl.DataFrame({"a": [None], "b": [None], "c": [None]}))
    by_name = dict(zip([term.name for term in encoder.terms], values[0], strict=True))
    assert by_name["a (missing)"] == by_name["b (missing)"] == 1.0
    assert np.isnan([by_name["a"], by_name["b"], by_name["c"]]).all()


# constants and bad tables


def test_constant_columns_are_left_out_with_a_warning():
    table = pd.DataFrame({"one": [1.0, 1.0], "same": ["x", "x"], "n": [1, 2], "nearly": [1.0, 1.0 + 1e-15]})
    with pytest.warns(ConstantColumnWarning, match=r"3 constant column\(s\).*'one', 'same', 'nearly'"):
        encoder, encoded = TableEncoder.fit(table)
    assert [term.name for term in encoder.terms] == ["n"] and encoded.shape == (2, 1)
    assert "left out" in descriptions(encoder.columns)[0]
    assert encoder.encode(table.assign(one=7.0, same="other")).tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("cells", [[NAN, NAN, NAN], [None, None, None], ["?", "NA", ""]])
@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_without_any_value_is_left_out_with_a_warning(cells, library):
    table = library.DataFrame({"empty": cells, "gap": [None, 1.0, 2.0]})
    with pytest.warns(ConstantColumnWarning, match=r"1 column\(s\) without any value left out of the model: 'empty'"):
        encoder, _ = TableEncoder.fit(table)
    assert [term.name for term in encoder.terms] == ["gap", "gap (missing)"]
    assert "no value: left out" in str(encoder)
    later = encoder.encode(library.DataFrame({"empty": [1.0], "gap": [3.0]}))
    np.testing.assert_array_equal(later, [[3.0, 0.0]])
    assert unpack(TableEncoder, pack(encoder)[0]) == encoder
    with pytest.raises(InputError, match=r"always_keep: expected columns that vary, got 'empty', which has no value"):
        grouping_of(encoder, None, None, ["empty"])


def test_numbers_of_huge_spread_are_no_constant():
    assert only([-1e300, 1e300])[0].kind == "number"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "duplicate names: 'a'"),
        (pa.table([[1, 2], [3, 4]], names=["a", "a"]), "duplicate names: 'a'"),
        (pd.DataFrame({"a": [1, 2], 3: [1, 2]}), "all text"),
        (pd.DataFrame({"a": [1.0, np.inf, -np.inf]}), r"'a'.*inf.*row 1 \(2 such cells\)"),
        (pd.DataFrame({"a": ["1", "inf"]}), "'a'.*inf.*row 1"),
        (np.array([[1.0, 2.0], [3.0, np.inf]]), "'x1'.*inf.*row 1"),
        (pd.DataFrame({"a": [1, "x", 2]}), "mixed types in one column: 1 in row 0 and 'x' in row 1"),
        (pd.DataFrame({"a": [True, 2.5, None]}), "mixed types in one column"),
        (pd.DataFrame({"a": [[1], [2]]}), r"'a'.*\[1\] of type list in row 0"),
        (pd.DataFrame({"a": [b"x", b"y"]}), "bytes"),
        (pl.DataFrame({"a": [[1], [2]]}), "'a'"),
        (pl.DataFrame({"a": [1, 2]}).lazy(), "collect"),
        (pd.DataFrame({"a": np.array([0, 10**15], dtype="datetime64[s]")}), "'a'.*years 1 to 9999"),
        (pd.DataFrame({"a": np.array([], dtype=float)}), r"Found array with 0 sample\(s\)"),
        (pd.DataFrame({"a": [1.0]}), r"1 sample\(s\).*minimum of 2 is required by Thing"),
        (pd.DataFrame(index=[0, 1]), r"0 feature\(s\) \(shape=\(2, 0\)\)"),
        (np.empty((12, 0)), r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required"),
        (np.empty((0, 3)), r"Found array with 0 sample\(s\)"),
        (np.ones((1, 3)), r"1 sample\(s\)"),
        (np.ones(3), "Expected 2D array, got 1D array instead.*"),
        (pd.Series([1.0, 2.0]), "Reshape your data"),
        (pl.Series([1.0, 2.0]), "Reshape your data"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (np.ones((2, 2, 2)), "3D array"),
        ([[1, 2], [3]], "ragged"),
        ([[10**400], [1]], "float64"),
    ],
)
def test_a_bad_table_gets_one_clear_sentence(table, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder.fit(table, estimator_name="Thing")


def test_one_dimension_is_answered_with_how_to_reshape():
    with pytest.raises(ValueError, match="Reshape your data"):
        TableEncoder.fit(np.ones(3))


def test_sparse_matrices_are_refused_in_one_sentence():
    with pytest.raises(InputError, match=r"a dense table, got a sparse one .*toarray\(\)"):
        TableEncoder.fit(sparse.csr_array(np.eye(3)))


def test_a_cell_that_is_no_value_is_a_type_error_and_an_input_error():
    table = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=object)
    table[0, 0] = {"foo": "bar"}
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        TableEncoder.fit(table)
    assert issubclass(CellTypeError, InputError)


# arrays and lists


def test_a_list_of_rows_keeps_numbers_beside_text():
    encoder, encoded = TableEncoder.fit([[1, "x"], [2, "y"], [3, "x"]])
    assert [column.kind for column in encoder.columns] == ["number", "category"]
    assert encoded.tolist() == [[1.0, 0.0], [2.0, 1.0], [3.0, 0.0]]


def test_arrays_have_numbered_names():
    encoder, encoded = TableEncoder.fit(np.arange(6).reshape(3, 2))
    assert encoder.names == ("x0", "x1") and not encoder.named
    assert encoded.dtype == np.float64 and same(encoded, np.arange(6).reshape(3, 2))


def test_a_frame_with_numbered_columns_counts_as_unnamed():
    encoder, _ = TableEncoder.fit(pd.DataFrame(np.arange(6).reshape(3, 2)))
    assert not encoder.named and encoder.names == ("x0", "x1")


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_encoded_array_shares_no_memory_with_the_input(order):
    array = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]], order=order)
    _, encoded = TableEncoder.fit(array)
    assert not np.shares_memory(array, encoded)


# at prediction


def test_columns_are_matched_by_name_in_any_order():
    table = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"]})
    encoder, encoded = TableEncoder.fit(table)
    assert same(encoder.encode(table[["b", "a"]]), encoded)
    assert same(encoder.encode(pl.from_pandas(table[["b", "a"]])), encoded)


def test_other_columns_are_refused_in_scikit_learns_words():
    encoder, _ = TableEncoder.fit(pd.DataFrame({name: [1, 2] for name in "abcdefgh"}))
    start = "The feature names should match those that were passed during fit.\n"
    with pytest.raises(InputError) as unseen:
        encoder.encode(pd.DataFrame({name: [1, 2] for name in "abcdefgz"}))
    missing = "Feature names seen at fit time, yet now missing:\n- h\n"
    assert str(unseen.value) == f"{start}Feature names unseen at fit time:\n- z\n{missing}"
    with pytest.raises(InputError) as missing:
        encoder.encode(pd.DataFrame({"a": [1, 2]}))
    listed = "".join(f"- {name}\n" for name in "bcdef")
    assert str(missing.value) == f"{start}Feature names seen at fit time, yet now missing:\n{listed}- ...\n"


def test_another_width_is_refused_in_scikit_learns_words():
    encoder, _ = TableEncoder.fit(np.arange(8.0).reshape(2, 4), estimator_name="Thing")
    with pytest.raises(InputError, match="X has 3 features, but Thing is expecting 4 features as input"):
        encoder.encode(np.ones((2, 3)))


def test_names_on_one_side_only_are_warned_of_in_scikit_learns_words():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    named, encoded = TableEncoder.fit(table, estimator_name="Thing")
    with pytest.warns(
        UserWarning, match="X does not have valid feature names, but Thing was fitted with feature names"
    ):
        assert same(named.encode(table.to_numpy()), encoded)
    unnamed, _ = TableEncoder.fit(table.to_numpy(), estimator_name="Thing")
    with pytest.warns(UserWarning, match="X has feature names, but Thing was fitted without feature names"):
        assert same(unnamed.encode(table), encoded)


def test_text_where_numbers_were_is_read_if_every_cell_is_a_number():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"a": [1, 2, 3]}))
    assert encoder.encode(pd.DataFrame({"a": ["1.5", "2"]}))[:, 0].tolist() == [1.5, 2.0]
    with pytest.raises(InputError, match="'a': expected numbers, got the text 'x' in row 1"):
        encoder.encode(pd.DataFrame({"a": ["1.5", "x"]}))


@pytest.mark.parametrize(
    ("fitted", "given"),
    [([1, 2], DATES), (DATES, [1, 2]), ([timedelta(1), timedelta(2)], [1, 2]), (DATES, ["soon", "later"])],
)
def test_a_column_that_changed_its_nature_is_an_error(fitted, given):
    encoder, _ = TableEncoder.fit(pd.DataFrame({"a": fitted}))
    with pytest.raises(InputError, match="column 'a'"):
        encoder.encode(pd.DataFrame({"a": given}))


def test_one_row_is_enough_at_prediction_and_infinity_still_an_error():
    encoder, _ = TableEncoder.fit(np.array([[1.0], [2.0]]))
    assert encoder.encode([[5]]).tolist() == [[5.0]]
    with pytest.raises(InputError, match="inf"):
        encoder.encode([[np.inf]])


# saying and saving


def test_printing_the_encoder_says_what_was_done_with_every_column():
    table = pd.DataFrame({"age": [1.0, NAN, 3.0], "colour": ["red", "?", "blue"], "born": pd.to_datetime(DATES)})
    encoder, _ = TableEncoder.fit(table)
    text = str(encoder)
    lines = text.splitlines()
    assert lines[0] == "3 column(s) became 4 term(s)" and len(lines) == 4
    assert "'?' taken as missing" in lines[2] and "days since 1970-01-01" in lines[3]
    assert [(term.name, term.column) for term in encoder.terms] == [
        ("age", 0),
        ("age (missing)", 0),
        ("colour", 1),
        ("born", 2),
    ]


def test_an_encoder_survives_json():
    table = pd.DataFrame(
        {"a": [1, 2, None, 4], "b": ["x", "y", "z", "x"], "d": [date(2024, 1, day) for day in (1, 2, 3, 4)]}
    )
    encoder, encoded = TableEncoder.fit(table, max_levels=2, estimator_name="Thing")
    again = unpack(TableEncoder, json.loads(json.dumps(pack(encoder)[0])))
    assert again == encoder and same(again.encode(table), encoded)


# files


@pytest.fixture
def mixed():
    rng = np.random.default_rng(0)
    rows = 60
    return pd.DataFrame(
        {
            "size": np.where(rng.random(rows) < 0.2, NAN, rng.normal(size=rows).round(3)),
            "count": rng.integers(0, 9, rows),
            "colour": rng.choice(np.array(["red", "green", "blue", None], dtype=object), rows),
            "good": rng.random(rows) < 0.5,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, rows), unit="D"),
        }
    )


def test_csv_and_parquet_read_by_pandas_and_polars_give_the_same_numbers(mixed, tmp_path):
    csv, parquet = tmp_path / "table.csv", tmp_path / "table.parquet"
    mixed.to_csv(csv, index=False)
    mixed.to_parquet(parquet)
    encoder, encoded = TableEncoder.fit(mixed)
    for table in (
        pd.read_csv(csv),
        pd.read_csv(csv, dtype=str),
        pl.read_csv(csv),
        pl.read_csv(csv, try_parse_dates=True),
        pd.read_parquet(parquet),
        pl.read_parquet(parquet),
        pa.Table.from_pandas(mixed),
    ):
        assert same(encoder.encode(table), encoded)
        refitted, values = TableEncoder.fit(table)
        assert refitted.terms == encoder.terms and same(values, encoded)


# the target


def test_a_table_that_holds_its_target_is_refused():
    table = pd.DataFrame({"a": range(12), "price": np.arange(12) ** 2.0, "word": ["x", "y", "z"] * 4})
    for y in (table["price"], table["price"].to_numpy(), list(table["price"]), table["word"], table[["price"]]):
        with pytest.raises(InputError, match="y itself"):
            check_target_not_inside(table, y)
    with pytest.raises(InputError, match="'price'"):
        check_target_not_inside(pl.from_pandas(table), pl.from_pandas(table)["price"])


def test_a_table_without_its_target_is_accepted():
    table = pd.DataFrame({"a": range(12), "price": np.arange(12) ** 2.0})
    check_target_not_inside(table, table["price"].rename("a") + 1)
    check_target_not_inside(table.to_numpy(), table["price"].to_numpy())  # no names: may be a toy
    check_target_not_inside(table.head(3), [0, 1, 2])  # too few rows to tell
    check_target_not_inside(table, np.ones((12, 2)))


# groups


def with_missing():
    table = pd.DataFrame({"a": [NAN, 1.0, 2.0, 3.0], "b": [1, 2, 3, 5], "c": ["x", "y", "z", "x"], "d": [4, 3, 2, 2]})
    return TableEncoder.fit(table, split_levels=True)[0]


def test_a_weight_for_each_column_becomes_one_for_each_term():
    encoder = with_missing()
    assert encoder.term_columns.tolist() == [0, 0, 1, 2, 2, 2, 3]
    penalty = spread(GroupLasso(np.array([2.0, 0.5, 1.0, 7.0])), encoder.term_columns, 4)
    assert np.asarray(penalty.weights).tolist() == [2.0, 2.0, 0.5, 1.0, 1.0, 1.0, 7.0]
    with pytest.raises(InputError, match="one weight for each of the 4 columns"):
        spread(GroupLasso(np.ones(7)), encoder.term_columns, 4)


def test_groups_hold_the_terms_of_their_columns_and_the_largest_weight():
    grouping = grouping_of(with_missing(), [["a", "d"]], {"d": 3.0, "b": 0.5}, None)
    pairs = zip(grouping.members, grouping.weights, strict=True)
    groups = {tuple(terms.tolist()): weight for terms, weight in pairs}
    assert groups == {(0, 1, 6): 3.0, (2,): 0.5, (3, 4, 5): 1.0}
    assert grouping.weights[grouping.group_of].tolist() == [3.0, 3.0, 0.5, 1.0, 1.0, 1.0, 3.0]
    assert [terms.tolist() for terms in grouping.take(np.array([6, 2, 0])).members] == [[0, 2], [1]]


def test_a_group_with_a_column_always_kept_is_free():
    grouping = grouping_of(with_missing(), [["a", "d"]], {"d": 3.0}, ["a"])
    assert sorted(grouping.weights.tolist()) == [0.0, 1.0, 1.0]
    with pytest.raises(InputError, match="always_keep: expected names of columns"):
        grouping_of(with_missing(), None, None, ["nobody"])


def test_without_a_request_every_term_is_a_group():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"a": [NAN, 1.0, 2.0], "b": [1, 2, 3]}))
    assert grouping_of(encoder, None, None, None) is None
    separate = Grouping.separate(3)
    assert separate.group_of.tolist() == [0, 1, 2] and separate.weights.tolist() == [1.0, 1.0, 1.0]


def test_a_column_to_keep_that_was_left_out_is_an_error_that_says_so():
    gaps = [None if row % 3 else "same" for row in range(30)]
    texts = [f"id{row}" for row in range(30)]
    table = pd.DataFrame({"id": texts, "site": "same", "gaps": gaps, "x": np.arange(30.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder, _ = TableEncoder.fit(table)
    with pytest.raises(InputError, match=r"always_keep: expected columns that vary, got 'site', which has one single"):
        grouping_of(encoder, None, None, ["x", "site"])
    with pytest.raises(
        InputError, match=r"always_keep.*got 'id', of which nearly every cell is different.*feature_types"
    ):
        grouping_of(encoder, None, None, [0])
    kept = grouping_of(encoder, None, None, ["gaps"])  # where it is missing varies
    assert kept is not None and sorted(kept.weights) == [0.0, 1.0]
