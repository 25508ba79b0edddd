"""Each family's gradient, link and best constant follow from its loss, in numpy and in torch alike."""

from typing import get_args

import numpy as np
import pytest
import torch
from array_api_compat import array_namespace
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sparsenam import Network, SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.families import (
    FAMILIES,
    Family,
    Gamma,
    Gaussian,
    Huber,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Quantile,
    TargetRange,
    Tweedie,
    as_family,
    best_intercept,
    custom_family,
    dispersion,
    estimated_overdispersion,
    numeric_conjugate,
    robust_center_and_scale,
)
from sparsenam.families.base import Dispersion, increasing_root


class LogCosh:
    """log(2 cosh(s - y)), the least that a user has to write."""

    def loss(self, scores, target):
        over = scores - target
        return array_namespace(scores).logaddexp(over, -over)

    def gradient(self, scores, target):
        return array_namespace(scores).tanh(scores - target)


CASES = {name: make() for name, make in FAMILIES.items()} | {
    "tweedie 1.1": Tweedie(1.1),
    "tweedie 1.9": Tweedie(1.9),
    "negative binomial 0.05": NegativeBinomial(0.05),
    "upper quantile": Quantile(0.9, smoothing=0.1),
    "narrow huber": Huber(0.5, scale=0.7),
    "log-cosh": custom_family(LogCosh()),
}
OUTPUTS = {"gaussian": 2, "multinomial": 3, "multilabel": 2, "gamma": 2, "tweedie": 2, "huber": 2, "log-cosh": 2}
BOUNDED = ("huber", "narrow huber", "quantile", "upper quantile")  # whose hessian_diagonal is a mere bound
every_family = pytest.mark.parametrize("name", list(CASES))
seeds = st.integers(0, 10_000)


def sample(name, seed, rows=7):
    generator = np.random.default_rng(seed)
    family, outputs = CASES[name], OUTPUTS.get(name, 1)
    scores = 3 * generator.normal(size=(rows, outputs))
    if name == "multinomial":
        return scores, np.eye(outputs)[generator.integers(outputs, size=rows)]
    if family.range.lowest == -np.inf:
        return scores, generator.normal(size=(rows, outputs))
    if family.range.lowest > 0:
        return scores, generator.gamma(1.0, size=(rows, outputs)) + 1e-3
    top = 2 if family.range.highest == 1 else 5
    return scores, generator.integers(top, size=(rows, outputs)).astype(float)


@every_family
@settings(max_examples=30)
@given(seed=seeds)
def test_gradient_is_the_derivative_of_loss(name, seed):
    family = CASES[name]
    scores, target = sample(name, seed)
    leaf = torch.tensor(scores, requires_grad=True)
    (expected,) = torch.autograd.grad(family.loss(leaf, torch.tensor(target)).sum(), leaf)
    np.testing.assert_allclose(family.gradient(scores, target), expected.numpy(), rtol=1e-9, atol=1e-9)


@every_family
@settings(max_examples=20)
@given(seed=seeds)
def test_hessian_diagonal_is_the_second_derivative_or_lies_above_it(name, seed):
    family = CASES[name]
    scores, target = sample(name, seed, rows=1)
    found = family.hessian_diagonal(scores, target)[0]
    fixed = torch.tensor(target)
    hessian = torch.autograd.functional.hessian(lambda s: family.loss(s, fixed).sum(), torch.tensor(scores))
    matrix = hessian.reshape(scores.size, scores.size).numpy()
    least = np.linalg.eigvalsh(np.diag(found) - matrix).min()
    assert least >= -1e-5 * (1.0 + found.max())
    if name != "multinomial" and name not in BOUNDED:
        np.testing.assert_allclose(found, np.diag(matrix), rtol=1e-5, atol=1e-7)


