"""Rows outside the sample: what they hold is read, warned of once, and named by its row in the table."""

import pickle
import warnings

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.exceptions import ConvergenceWarning

from fit_cases import small_blocks
from sparsenam import SNAMClassifier, SNAMRegressor, predict_table
from sparsenam.context import Streams
from sparsenam.errors import ConstantColumnWarning, InputError, RowError
from sparsenam.families import Huber, Quantile
from sparsenam.tables import blocks
from sparsenam.tables.text import UnseenLevelWarning, UnseenMissingWarning
from sparsenam.training import Network

ROWS = 2000


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small_blocks(monkeypatch, sample=600, height=250)


def outside():
    """The numbers of rows that are not in the sample."""
    held = blocks.MemoryBlocks(np.arange(ROWS)[:, None], np.arange(ROWS))
    seed = Streams(0).integer("sample of rows")
    return np.setdiff1d(np.arange(ROWS), blocks.sample_of(held, seed, 600).y)


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"a": generator.normal(size=ROWS), "b": generator.normal(size=ROWS)})
    frame["colour"] = generator.choice(["red", "green"], ROWS)
    frame["y"] = frame["a"] + (frame["colour"] == "red") + 0.1 * generator.normal(size=ROWS)
    frame["class"] = np.where(frame["y"] > 0, "yes", "no").astype(object)
    frame["n"] = generator.poisson(2.0, ROWS)
    frame["w"] = 1.0
    return frame


def written(frame, folder):
    frame.to_parquet(folder / "table.parquet", index=False)
    return str(folder / "table.parquet")


def quick(kind=SNAMRegressor, **settings):
    return kind(alpha=0.02, random_state=0, **settings)


