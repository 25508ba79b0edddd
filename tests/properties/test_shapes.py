"""Shapes are the sub-networks themselves: exact, fast, and independent of what is beside them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsenam import SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.families import Gaussian
from sparsenam.model import AdditiveModel, FittedCurve, keep_terms
from sparsenam.model.additive import in_units
from sparsenam.model.curve import Search
from sparsenam.model.networks import SubNetworks, network_functions
from sparsenam.networks.bank import MLPBank
from sparsenam.tables.sample import Scaling

PIECEWISE = [
    ("relu", ()),
    ("relu", (16,)),
    ("relu", (100, 50)),
    ("relu", (12, 12, 12, 12)),
    ("clipped_relu", (20,)),
    ("clipped_relu", (20, 10, 5)),
    ("exu", (20,)),
    ("exu", (20, 10)),
    ("gelu", ()),
]
CENTERS, SCALES = np.array([0.0, 1e4, -5.0]), np.array([1.0, 10.0, 1e-6])


def random_networks(activation, hidden, outputs=1, seed=0):
    """Three sub-networks in the units of three columns."""
    generator = np.random.default_rng(seed)
    bank = MLPBank(hidden, outputs, activation)
    theta = np.stack([bank.draw(term, generator) for term in range(3)])
    offsets, absent = generator.normal(size=(2, 3, outputs))
    return SubNetworks(bank, theta, Scaling(CENTERS, SCALES), offsets, generator.uniform(0.5, 2.0, outputs), absent)


def model_of(networks, functions=None):
    """The model of sub-networks: of their curves where they are piecewise linear."""
    if functions is None:
        functions = network_functions(networks.bank, networks.theta)
        functions = in_units(functions, networks.scaling, networks.offsets, networks.unit, networks.absent)
    intercept = np.linspace(-1.0, 1.0, networks.bank.outputs)
    return AdditiveModel(Gaussian(), np.array([2, 0, 3]), 4, functions, intercept)


def random_model(activation, hidden, outputs=1, seed=0):
    return model_of(random_networks(activation, hidden, outputs, seed))


def table_for(model, rows, reach, seed=1):
    """Rows within ``reach`` standard deviations."""
    table = np.random.default_rng(seed).uniform(-reach, reach, size=(rows, model.n_terms))
    table[:, model.terms] = table[:, model.terms] * SCALES + CENTERS
    return table


def assert_reproduced(networks, table, share):
    network, curves = (model_of(networks, functions).kept_effects(table) for functions in (networks, None))
    sizes = np.ptp(network, axis=0)
    assert (np.abs(network - curves).max(axis=0) <= share * sizes).all()


@pytest.mark.parametrize(("activation", "hidden"), PIECEWISE)
@pytest.mark.parametrize("outputs", [1, 3])
def test_knots_reproduce_a_random_network_inside_and_beyond_the_data(activation, hidden, outputs):
    networks = random_networks(activation, hidden, outputs)
    model = model_of(networks)
    assert model.exact_shapes
    assert_reproduced(networks, table_for(model, 3000, 3.0), 1e-7)
    assert_reproduced(networks, table_for(model, 3000, 30.0), 1e-7)


@pytest.fixture(scope="module")
def fitted():
    generator = np.random.default_rng(0)
    table = generator.normal(size=(600, 5))
    target = np.sin(3.0 * table[:, 0]) + np.abs(table[:, 1]) + 0.1 * generator.normal(size=600)
    return SNAMRegressor(random_state=0).fit(table, target)


def test_clipped_units_are_constant_beyond_the_last_knots_to_the_bit(fitted):
    for shape in fitted.model_.curves:
        assert not shape.left_slope.any() and not shape.right_slope.any()
        assert shape([shape.knots[0] - 1e9])[0, 0] == shape([shape.knots[0]])[0, 0]


@given(
    knots=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60, unique=True),
    cluster=st.integers(0, 40),
    x=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50),
)
def test_the_search_agrees_with_bisection_whatever_the_knots(knots, cluster, x):
    near = knots[0] + 1e-7 * np.arange(cluster)  # many in one bucket
    sorted_knots = np.unique(np.concatenate([knots, near]))
    numbers = np.concatenate([x, sorted_knots, np.nextafter(sorted_knots, -np.inf)])
    expected = np.searchsorted(sorted_knots, numbers, side="right")
    np.testing.assert_array_equal(Search.among(sorted_knots).pieces(numbers), expected)


@given(
    knots=st.lists(st.integers(-50, 50), min_size=2, max_size=20, unique=True),
    seed=st.integers(0, 1000),
)
def test_a_shape_interpolates_between_its_knots_and_goes_on_straight_beyond(knots, seed):
    generator = np.random.default_rng(seed)
    points = np.sort(np.array(knots, dtype=float))
    values, left, right = (
        generator.normal(size=(points.size, 2)),
        generator.normal(size=2),
        generator.normal(size=2),
    )
    shape = FittedCurve(points, values, left, right, np.zeros(2))
    np.testing.assert_array_equal(shape(points), values)
    x = generator.uniform(points[0], points[-1], 50)
    expected = np.column_stack([np.interp(x, points, values[:, output]) for output in (0, 1)])
    np.testing.assert_allclose(shape(x), expected, atol=1e-12)
    np.testing.assert_allclose(shape([points[0] - 2.0])[0], values[0] - 2.0 * left, atol=1e-12)
    np.testing.assert_allclose(shape([points[-1] + 2.0])[0], values[-1] + 2.0 * right, atol=1e-12)


def one_layer(weights, biases, outputs, activation="relu"):
    bank = MLPBank((len(weights),), 1, activation)
    return SubNetworks.of(bank, np.array([[*weights, *biases, *outputs]]))


def curve_of(networks):
    (curve,) = network_functions(networks.bank, networks.theta)
    return curve


def test_knots_that_are_one_up_to_rounding_are_merged():
    third = 1.0 / 3.0
    shape = curve_of(one_layer([1.0, 3.0, 0.7], [-third, -1.0, -0.7 * third], [1.0, 2.0, 0.5]))
    assert shape.knots.size == 1
    assert shape.knots[0] == pytest.approx(third)


def test_a_jump_between_two_close_knots_is_kept():
    steep = 1e13
    shape = curve_of(one_layer([steep], [-0.5 * steep], [1.0], "clipped_relu"))
    assert shape.knots.size == 2
    np.testing.assert_allclose(shape([0.4, 0.6, 2.0])[:, 0], [0.0, 1.0, 1.0])


def test_a_kink_far_outside_does_not_blur_the_effect_near_the_data():
    networks = one_layer([1e-9, 1.0], [1.0, 0.0], [1e3, 1.0])  # the first has its kink at -1e9
    x = np.linspace(-3.0, 3.0, 101)
    np.testing.assert_allclose(curve_of(networks)(x), networks.effects(x[None])[0], rtol=1e-12)


def test_a_linear_effect_is_one_knot_and_its_slope():
    networks = random_networks("relu", ())
    for shape, weight, scale in zip(model_of(networks).curves, networks.theta[:, 0], SCALES, strict=True):
        slope = weight * networks.unit / scale
        assert shape.knots.size == 1
        np.testing.assert_allclose(shape.left_slope, slope, rtol=1e-9)
        np.testing.assert_allclose(shape.right_slope, slope, rtol=1e-9)


def test_absent_cells_add_the_absent_value_and_only_there():
    networks = random_networks("relu", (8,), outputs=2)
    model = model_of(networks)
    table = table_for(model, 50, 3.0)
    whole = model.kept_effects(table)
    table[::3, 0] = np.nan
    effects = model.kept_effects(table)
    np.testing.assert_array_equal(effects[::3, 1], np.broadcast_to(networks.absent[1] * networks.unit, (17, 2)))
    np.testing.assert_array_equal(effects[1::3], whole[1::3])
    np.testing.assert_array_equal(effects[:, [0, 2]], whole[:, [0, 2]])
    np.testing.assert_allclose(effects, model_of(networks, networks).kept_effects(table), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "clipped_relu", "tanh"])
def test_effects_and_intercept_add_up_to_the_score(activation):
    model = random_model(activation, (30, 10), outputs=2)
    table = table_for(model, 200, 5.0)
    total = model.effects(table).sum(axis=1) + model.intercept
    np.testing.assert_allclose(model.scores(table), total, atol=1e-9)


def test_leaving_out_features_changes_no_bit_of_the_others():
    model = random_model("relu", (40, 20), outputs=2)
    table = table_for(model, 300, 4.0)
    few = keep_terms(model, np.array([True, False, True]))
    np.testing.assert_array_equal(few.kept_effects(table), model.kept_effects(table)[:, [0, 2]])
    smooth = random_model("tanh", (40, 20), outputs=2)
    few = keep_terms(smooth, np.array([True, False, True]))
    np.testing.assert_array_equal(few.kept_effects(table), smooth.kept_effects(table)[:, [0, 2]])


def test_a_row_has_the_same_bits_beside_any_other_rows(fitted):
    table = np.random.default_rng(3).normal(size=(40_000, 5))
    some = np.array([0, 7, 32_767, 32_768, 39_999])
    np.testing.assert_array_equal(fitted.predict(table)[some], fitted.predict(table[some]))


@pytest.mark.parametrize("activation", ["gelu", "silu", "tanh"])
def test_smooth_sub_networks_say_that_they_have_no_knots_and_are_asked_themselves(activation):
    model = random_model(activation, (8,))
    assert not model.exact_shapes
    with pytest.raises(InputError, match="piecewise linear"):
        _ = model.curves
    table = table_for(model, 100, 3.0)
    networks = random_networks(activation, (8,))
    scaled = networks.scaling.apply(table[:, model.terms]).T
    by_hand = networks.bank.arguments(networks.theta, scaled, len(networks.bank.hidden))
    expected = (by_hand - networks.offsets[:, None]) * networks.unit
    np.testing.assert_array_equal(model.kept_effects(table), expected.swapaxes(0, 1))


def test_curves_are_equal_where_all_their_numbers_are():
    one, other = (random_model("relu", (8,)).curves[0] for _ in range(2))
    assert one is not other and one == other
    assert one != replace(other, absent=other.absent + 1.0)
    assert one != "a curve"


@pytest.mark.parametrize(
    "wrong",
    [
        {"knots": np.array([1.0, 0.0])},
        {"knots": np.array([0.0, 0.0])},
        {"knots": np.zeros(0), "values": np.zeros((0, 1))},
        {"values": np.array([[np.nan], [0.0]])},
        {"values": np.zeros((3, 1))},
        {"absent": np.zeros(2)},
        {"left_slope": np.array([np.inf])},
    ],
)
def test_a_shape_that_cannot_be_is_refused(wrong):
    right = {"knots": np.array([0.0, 1.0]), "values": np.zeros((2, 1))}
    right |= {name: np.zeros(1) for name in ("left_slope", "right_slope", "absent")}
    FittedCurve(**right)
    with pytest.raises(InputError):
        FittedCurve(**(right | wrong))