@settings(max_examples=30)
@given(seed=seeds, outputs=st.integers(2, 8))
def test_softmax_has_one_bound_for_all_classes_sharp_for_two_and_for_equal_shares(seed, outputs):
    def bound_and_top(scores):
        bound = Multinomial().hessian_diagonal(scores[None], np.eye(outputs)[:1])[0]
        shares = Multinomial().mean(scores[None])[0]
        return bound, np.linalg.eigvalsh(np.diag(shares) - np.outer(shares, shares))[-1]

    bound, top = bound_and_top(3 * np.random.default_rng(seed).normal(size=outputs))
    assert np.all(bound == bound[0]) and bound[0] >= top - 1e-12
    if outputs == 2:
        np.testing.assert_allclose(bound, top, rtol=1e-9, atol=1e-13)
    equal, top = bound_and_top(np.zeros(outputs))
    np.testing.assert_allclose(equal, top, rtol=1e-9)


@every_family
@settings(max_examples=20)
@given(seed=seeds)
def test_numpy_and_torch_give_the_same_numbers(name, seed):
    family = CASES[name]
    scores, target = sample(name, seed)
    tensors = torch.tensor(scores), torch.tensor(target)
    for method in (family.loss, family.gradient, family.hessian_diagonal):
        np.testing.assert_allclose(method(scores, target), method(*tensors).numpy(), rtol=1e-11, atol=1e-10)
    np.testing.assert_allclose(family.mean(scores), family.mean(tensors[0]).numpy(), rtol=1e-12, atol=1e-15)


@every_family
@settings(max_examples=30)
@given(seed=seeds)
def test_loss_and_conjugate_obey_fenchel_and_young(name, seed):
    family = CASES[name]
    scores, target = sample(name, seed)
    other, _ = sample(name, seed + 1)
    for point in (scores, other):
        slope = family.gradient(point, target)
        bound = np.sum(slope * scores, axis=1) - family.loss(scores, target)
        conjugate = family.conjugate(target + slope, target)
        size = 1.0 + np.abs(bound) + np.abs(conjugate)
        assert np.all(conjugate >= bound - 1e-8 * size)
        if point is scores:
            np.testing.assert_allclose(conjugate, bound, atol=1e-9 * size.max())


@every_family
def test_no_loss_is_below_that_of_the_conjugate_at_zero(name):
    family = CASES[name]
    _, target = sample(name, 5, rows=30)
    least = -family.conjugate(target, target)
    for seed in range(20):
        scores, _ = sample(name, seed, rows=30)
        assert np.all(family.loss(scores, target) >= least - 1e-9)


@pytest.mark.parametrize("name", [name for name in CASES if name != "multinomial"])
def test_numeric_conjugate_is_the_closed_one(name):
    family = CASES[name]
    scores, target = sample(name, 2, rows=40)
    slope = 0.7 * family.gradient(scores, target)
    expected = family.conjugate(target + slope, target)
    found = numeric_conjugate(family, slope, target, np.zeros_like(target))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("family", "slope"),
    [
        (Gamma(), 1.1),
        (Poisson(), -2.1),
        (NegativeBinomial(1.0), 1.1),
        (NegativeBinomial(1.0), -2.1),
        (Quantile(0.9), 0.11),
        (Quantile(0.9), -0.91),
        (Huber(1.0), 1.1),
        (CASES["log-cosh"], 1.1),
    ],
)
def test_conjugate_is_infinite_where_no_gradient_reaches(family, slope):
    target = np.full((1, 1), 2.0)
    assert family.conjugate(target + slope, target)[0] == np.inf
    assert numeric_conjugate(family, np.full((1, 1), slope), target)[0] == np.inf
    assert np.isfinite(family.conjugate(target + 0.9 * slope / 1.12, target)[0])


@every_family
def test_best_constant_minimises_the_weighted_loss(name):
    family = CASES[name]
    _, target = sample(name, 3, rows=60)
    weights = np.random.default_rng(4).uniform(0.1, 2, size=60)
    best = family.best_constant(target, weights)

    def cost(constant):
        return weights @ family.loss(np.broadcast_to(constant, target.shape), target)

    assert cost(best) <= minimize(cost, np.zeros(target.shape[1])).fun + 1e-6


