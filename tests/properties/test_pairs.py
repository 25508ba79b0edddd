"""Pairs: a grid splits exactly, its fit is that of dense algebra, and the screen is the F test of two regressions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pair_cases import margins
from sparsenam.model import FittedCurve
from sparsenam.model.pairs import PairFunction, purified, with_margin
from sparsenam.selection.pairs import FEWEST_CELL_ROWS, SCREEN_CODES, PairCells, additive_gain, clipped, screen
from sparsenam.smooth.grid import GridAxis, GridBlock, hats


def random_pair(seed, outputs=2):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(2, 9, size=2)
    knots = tuple(np.cumsum(generator.uniform(0.1, 1.0, size)) for size in sizes)
    values = generator.normal(size=(sizes[0] + 1, sizes[1] + 1, outputs))
    weights = generator.poisson(0.8, size=values.shape[:2]).astype(float)
    weights[0, 0] += 1.0
    weights[-1, 0] += 1.0  # absent cells were seen on both axes
    weights[0, -1] += 1.0
    return PairFunction((0, 1), knots, values, weights)


def random_cells(pair, seed, rows=200):
    generator = np.random.default_rng(seed)
    x = np.stack([generator.uniform(knots[0] - 1, knots[-1] + 1, rows) for knots in pair.knots], axis=1)
    x[generator.uniform(size=x.shape) < 0.1] = np.nan
    return x


@given(st.integers(0, 10_000))
def test_a_pair_splits_into_a_constant_two_margins_and_a_rest_without_margins(seed):
    pair = random_pair(seed)
    split = purified(pair, pair.weights)
    for margin in margins(split.pair):
        assert np.abs(margin).max() <= 1e-10
    x = random_cells(pair, seed)
    shapes = [
        FittedCurve.level_beyond(knots, margin[:-1], margin[-1])
        for knots, margin in zip(pair.knots, (split.rows, split.columns), strict=True)
    ]
    parts = split.constant + shapes[0](x[:, 0]) + shapes[1](x[:, 1]) + split.pair.effect(x)
    np.testing.assert_allclose(parts, pair.effect(x), atol=1e-10)


@given(st.integers(0, 10_000))
def test_a_margin_is_added_to_a_shape_exactly(seed):
    generator = np.random.default_rng(seed)
    knots, other = (np.cumsum(generator.uniform(0.1, 1.0, size)) for size in (4, 3))
    ends = generator.normal(size=(3, 1))
    shape = FittedCurve(knots, generator.normal(size=(4, 1)), *ends)
    margin = generator.normal(size=(4, 1))
    x = np.append(generator.uniform(-1, 5, 100), np.nan)
    expected = shape(x) + FittedCurve.level_beyond(other, margin[:-1], margin[-1])(x)
    np.testing.assert_allclose(with_margin(shape, other, margin)(x), expected, atol=1e-12)


def test_a_pair_is_bilinear_between_nodes_and_constant_beyond():
    pair = PairFunction((0, 1), (np.array([0.0, 1.0]), np.array([0.0, 2.0])), np.zeros((3, 3, 1)), np.ones((3, 3)))
    pair.values[:2, :2, 0] = [[1.0, 2.0], [3.0, 8.0]]
    pair.values[2, 1, 0] = 5.0
    x, z = np.array([0.5, 0.0, 9.0, np.nan]), np.array([1.0, 1.0, 9.0, 9.0])
    np.testing.assert_allclose(pair.at(x, z)[:, 0], [3.5, 1.5, 8.0, 5.0])


def block_and_data(seed, rows=300, outputs=2, unordered=()):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(2, rows))
    for index in unordered:
        x[index] = generator.integers(4 + 3 * index, size=rows)
    x[1, :10] = np.nan
    weights = generator.uniform(0.5, 2.0, rows)
    axes = tuple(GridAxis.of(cells, weights, 5, index in unordered) for index, cells in enumerate(x))
    block = GridBlock(axes, (x[0], x[1]), outputs, generator)
    dense = hats(axes, (x[0], x[1])).toarray()[:, block.nodes]
    return block, dense, generator.normal(size=(rows, outputs)), weights


@pytest.mark.parametrize("unordered", [(), (0,), (1,), (0, 1)])
def test_the_values_of_a_grid_are_those_of_dense_least_squares(unordered):
    block, dense, target, weights = block_and_data(0, unordered=unordered)
    block.update(target, weights[None], 0.7)
    block.learn(2)
    strengths = block.strengths.copy()
    block.update(target, weights[None], 0.7)
    prior = sum(each * matrix.toarray() for each, matrix in zip(strengths, block.matrices, strict=True))
    expected = np.linalg.solve(
        dense.T @ (dense * weights[:, None]) / 0.7 + prior, dense.T @ (target * weights[:, None]) / 0.7
    )
    expected -= np.average(dense @ expected, axis=0, weights=weights)
    np.testing.assert_allclose(block.values, expected, atol=1e-10)
    np.testing.assert_allclose(np.average(block.fitted, axis=0, weights=weights), 0.0, atol=1e-12)


def test_the_degrees_of_freedom_and_the_strengths_are_those_of_dense_traces():
    """Random probes stand for traces: they are near, not equal."""
    block, dense, target, weights = block_and_data(1, outputs=1)
    block.update(target, weights[None], 0.7)
    block.learn(1)
    strengths = block.strengths.copy()
    block.update(target, weights[None], 0.7)
    block.learn(1)
    matrices = [matrix.toarray() for matrix in block.matrices]
    prior = sum(each * matrix for each, matrix in zip(strengths, matrices, strict=True))
    gram = dense.T @ (dense * weights[:, None]) / 0.7
    covariance = np.linalg.inv(gram + prior)
    assert block.freedom == pytest.approx(np.trace(covariance @ gram), rel=0.25)
    values = covariance @ (dense.T @ (target * weights[:, None])) / 0.7
    for index, matrix in enumerate(matrices):
        gained = np.trace(np.linalg.solve(prior, matrix)) - np.trace(covariance @ matrix)
        expected = strengths[index] * np.clip(gained / float(np.sum(values * (matrix @ values))), 0.05, 20.0)
        assert block.strengths[index] == pytest.approx(expected, rel=0.35)


@pytest.mark.parametrize("seed", range(5))
def test_the_gain_of_free_cells_is_that_of_two_regressions(seed):
    """Least squares on all cells against rows + columns, rows in thin cells left out."""
    generator = np.random.default_rng(seed)
    rows, size = 400, 5
    one, other = generator.integers(size, size=rows), np.minimum(generator.poisson(1.5, rows), size - 1)
    y, weights = generator.normal(size=rows), generator.uniform(0.5, 2.0, rows)
    cells = one * size + other
    tables = np.zeros((1, 3, size, size))
    for index, values in enumerate((np.ones(rows), weights * y, weights)):
        tables[0, index] = np.bincount(cells, values, size * size).reshape(size, size)
    gained, freed = additive_gain(tables)
    inside = np.bincount(cells, minlength=size * size)[cells] >= FEWEST_CELL_ROWS
    roots = np.sqrt(weights[inside])[:, None]
    dummies = (np.eye(size)[one[inside]], np.eye(size)[other[inside]], np.eye(size * size)[cells[inside]])
    explained, ranks = [], []
    for design in (np.hstack(dummies[:2]), dummies[2]):
        solution, _, rank, _ = np.linalg.lstsq(design * roots, y[inside] * roots[:, 0], rcond=1e-10)
        explained.append(np.sum((roots * design @ solution[:, None]) ** 2))
        ranks.append(rank)
    assert gained[0] == pytest.approx(explained[1] - explained[0], rel=1e-6)
    assert freed[0] == ranks[1] - ranks[0]


def test_p_values_of_the_screen_are_uniform_where_there_is_no_pair():
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(30, 800)), generator.normal(size=(800, 1))
    pairs = np.array([(one, other) for one in range(30) for other in range(one)])
    found = screen(x, np.zeros(30, bool), y, np.ones((800, 1)), pairs, freedom=0, outputs=1.0, dispersion=None)
    p_values = np.exp(found.log_p)
    # the smallest of three, times three, is conservative
    assert np.mean(p_values < 0.1) <= 0.1 + 2 * np.sqrt(0.09 / len(pairs))
    assert np.mean(p_values < 0.1) >= 0.03
    assert not len(found.passing(0.001))


def test_the_screen_finds_a_pair_without_main_effects_among_levels_and_gaps():
    generator = np.random.default_rng(4)
    x = generator.normal(size=(6, 2000))
    x[1] = generator.integers(40, size=2000)
    y = 0.5 * np.where(x[1] % 2 == 0, 1.0, -1.0) * x[0] + generator.normal(size=2000)
    x[0, :100] = np.nan
    pairs = np.array([(one, other) for one in range(6) for other in range(one + 1, 6)])
    levels = np.arange(6) == 1
    found = screen(
        x, levels, (y - y.mean())[:, None], np.ones((2000, 1)), pairs, freedom=0, outputs=1.0, dispersion=None
    )
    assert found.passing(0.05).tolist() == [[0, 1]]


def test_counts_and_sums_packed_into_one_number_are_those_of_many_rows():
    """More rows than fit into one number: they are added in parts."""
    generator = np.random.default_rng(5)
    rows = 150_000
    x, y = generator.integers(3, size=(2, rows)).astype(float), generator.normal(size=(rows, 1))
    found = screen(
        x, np.zeros(2, bool), y, np.ones((rows, 1)), np.array([[0, 1]]), freedom=0, outputs=1.0, dispersion=1.0
    )
    cells = (3 * x[0] + x[1]).astype(int)
    expected = stats.f_oneway(*(clipped(y, np.ones_like(y))[cells == cell, 0] for cell in range(9)))
    assert np.isfinite(found.log_p[0])
    assert found.log_p[0] > np.log(expected.pvalue) - 6.0


@pytest.mark.parametrize("levels", [(False, False), (True, False), (True, True)])
def test_the_functions_of_cells_hold_nothing_of_one_term_and_are_orthonormal(levels):
    generator = np.random.default_rng(6)
    codes = generator.integers(SCREEN_CODES, size=(2, 900))
    codes[1, :500] = codes[0, :500]  # the two hang together, and most pairs of codes have few rows or none
    weights = generator.uniform(0.5, 2.0, 900)
    cells = PairCells.of(codes, np.array(levels), weights)
    at_rows = cells.basis[cells.cells]
    np.testing.assert_allclose(at_rows.T @ (at_rows * weights[:, None]), np.eye(at_rows.shape[1]), atol=1e-8)
    for term in codes:
        alone = np.eye(SCREEN_CODES)[term]
        np.testing.assert_allclose(alone.T @ (at_rows * weights[:, None]), 0.0, atol=1e-6)
    assert cells.roughness.min() == 1.0
