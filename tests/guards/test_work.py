"""How much a default fit reads, multiplies and keeps: counts, which no busy machine changes, in place of seconds.

A bound is met on purpose, not by the way. Where the number of steps follows from rounding, it leaves room for two more.
"""

import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest

from fit_cases import CASES, count_passes, mixed_table, of_case, small_blocks, write_parts
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.convex.design import WorkingColumns
from sparsenam.convex.knots import ColumnsAtKnots
from sparsenam.convex.ramps import PlacedRows
from sparsenam.selection import choose, task
from sparsenam.selection.task import ConvexTask
from sparsenam.tables import parquet

RAMPS = 16  # of a column where columns are chosen, and at least of a kept one where it is fitted
KINDS = {"squared loss": SNAMRegressor, "logistic": SNAMClassifier}


def table(rows, columns):
    """Numbers, of which three act, and a target for each kind of fit."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (rows, columns))
    score = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2]
    return X, {
        "squared loss": score + 0.5 * generator.normal(size=rows),
        "logistic": 2 * score + generator.logistic(size=rows) > 0,
    }


# --- passes over the rows


def count_decoded(monkeypatch):
    """Count the rows that are decoded from Parquet files, whoever asks for them; return the list of their numbers."""
    rows, decoded = [], parquet._decoded

    def counting(*given):
        for batch in decoded(*given):
            rows.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(parquet, "_decoded", counting)
    return rows


@pytest.mark.parametrize(
    ("case", "most"),
    [
        ("gaussian", 2),  # the sample, and the sums; with knots doubled twice there are four
        ("binary", 5 + 2),  # the sample, the sums at the sample's fit, and one for each of Newton's three steps
    ],
)
def test_a_fit_from_parquet_reads_the_rows_in_few_passes(case, most, tmp_path, monkeypatch):
    rows, height = 3000, 700
    small_blocks(monkeypatch, sample=1500, height=height)
    parts = write_parts(of_case(case, mixed_table(rows)), tmp_path / "parts")
    kind, usual, target, more = CASES[case]
    made, decoded = count_passes(monkeypatch), count_decoded(monkeypatch)
    kind(random_state=0, **usual).fit(parts, target, **more)
    (blocks,) = made
    assert blocks.passes <= most
    assert blocks.visited == blocks.passes * -(-rows // height)
    assert blocks.rows == sum(decoded) == blocks.passes * rows


# --- products of columns


@dataclass
class Products:
    """Rows times entries of the Gram matrices that a fit asks for.

    ``chosen`` are those of the choice, in matrices of all rows and all columns of the ``designs``; ``fitted`` has rows
    and terms of each matrix at the knots of several terms.
    """

    sums: list[int] = field(default_factory=list)
    fitted: list[tuple[int, int]] = field(default_factory=list)
    designs: list = field(default_factory=list)

    @property
    def chosen(self):
        (design,) = self.designs
        return sum(self.sums) / (design.n_rows * (design.n_groups * design.width) ** 2)


@pytest.fixture
def products(monkeypatch):
    """The products of the fits from here on."""
    found = Products()

    def counted(place, name, note):
        inside = getattr(place, name)

        def counting(*given, **named):
            result = inside(*given, **named)
            note(result, *given)
            return result

        monkeypatch.setattr(place, name, counting)

    def moments(result, columns, weights, *more):
        found.sums.append(len(weights) * result.size)

    def gram(result, placed, weights):
        if len(placed.knots) > 1:  # the design at knots makes one of each term
            found.fitted.append((placed.n_rows, len(placed.knots)))

    counted(ColumnsAtKnots, "second_moments", moments)
    counted(WorkingColumns, "second_moments", moments)
    counted(PlacedRows, "gram", gram)
    counted(ConvexTask, "of", lambda made, *_: found.designs.append(made.design))
    return found


def at_knots(monkeypatch, rows):
    """Let a table of so many rows be one whose ramps are never written out."""
    monkeypatch.setattr(task, "WIDE", 0)
    monkeypatch.setattr(task, "TALL_ROWS", rows)


@pytest.mark.parametrize("folds", [5, 10])
@pytest.mark.parametrize("columns", ["written out", "at knots"])
def test_squared_loss_multiplies_columns_twice_however_many_folds_there_are(columns, folds, products, monkeypatch):
    X, targets = table(2000, 6)
    if columns == "at knots":
        at_knots(monkeypatch, len(X))
    SNAMRegressor(cv=folds, random_state=0).fit(X, targets["squared loss"])
    # for the path, with all its folds, and for the way down to the alpha that was chosen
    assert products.chosen < 2.2


def test_a_logistic_fit_multiplies_columns_for_few_of_its_steps(products):
    X, targets = table(2000, 6)
    SNAMClassifier(random_state=0).fit(X, targets["logistic"])
    assert products.chosen < 30  # 24.6: sums are made again where the curvature has moved


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("squared loss", 6 + 2),  # for two sets of knots, for lines, for left-out rows, and two for the bands
        ("logistic", 11 + 2),  # one for each of Newton's steps
    ],
)
def test_a_smooth_fit_multiplies_the_ramps_of_kept_columns_only_and_of_all_rows_at_once(
    kind, most, products, monkeypatch
):
    monkeypatch.setattr(choose, "MOST_CELLS", 0)  # no fits in the folds beside it
    X, targets = table(2000, 6)
    model = KINDS[kind](random_state=0).fit(X, targets[kind])
    kept = model.get_feature_names_out().size
    assert kept == 3
    assert set(products.fitted) == {(len(X), kept)}
    assert len(products.fitted) <= most


# --- bytes


def most_bytes(kind, X, y):
    """Return how many bytes a fit holds at its peak, besides the table; numpy's arrays are among them."""
    model = KINDS[kind](random_state=0)
    model.fit(X, y)  # what is loaded or compiled once is no part of it
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_tall_table_takes_no_more_memory_than_its_sample_and_a_block(kind, monkeypatch):
    small_blocks(monkeypatch, sample=1000, height=4000)
    X, targets = table(40_000, 6)
    few, many = (most_bytes(kind, X[:rows], targets[kind][:rows]) for rows in (10_000, 40_000))
    assert many < few + X[10_000:].nbytes / 2
    assert many < RAMPS * X[:, :1].nbytes  # of one column


def test_ramps_at_knots_take_less_memory_than_to_write_them_out_once(monkeypatch):
    X, targets = table(6000, 24)
    at_knots(monkeypatch, 500)
    assert most_bytes("squared loss", X, targets["squared loss"]) < RAMPS * X.nbytes