@every_family
def test_best_intercept_balances_the_gradient(name):
    family = CASES[name]
    effects, target = sample(name, 6, rows=50)
    weights = np.random.default_rng(7).uniform(0.1, 2, size=50)
    found = best_intercept(family, effects, target, weights, np.full(target.shape[1], 4.0))
    slope = np.average(family.gradient(effects + found, target), axis=0, weights=weights)
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)


@every_family
@settings(max_examples=30)
@given(seed=st.integers(0, 1000))
def test_curvature_bounds_the_second_derivative(name, seed):
    family = CASES[name]
    scores, target = sample(name, seed, rows=1)
    leaf = torch.tensor(scores)
    hessian = torch.autograd.functional.hessian(lambda s: family.loss(s, torch.tensor(target)).sum(), leaf)
    matrix = hessian.reshape(scores.size, scores.size)
    assert torch.linalg.eigvalsh(matrix).max() <= family.curvature + 1e-9


@every_family
@pytest.mark.parametrize("size", [60.0, 700.0, 1e5])
@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
def test_huge_scores_stay_finite(name, size, precision):
    family = CASES[name]
    _, target = sample(name, 0)
    scores = np.full(target.shape, size)
    scores[:, 0] = -size
    for huge in (scores, -scores):
        tensor, other = torch.tensor(huge, dtype=precision), torch.tensor(target, dtype=precision)
        for method in (family.loss, family.gradient, family.hessian_diagonal):
            assert np.isfinite(method(huge, target)).all()
            assert torch.isfinite(method(tensor, other)).all()
        assert np.isfinite(family.mean(huge)).all()


@pytest.mark.parametrize("family", [Poisson(), Gamma(), Tweedie(1.1), Tweedie(1.9), NegativeBinomial(2.0)], ids=repr)
def test_amounts_of_any_size_that_a_fit_takes_have_finite_losses_at_any_score(family):
    target = np.full((2, 1), 1e99)
    for size in (60.0, 700.0, 1e6):
        for method in (family.loss, family.gradient, family.hessian_diagonal):
            assert np.isfinite(method(np.array([[size], [-size]]), target)).all()


def test_tweedie_is_between_poisson_and_gamma():
    scores, target = sample("gamma", 1)
    for power, other in ((1.0 + 1e-7, Poisson()), (2.0 - 1e-7, Gamma())):
        np.testing.assert_allclose(Tweedie(power).gradient(scores, target), other.gradient(scores, target), rtol=1e-4)


def test_negative_binomial_without_dispersion_is_poisson():
    scores, target = sample("poisson", 1)
    near = NegativeBinomial(1e-8)
    np.testing.assert_allclose(near.gradient(scores, target), Poisson().gradient(scores, target), rtol=1e-5)
    change = near.loss(scores, target) - near.loss(scores - 1.0, target)
    expected = Poisson().loss(scores, target) - Poisson().loss(scores - 1.0, target)
    np.testing.assert_allclose(change, expected, rtol=1e-5)


def test_a_wide_huber_is_gaussian_and_a_sharp_quantile_is_the_pinball():
    scores, target = sample("huber", 1)
    np.testing.assert_allclose(Huber(1e6).loss(scores, target), Gaussian().loss(scores, target))
    sharp = Quantile(0.3, smoothing=1e-9).loss(scores, target)
    pinball = np.where(scores > target, 0.7, -0.3) * (scores - target)
    np.testing.assert_allclose(sharp, pinball.sum(axis=1), atol=1e-6)


@pytest.mark.parametrize("family", [Poisson(), Gamma(), Tweedie(1.3)])
def test_an_exposure_is_a_weight_on_the_rate(family):
    scores, target = sample("gamma", 4)
    exposure = np.random.default_rng(5).uniform(0.1, 3.0, size=target.shape)
    whole = family.gradient(scores + np.log(exposure), target)
    reduced = exposure**family.exposure_power * family.gradient(scores, target / exposure)
    np.testing.assert_allclose(whole, reduced, rtol=1e-9)


def test_families_without_such_a_reduction_say_so():
    assert all(CASES[name].exposure_power is None for name in ("gaussian", "negative_binomial", "log-cosh"))


