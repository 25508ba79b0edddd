"""Metadata routing: what a caller wants passed on reaches fit, predict and score of every fold, with its rows."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsenam import FDRSelector, RandomFeatureSNAMRegressor, SNAMClassifier, SNAMRegressor, SNAMSurvival

FOLDS = KFold(2)


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(160, 3))
    y = 2 * X[:, 0] + np.sin(2 * X[:, 1]) + draw.normal(0, 0.3, 160)
    return X, y, draw.integers(1, 4, 160).astype(float), np.arange(160) // 8


@pytest.fixture(scope="module")
def counts(rows):
    X, exposure = rows[0], np.random.default_rng(1).uniform(0.2, 5, 160)
    return X, np.random.default_rng(2).poisson(exposure * np.exp(0.5 + 0.6 * X[:, 0])).astype(float), exposure


def weighted(estimator):
    return clone(estimator).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)


@pytest.mark.parametrize("estimator", [SNAMRegressor(random_state=0), RandomFeatureSNAMRegressor(alpha=0.05)], ids=str)
def test_weights_reach_fit_and_score_of_every_fold(estimator, rows):
    X, y, weights, _ = rows
    found = cross_validate(weighted(estimator), X, y, cv=FOLDS, params={"sample_weight": weights})["test_score"]
    for (train, test), score in zip(FOLDS.split(X), found, strict=True):
        model = clone(estimator).fit(X[train], y[train], sample_weight=weights[train])
        assert score == pytest.approx(r2_score(y[test], model.predict(X[test]), sample_weight=weights[test]))


def test_weights_of_classes_reach_fit_and_score_of_every_fold(rows):
    X, y, weights, _ = rows
    labels = np.where(y > 0, "high", "low")
    model = SNAMClassifier(alpha=0.02, refit=False, random_state=0)
    found = cross_validate(weighted(model), X, labels, cv=FOLDS, params={"sample_weight": weights})["test_score"]
    for (train, test), score in zip(FOLDS.split(X), found, strict=True):
        fitted = clone(model).fit(X[train], labels[train], sample_weight=weights[train])
        assert score == pytest.approx(fitted.score(X[test], labels[test], sample_weight=weights[test]))


def test_weights_of_censored_times_reach_fit_and_score(rows):
    X, y, weights, _ = rows
    lasted = np.exp(-0.3 * y) * np.random.default_rng(3).exponential(size=160)
    times = np.array([(True, time) for time in lasted], dtype=[("event", bool), ("time", float)])
    model = SNAMSurvival(alpha=0.05, refit=False, random_state=0)
    found = cross_validate(weighted(model), X, times, cv=FOLDS, params={"sample_weight": weights})["test_score"]
    for (train, test), score in zip(FOLDS.split(X), found, strict=True):
        fitted = clone(model).fit(X[train], times[train], sample_weight=weights[train])
        assert score == pytest.approx(fitted.score(X[test], times[test], sample_weight=weights[test]))


def test_exposure_reaches_fit_and_score_of_every_fold(counts):
    X, y, exposure = counts
    model = SNAMRegressor(family="poisson", random_state=0)
    asked = clone(model).set_fit_request(exposure=True).set_score_request(exposure=True)
    found = cross_validate(asked, X, y, cv=FOLDS, params={"exposure": exposure})["test_score"]
    for (train, test), score in zip(FOLDS.split(X), found, strict=True):
        fitted = clone(model).fit(X[train], y[train], exposure=exposure[train])
        assert score == pytest.approx(r2_score(y[test], fitted.predict(X[test], exposure=exposure[test])))
        assert score > fitted.score(X[test], y[test])  # counts are not rates


def test_exposure_passes_a_pipeline_to_fit_and_predict(counts):
    X, y, exposure = counts
    model = SNAMRegressor(family="poisson", random_state=0)
    asked = clone(model).set_fit_request(exposure=True).set_predict_request(exposure=True)
    steps = make_pipeline(StandardScaler(), asked).fit(X, y, exposure=exposure)
    scaled = StandardScaler().fit_transform(X)
    alone = model.fit(scaled, y, exposure=exposure)
    np.testing.assert_allclose(steps.predict(X, exposure=exposure), alone.predict(scaled, exposure=exposure))


def test_groups_reach_the_outer_folds_and_those_that_choose_alpha(rows):
    X, y, _, groups = rows
    model = SNAMRegressor(cv=GroupKFold(3), random_state=0)
    asked, outer = clone(model).set_fit_request(groups=True), GroupKFold(2)
    found = cross_validate(asked, X, y, cv=outer, params={"groups": groups}, return_estimator=True)
    for (train, _), fitted in zip(outer.split(X, groups=groups), found["estimator"], strict=True):
        assert fitted.alpha_ == model.fit(X[train], y[train], groups=groups[train]).alpha_


def test_a_grid_search_passes_weights_to_its_folds_and_its_last_fit(rows):
    X, y, weights, _ = rows
    model = RandomFeatureSNAMRegressor()
    search = GridSearchCV(weighted(model), {"alpha": [0.02, 0.3]}, cv=FOLDS).fit(X, y, sample_weight=weights)
    last = clone(model).set_params(alpha=search.best_params_["alpha"]).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(search.predict(X), last.predict(X))
    for index, alpha in enumerate((0.02, 0.3)):
        scores = []
        for train, test in FOLDS.split(X):
            fitted = clone(model).set_params(alpha=alpha).fit(X[train], y[train], sample_weight=weights[train])
            scores.append(fitted.score(X[test], y[test], sample_weight=weights[test]))
        assert search.cv_results_["mean_test_score"][index] == pytest.approx(np.mean(scores))


def test_a_grid_search_over_a_pipeline_passes_weights_to_every_step_that_asks(rows):
    X, y, weights, _ = rows
    selector = FDRSelector(random_state=0).set_fit_request(sample_weight=True)
    steps = make_pipeline(selector, RandomFeatureSNAMRegressor().set_fit_request(sample_weight=True))
    grid = {"randomfeaturesnamregressor__alpha": [0.02, 0.3]}
    scorer = make_scorer(r2_score).set_score_request(sample_weight=True)  # a pipeline's score cannot pass on in 1.6
    search = GridSearchCV(steps, grid, cv=FOLDS, scoring=scorer).fit(X, y, sample_weight=weights)
    kept = FDRSelector(random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(search.best_estimator_[0].get_support(), kept.get_support())
    alpha = search.best_params_["randomfeaturesnamregressor__alpha"]
    last = RandomFeatureSNAMRegressor(alpha).fit(kept.transform(X), y, sample_weight=weights)
    np.testing.assert_array_equal(search.predict(X), last.predict(kept.transform(X)))


@pytest.mark.parametrize("name", ["sample_weight", "exposure"])
def test_what_nobody_asked_for_is_refused_and_not_dropped(name, counts):
    X, y, exposure = counts
    with pytest.raises(UnsetMetadataPassedError, match=name):
        cross_validate(SNAMRegressor(alpha=0.1, family="poisson"), X, y, cv=FOLDS, params={name: exposure})


def test_requests_survive_clone():
    model = SNAMRegressor().set_fit_request(exposure=True, groups=False).set_predict_request(exposure="hours")
    requests = clone(model).get_metadata_routing()
    assert requests.fit.requests["exposure"] is True
    assert requests.fit.requests["groups"] is False
    assert requests.predict.requests["exposure"] == "hours"
