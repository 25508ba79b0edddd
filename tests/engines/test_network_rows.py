"""Networks on tables that are not in memory: every row once an epoch, sums as in memory, and fits as good."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch

from process_cases import NAMES, small_problem, table
from sparsenam import Network, SNAMClassifier, SNAMRegressor, load
from sparsenam.context import Context, Streams
from sparsenam.errors import InputError
from sparsenam.interop.clusters import DaskBlocks, SparkBlocks
from sparsenam.tables import parquet
from sparsenam.tables.blocks import MemoryBlocks, TargetColumns, VisitedBlocks
from sparsenam.tables.parquet import arrow_blocks, parquet_dataset
from sparsenam.training import SCHEDULES, SOLVERS, TrainingPlan
from sparsenam.training.rows import TrainingBlocks
from sparsenam.training.run import measure_stationarity, run

QUICK = {"hidden": (8,), "max_epochs": 5, "batch_size": 32}
COLUMNS = TargetColumns("y")


@dataclass(frozen=True)
class PlainRows:
    x: np.ndarray
    target: np.ndarray
    weights: np.ndarray


def read_plainly(block):
    """Rows as they are; a weight that is not given is 1."""
    weights = np.ones(len(block)) if block.weights is None else block.weights
    return PlainRows(block.X.T, block.y[:, None], weights)


def numbered(rows=1000, height=130):
    """Rows whose x is their number."""
    X = np.arange(rows, dtype=np.float64)[:, None]
    return TrainingBlocks(MemoryBlocks(X, X[:, 0], height=height), read_plainly, np.array([0]))


def in_blocks(problem, height):
    """The same problem with its rows in blocks, and a few of them in memory as a sample."""
    X, y, weights = problem.x.numpy().T, problem.target.numpy()[:, 0], problem.weights.numpy()
    source = TrainingBlocks(MemoryBlocks(X, y, weights, height=height), read_plainly, problem.terms)
    return replace(problem.on_rows(torch.arange(7)), source=source)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder of Parquet files with ragged row groups, read in blocks of 100 rows, and the same rows in memory."""
    monkeypatch.setattr(parquet, "arrow_blocks", partial(arrow_blocks, height=100))
    frame = table(1500)
    for number, part in enumerate((frame[:420], frame[420:450], frame[450:])):
        rows = pa.Table.from_pandas(part, preserve_index=False)
        pq.write_table(rows, tmp_path / f"part-{number}.parquet", row_group_size=170)
    return tmp_path, frame


# --- visiting blocks


@pytest.mark.parametrize("height", [37, 100, 5000])
@pytest.mark.parametrize("filtered", [False, True])
def test_blocks_of_files_are_those_in_memory_in_any_order(files, height, filtered):
    folder, frame = files
    dataset = parquet_dataset([str(folder)])
    if filtered:
        dataset, frame = dataset.filter(ds.field("a") > 0), frame[frame["a"] > 0]
    found = arrow_blocks(dataset, COLUMNS, height)
    expected = MemoryBlocks(frame[NAMES], frame["y"].to_numpy(), height=height)
    assert isinstance(found, VisitedBlocks)
    order = np.random.default_rng(0).permutation(expected.n_blocks).tolist()
    visited = list(found.visit(order))
    assert [block.number for block in visited] == order
    for block, other in zip(visited, expected.visit(order), strict=True):
        assert np.array_equal(block.X.to_pandas().to_numpy(), other.X.to_numpy())
        assert np.array_equal(block.y, other.y)


def test_an_epoch_takes_every_row_once_in_full_batches():
    rows = numbered()
    parts = list(rows.shuffled(np.random.default_rng(0), 64))
    assert all(len(part) % 64 == 0 for part in parts[:-1])
    seen = np.concatenate([part.x[0] for part in parts])
    assert np.array_equal(np.sort(seen), np.arange(1000))
    assert max(len(part) for part in parts) < 130 + 64  # no more than a block and what was left of the last


