"""Ramps: where their knots stand, and the curves that they are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsenam.context import Streams
from sparsenam.convex.design import FrozenFeatures, RampFeatures
from sparsenam.convex.ramps import LevelColumns, Ramps, place_ramps
from sparsenam.errors import InputError
from sparsenam.model.additive import effects_of
from sparsenam.networks.bank import build_bank, initial_parameters
from sparsenam.tables.sample import Sample, prepare

columns = st.lists(st.floats(-100.0, 100.0), min_size=2, max_size=60).map(np.array)
tied = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=60).map(np.array)


@given(x=columns | tied, seed=st.integers(0, 99), count=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_integer_weights_are_repeated_rows(x, seed, count):
    weights = np.random.default_rng(seed).integers(0, 4, x.size)
    repeated = np.repeat(x, weights)
    if np.unique(repeated).size < 2:
        return
    weighted = place_ramps(x, weights.astype(float), count)
    assert np.array_equal(weighted.knots, place_ramps(repeated, np.ones(repeated.size), count).knots)


@given(x=columns | tied, count=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_knots_rise_and_cover_the_column(x, count):
    if np.ptp(x) == 0:
        return
    ramps = place_ramps(x, np.ones(x.size), count)
    assert 1 <= ramps.size <= count
    assert (np.diff(ramps.knots) > 0).all()
    assert ramps.knots[0] <= x.min() and ramps.knots[-1] >= x.max()
    assert np.isfinite(ramps.columns(x)).all()


def test_few_distinct_values_can_have_any_effect():
    x = np.random.default_rng(0).choice([-3.0, 0.0, 0.5, 7.0], 50)
    wanted = {-3.0: 0.0, 0.0: 2.0, 0.5: -1.0, 7.0: 5.0}
    ramps = place_ramps(x, np.ones(50), 10)
    values = ramps.columns(x) @ np.array([2.0, -3.0, 6.0])
    assert np.allclose(values, [wanted[value] for value in x], atol=1e-12)


def test_binary_column_has_one_ramp_which_is_the_column():
    x = np.array([0.0, 1.0, 1.0, 0.0])
    assert np.array_equal(place_ramps(x, np.ones(4), 32).columns(x)[:, 0], x)


def test_constant_column_is_refused():
    with pytest.raises(InputError, match="varies"):
        place_ramps(np.ones(5), np.ones(5), 4)


def test_outliers_take_few_knots_from_the_bulk():
    x = np.random.default_rng(0).standard_normal(2000)
    far = np.concatenate([x, [1000.0, -1000.0]])
    plain = place_ramps(x, np.ones(2000), 32).knots
    robust = place_ramps(far, np.ones(2002), 32).knots
    assert ((np.abs(robust) < 4).sum()) >= 28
    assert np.median(np.diff(robust)) < 1.5 * np.median(np.diff(plain))


def test_tied_value_takes_at_most_a_few_knots():
    x = np.concatenate([np.zeros(900), np.random.default_rng(0).uniform(0, 1, 100)])
    knots = place_ramps(x, np.ones(1000), 16).knots
    assert (np.diff(knots)[1:-1] < 0.2).all()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("hinges", [False, True])
def test_a_curve_is_the_sum_of_a_terms_columns(outputs, hinges):
    generator = np.random.default_rng(3)
    table = generator.standard_normal((60, 3))
    table[:, 1] = generator.integers(0, 4, 60)
    sample = Sample(table, generator.standard_normal((60, outputs)), np.ones(60), ["a", "b", "c"])
    prepared = replace(prepare(sample, standardize=True), levels=np.array([False, True, False]))
    features = RampFeatures(prepared, 8, hinges=hinges)
    coefficients = generator.standard_normal((3, 8, outputs))
    curves = features.functions(np.arange(3), coefficients)
    for term, (curve, cells) in enumerate(zip(curves, prepared.x, strict=True)):
        columns = features.columns(term)
        assert np.allclose(curve(cells), columns @ coefficients[term, : columns.shape[1]], atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "exu", "tanh"])
def test_hidden_columns_times_output_layer_are_the_effects(activation):
    names = ["a", "b"]
    bank = build_bank({"a": (4, 3), "b": (5, 2)}, names, 2, activation)
    theta = initial_parameters(bank, names, Streams(0))
    x = np.random.default_rng(0).standard_normal((2, 9))
    coefficients = np.random.default_rng(1).standard_normal((2, 3, 2))
    coefficients[1, 2] = 0.0
    features = FrozenFeatures(x, bank, theta)
    effects = effects_of(features.functions(np.arange(2), coefficients), x, 2)
    for term, width in enumerate((3, 2)):
        hidden = features.columns(term)
        assert hidden.shape == (9, width)
        assert np.allclose(hidden @ coefficients[term, :width], effects[term], atol=1e-10)


def test_ramps_rise_from_0_to_1_between_their_knots():
    ramps = Ramps(np.array([0.0, 1.0, 3.0]))
    columns = ramps.columns(np.array([-1.0, 0.5, 2.0, 9.0]))
    assert np.array_equal(columns, [[0, 0], [0.5, 0], [1, 0.5], [1, 1]])


def test_the_column_of_rare_levels_does_not_know_the_target_of_its_row():
    """A mean with the row in it would follow the noise of a category without effect."""
    generator = np.random.default_rng(0)
    codes, weights = generator.integers(0, 80, 240).astype(float), np.ones(240)
    target = generator.normal(size=(240, 1))

    def columns(y):
        return LevelColumns.of(codes, y, weights, 4).columns(codes)

    before = columns(target)
    assert before.shape[1] < 80
    for row in range(0, 240, 24):
        moved, other = target.copy(), np.flatnonzero(codes != codes[row])[0]
        moved[[row, other]] += [[100.0], [-100.0]]  # the mean of all rows stays
        after = columns(moved)
        np.testing.assert_allclose(after[row], before[row], atol=1e-12)
        assert np.abs(after - before).max() > 1.0  # rows of other parts that have the level do see it