@pytest.mark.parametrize(
    ("family", "draw"),
    [
        (Gamma(), lambda generator, mean: generator.gamma(1 / 0.3, 0.3 * mean)),
        (Gaussian(), lambda generator, mean: generator.normal(mean, np.sqrt(0.3))),
        (CASES["log-cosh"], lambda generator, mean: generator.normal(mean, 0.01 * np.sqrt(0.3))),
        (Huber(1.345), lambda generator, mean: generator.normal(mean, np.sqrt(0.3))),
    ],
)
def test_dispersion_finds_the_scale_of_the_likelihood(family, draw):
    generator = np.random.default_rng(0)
    scores = generator.uniform(0, 1, size=(20_000, 1))
    target = draw(generator, family.mean(scores))
    expected = 0.3 * 1e-4 if family.name == "LogCosh" else 0.3  # near y log-cosh is ½u²
    found = dispersion(family, scores, target, np.ones(20_000), 0.0)
    assert found == pytest.approx(expected, rel=0.05)


def test_dispersion_of_a_tweedie_sum_is_that_of_its_parts():
    """A Poisson(λ) number of Gamma(a, b) amounts has p = (a+2)/(a+1) and variance λab²(a+1) = φ(λab)^p."""
    generator = np.random.default_rng(1)
    counts = generator.poisson(1.2, size=50_000)
    target = np.where(counts > 0, generator.gamma(np.maximum(counts, 1) * 1.0, 2.0), 0.0)[:, None]
    scores = np.full_like(target, np.log(2.4))
    expected = 1.2 * 4.0 * 2.0 / 2.4**1.5
    assert dispersion(Tweedie(1.5), scores, target, np.ones(50_000), 1.0) == pytest.approx(expected, rel=0.05)


def test_dispersion_of_the_median_is_a_quarter_over_the_density():
    generator = np.random.default_rng(2)
    target = generator.normal(size=(50_000, 1))
    found = dispersion(Quantile(0.5), np.zeros_like(target), target, np.ones(50_000), 0.0)
    assert found == pytest.approx(0.25 * np.sqrt(2 * np.pi), rel=0.05)
    fixed = Poisson(dispersion="fixed")
    assert dispersion(fixed, np.zeros_like(target), target**2, np.ones(50_000), 0.0) == 1.0


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_pooled_dispersion_of_counts_is_their_variance_over_their_mean(scale):
    generator = np.random.default_rng(3)
    scores = generator.uniform(-1.0, 2.0, size=(50_000, 1))
    target = scale * generator.poisson(np.exp(scores) / scale)
    found = dispersion(Poisson(), scores, target, np.ones(50_000), 0.0)
    assert found == pytest.approx(scale, rel=0.05)
    fewer = dispersion(Poisson(), scores, target, np.ones(50_000), 10_000.0)
    assert fewer == pytest.approx(found / 0.8)


@pytest.mark.parametrize("known", [0.1, 1.0, 3.0])
def test_estimated_dispersion_is_that_of_the_counts(known):
    generator = np.random.default_rng(3)
    mean = generator.uniform(1, 6, size=(40_000, 1))
    target = generator.poisson(mean * generator.gamma(1 / known, known, size=mean.shape)).astype(float)
    weights = np.ones(len(mean))
    assert estimated_overdispersion(mean, target, weights) == pytest.approx(known, rel=0.06)
    found = NegativeBinomial("auto").estimated(np.log(mean), target, weights)
    assert found.first_family is None and found.overdispersion == pytest.approx(known, rel=0.06)


def test_counts_that_vary_less_than_poisson_have_almost_no_dispersion():
    mean = np.full((500, 1), 4.0)
    assert estimated_overdispersion(mean, np.tile([[3.0], [5.0]], (250, 1)), np.ones(500)) == pytest.approx(1e-6)


def test_huber_estimates_the_spread_of_the_many():
    generator = np.random.default_rng(4)
    residuals = 0.2 * generator.normal(size=(5000, 1))
    residuals[:500] += 100.0
    found = Huber(scale="auto").estimated(np.zeros_like(residuals), residuals, np.ones(5000))
    assert 0.2 < found.scale < 0.25


