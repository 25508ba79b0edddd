"""Every penalty's three functions agree with each other and with its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import isotonic_regression

from sparsenam import Network, SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.fit import networks
from sparsenam.penalties import (
    PENALTIES,
    AdaptiveGroupLasso,
    GroupBridge,
    GroupElasticNet,
    GroupLasso,
    GroupSLOPE,
    JointGroupLasso,
    KLevelSLOPE,
    NeedsFirstFit,
    WeightedLasso,
    as_penalty,
    benjamini_hochberg_weights,
    linear_weights,
    spread,
    weighted,
)

FEATURES = 6
OTHERS = {
    "weighted": GroupLasso(np.array([0.5, 1.0, 2.0, 0.0, 3.0, 1.0])),
    "linear_slope": GroupSLOPE("linear"),
    "three_level": KLevelSLOPE((1.0, 0.5, 0.1), (1 / 3, 1 / 3, 1 / 3)),
    "given_sequence": GroupSLOPE(np.array([2.0, 2.0, 1.0, 1.0, 0.5, 0.0])),
}
every_penalty = pytest.mark.parametrize(
    "penalty", [make() for make in PENALTIES.values()] + list(OTHERS.values()), ids=[*PENALTIES, *OTHERS]
)
sizes = arrays(np.float64, FEATURES, elements=st.floats(0, 10, width=32))
positive = st.floats(0.01, 5)
steps = st.one_of(positive, arrays(np.float64, FEATURES, elements=st.floats(0.01, 5)))


@every_penalty
@given(norms=sizes, rival=sizes, alpha=positive, step=steps)
def test_shrink_minimises_its_definition(penalty, norms, rival, alpha, step):
    def energy(r):
        return np.sum((r - norms) ** 2 / (2 * step)) + penalty.value(r, alpha)

    shrunk = penalty.shrink(norms, alpha, step)
    assert energy(shrunk) <= energy(rival) + 1e-9 * (1 + energy(rival))
    for nearby in (0.99 * shrunk, 1.01 * shrunk, shrunk + 0.01, np.maximum(shrunk - 0.01, 0)):
        assert energy(shrunk) <= energy(nearby) + 1e-9 * (1 + energy(nearby))


@every_penalty
@given(norms=sizes, alpha=positive, step=positive)
def test_shrink_never_grows_or_turns_a_norm(penalty, norms, alpha, step):
    shrunk = penalty.shrink(norms, alpha, step)
    assert np.all(shrunk >= 0)
    assert np.all(shrunk <= norms + 1e-12)


@every_penalty
@given(norms=arrays(np.float64, FEATURES, elements=st.floats(0.1, 10), unique=True), alpha=positive)
def test_slope_is_the_derivative_of_value(penalty, norms, alpha):
    spacing = np.min(np.diff(np.sort(norms)), initial=1.0)
    if spacing < 1e-3:
        return
    slopes = penalty.slope(norms, alpha)
    for feature in range(FEATURES):
        nudge = np.zeros(FEATURES)
        nudge[feature] = 1e-5
        change = penalty.value(norms + nudge, alpha) - penalty.value(norms - nudge, alpha)
        assert change / 2e-5 == pytest.approx(slopes[feature], rel=1e-4, abs=1e-6)


@every_penalty
def test_zero_groups_have_no_slope_and_cost_nothing(penalty):
    zeros = np.zeros(FEATURES)
    assert penalty.value(zeros, 1.0) == 0
    assert np.all(penalty.slope(zeros, 1.0) == 0)


@given(norms=sizes, alpha=positive, step=positive)
def test_equal_slope_weights_are_group_lasso(norms, alpha, step):
    equal, lasso = GroupSLOPE(np.ones(FEATURES)), GroupLasso()
    assert equal.value(norms, alpha) == pytest.approx(lasso.value(norms, alpha))
    np.testing.assert_allclose(equal.shrink(norms, alpha, step), lasso.shrink(norms, alpha, step), atol=1e-9)
    np.testing.assert_allclose(equal.slope(norms, alpha), lasso.slope(norms, alpha))


@given(norms=sizes, alpha=positive, step=positive)
def test_slope_shrinks_like_scipys_isotonic_regression(norms, alpha, step):
    order = np.argsort(-norms, kind="stable")
    gaps = norms[order] - step * alpha * benjamini_hochberg_weights(FEATURES)
    expected = np.empty(FEATURES)
    expected[order] = np.maximum(isotonic_regression(gaps, increasing=False).x, 0)
    np.testing.assert_allclose(GroupSLOPE("bh").shrink(norms, alpha, step), expected, atol=1e-9)


@given(norms=sizes, alpha=positive, step=positive)
def test_elastic_net_without_ridge_is_group_lasso(norms, alpha, step):
    shrunk = GroupElasticNet(1.0).shrink(norms, alpha, step)
    np.testing.assert_allclose(shrunk, GroupLasso().shrink(norms, alpha, step))


@pytest.mark.parametrize("penalty", [make() for make in PENALTIES.values()], ids=list(PENALTIES))
@given(norms=sizes, alpha=positive)
def test_weighted_lasso_form_has_the_same_value(penalty, norms, alpha):
    if not isinstance(penalty, WeightedLasso):
        return
    lasso, ridge = penalty.lasso_and_ridge(FEATURES, alpha)
    assert lasso @ norms + 0.5 * ridge * norms @ norms == pytest.approx(penalty.value(norms, alpha))


def test_adaptive_weights_fall_with_the_first_fits_norm_and_keep_zeros_out():
    penalty = AdaptiveGroupLasso()
    assert isinstance(penalty, NeedsFirstFit)
    adapted = penalty.adapted_to(np.array([4.0, 2.0, 0.0]))
    np.testing.assert_array_equal(adapted.weights, [1.0, 2.0, np.inf])
    np.testing.assert_array_equal(adapted.shrink(np.array([3.0, 3.0, 3.0]), 1.0, 0.5), [2.5, 2.0, 0.0])


def test_weight_sequences_start_at_one_and_fall():
    for weights in (benjamini_hochberg_weights(50), linear_weights(50), KLevelSLOPE().sequence(50)):
        assert weights[0] == 1
        assert np.all(np.diff(weights) <= 0)
        assert np.all(weights > 0)


@settings(max_examples=20)
@given(n_features=st.integers(1, 40))
def test_levels_cover_every_feature(n_features):
    assert KLevelSLOPE((1.0, 0.5, 0.2), (0.2, 0.3, 0.5)).sequence(n_features).size == n_features


@pytest.mark.parametrize(
    "build",
    [
        lambda: GroupSLOPE(np.array([1.0, 2.0])),
        lambda: GroupSLOPE(np.array([1.0, -2.0])),
        lambda: GroupSLOPE("bonferroni"),
        lambda: GroupSLOPE(np.ones(3)).value(np.ones(4), 1.0),
        lambda: KLevelSLOPE((1.0,), (0.5,)),
        lambda: GroupElasticNet(1.5),
        lambda: as_penalty("lasso"),
        lambda: as_penalty(object()),
    ],
)
def test_a_wrong_penalty_is_refused(build):
    with pytest.raises(InputError, match=r"expected .* got"):
        build()


def test_weights_of_columns_are_spread_over_their_terms():
    columns = np.array([0, 0, 1, 3])  # the first column has two terms, the third none
    penalty = spread(GroupLasso(np.array([2.0, 0.5, 7.0, np.inf])), columns, 4)
    assert penalty.weights.tolist() == [2.0, 2.0, 0.5, np.inf]
    for other in (GroupLasso(3.0), GroupElasticNet(), AdaptiveGroupLasso()):
        assert spread(other, columns, 4) is other
    with pytest.raises(InputError, match="one weight for each of the 5 columns"):
        spread(GroupLasso(np.ones(4)), columns, 5)


def test_only_the_group_lasso_takes_weights():
    assert weighted(GroupLasso(2.0), np.array([1.0, 3.0])).weights.tolist() == [2.0, 6.0]
    assert weighted(GroupSLOPE(), np.ones(2)) is not None
    with pytest.raises(InputError, match="penalty_weights and always_keep"):
        weighted(GroupSLOPE(), np.array([1.0, 3.0]))


@pytest.mark.parametrize("strength", [0.01, 0.3, 1.0, 20.0])
def test_bridge_goes_to_zero_exactly_where_zero_is_the_lower_of_its_two_minima(strength):
    threshold = 1.5 * strength ** (2 / 3)
    norms = threshold * np.linspace(0.9, 1.1, 41)
    shrunk = GroupBridge().shrink(norms, strength, 1.0)
    grid = np.linspace(0.0, 1.2 * threshold, 20_001)
    energies = 0.5 * (grid - norms[:, None]) ** 2 + strength * np.sqrt(grid)
    reached = 0.5 * (shrunk - norms) ** 2 + strength * np.sqrt(shrunk)
    assert np.all(reached <= energies.min(axis=1) * (1.0 + 1e-12))
    assert shrunk[0] == 0.0
    assert shrunk[-1] > 0.0


def test_a_joint_group_moves_as_the_minimiser_of_its_definition_does():
    penalty = JointGroupLasso((np.array([0, 1]), np.array([2])), np.array([1.0, 2.0]))
    norms, steps, generator = np.array([1.0, 0.7, 1.5]), np.array([0.5, 0.2, 0.3]), np.random.default_rng(0)

    def energy(r):
        return np.sum((r - norms) ** 2 / (2 * steps)) + penalty.value(r, 0.8)

    shrunk = penalty.shrink(norms, 0.8, steps)
    for size in (1e-1, 1e-2, 1e-3):
        for move in generator.normal(size=(50, 3)):
            assert energy(shrunk) <= energy(np.abs(shrunk + size * move)) + 1e-12


@pytest.mark.parametrize(("first", "expected"), [("nam", 0.0), ("snam", 0.3)])
def test_the_first_fit_of_an_adaptive_penalty_has_the_alpha_that_first_says(first, expected, monkeypatch):
    seen, train = [], networks.train_network

    def spy(objective, *given):
        seen.append((objective.alpha, type(objective.penalty)))
        return train(objective, *given)

    monkeypatch.setattr(networks, "train_network", spy)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    network = Network((3,), solver="prox_adam", max_epochs=2)
    SNAMRegressor(alpha=0.3, penalty=AdaptiveGroupLasso(first=first), network=network, random_state=0).fit(X, X[:, 0])
    assert seen == [(expected, AdaptiveGroupLasso), (0.3, GroupLasso)]


@given(norms=arrays(float, 5, elements=st.floats(0.1, 10)), power=st.floats(0.2, 3))
def test_the_power_of_an_adaptive_penalty_is_that_of_its_weights(norms, power):
    """wⱼ ∝ ‖Θ⁰ⱼ‖^-power, with weight 1 for the largest."""
    weights = AdaptiveGroupLasso(power=power).adapted_to(norms).weights
    np.testing.assert_allclose(np.log(weights), power * (np.log(norms.max()) - np.log(norms)), atol=1e-9)
