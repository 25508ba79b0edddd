"""The design of the convex problem: functions from smooth to rough, and the norm in which they are penalised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsenam.convex.design import FREEDOM, REST, grouped_design
from sparsenam.convex.ramps import Ramps, place_ramps


def ramp_design(x, weights, count=16, **options):
    ramps = place_ramps(x, weights, count)
    rough = ramps.roughness
    return ramps, grouped_design(lambda j: ramps.columns(x), 1, weights, roughness_of=lambda j: rough, **options)


@given(st.integers(0, 100), st.sampled_from(["normal", "skewed", "counts", "two"]), st.integers(30, 300))
def test_the_norm_is_that_of_the_function_and_of_its_roughness(seed, law, rows):
    """‖θ‖² = ‖f‖² + λ roughness(f), with one λ for all functions of the group."""
    generator = np.random.default_rng(seed)
    x = {
        "normal": lambda: generator.normal(size=rows),
        "skewed": lambda: generator.exponential(size=rows) ** 3,
        "counts": lambda: generator.poisson(2.0, size=rows) * 1.0,
        "two": lambda: (np.arange(rows) % 2) * 1.0,
    }[law]()
    weights = generator.uniform(0.5, 2.0, rows)
    ramps, design = ramp_design(x, weights)
    theta = generator.normal(size=(1, design.width, 1)) * (np.abs(design.blocks[0]).max(axis=1) > 0)[:, None]
    coefficients = (design.transform @ theta)[0, : ramps.size, 0]
    function = ramps.columns(x) @ coefficients
    function -= np.average(function, weights=weights)
    np.testing.assert_allclose(function, design.blocks[0].T @ theta[0, :, 0], atol=1e-6)
    variance = np.average(function**2, weights=weights)
    rough = coefficients @ ramps.roughness @ coefficients
    e, used = design.roughness[0], 1.0 / (1.0 + design.roughness[0])
    squares = theta[0, :, 0] ** 2
    assert variance == pytest.approx(np.sum(squares * used), rel=1e-5, abs=1e-9)
    if e.any():  # λ from one direction serves all
        lambdas = np.sum(squares) - variance
        single = np.zeros_like(theta)
        single[0, np.argmax(e)] = 1.0
        direction = (design.transform @ single)[0, : ramps.size, 0]
        strength = e.max() / (1.0 + e.max()) / (direction @ ramps.roughness @ direction)
        assert lambdas == pytest.approx(strength * rough, rel=1e-4, abs=1e-8)


@given(st.integers(0, 100), st.integers(40, 400), st.floats(1.5, 6.0))
def test_a_group_has_the_degrees_of_freedom_asked_for(seed, rows, freedom):
    x = np.random.default_rng(seed).normal(size=rows)
    _, design = ramp_design(x, np.ones(rows), freedoms=freedom)
    used = design.blocks[0].var(axis=1)
    np.testing.assert_allclose(used[used > 0], (1.0 / (1.0 + design.roughness[0]))[used > 0], rtol=1e-6)
    assert (1.0 - REST) * freedom - 1e-9 <= used.sum() <= freedom + 1e-6
    assert np.all(np.diff(design.roughness[0][used > 0]) >= -1e-9)


def test_a_group_with_no_more_columns_than_degrees_is_not_shrunk():
    generator = np.random.default_rng(0)
    raw = generator.normal(size=(50, int(FREEDOM)))
    design = grouped_design(lambda j: raw, 1, np.ones(50), roughness_of=lambda j: np.eye(int(FREEDOM)))
    np.testing.assert_allclose(design.blocks[0] @ design.blocks[0].T / 50, np.eye(int(FREEDOM)), atol=1e-9)
    assert not design.roughness.any()


def test_a_straight_line_over_even_knots_has_no_roughness():
    ramps = Ramps(np.linspace(-1.0, 1.0, 9))
    np.testing.assert_allclose(ramps.roughness @ np.ones(8), 0.0, atol=1e-12)
    assert np.linalg.matrix_rank(ramps.roughness) == 7


def test_rows_that_are_twice_as_heavy_count_twice():
    x = np.random.default_rng(0).normal(size=60)
    times = np.tile([1, 2, 1], 20)
    _, weighted = ramp_design(x, times * 1.0)
    _, repeated = ramp_design(np.repeat(x, times), np.ones(80))
    np.testing.assert_allclose(weighted.roughness, repeated.roughness, rtol=1e-6, atol=1e-9)