def test_robust_center_and_scale_are_those_of_the_normal_and_never_zero():
    values = np.random.default_rng(5).normal(3.0, 2.0, size=(20_000, 1))
    center, scale = robust_center_and_scale(values, np.ones(20_000))
    assert center[0] == pytest.approx(3.0, abs=0.05) and scale[0] == pytest.approx(2.0, rel=0.03)
    mostly = np.array([[0.0], [0.0], [0.0], [4.0]])
    assert robust_center_and_scale(mostly, np.ones(4))[1][0] == pytest.approx(2.0)
    doubled = robust_center_and_scale(values[:100], np.repeat([2.0, 0.0], 50))
    np.testing.assert_allclose(doubled, robust_center_and_scale(values[:50], np.ones(50)))


def test_increasing_root_survives_steep_flat_and_missing_zeros():
    roots = np.array([-300.0, 0.1, 40.0])
    steep = increasing_root(lambda s: np.tanh(1e3 * (s - roots)), lambda s: 1e-9 + 0 * s, np.zeros(3))
    np.testing.assert_allclose(steep, roots, rtol=1e-9)
    missing = increasing_root(lambda s: -np.exp(-np.abs(s)) - 1.0, lambda s: np.ones_like(s), np.zeros(1))
    assert missing[0] >= 1e6


def test_a_target_outside_the_range_is_refused_with_its_row():
    with pytest.raises(InputError, match=r"expected 0 or 1, got 2\.0 in row 1"):
        FAMILIES["binomial"]().range.check(np.array([[0.0], [2.0]]), "this test")
    with pytest.raises(InputError, match="expected one of"):
        as_family("poisson", ("gaussian",))
    with pytest.raises(InputError, match=r"numbers above 0, got 0\.0 in row 1"):
        Gamma().range.check(np.array([[1.0], [0.0]]), "this test")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tweedie(2.0), "power of Tweedie"),
        (lambda: NegativeBinomial(0.0), "overdispersion of NegativeBinomial"),
        (lambda: Quantile(1.0), "level of Quantile"),
        (lambda: Quantile(0.5, smoothing=0.0), "smoothing of Quantile"),
        (lambda: Huber(-1.0), "width of Huber"),
        (lambda: NegativeBinomial("auto").loss(np.zeros((1, 1)), np.zeros((1, 1))), "a number by now"),
        (lambda: Huber(scale="auto").loss(np.zeros((1, 1)), np.zeros((1, 1))), "a number by now"),
    ],
)
def test_impossible_parameters_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


class NoGradient:
    def loss(self, scores, target):
        return (scores - target) ** 2


class Wrong(LogCosh):
    def gradient(self, scores, target):
        return 2.0 * (scores - target)


class Concave(LogCosh):
    def loss(self, scores, target):
        return -super().loss(scores, target)

    def gradient(self, scores, target):
        return -super().gradient(scores, target)


class Summed(LogCosh):
    def loss(self, scores, target):
        return super().loss(scores, target).sum(-1)


class NumpyOnly(LogCosh):
    def gradient(self, scores, target):
        return np.tanh(np.asarray(scores) - np.asarray(target))


class Namesake(LogCosh):
    name = "gaussian"


@pytest.mark.parametrize(
    ("custom", "message"),
    [
        (NoGradient(), "got no gradient"),
        (Wrong(), "the loss's derivative"),
        (Concave(), "convex in the score"),
        (Summed(), "the shape"),
        (Namesake(), "another family's"),
        (object(), "got no loss and no gradient"),
    ],
)
def test_a_loss_that_cannot_be_used_is_refused_in_a_sentence(custom, message):
    with pytest.raises(InputError, match=message):
        as_family(custom, ("gaussian",))


def test_a_loss_of_numpy_alone_fits_curves_and_is_refused_for_networks():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    assert SNAMRegressor(family=NumpyOnly(), alpha=0.1).fit(X, y).score(X, y) > 0.5
    with pytest.raises(InputError, match="a tensor for tensors"):
        SNAMRegressor(family=NumpyOnly(), alpha=0.1, network=Network()).fit(X, y)