def warned(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [(one.category, str(one.message)) for one in caught]


@pytest.fixture
def with_news(table):
    """A table with two levels and missing cells that the sample does not hold, in several blocks."""
    rows = outside()
    table.loc[rows[::50], "colour"] = "blue"
    table.loc[rows[1::50], "colour"] = "pink"
    table.loc[rows[2::50], "b"] = np.nan
    return table[["a", "b", "colour", "y", "n"]]


EXPECTED = [
    (
        UnseenLevelWarning,
        "column 'colour': 2 level(s) never seen in the sample that chose the columns contribute nothing: "
        "'blue', 'pink'.",
    ),
    (
        UnseenMissingWarning,
        "1 column(s) without missing cells in the sample that chose the columns miss some in other rows, which "
        "contribute nothing: 'b'.",
    ),
]


@pytest.mark.parametrize("target", ["y", "n"])
def test_what_the_sample_does_not_hold_is_warned_of_once_a_fit(target, with_news, tmp_path):
    frame = with_news.drop(columns="n" if target == "y" else "y")
    family = "gaussian" if target == "y" else "poisson"
    path = written(frame, tmp_path)
    inputs, given = frame.drop(columns=target), frame[target].to_numpy()
    assert warned(lambda: quick(family=family).fit(path, target)) == EXPECTED
    assert warned(lambda: quick(family=family).fit(inputs, given)) == EXPECTED
    with dask.config.set(scheduler="synchronous"):
        partitions = dd.from_pandas(frame, npartitions=ROWS // blocks.BLOCK_ROWS)
        assert warned(lambda: quick(family=family).fit(partitions, target)) == EXPECTED


def test_a_network_that_is_trained_on_files_warns_once_of_each_column(with_news, tmp_path):
    path = written(with_news[["a", "b", "colour", "y"]], tmp_path)
    network = Network(hidden=(4,), max_epochs=3)
    found = warned(lambda: SNAMRegressor(alpha=0.01, network=network, random_state=0).fit(path, "y"))
    assert [category for category, _ in found if issubclass(category, UnseenLevelWarning | UnseenMissingWarning)] == [
        UnseenLevelWarning,
        UnseenMissingWarning,
    ]


def test_a_table_in_blocks_is_predicted_with_one_warning_for_each_column(with_news, tmp_path):
    inputs = with_news[["a", "b", "colour"]]
    known = with_news[with_news["colour"].isin(["red", "green"]) & with_news["b"].notna()].head(400)
    model = quick().fit(known[["a", "b", "colour"]], known["y"])
    path = written(inputs, tmp_path)
    assert warned(lambda: predict_table(model, path, to=tmp_path / "out.parquet")) == warned(
        lambda: model.predict(inputs)
    )


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma", "tweedie", Huber(), Quantile(level=0.8)])
def test_where_nothing_is_kept_the_intercept_is_that_of_all_rows(family, table, monkeypatch):
    X, y = table[["a", "b"]], table["n"].to_numpy() + (family == "gamma")
    large = SNAMRegressor(alpha=1e6, family=family, random_state=0).fit(X, y)
    monkeypatch.setattr("sparsenam.estimators.base.SAMPLE_ROWS", ROWS)
    whole = SNAMRegressor(alpha=1e6, family=family, random_state=0).fit(X, y)
    assert not large.get_feature_names_out().size
    assert large.predict(X[:1]) == pytest.approx(whole.predict(X[:1]), rel=1e-2 if family == Huber() else 1e-6)


@pytest.mark.parametrize("labels", [["no", "yes"], ["no", "some", "yes"]])
def test_where_nothing_is_kept_probabilities_are_the_shares_of_all_rows(labels, table, tmp_path):
    table["class"] = np.random.default_rng(1).choice(labels, ROWS)
    path = written(table[["a", "b", "class"]], tmp_path)
    model = SNAMClassifier(alpha=1e6, random_state=0).fit(path, "class")
    shares = [np.mean(table["class"] == label) for label in labels]
    assert model.predict_proba(table[["a", "b"]][:1])[0] == pytest.approx(shares, rel=1e-6)


def test_where_nothing_is_kept_a_bad_target_outside_the_sample_is_found(table, tmp_path):
    row = outside()[-1]
    table.loc[row, "y"] = np.nan
    with pytest.raises(InputError, match=f"y: expected finite numbers, got NaN in row {row}; drop these rows"):
        SNAMRegressor(alpha=1e6, random_state=0).fit(written(table[["a", "y"]], tmp_path), "y")


PLACES = {"outside the sample": -1, "inside": 0}


def bad_row(place):
    rows = outside()
    return int(rows[PLACES[place]] if place != "inside" else np.setdiff1d(np.arange(ROWS), rows)[-1])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("column", "value", "target", "sentence"),
    [
        ("a", np.inf, "y", "column 'a': expected finite numbers, got infinity (inf) in row {row}; fill"),
        ("y", np.nan, "y", "y: expected finite numbers, got NaN in row {row}; drop"),
        ("n", -1, "n", "y of the poisson family: expected numbers not below 0, got -1.0 in row {row}; correct"),
        ("class", None, "class", "y: expected a class in every row, got none in row {row}; leave"),
        ("w", np.nan, "y", "sample_weight: expected finite numbers of at least 0, got none in row {row}; correct"),
        ("w", -2.0, "y", "sample_weight: expected finite numbers of at least 0, got -2 in row {row}; correct"),
    ],
)
def test_a_bad_cell_is_named_by_its_row_in_the_table(column, value, target, sentence, place, table, tmp_path):
    row = bad_row(place)
    table.loc[row, column] = value
    frame = table[["a", "b", target, "w"]]
    kind = SNAMClassifier if target == "class" else SNAMRegressor
    settings = {"family": "poisson"} if target == "n" else {}
    for source in (written(frame, tmp_path), frame, dd.from_pandas(frame, npartitions=7)):
        with pytest.raises(InputError) as caught, dask.config.set(scheduler="synchronous"):
            quick(kind, **settings).fit(source, target, sample_weight="w")
        assert str(caught.value).startswith(sentence.format(row=row))


def test_a_bad_cell_of_a_table_that_is_predicted_is_named_by_its_row(table, tmp_path):
    model = quick().fit(table[["a", "b"]], table["y"])
    table.loc[1234, "a"] = -np.inf
    with pytest.raises(InputError, match=r"infinity \(inf\) in row 1234"):
        predict_table(model, written(table, tmp_path), to=tmp_path / "out.parquet")


def test_an_error_of_a_row_travels_between_processes():
    error = RowError("y", "numbers", (("None", 3),), "drop it", " (2 such rows)")
    assert str(pickle.loads(pickle.dumps(error))) == "y: expected numbers, got None in row 3 (2 such rows); drop it."
    assert str(error.at(range(100, 110))) == "y: expected numbers, got None in row 103; drop it."


def test_weights_that_are_text_or_zero_in_the_sample_are_one_sentence(table, tmp_path):
    frame = table[["a", "y"]].assign(w=np.isin(np.arange(ROWS), outside()).astype(float), t="much")
    path = written(frame, tmp_path)
    with pytest.raises(InputError, match=r"sample_weight: expected some number above 0 in the sample of 600 rows, got"):
        quick().fit(path, "y", sample_weight="w")
    for weights, source in (("t", path), (frame["t"].to_numpy(), frame[["a"]])):
        target = "y" if source is path else frame["y"]
        with pytest.raises(InputError, match=r"sample_weight: expected finite numbers of at least 0, got 'much' in"):
            quick().fit(source, target, sample_weight=weights)


def test_names_and_families_that_do_not_go_together_are_one_sentence(table, tmp_path):
    path = written(table[["a", "b", "y"]], tmp_path)
    with pytest.raises(InputError, match=r"expected different columns, got 'y' twice"):
        quick().fit(path, "y", sample_weight="y")
    for source, target in ((path, "y"), (table[["a", "b"]], table["y"])):
        with pytest.raises(InputError, match=r"exposure: expected a family of rates.*got the gaussian family"):
            quick().fit(source, target, exposure="a")


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda frame: pl.from_pandas(frame).lazy(), "got a lazy table; call its collect() first"),
        (lambda frame: pa.dataset.dataset(pa.Table.from_pandas(frame)).scanner(), "call its to_table() first"),
        (lambda frame: pa.Table.from_pandas(frame).to_reader(), "call its read_all() first"),
        (lambda frame: frame.to_numpy(), "got a numpy array, whose columns have no names"),
        (lambda frame: [], "got a list without any"),
        (lambda frame: b"a.parquet", "got bytes; give the path as text"),
        (lambda frame: ["a.parquet", 3], "got a list with 3"),
        (lambda frame: 7, "got builtins.int"),
    ],
)
def test_what_is_no_table_with_names_is_one_sentence_where_the_target_is_a_name(make, got, table):
    with pytest.raises(InputError) as caught:
        quick().fit(make(table[["a", "y"]]), "y")
    assert got in str(caught.value)
    assert str(caught.value).startswith("X: expected a table with named columns or paths of Parquet files")