def test_blocks_and_rows_within_them_come_in_another_order_each_epoch():
    rows = numbered()
    epochs = [np.concatenate([part.x[0] for part in rows.shuffled(np.random.default_rng(n), 64)]) for n in (0, 1)]
    firsts = [seen[:130] // 130 for seen in epochs]
    assert firsts[0][0] != firsts[1][0]  # the first block
    for seen, first in zip(epochs, firsts, strict=True):
        assert np.unique(first).size == 1
        assert (np.diff(seen[:130]) < 0).sum() > 30


def test_held_out_rows_are_a_share_of_every_block_and_never_trained_on():
    training, held_out = numbered().split(0.2, Streams(0))
    trained = np.concatenate([part.x[0] for part in training.shuffled(np.random.default_rng(0), 10)])
    validated = np.concatenate([part.x[0] for part in held_out.in_order()])
    assert np.array_equal(np.sort(np.concatenate([trained, validated])), np.arange(1000))
    assert np.array_equal(np.bincount((validated // 130).astype(int)), [26] * 7 + [18])
    assert (training.n_rows, held_out.n_rows) == (800, 200)


# --- sums over blocks


@pytest.mark.parametrize("height", [16, 45, 1000])
def test_value_gradient_and_stationarity_over_blocks_are_those_in_memory(height):
    problem, start = small_problem(alpha=0.1)
    outside = in_blocks(problem, height)
    assert outside.value(start.theta, start.intercept) == pytest.approx(
        problem.value(start.theta, start.intercept), rel=1e-12
    )
    found, expected = (one.gradient(start.theta, start.intercept) for one in (outside, problem))
    torch.testing.assert_close(found.theta, expected.theta, rtol=1e-10, atol=1e-12)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    some = replace(start, active=np.array([0, 2]))
    stationarities = [measure_stationarity(one, some, 1e-3) for one in (outside, problem)]
    assert stationarities[0] == pytest.approx(stationarities[1], rel=1e-9)


def test_one_block_of_all_rows_is_trained_as_a_table_in_memory():
    problem, start = small_problem(alpha=0.1)
    plan = TrainingPlan(SOLVERS["prox_adam"], SCHEDULES["cosine"], 0.02, 16, 15, 1000, 1e-4)
    found, expected = (run(one, start, plan, Context(Streams(0))) for one in (in_blocks(problem, 90), problem))
    np.testing.assert_array_equal(found.parameters.active, expected.parameters.active)
    assert found.parameters.active.size == 2  # a group became zero on the way
    torch.testing.assert_close(found.parameters.theta, expected.parameters.theta, rtol=1e-9, atol=1e-12)
    losses = [[entry.loss for entry in outcome.history] for outcome in (found, expected)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)


def test_a_group_that_becomes_zero_within_an_epoch_is_gone_from_its_later_blocks():
    problem, start = small_problem(alpha=0.1)
    plan = TrainingPlan(SOLVERS["prox_adam"], SCHEDULES["constant"], 0.02, 8, 15, 1000, 1e-4)
    outcome = run(in_blocks(problem, 20), start, plan, Context(Streams(0)))
    assert outcome.parameters.active.size < 3
    assert outcome.history[-1].terms == outcome.parameters.active.size


# --- fits


def explained(model, frame):
    return model.score(frame[NAMES], frame["y"])


def test_a_fit_of_files_is_as_good_as_one_in_memory(files, tmp_path):
    folder, frame = files
    settings = {"alpha": 0.01, "random_state": 0}
    network = Network(hidden=(16,), max_epochs=12, batch_size=32, validation_fraction=0.1, learning_rate=0.02)
    outside = SNAMRegressor(**settings, network=network).fit(str(folder), "y")
    inside = SNAMRegressor(**settings, network=network).fit(frame[NAMES], frame["y"])
    fresh = table(1000, seed=1)
    assert explained(outside, fresh) == pytest.approx(explained(inside, fresh), abs=0.03)
    assert explained(outside, fresh) > 0.8
    assert all(entry["validation"] > 0 for entry in outside.history_)
    outside.save(tmp_path / "model.snam")
    assert np.array_equal(load(tmp_path / "model.snam").predict(fresh[NAMES]), outside.predict(fresh[NAMES]))


def test_the_convex_problem_chooses_on_a_sample_and_the_network_reads_the_files(files):
    folder, _ = files
    model = SNAMRegressor(network=Network(**QUICK), random_state=0).fit(str(folder), "y")
    assert list(model.get_feature_names_out()) == ["a", "b"]
    assert len(model.history_) == 5


def test_rows_without_weight_and_missing_cells_are_read_as_in_memory(tmp_path):
    frame = table(400).assign(w=np.arange(400) % 3)
    frame.loc[::7, "a"] = np.nan
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "table.parquet")
    model = partial(SNAMRegressor, alpha=0.0, network=Network(**QUICK), random_state=0)
    outside = model().fit(str(tmp_path / "table.parquet"), "y", sample_weight="w")
    inside = model().fit(frame[NAMES], frame["y"], sample_weight=frame["w"])
    np.testing.assert_allclose(outside.predict(frame[NAMES]), inside.predict(frame[NAMES]), rtol=1e-3, atol=1e-3)
    unweighted = model().fit(frame[NAMES], frame["y"])
    assert not np.allclose(outside.predict(frame[NAMES]), unweighted.predict(frame[NAMES]), rtol=1e-3, atol=1e-3)


def test_classes_are_read_from_files(files):
    folder, frame = files
    classes = pd.DataFrame({**frame[NAMES], "label": np.where(frame["y"] > 0.5, "high", "low")})
    for file in folder.glob("*.parquet"):
        file.unlink()
    classes.to_parquet(folder / "classes.parquet")
    model = SNAMClassifier(
        alpha=0.0, network=Network(**{**QUICK, "max_epochs": 6, "learning_rate": 0.02}), random_state=0
    )
    assert model.fit(str(folder), "label").score(classes[NAMES], classes["label"]) > 0.8


def test_training_on_files_goes_on_from_its_checkpoint(files, tmp_path):
    folder, frame = files
    folder = str(folder / "part-*.parquet")

    def fitted(epochs, **where):
        network = Network(**{**QUICK, "max_epochs": epochs}, **where)
        return SNAMRegressor(alpha=0.01, network=network, random_state=0).fit(folder, "y").predict(frame[NAMES])

    place = tmp_path / "fit.checkpoint"
    fitted(2, checkpoint=place)
    assert np.array_equal(fitted(4, checkpoint=place), fitted(4))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"solver": "fista", "batch_size": 256}, "'fista', which takes all rows in every step"),
        ({"hidden": (), "batch_size": 256, "max_epochs": None}, "'fista'"),
        ({"batch_size": None}, "batch_size=None"),
    ],
)
def test_what_needs_all_rows_at_once_is_refused_before_any_is_read(files, monkeypatch, settings, expected):
    folder, _ = files
    monkeypatch.setattr("sparsenam.estimators.base.sample_of", None)
    with pytest.raises(InputError, match=expected):
        SNAMRegressor(alpha=0.1, network=Network(**{**QUICK, **settings})).fit(str(folder), "y")


def test_rows_that_cannot_be_brought_here_in_any_order_are_refused_for_a_network(files, monkeypatch):
    @dataclass
    class Elsewhere:
        n_rows: int = 100
        n_blocks: int = 2

    monkeypatch.setattr("sparsenam.estimators.base.blocks_of", lambda X, columns: Elsewhere())
    with pytest.raises(InputError, match="files of Parquet only"):
        SNAMRegressor(alpha=0.1, network=Network(**QUICK)).fit(str(files[0]), "y")
    assert not hasattr(DaskBlocks, "visit")
    assert not hasattr(SparkBlocks, "visit")