def test_what_a_custom_loss_adds_is_used():
    class Rates(LogCosh):
        name, link, exposure_power = "rates", "log", 0.0
        range = TargetRange(0.5, 10.0, "numbers from 0.5 to 10")

        def hessian(self, scores, target):
            return scores * 0.0 + 2.0

        def mean(self, scores):
            return scores + 1.0

    family = as_family(Rates(), ())
    assert (family.name, family.link, family.range.lowest) == ("rates", "log", 0.5)
    assert not family.standardizes_target and family.exposure_power == 0.0
    assert family.mean(np.ones(1))[0] == 2.0 and family.hessian_diagonal(np.ones(1), np.ones(1))[0] == 2.0


def test_whole_families_are_taken_as_they_are():
    family = Quantile(0.2)
    assert as_family(family, ()) is family
    assert as_family(CASES["log-cosh"], ()) is CASES["log-cosh"]


@every_family
def test_capabilities_are_what_the_loss_shows(name):
    family = CASES[name]
    scores, target = sample(name, 8, rows=5)
    squares = 0.5 * np.sum((scores - target) ** 2, axis=1)
    assert family.is_quadratic == np.allclose(family.loss(scores, target), squares)
    moved = scores.copy()
    moved[:, 0] += 1.0
    others = family.gradient(moved, target)[:, 1:]
    assert family.couples_outputs == (not np.array_equal(others, family.gradient(scores, target)[:, 1:]))
    assert family.dispersion in get_args(Dispersion)
    assert family.first_family is None and family.estimated(scores, target, np.ones(5)) is not None


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Gamma(), Tweedie(1.3)])
def test_the_variance_is_a_power_of_the_mean(family):
    """The expected Hessian of a log-likelihood with φ = 1 is μ'²/V(μ), and with y = μ it is the Hessian itself."""
    scores = np.array([[-1.0], [0.3], [2.0]])
    mean = family.mean(scores)
    slope = np.ones_like(mean) if family.link == "identity" else mean
    variance = np.abs(mean) ** family.variance_power
    np.testing.assert_allclose(family.hessian_diagonal(scores, mean), slope**2 / variance, rtol=1e-12)


@every_family
def test_the_declared_response_agrees_with_the_range_and_the_outputs(name):
    family = CASES[name]
    assert (family.response in ("binary", "classes", "labels")) == (family.range.highest == 1.0)
    assert (family.response in ("count", "amount")) == (family.range.lowest >= 0.0 and family.range.highest == np.inf)
    assert (family.response == "classes") == family.couples_outputs


def test_the_response_of_a_custom_loss_or_family_is_a_number_unless_it_says_otherwise():
    class Plain(Family):
        name = "plain"

    assert Plain().response == custom_family(LogCosh()).response == "number"


def test_a_whole_family_that_does_not_declare_its_capabilities_is_refused():
    class Undeclared:
        name, link, range, standardizes_target, curvature = "mine", "identity", TargetRange(), True, 1.0
        loss = gradient = hessian_diagonal = conjugate = mean = best_constant = lambda *arguments: arguments[0]

    with pytest.raises(InputError, match="got no robust_scale and no is_quadratic and no"):
        as_family(Undeclared(), ())


@pytest.mark.parametrize("freedom", [1, 5, 20])
def test_the_noise_of_least_squares_is_unbiased_whatever_the_degrees_of_freedom(freedom):
    """E RSS/(n - p) = σ² for a regression on p columns; with n as divisor it would be (n - p)/n of that."""
    generator, found = np.random.default_rng(freedom), []
    for _ in range(300):
        columns, y = generator.normal(size=(40, freedom)), 3.0 * generator.normal(size=(40, 1))
        scores = columns @ np.linalg.lstsq(columns, y, rcond=None)[0]
        found.append(dispersion(Gaussian(), scores, y, np.ones(40), float(freedom)))
    assert np.mean(found) == pytest.approx(9.0, abs=4.0 * np.std(found) / np.sqrt(300))
