"""How columns of text write numbers and dates, and that a fitted column goes on to read them so."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sparsenam import SNAMRegressor, load
from sparsenam.codec import pack, unpack
from sparsenam.errors import InputError
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.prediction import few_terms
from sparsenam.tables.text import (
    DoubtfulCellWarning,
    UnseenColumnWarning,
    UnseenLevelWarning,
    WritingFound,
    find_writing,
    prefers_comma,
)

WAYS = [
    (["1", "2.5", "1e3"], "number", "plain", [1.0, 2.5, 1000.0]),
    (["$1,234", "$999.50", "-$3", "($1,000)"], "number", "point", [1234.0, 999.5, -3.0, -1000.0]),
    (["1.234,50 €", "12", "0,5", "-7,25 €"], "number", "comma", [1234.5, 12.0, 0.5, -7.25]),
    (["EUR 1'234.50", "CHF 2"], "number", "point", [1234.5, 2.0]),
    (["1 234,5", "1\u00a0000\u00a0000,25"], "number", "comma", [1234.5, 1000000.25]),
    (["12 %", "3.5%"], "number", "point %", [12.0, 3.5]),
    (["12,5 %", "3%"], "number", "comma %", [12.5, 3.0]),
    (["1,234,567", "12"], "number", "point", [1234567.0, 12.0]),
    (["2024-01-31", "2023-12-01T12:00"], "date", "plain", [19753.0, 19692.5]),
    (["1/31/2024", "12/1/2023 12:00 PM"], "date", "month first", [19753.0, 19692.5]),
    (["31/1/2024", "1/12/2023 12:00"], "date", "day first", [19753.0, 19692.5]),
    (["31.01.2024", "1.2.2024"], "date", "day first", [19753.0, 19754.0]),
    (["1/31/24", "12/1/70"], "date", "month first", [19753.0, 334.0]),
    (["2024/01/31", "2024/02/01"], "date", "month first", [19753.0, 19754.0]),
]


def table_of(texts):
    return pd.DataFrame({"x": texts, "n": np.arange(float(len(texts)))})


@pytest.mark.parametrize(("texts", "kind", "writing", "numbers"), WAYS)
def test_a_way_of_writing_is_found_from_all_cells_and_kept(texts, kind, writing, numbers):
    assert find_writing(texts) == WritingFound(kind, writing)
    for make in (table_of, lambda cells: pl.DataFrame({"x": cells, "n": np.arange(float(len(cells)))})):
        encoder, terms = TableEncoder.fit(make(texts))
        assert encoder.columns[0].writing == writing and encoder.columns[0].kind == kind
        np.testing.assert_allclose(terms[:, 0], numbers)
        again = unpack(TableEncoder, json.loads(json.dumps(pack(encoder)[0])))
        np.testing.assert_allclose(again.encode(make(texts[:1]))[:, 0], numbers[:1])


@pytest.mark.parametrize(
    "texts",
    [
        ["1,2,3", "1"],
        ["1.2.3", "1"],
        ["12 %", "0.5"],
        ["1,5", "1.5"],
        ["13/13/2024", "1/1/2024"],
        ["0123,5", "1,5"],
        [],
    ],
)
def test_cells_that_contradict_each_other_are_no_numbers(texts):
    assert find_writing(texts) is None


def test_one_cell_decides_a_column_and_one_column_those_in_doubt():
    assert find_writing(["1,234", "12"]).doubt == "1,234"
    assert find_writing(["1,234", "0,5"]) == WritingFound("number", "comma")
    assert find_writing(["1,234", "1,234.5"]) == WritingFound("number", "point")
    assert find_writing(["1,234", "12"], prefers_comma=True) == WritingFound("number", "comma", "1,234")
    assert prefers_comma([["0,5"], ["1,234"], ["a"]]) and not prefers_comma([["0,5"], ["$0.5"]])
    _, terms = TableEncoder.fit(pd.DataFrame({"a": ["1,234", "2,345"], "b": ["0,5", "1,25"]}), {"a": "decimal comma"})
    np.testing.assert_allclose(terms, [[1.234, 0.5], [2.345, 1.25]])


def test_a_column_in_doubt_is_said_once_with_what_was_taken_and_may_be_decided():
    table = pd.DataFrame({"a": ["1,234", "2,345"], "b": ["3,000", "4,000"], "day": ["1/2/2024", "3/4/2024"]})
    with pytest.warns(
        DoubtfulCellWarning, match=r"'a' \(and so 'b', 'day'\).*'1,234'.*1,234\.5.*decimal comma"
    ) as said:
        _, terms = TableEncoder.fit(table)
    assert len(said) == 1 and terms[0].tolist() == [1234.0, 3000.0, 19724.0]
    types = {"a": "decimal comma", "b": "decimal point", "day": "day first"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder, terms = TableEncoder.fit(table, types)
    assert terms[0].tolist() == [1.234, 3000.0, 19754.0]
    assert encoder.encode(table.iloc[[1]])[0, 0] == 2.345


def test_a_saved_model_reads_new_cells_as_those_of_its_fit(tmp_path):
    random = np.random.default_rng(0)
    x = np.round(random.uniform(0.0, 5000.0, 200), 2)
    german = [f"{value:,.2f} €".translate(str.maketrans(",.", ".,")) for value in x]
    SNAMRegressor(random_state=0).fit(pd.DataFrame({"price": german}), x / 1000.0).save(tmp_path / "m.snam")
    model = load(tmp_path / "m.snam")
    found = model.predict(pd.DataFrame({"price": ["1,234", "1.234", "1234,0"]}))
    np.testing.assert_allclose(found[1], found[2])
    assert abs(found[1] - 1.234) < 0.1 and abs(found[0]) < 0.1
    with pytest.raises(InputError, match=r"numbers written as 1\.234,5, got the text '12\.5' in row 1"):
        model.predict(pd.DataFrame({"price": ["1", "12.5"]}))


@pytest.mark.parametrize("dtype", ["object", "category"])
def test_blanks_around_a_level_do_not_make_another(dtype):
    fitted = pd.DataFrame({"x": pd.Series([" Private", "Private", "State ", " ?"] * 3, dtype=dtype)})
    encoder, terms = TableEncoder.fit(fitted)
    assert encoder.columns[0].levels == ("Private", "State") and encoder.columns[0].n_missing == 3
    np.testing.assert_array_equal(encoder.encode(pd.DataFrame({"x": ["Private ", "State"]}))[:, 0], [0.0, 1.0])
    assert few_terms(encoder, pd.DataFrame({"x": ["  State"]}))[0][0] == 1.0
    np.testing.assert_array_equal(terms[:3, 0], [0.0, 0.0, 1.0])


def test_a_warning_of_unseen_levels_counts_cells_and_another_says_that_all_are_unseen():
    encoder, _ = TableEncoder.fit(pd.DataFrame({"x": list("aab")}))
    with pytest.warns(UnseenLevelWarning, match="'x': 1 level.*'q', in 2 of 3 cells") as said:
        encoder.encode(pd.DataFrame({"x": list("qaq")}))
    assert not issubclass(said[0].category, UnseenColumnWarning)
    with pytest.warns(UnseenColumnWarning, match=r"'x': all 2 cells hold.*'q'.*those of the fit were 'a', 'b'"):
        encoder.encode(pd.DataFrame({"x": list("qr")}))
