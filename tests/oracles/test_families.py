"""Without hidden layers and penalty each family is a linear model that another library, or scipy, can fit too."""

import numpy as np
import pytest
from array_api_compat import array_namespace
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import nbinom
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)

from sparsenam import Network, SNAMRegressor
from sparsenam.families import Huber, NegativeBinomial, Quantile, Tweedie, estimated_overdispersion

ROWS = 400


def table(seed=0):
    generator = np.random.default_rng(seed)
    X = 2.0 + 1.5 * generator.normal(size=(ROWS, 4))
    return X, 0.3 * X[:, 0] - 0.2 * X[:, 1] + 0.1 * X[:, 3], generator


def linear(family, X, y, *, standardize=True):
    network = Network(hidden=(), standardize=standardize)
    return SNAMRegressor(alpha=0.0, family=family, network=network, random_state=0).fit(X, y)


def draw(kind, mean, generator):
    if kind == "poisson":
        return generator.poisson(mean).astype(float)
    if kind == "gamma":
        return generator.gamma(2.0, mean / 2.0)
    counts = generator.poisson(1.5, size=mean.size)
    return np.where(counts > 0, generator.gamma(np.maximum(counts, 1), mean / 1.5), 0.0)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize(
    ("kind", "family", "oracle"),
    [
        ("poisson", "poisson", PoissonRegressor),
        ("gamma", "gamma", GammaRegressor),
        ("tweedie", "tweedie", lambda **settings: TweedieRegressor(power=1.5, link="log", **settings)),
        ("tweedie", Tweedie(1.2), lambda **settings: TweedieRegressor(power=1.2, link="log", **settings)),
    ],
)
def test_log_linear_models_are_scikit_learns(kind, family, oracle, standardize):
    X, scores, generator = table()
    y = draw(kind, np.exp(scores), generator)
    known = oracle(alpha=0, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(X, y)
    model = linear(family, X, y, standardize=standardize)
    np.testing.assert_allclose(model.predict(X), known.predict(X), rtol=1e-4)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_a_sharp_quantile_model_is_scikit_learns(level):
    X, scores, generator = table(1)
    y = scores + 0.3 * generator.standard_t(4, size=ROWS)
    known = QuantileRegressor(quantile=level, alpha=0).fit(X, y)
    model = linear(Quantile(level, smoothing=1e-5), X, y)

    def pinball(predictions):
        return np.mean(np.maximum(level * (y - predictions), (level - 1) * (y - predictions)))

    assert np.abs(model.predict(X) - known.predict(X)).max() < 1e-3 * y.std()
    assert 0 <= pinball(model.predict(X)) - pinball(known.predict(X)) < 1e-6 * y.std()


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_usual_smoothing_costs_little_of_the_quantile_loss(level):
    X, scores, generator = table(2)
    y = scores + 0.3 * generator.standard_t(4, size=ROWS)
    known = QuantileRegressor(quantile=level, alpha=0).fit(X, y)
    found = linear(Quantile(level), X, y).predict(X)

    def pinball(predictions):
        return np.mean(np.maximum(level * (y - predictions), (level - 1) * (y - predictions)))

    assert pinball(found) - pinball(known.predict(X)) < 2e-4 * y.std()
    assert np.mean(y <= found) == pytest.approx(level, abs=0.01)


def test_huber_without_its_scale_estimate_is_scikit_learns():
    """Given the σ of scikit-learn as the scale, the loss is the same and so are the coefficients."""
    X, scores, generator = table(3)
    y = scores + 0.2 * generator.normal(size=ROWS)
    y[:30] += 20.0
    known = HuberRegressor(epsilon=1.345, alpha=0, tol=1e-10, max_iter=10_000).fit(X, y)
    model = linear(Huber(1.345, scale=known.scale_), X, y, standardize=False)
    np.testing.assert_allclose(model.predict(X), known.predict(X), atol=1e-4 * y.std())
    assert np.abs(linear("gaussian", X, y).predict(X) - known.predict(X)).max() > 0.5


def test_huber_is_what_scipy_finds():
    X, scores, generator = table(4)
    y = scores + 0.5 * generator.standard_t(2, size=ROWS)
    bound = 0.8

    def cost(parameters):
        over = np.abs(parameters[0] + X @ parameters[1:] - y)
        return np.mean(np.where(over <= bound, 0.5 * over**2, bound * over - 0.5 * bound**2))

    known = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    found = linear(Huber(0.8), X, y, standardize=False).predict(X)
    np.testing.assert_allclose(found, known[0] + X @ known[1:], atol=1e-5 * y.std())


@pytest.mark.parametrize("overdispersion", [0.2, 1.0])
def test_negative_binomial_is_the_most_likely_model(overdispersion):
    X, scores, generator = table(5)
    mean = np.exp(1.0 + scores)
    y = generator.poisson(mean * generator.gamma(1 / overdispersion, overdispersion, size=ROWS)).astype(float)
    size = 1 / overdispersion

    def cost(parameters):
        means = np.exp(parameters[0] + X @ parameters[1:])
        return -np.mean(nbinom.logpmf(y, size, size / (size + means)))

    known = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-8}).x
    model = linear(NegativeBinomial(overdispersion), X, y)
    np.testing.assert_allclose(model.predict(X), np.exp(known[0] + X @ known[1:]), rtol=1e-4)


def test_estimated_overdispersion_is_the_most_likely_one():
    generator = np.random.default_rng(6)
    mean = generator.uniform(1.0, 8.0, size=(300, 1))
    y = generator.poisson(mean * generator.gamma(2.0, 0.5, size=mean.shape)).astype(float)

    def cost(logarithm):
        size = np.exp(-logarithm[0])
        parts = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
        return -np.mean(parts + size * np.log(size / (size + mean)) + y * np.log(mean / (size + mean)))

    known = np.exp(minimize(cost, [0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14}).x[0])
    assert estimated_overdispersion(mean, y, np.ones(300)) == pytest.approx(known, rel=1e-5)


class LogCosh:
    """log(2 cosh(s - y)) from a loss and its gradient alone."""

    def loss(self, scores, target):
        over = scores - target
        return array_namespace(scores).logaddexp(over, -over)

    def gradient(self, scores, target):
        return array_namespace(scores).tanh(scores - target)


def test_a_custom_loss_is_fitted_as_scipy_fits_it():
    X, scores, generator = table(7)
    y = scores + 0.5 * generator.standard_t(3, size=ROWS)
    target = (y - y.mean()) / y.std()

    def cost(parameters):
        over = parameters[0] + X @ parameters[1:] - target
        return np.mean(np.logaddexp(over, -over))

    known = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x
    expected = y.mean() + y.std() * (known[0] + X @ known[1:])
    np.testing.assert_allclose(linear(LogCosh(), X, y).predict(X), expected, atol=1e-5 * y.std())
