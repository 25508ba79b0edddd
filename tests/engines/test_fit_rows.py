"""A fit in passes is the fit of all rows at the same knots and smoothness, and parts of a table share no row."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pytest

from engine_cases import numbered_rows
from sparsenam.cli.held_out import Draw, SomeRows, count_rows
from sparsenam.context import Context, Streams
from sparsenam.errors import InputError
from sparsenam.families import Gaussian, Multinomial, Poisson
from sparsenam.smooth import fit
from sparsenam.smooth.all_rows import AllRows, BlockProblem, BlockRows
from sparsenam.smooth.design import Layout, ramps_of
from sparsenam.smooth.engine import Steps, solve
from sparsenam.smooth.fit import MemoryRows
from sparsenam.tables.blocks import Block, MemoryBlocks, TargetColumns, blocks_of, sample_of
from sparsenam.tables.parquet import arrow_blocks

FAMILIES = {"gaussian": Gaussian(), "poisson": Poisson(), "multinomial": Multinomial()}


def problem(family, rows=900):
    """Three terms, one of them with missing cells and one of codes, weights, and a target of the family."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (3, rows))
    x[1, random.uniform(size=rows) < 0.1] = np.nan
    x[2] = random.integers(0, 4, rows)
    score = np.sin(3 * x[0]) + np.nan_to_num(x[1]) + 0.5 * (x[2] == 1)
    target = (score + random.normal(size=rows))[:, None]
    if family == "poisson":
        target = random.poisson(np.exp(score))[:, None].astype(float)
    elif family == "multinomial":
        target = (np.digitize(target[:, 0], [-0.5, 0.7])[:, None] == np.arange(3)).astype(float)
    return BlockProblem(x, target, random.uniform(0.5, 1.5, rows), FAMILIES[family])


class Reader:
    """Reads blocks whose X is the numbers of rows."""

    def __init__(self, task):
        self.task = task

    def __call__(self, block: Block):
        rows, task = block.X[:, 0], self.task
        return BlockProblem(task.x[:, rows], task.target[rows], task.weights[rows], task.family)


@pytest.mark.parametrize("family", FAMILIES)
def test_passes_find_the_fit_of_all_rows_at_once_at_the_same_knots(family, monkeypatch):
    monkeypatch.setattr(fit, "SAME_WEIGHTS", 0.0)
    task, context = problem(family), Context(Streams(0))
    unordered = np.array([False, False, True])
    ramps = [ramps_of(cells, task.weights, count) for cells, count in zip(task.x, (8, 5, 3), strict=True)]
    layout, steps = Layout.of(ramps, unordered.tolist()), Steps(context)
    first = solve(MemoryRows(task, layout), None, steps)
    rows = np.arange(len(task.target))[:, None]
    blocks = AllRows(MemoryBlocks(rows, rows[:, 0], height=200), Reader(task))
    summed, at_once = BlockRows(blocks, task, layout, context, 0), MemoryRows(task, layout)
    found, expected = (solve(each, first, steps) for each in (summed, at_once))
    # the steps of several classes share a curvature where rows are summed, which takes more of them
    tolerance = 0.02 if family == "multinomial" else 1e-6
    scores = [at_once.at(state.coefficients, state.intercept).scores for state in (found, expected)]
    scores = [each - each.mean(axis=1, keepdims=True) * (family == "multinomial") for each in scores]
    assert scores[0] == pytest.approx(scores[1], abs=tolerance)


@pytest.fixture
def split():
    """A table of numbered rows in small blocks, every ninth without a target, and a third held out."""
    y = [None if row % 9 == 0 else f"class {row % 4}" for row in range(500)]
    table = pa.table({"row": list(range(500)), "more": [0.0] * 500, "y": y})
    columns = TargetColumns("y")
    blocks = arrow_blocks(pa.dataset.dataset(table), columns, 60)
    draw = Draw(columns, 1 / 3, 7)
    counts = count_rows(blocks, draw)
    return [SomeRows(blocks, draw, "fit", counts.fit), SomeRows(blocks, draw, "held", counts.held)], counts


def numbers_and_targets(block, state):
    return list(zip(block.X["row"].to_pylist(), block.y.tolist(), strict=True))


def test_fitted_and_held_rows_are_all_rows_with_a_target_and_none_twice(split):
    parts, counts = split
    found = [part.reduce(numbers_and_targets, None) for part in parts]
    assert [len(rows) for rows in found] == [counts.fit, counts.held]
    assert counts.unknown == 56
    together = sorted(found[0] + found[1])
    assert together == [(row, f"class {row % 4}") for row in range(500) if row % 9]
    assert 0.25 < counts.held / len(together) < 0.42


def test_a_block_without_rows_of_a_part_is_left_out_and_a_part_without_rows_is_one_sentence(split):
    (fit, _), _ = split
    rare = Draw(fit.draw.columns, 0.01, 1)
    count = count_rows(fit.blocks, rare).held
    rows = SomeRows(fit.blocks, rare, "held", count).reduce(numbered_rows, None)
    assert sum(length for _, length in rows) == count
    assert 0 < len(rows) < fit.n_blocks
    none = SomeRows(fit.blocks, Draw(fit.draw.columns, 0.0, 1), "held", 0)
    with pytest.raises(InputError, match="expected rows with a target, got none"):
        none.reduce(numbered_rows, None)


def test_progress_of_a_part_ends_at_its_rows_and_samples_are_of_the_part(split):
    (fit, held), _ = split
    done = []
    fit.reduce(numbered_rows, None, done.append)
    assert done == sorted(done)
    assert done[-1] == fit.n_rows
    drawn = sample_of(held, 3, 20)
    assert set(drawn.X["row"].to_pylist()) < {row for row, _ in held.reduce(numbers_and_targets, None)}
    assert drawn.y.dtype.kind == "U"


def test_a_part_is_fitted_by_the_columns_that_it_was_counted_by(split):
    (fit, _), _ = split
    assert blocks_of(fit, TargetColumns("y")) is fit
    assert fit.only(["row"]).names == ("row",)
    with pytest.raises(InputError, match="expected y, got more"):
        blocks_of(fit, TargetColumns("more"))
