"""Predictions of tables that are not in memory are those of the same rows in memory."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparsenam
from sparsenam import RandomFeatureSNAMClassifier, RandomFeatureSNAMRegressor
from sparsenam.datasets import make_classification, make_regression
from sparsenam.errors import InputError
from sparsenam.interop.out_of_core import predict_table
from sparsenam.tables.parquet import tables_of

NAMES = ["b", "a", "c"]


@pytest.fixture(scope="module")
def rows():
    frame = pd.DataFrame(make_regression(150, 3, seed=0).X, columns=NAMES)
    frame.loc[3, "a"] = np.nan
    return frame


@pytest.fixture(scope="module")
def regressor(rows):
    return RandomFeatureSNAMRegressor(random_state=0, alpha=0.01).fit(rows, rows["b"] + rows["c"] ** 2)


@pytest.fixture(scope="module")
def classifier(rows):
    y = make_classification(150, 3, seed=1).y + (rows["b"].to_numpy() > 0.5)
    return RandomFeatureSNAMClassifier(random_state=0, alpha=0.01).fit(
        rows, np.array(["no", "some", "yes"])[y.astype(int)]
    )


@pytest.fixture
def parquet(rows, tmp_path):
    """The rows in two files with a further column, their columns in another order."""
    folder = tmp_path / "in"
    folder.mkdir()
    whole = pa.Table.from_pandas(rows.assign(id=range(len(rows)))[["id", "a", "b", "c"]], preserve_index=False)
    pq.write_table(whole.slice(0, 70), folder / "part-0.parquet", row_group_size=30)
    pq.write_table(whole.slice(70), folder / "part-1.parquet")
    return folder


def test_parquet_is_written_again_with_predictions(regressor, rows, parquet, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsenam.tables.parquet.tables_of", lambda dataset, names: tables_of(dataset, names, 40))
    regressor.save(tmp_path / "model.snam")
    for model in (regressor, sparsenam.load(tmp_path / "model.snam")):
        out = predict_table(model, parquet, to=tmp_path / "out.parquet")
        found = pq.read_table(out)
        assert found.column_names == ["id", "a", "b", "c", "prediction"]
        assert found["id"].to_pylist() == list(range(150))
        assert np.array_equal(found["prediction"].to_numpy(), regressor.predict(rows))
        assert pq.ParquetFile(out).num_row_groups == 4
    again = predict_table(regressor, out, to=tmp_path / "again.parquet")
    assert pq.read_schema(again).names[-2:] == ["prediction", "prediction_"]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_every_method_gives_its_columns(classifier, rows, parquet, tmp_path, method):
    found = pq.read_table(
        predict_table(classifier, str(parquet / "*.parquet"), to=tmp_path / "out.parquet", method=method)
    )
    expected = getattr(classifier, method)(rows)
    given = np.column_stack([column.to_numpy() for column in found.columns[4:]])
    assert np.array_equal(given.reshape(expected.shape), expected)
    words = {"predict_proba": "probability of", "decision_function": "score of"}
    names = ["prediction"] if method == "predict" else [f"{words[method]} {name}" for name in classifier.classes_]
    assert found.column_names[4:] == names


def test_a_failure_leaves_the_file_that_was_there(regressor, parquet, tmp_path, monkeypatch):
    monkeypatch.setattr("sparsenam.tables.parquet.tables_of", broken_after_one)
    out = tmp_path / "out.parquet"
    out.write_bytes(b"before")
    with pytest.raises(RuntimeError, match="power cut"):
        predict_table(regressor, parquet, to=out)
    assert out.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.parquet"]


def broken_after_one(dataset, names):
    yield dataset.head(10).select(list(names))
    raise RuntimeError("power cut")


def test_parquet_without_rows_gives_a_file_without_rows(classifier, parquet, tmp_path):
    pq.write_table(pq.read_table(parquet).slice(0, 0), tmp_path / "none.parquet")
    found = pq.read_table(predict_table(classifier, tmp_path / "none.parquet", to=tmp_path / "out.parquet"))
    assert (found.num_rows, found.column_names[-1], str(found.schema.field("prediction").type)) == (
        0,
        "prediction",
        "string",
    )


def test_dask_gives_a_series_or_a_table_with_its_index_when_it_is_computed(regressor, classifier, rows):
    frame = dd.from_pandas(rows.set_index(np.arange(150) * 10).assign(id=1), npartitions=4)
    series = predict_table(regressor, frame)
    found = series.compute(scheduler="synchronous")
    assert (series.name, series.dtype) == (found.name, found.dtype) == ("prediction", np.float64)
    assert np.array_equal(found.index, np.arange(150) * 10)
    assert np.array_equal(found, regressor.predict(rows))
    words = predict_table(classifier, frame)
    computed = words.compute(scheduler="synchronous")
    assert words.dtype == computed.dtype
    assert list(computed) == list(classifier.predict(rows))
    chances = predict_table(
        classifier, frame.map_partitions(lambda part: part[part.index < 700]), method="predict_proba"
    )
    expected = classifier.predict_proba(rows)[:70]
    assert list(chances.columns) == [f"probability of {name}" for name in classifier.classes_]
    assert np.array_equal(chances.compute(scheduler="synchronous"), expected)


def test_what_cannot_be_predicted_is_one_sentence(regressor, rows, parquet, tmp_path):
    out = tmp_path / "out.parquet"
    nameless = RandomFeatureSNAMRegressor(random_state=0, alpha=0.01).fit(rows.to_numpy()[4:], rows["b"][4:])
    needed = str(regressor.get_feature_names_out()[0])
    pq.write_table(pq.read_table(parquet).drop([needed]), tmp_path / "less.parquet")
    for arguments, options, sentence in (
        ((regressor, rows), {}, "call its predict for a table in memory"),
        ((regressor, parquet), {}, "to: expected the name of a Parquet file, got none"),
        ((regressor, parquet), {"to": tmp_path / "no" / "out.parquet"}, "which is not there"),
        ((regressor, parquet), {"to": out, "method": "predict_proba"}, "expected an estimator with predict_proba"),
        ((regressor, parquet), {"to": out, "method": "transform"}, "method: expected one of"),
        ((regressor, tmp_path / "less.parquet"), {"to": out}, f"expected the column '{needed}' of the fit"),
        ((nameless, parquet), {"to": out}, "expected one that knows its columns by name"),
        ((regressor, dd.from_pandas(rows, npartitions=1)), {"to": out}, "to: expected None for a table of Dask"),
    ):
        with pytest.raises(InputError, match=sentence):
            predict_table(*arguments, **options)
    assert not out.exists()
