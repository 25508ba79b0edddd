"""Prediction of a few rows and of many: the same answers, warnings and errors as for the table as a whole."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sparsenam
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.families import Gaussian
from sparsenam.model import AdditiveModel, FittedCurve
from sparsenam.tables import prediction
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.prediction import encode_in_parts, few_terms
from sparsenam.tables.text import UnseenLevelWarning, UnseenMissingWarning


def numbers(rows=300, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 5))


def joint(table):
    return table[:, 0] * table[:, 1] + np.sin(2.0 * table[:, 2])


def with_gaps():
    table = numbers()
    table[::7, 1] = np.nan
    table[:, 3] = 4.0  # constant: left out
    return table


CASES = {
    "pairs": (SNAMRegressor(pairs=[(0, 1)]), numbers(), joint(numbers())),
    "classes": (SNAMClassifier(), numbers(), np.digitize(joint(numbers()), [-0.5, 0.5])),
    "counts": (SNAMRegressor(family="poisson"), numbers(), np.round(np.exp(joint(numbers()) / 2.0))),
    "missing cells and a constant": (SNAMRegressor(), with_gaps(), np.isnan(with_gaps()[:, 1]) + joint(numbers())),
}


def answers(model, table):
    return model.predict_proba(table) if hasattr(model, "predict_proba") else model.predict(table)


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    model, table, target = CASES[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(random_state=0).fit(table, target)


def test_rows_by_themselves_get_the_answers_of_the_whole_table_to_the_bit(fitted, tmp_path):
    table = np.vstack([numbers(60, 1), 1e9 * numbers(5, 2), np.zeros((1, 5))])
    fitted.save(tmp_path / "model.snam")
    for model in (fitted, sparsenam.load(tmp_path / "model.snam")):
        assert few_terms(model.encoder_, table) is None and few_terms(model.encoder_, table[:1]) is not None
        alone = np.concatenate([answers(model, table[row : row + 1]) for row in range(len(table))])
        np.testing.assert_array_equal(alone, answers(model, table))


def test_a_missing_cell_in_a_single_row_is_what_it_is_among_others():
    model, table, target = CASES["missing cells and a constant"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_params(random_state=0).fit(table, target)
    np.testing.assert_array_equal(
        [model.predict(table[row : row + 1])[0] for row in range(9)], model.predict(table)[:9]
    )


def random_shape(generator, outputs):
    knots = np.cumsum(generator.exponential(size=generator.integers(1, 9)))
    draw = generator.normal(size=(knots.size + 3, outputs)) * 10.0 ** generator.integers(-3, 4, (knots.size + 3, 1))
    return FittedCurve(knots, draw[3:], *draw[:3])


@pytest.mark.parametrize("seed", range(20))
def test_lists_add_up_to_what_arrays_do_to_the_bit(seed):
    generator = np.random.default_rng(seed)
    outputs = seed % 3 + 1
    shapes = [random_shape(generator, outputs) for _ in range(3)]
    rows = generator.normal(2.0, 3.0, (50, 3))
    for place, term in enumerate((1, 0, 2)):  # at knots too
        rows[9 * place : 9 * place + 9, term] = generator.choice(shapes[place].knots, 9)
    terms, intercept = np.array([1, 0, 2]), generator.normal(size=outputs)
    model = AdditiveModel(Gaussian(), terms, 3, tuple(shapes), intercept)
    np.testing.assert_array_equal(model.scores_of_few(rows.tolist()), model.scores(rows))


def test_named_rows_of_numbers_are_quick_only_with_the_names_of_the_fit_in_their_order():
    table = pd.DataFrame(numbers(20), columns=list("abcde"))
    encoder, _ = TableEncoder.fit(table)
    row = table.iloc[:1]
    for same in (row, row.astype(object), pl.DataFrame(row.to_dict("list"))):
        assert few_terms(encoder, same) == row.to_numpy().tolist()
    others = [row[list("edcba")], row.to_numpy(), row.to_numpy().tolist(), row[:0]]
    others += [row.rename(columns={"a": "z"}), row.assign(a=np.nan), row.assign(a=np.inf), row.assign(a=True)]
    assert all(few_terms(encoder, other) is None for other in others)
    plain, _ = TableEncoder.fit(table.to_numpy())
    whole = numbers(3).astype(int)
    assert few_terms(plain, whole) == whole.astype(float).tolist()
    assert (
        few_terms(plain, whole[:1].tolist())
        == few_terms(plain, [tuple(whole[0].tolist())])
        == few_terms(plain, whole[:1])
    )
    others = [whole[:, :4], whole[:0], whole[0], whole > 0, whole.tolist(), np.ma.masked_array(whole), table.iloc[:1]]
    others += [[[True, 1, 2, 3, 4]], [[2**64, 1, 2, 3, 4]], [["1", 1, 2, 3, 4]], [[None, 1, 2, 3, 4]], [], [[]]]
    assert all(few_terms(plain, other) is None for other in others)


def test_columns_that_are_no_plain_numbers_are_never_taken_for_them():
    for settings in ({"feature_types": {0: "category"}}, {"feature_types": {0: "ordered"}}):
        encoder, _ = TableEncoder.fit(np.round(numbers(50)), **settings)
        assert few_terms(encoder, np.round(numbers(1))) is None
    days, _ = TableEncoder.fit(np.array([["2020-01-01"], ["2021-01-01"]], dtype="datetime64[D]"))
    assert few_terms(days, np.array([[1.0]])) is None


def mixed(rows, levels="abc"):
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": np.where(generator.uniform(size=rows) < 0.2, np.nan, generator.normal(size=rows)),
            "kind": pd.Categorical(generator.choice(list(levels), rows)),
            "text": generator.choice(["left", "right"], rows).astype(object),
            "count": generator.integers(0, 9, rows),
            "truth": generator.uniform(size=rows) < 0.5,
        }
    )


@pytest.mark.parametrize("split_levels", [False, True])
@pytest.mark.parametrize("make", [lambda table: table, pl.DataFrame], ids=["pandas", "polars"])
def test_one_row_of_known_levels_is_read_as_among_others(make, split_levels):
    table = mixed(200).assign(code=[f"0{row % 5}" if row % 7 else "1.0" for row in range(200)])
    encoder, terms = TableEncoder.fit(make(table), max_levels=3, split_levels=split_levels)
    assert any(column.pooled for column in encoder.columns)
    quick = [few_terms(encoder, make(table.iloc[row : row + 1])) for row in range(200)]
    complete = table["size"].notna().to_numpy()
    assert [found is not None for found in quick] == complete.tolist()
    np.testing.assert_array_equal([found[0] for found in quick if found is not None], terms[complete])
    row = make(table[complete].iloc[:1].astype({"kind": object, "text": object}))
    assert few_terms(encoder, row) is not None
    for changes in ({"text": "up"}, {"text": "NA"}, {"text": 1.0}, {"truth": 1}, {"count": "3"}):
        other = make(table[complete].iloc[:1].assign(**changes))
        assert few_terms(encoder, other) is None


TABLES = {
    "array": lambda table: table[["size", "count"]].to_numpy(),
    "pandas": lambda table: table,
    "polars": lambda table: pl.DataFrame(table),
    "arrow": lambda table: pl.DataFrame(table).to_arrow(),
    "nullable": lambda table: table.convert_dtypes(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_long_table_in_parts_is_the_table(kind, monkeypatch):
    monkeypatch.setattr(prediction, "ROWS_IN_PART", 7)
    table = TABLES[kind](mixed(60))
    encoder, encoded = TableEncoder.fit(table)
    found = list(encode_in_parts(encoder, table))
    assert [len(part) for part in found] == [7] * 8 + [4]
    np.testing.assert_array_equal(np.concatenate(found), encoded)


def test_a_column_of_mixed_objects_is_read_whole(monkeypatch):
    monkeypatch.setattr(prediction, "ROWS_IN_PART", 7)
    encoder, _ = TableEncoder.fit(mixed(60)[["text", "size"]])
    odd = mixed(60)[["text", "size"]].assign(text=[1] * 30 + ["left"] * 30)
    with pytest.raises(InputError, match="mixed types") as whole:
        encoder.encode(odd)
    with pytest.raises(InputError) as in_parts:
        list(encode_in_parts(encoder, odd))
    assert str(in_parts.value) == str(whole.value)


def caught(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [(warning.category, str(warning.message)) for warning in found]


def test_a_long_table_warns_once_of_what_is_new_in_any_part(monkeypatch):
    monkeypatch.setattr(prediction, "ROWS_IN_PART", 7)
    encoder, _ = TableEncoder.fit(mixed(60))
    news = mixed(60, levels="abcde").assign(count=lambda table: table["count"].astype(float).where(table.index != 50))
    found = caught(lambda: list(encode_in_parts(encoder, news)))
    assert found == caught(lambda: encoder.encode(news))
    assert [category for category, _ in found] == [UnseenLevelWarning, UnseenMissingWarning]
    named = caught(lambda: list(encode_in_parts(encoder, mixed(60).set_axis(range(5), axis=1))))
    assert len(named) == 1 and "feature names" in named[0][1]


def test_an_error_in_a_late_part_names_the_row_of_the_whole_table(monkeypatch):
    monkeypatch.setattr(prediction, "ROWS_IN_PART", 7)
    encoder, _ = TableEncoder.fit(numbers(60))
    wrong = numbers(60)
    wrong[[33, 50], 2] = np.inf
    with pytest.raises(InputError, match=r"'x2'.* in row 33 \(2 such cells\)"):
        list(encode_in_parts(encoder, wrong))
    with pytest.raises(InputError, match="4 features"):
        list(encode_in_parts(encoder, wrong[:, :4]))


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame], ids=["array", "pandas"])
def test_predicting_a_long_table_takes_a_small_part_of_its_memory(kind):
    model = SNAMRegressor(random_state=0).fit(numbers(), joint(numbers()))
    table = kind(np.tile(numbers(500), (600, 1)))
    model.predict(table[:100])
    tracemalloc.start()
    model.predict(table)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 / 3 * np.asarray(table).nbytes
