"""Without hidden layers SNAM is a linear Cox model; lifelines and scikit-survival are the oracles."""

import numpy as np
import pytest
from sksurv.linear_model import CoxnetSurvivalAnalysis, CoxPHSurvivalAnalysis
from sksurv.metrics import concordance_index_censored

from fit_cases import partial_gradient
from sparsenam import Network, SNAMSurvival, survival_target
from sparsenam.survival import RiskSets, concordance

# lifelines calls pandas in a way that pandas 4 will refuse
LIFELINES = pytest.mark.filterwarnings("ignore:Starting with pandas version 4.0 all arguments of")


def linear_problem(seed, rows=250, tied=True):
    generator = np.random.default_rng(seed)
    X = 3 + 2 * generator.normal(size=(rows, 5))
    time = generator.exponential(size=rows) * np.exp(-X @ [0.4, -0.3, 0.2, 0.0, 0.0])
    limit = generator.uniform(0, 3 * np.median(time), size=rows)
    ended = np.minimum(time, limit)
    if tied:
        ended = np.ceil(12 * ended / ended.max())
    return X, survival_target(time <= limit, ended)


def slopes(model):
    """Return the coefficients in the units of X."""
    coefficients = np.zeros(model.n_features_in_)
    coefficients[model.model_.terms] = [curve.right_slope[0] for curve in model.model_.curves]
    return coefficients


@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("tied", [True, False])
def test_linear_model_without_penalty_is_scikit_survivals(ties, tied):
    X, y = linear_problem(0, tied=tied)
    model = SNAMSurvival(network=Network(hidden=()), alpha=0.0, ties=ties, random_state=0).fit(X, y)
    oracle = CoxPHSurvivalAnalysis(ties=ties, tol=1e-14, n_iter=200).fit(X, y)
    np.testing.assert_allclose(slopes(model), oracle.coef_, atol=1e-5)
    best = RiskSets.of(y["event"], y["time"]).hazard(X @ oracle.coef_, ties).log_likelihood
    np.testing.assert_allclose(model.log_likelihood_, best, atol=1e-6)
    apart = model.predict(X) - oracle.predict(X)
    np.testing.assert_allclose(apart, apart.mean(), atol=1e-4)
    np.testing.assert_allclose(model.score(X, y), oracle.score(X, y), atol=1e-3)
    if ties == "breslow":
        times = y["time"][y["time"] <= np.quantile(y["time"], 0.9)]
        ours = model.predict_survival_function(X[:5], times)
        theirs = [curve(times) for curve in oracle.predict_survival_function(X[:5])]
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@LIFELINES
def test_linear_model_with_efrons_ties_is_lifelines():
    pandas, lifelines = pytest.importorskip("pandas"), pytest.importorskip("lifelines")
    X, y = linear_problem(1)
    table = pandas.DataFrame(X).assign(event=y["event"], time=y["time"])
    table.columns = [str(name) for name in table.columns]
    options = {"precision": 1e-12, "r_precision": 1e-14}
    oracle = lifelines.CoxPHFitter().fit(table, "time", "event", fit_options=options)
    model = SNAMSurvival(network=Network(hidden=()), alpha=0.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.log_likelihood_, oracle.log_likelihood_, atol=1e-6)
    np.testing.assert_allclose(slopes(model), oracle.params_.to_numpy(), atol=1e-5)


@LIFELINES
def test_weighted_efron_likelihood_is_lifelines():
    pandas, lifelines = pytest.importorskip("pandas"), pytest.importorskip("lifelines")
    X, y = linear_problem(2)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(X))
    table = pandas.DataFrame({"x": X[:, 0], "event": y["event"], "time": y["time"], "w": weights})
    oracle = lifelines.CoxPHFitter().fit(table, "time", "event", weights_col="w", robust=True)
    risk_sets = RiskSets.of(y["event"], y["time"], weights)
    scores = X[:, 0] * oracle.params_["x"]
    np.testing.assert_allclose(risk_sets.hazard(scores).log_likelihood, oracle.log_likelihood_, rtol=1e-7)
    assert abs(partial_gradient(risk_sets, scores) @ X[:, 0]) < 1e-3


@pytest.mark.parametrize("fraction", [0.5, 0.1])
def test_linear_lasso_is_coxnet(fraction):
    X, y = linear_problem(3)
    columns = (X - X.mean(axis=0)) / X.std(axis=0)
    largest = np.abs(
        columns.T @ partial_gradient(RiskSets.of(y["event"], y["time"]), np.zeros(len(X)), "breslow")
    ).max()
    alpha = fraction * largest / y["event"].sum()
    model = SNAMSurvival(network=Network(hidden=()), alpha=alpha, ties="breslow", random_state=0).fit(X, y)
    share = y["event"].mean()  # theirs is the mean over the rows, ours over the events
    options = {"l1_ratio": 1.0, "tol": 1e-12, "max_iter": 1_000_000}
    oracle = CoxnetSurvivalAnalysis(alphas=[alpha * share], **options).fit(columns, y)
    np.testing.assert_allclose(slopes(model) * X.std(axis=0), oracle.coef_[:, 0], atol=1e-4)
    np.testing.assert_array_equal(model.get_support(), oracle.coef_[:, 0] != 0)


def test_concordance_is_scikit_survivals():
    generator = np.random.default_rng(4)
    _, y = linear_problem(4)
    for risk in (generator.normal(size=len(y)), generator.integers(0, 4, size=len(y)).astype(float)):
        expected = concordance_index_censored(y["event"], y["time"], risk)[0]
        np.testing.assert_allclose(concordance(y["event"], y["time"], risk), expected)