def test_predictions_of_files_are_sent_to_the_function_for_them(table, tmp_path):
    model = quick().fit(table[["a", "b"]], table["y"])
    path = written(table, tmp_path)
    for source in (path, tmp_path / "table.parquet", pa.dataset.dataset(path), dd.from_pandas(table, npartitions=2)):
        with pytest.raises(InputError, match=r"X: expected a table in memory.*call sparsenam.predict_table\(model"):
            model.predict(source)


def test_numbers_in_sentences_are_plain(table, tmp_path):
    with pytest.raises(InputError, match="got nan; choose another"):
        SNAMRegressor(max_seconds=np.float64(np.nan)).fit(table[["a"]], table["y"])
    table["class"] = np.where(np.arange(ROWS) % 2, 1, 2)
    row = outside()[-1]
    table.loc[row, "class"] = 9
    with pytest.raises(InputError, match=f"got 9, which it does not hold, in row {row}; leave out"):
        quick(SNAMClassifier).fit(written(table[["a", "class"]], tmp_path), "class")
    with pytest.raises(InputError, match=r"y: expected numbers, got the text 'no' in row 0; convert y"):
        quick().fit(table[["a"]], np.array(["no", "yes"])[np.arange(ROWS) % 2])


def test_columns_constant_or_empty_in_the_sample_are_said_to_be_so_there(table, tmp_path):
    rows = outside()
    frame = table[["a", "y"]].assign(rare=np.isin(np.arange(ROWS), rows[:9]).astype(float))
    path = written(frame, tmp_path)
    with pytest.warns(ConstantColumnWarning, match=r"1 column\(s\) constant in the sample of 600 rows left out"):
        quick().fit(path, "y")
    frame["rare"] = frame["rare"].replace(0.0, np.nan)
    with pytest.warns(ConstantColumnWarning, match=r"1 column\(s\) without any value in the sample of 600 rows"):
        quick().fit(written(frame, tmp_path), "y")


def test_the_index_of_a_table_of_pandas_is_no_column_of_its_files(table, tmp_path):
    frame = table[["a", "b", "y"]].set_index(pd.Index(table["y"].rank(), name="place"))
    parts = [frame.iloc[:900], frame.iloc[900:]]
    for number, part in enumerate(parts):
        part.to_parquet(tmp_path / f"part-{number}.parquet")
    expected = pd.read_parquet(tmp_path / "part-0.parquet").columns.drop("y").tolist()
    for source in (str(tmp_path / "*.parquet"), pa.dataset.dataset(str(tmp_path))):
        model = quick().fit(source, "y")
        assert model.feature_names_in_.tolist() == expected == ["a", "b"]
    out = predict_table(model, str(tmp_path / "part-*.parquet"), to=tmp_path / "out.parquet")
    assert pd.read_parquet(out)["place"].tolist() == frame.index.tolist()  # the table again
    assert quick().fit(str(tmp_path / "part-*.parquet"), "place").n_features_in_ == 3


def test_predictions_are_written_into_no_other_kind_of_file(table, tmp_path):
    model = quick().fit(table[["a", "b"]], table["y"])
    with pytest.raises(InputError, match=r"to: expected a name that ends in .parquet, got 'out.csv'"):
        predict_table(model, written(table, tmp_path), to=tmp_path / "out.csv")


@pytest.mark.usefixtures("ticking")
def test_a_budget_that_ends_before_the_choice_begins_still_finds_a_column(table, tmp_path):
    path = written(table[["a", "b", "y"]], tmp_path)
    with pytest.warns(ConvergenceWarning, match="max_seconds ran out"):
        model = SNAMRegressor(max_seconds=1e-3, random_state=0).fit(path, "y")
    assert "a" in model.get_feature_names_out()
    assert len(model.path_) < 30
