"""Every parameter acts, or ``fit`` raises: each has a fit in which it shows, and one sentence where it could not."""

import inspect
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold

import sparsenam
from fit_cases import small_blocks
from sparsenam import (
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    survival_target,
)
from sparsenam.errors import InputError
from sparsenam.fit import pairs
from sparsenam.selection import OneSE
from sparsenam.tables import blocks

SNAM = (SNAMRegressor, SNAMClassifier, SNAMSurvival)
RANDOM_FEATURES = (RandomFeatureSNAMRegressor, RandomFeatureSNAMClassifier)
ESTIMATORS = SNAM + RANDOM_FEATURES
ROWS = 120

# the tables are small, and whether every fit on them converges is not the question
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@cache
def columns():
    """Two columns that matter, one of noise, one of whole numbers without effect."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(ROWS, 3)), columns=["a", "b", "noise"])
    return table.assign(code=generator.integers(0, 3, ROWS))


@cache
def target_of(estimator):
    generator, table = np.random.default_rng(2), columns()
    score = (2.0 * np.sin(2.0 * table.a) + 1.5 * table.b).to_numpy()
    if estimator is SNAMSurvival:
        time = np.ceil(30.0 * generator.exponential(size=ROWS) * np.exp(-0.8 * score))  # with ties
        return survival_target(generator.uniform(size=ROWS) < 0.8, time)
    if estimator in (SNAMClassifier, RandomFeatureSNAMClassifier):
        return np.where(score + 0.5 * generator.logistic(size=ROWS) > 0.8, "yes", "no")
    return score + 0.5 * generator.normal(size=ROWS)


def fitted(estimator, settings, **fit_params):
    return estimator(**{"random_state": 0} | settings).fit(columns(), target_of(estimator), **fit_params)


FITS = {}


def fitted_once(estimator, settings):
    """The fit with these settings: one for all parameters whose first value is the default."""
    usual = {name: each.default for name, each in inspect.signature(estimator).parameters.items()}
    given = {"random_state": 0} | settings
    other = {name: value for name, value in given.items() if repr(value) != repr(usual[name])}
    key = (estimator, repr(sorted(other.items())))
    if key not in FITS:
        FITS[key] = fitted(estimator, settings)
    return FITS[key]


# --- what shows a difference


def scores(model):
    return np.asarray(model.intercept_) + model.effects(columns()).sum(axis=1)


def kept(model):
    return model.get_support()


def losses(model):
    return model.cv_curve_.mean


def alphas(model):
    return model.cv_curve_.alphas


def outputs(model):
    return np.atleast_1d(model.intercept_)


def interactions(model):
    return np.array(len(model.interactions_))


def kinds(model):
    return np.array([column.kind for column in model.encoder_.columns])


def epochs(model):
    return np.arange(len(model.history_))


@dataclass(frozen=True)
class Shows:
    """Fits with two values of a parameter differ in what ``probe`` reads of them."""

    one: object
    other: object
    base: dict = field(default_factory=dict)
    probe: object = scores


QUICK = {"alpha": 0.05}
SMALL = Network((6,), max_epochs=5)
CHOOSING = {
    "alpha": Shows(0.02, 50.0),
    "cv": Shows(5, 3, probe=losses),
    "rule": Shows("best", OneSE(1e6), probe=kept),
    "n_alphas": Shows(30, 8, probe=alphas),
    "max_features": Shows(None, 1, {"rule": "best"}, kept),
    "feature_types": Shows(None, {"code": "category"}, QUICK, kinds),
    "feature_groups": Shows(None, [["a", "noise"]], {"alpha": 0.1}, kept),
    "penalty_weights": Shows(None, {"a": 1000.0}, QUICK, kept),
    "always_keep": Shows(None, ["noise"], {"alpha": 0.3}, kept),
}
OF_SNAM = CHOOSING | {
    "penalty": Shows("group_lasso", "elastic_net", {"alpha": 0.05, "refit": False}),
    "refit": Shows("auto", False, QUICK),
    "network": Shows(None, SMALL, {"alpha": 0.01}),
    "shapes": Shows(None, {"a": "increasing"}, QUICK),
    "random_state": Shows(0, 1, {"alpha": 0.01, "network": SMALL}),
    "pairs": Shows(0, [("a", "b")], QUICK, interactions),
}
OF_RANDOM_FEATURES = CHOOSING | {
    "penalty": Shows("group_lasso", "elastic_net", QUICK),
    "features": Shows("ramps", "hinges", QUICK),
    "norm": Shows("function", "parameters", QUICK),
    "width": Shows(32, 4, QUICK),
    "hidden": Shows((100, 50), (8,), QUICK | {"features": "random"}),
    "activation": Shows("relu", "tanh", QUICK | {"features": "random", "hidden": (8,)}),
    "tol": Shows(1e-4, 0.5, QUICK),
    "random_state": Shows(0, 1, QUICK | {"features": "random", "hidden": (8,)}),
}
OF_CLASSES = {
    "family": Shows("auto", "multinomial", QUICK, outputs),
    "class_weight": Shows(None, {"no": 1.0, "yes": 5.0}, QUICK),
}
OF_REGRESSION = {"family": Shows("gaussian", "huber", QUICK)}
OF_TIMES = {"ties": Shows("efron", "breslow", QUICK)}
SPARSE = {"alpha": 0.3}  # of times: alpha is for one event, and a smaller one takes many steps in each alternation
OF_NETWORK = {
    "hidden": Shows((6,), (7,)),
    "activation": Shows("relu", "tanh"),
    "penalize": Shows("subnetwork", "function"),
    "solver": Shows("prox_adam", "prox_sgd"),
    "learning_rate": Shows(None, 0.05),
    "schedule": Shows("constant", "cosine"),
    "batch_size": Shows(256, 16),
    "max_epochs": Shows(5, 6),
    "tol": Shows(1e-9, 1e9, {"patience": 1}, epochs),
    "patience": Shows(1, 3, {"tol": 1e9}, epochs),
    "validation_fraction": Shows(0.0, 0.3),
    "dropout": Shows(0.0, 0.5),
    "feature_dropout": Shows(0.0, 0.5),
    "output_penalty": Shows(0.0, 1.0),
    "weight_decay": Shows(0.0, 0.5),
    "threshold": Shows(0.01, 100.0, {"solver": "adam"}),
    "init": Shows("random", "convex"),
    "standardize": Shows(True, False),
}
ACTS = {
    SNAMRegressor: OF_SNAM | OF_REGRESSION,
    SNAMClassifier: OF_SNAM | OF_CLASSES,
    SNAMSurvival: {
        name: replace(case, base=case.base | SPARSE) if "alpha" in case.base else case
        for name, case in (OF_SNAM | OF_TIMES | {"alpha": Shows(SPARSE["alpha"], 50.0)}).items()
    },
    RandomFeatureSNAMRegressor: OF_RANDOM_FEATURES | OF_REGRESSION,
    RandomFeatureSNAMClassifier: OF_RANDOM_FEATURES | OF_CLASSES,
    Network: OF_NETWORK,
}
# these change no number of a finished fit; each has a test of its effect below. What weights mean shows where rows have
# some: tests/properties/test_weights.py
BESIDE = {estimator: {"max_seconds", "n_jobs", "verbose"} for estimator in ESTIMATORS}
BESIDE |= {estimator: BESIDE[estimator] | {"heredity", "weights"} for estimator in SNAM}
BESIDE[Network] = {"checkpoint", "device"}


@pytest.mark.parametrize("owner", list(ACTS), ids=lambda owner: owner.__name__)
def test_every_parameter_has_a_test(owner):
    assert set(ACTS[owner]) | BESIDE[owner] == set(inspect.signature(owner).parameters)
    assert not set(ACTS[owner]) & BESIDE[owner]


@pytest.mark.parametrize(
    ("owner", "name"),
    [(owner, name) for owner, shown in ACTS.items() for name in shown],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_parameter_acts(owner, name):
    case = ACTS[owner][name]

    def probed(value):
        settings = case.base | {name: value}
        if owner is Network:
            network = {"hidden": (6,), "max_epochs": 5} | settings
            return case.probe(fitted_once(SNAMRegressor, {"alpha": 0.01, "network": Network(**network)}))
        return case.probe(fitted_once(owner, settings))

    one, other = probed(case.one), probed(case.other)
    if one.shape != other.shape:
        return
    if one.dtype.kind == "f":
        assert np.abs(one - other).max() > 1e-6
    else:
        assert not np.array_equal(one, other)


# --- parameters that decide no number


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_max_seconds_ends_the_fit(estimator, ticking):
    with pytest.warns(ConvergenceWarning, match="max_seconds ran out"):
        fitted(estimator, {"max_seconds": 5.0})


@pytest.mark.parametrize("estimator", [SNAMRegressor, SNAMClassifier])
def test_n_jobs_is_the_number_of_blocks_worked_on_at_once(estimator, monkeypatch):
    small_blocks(monkeypatch, sample=100, height=40)
    asked, results_in_order = [], blocks.results_in_order

    def spy(tasks, count):
        asked.append(count)
        return results_in_order(tasks, count)

    monkeypatch.setattr(blocks, "results_in_order", spy)
    for n_jobs in (None, 3):
        fitted(estimator, QUICK | {"n_jobs": n_jobs})
    assert set(asked) == {1, 3}


@pytest.mark.parametrize("estimator", [SNAMSurvival, RandomFeatureSNAMRegressor, RandomFeatureSNAMClassifier])
def test_n_jobs_is_refused_where_all_rows_are_one_block(estimator):
    with pytest.raises(InputError, match=r"n_jobs: expected its default None, got 2, .* one block"):
        fitted(estimator, {"n_jobs": 2})
    fitted(estimator, (SPARSE if estimator is SNAMSurvival else QUICK) | {"n_jobs": 1})


@pytest.mark.parametrize("estimator", SNAM)
def test_heredity_says_which_pairs_are_tested(estimator, monkeypatch):
    tested, screen = [], pairs.screen

    def spy(x, levels, residual, weights, given, **others):
        tested.append(len(given))
        return screen(x, levels, residual, weights, given, **others)

    monkeypatch.setattr(pairs, "screen", spy)
    for heredity in ("none", "weak", "strong"):
        fitted(estimator, {"alpha": 0.3, "pairs": "auto", "heredity": heredity, "always_keep": ["a", "b"]})
    assert tested[0] == 6
    assert tested[0] > tested[1] > tested[2]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_verbose_draws_a_bar_and_false_draws_none(estimator, monkeypatch, capsys):
    monkeypatch.setattr(sparsenam.context, "BAR_DELAY", 0.0)
    for verbose in (True, False):
        fitted(estimator, {"verbose": verbose})
        out, err = capsys.readouterr()
        assert out == ""
        assert ("choose" in err) is verbose


@pytest.mark.parametrize("estimator", SNAM)
def test_a_checkpoint_is_written_and_read_again(estimator, tmp_path):
    path = tmp_path / "fit"
    network = Network((6,), max_epochs=5, checkpoint=path)
    for alpha in (0.01, "auto"):
        first = fitted(estimator, {"alpha": alpha, "network": network})
        assert path.exists()
        again = fitted(estimator, {"alpha": alpha, "network": network})
        np.testing.assert_array_equal(scores(again), scores(first))
        path.unlink()


def test_the_device_is_the_one_named():
    assert Network(device="cpu").chosen_device() == torch.device("cpu")
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert Network().chosen_device() == torch.device(expected)


# --- where a parameter could not act


@dataclass(frozen=True)
class Refused:
    """Settings that leave the parameter in ``message`` without effect."""

    message: str
    settings: dict
    fit_params: dict = field(default_factory=dict)


HALVES = [(np.arange(60), np.arange(60, ROWS)), (np.arange(60, ROWS), np.arange(60))]
GROUPS = {"groups": np.arange(ROWS) % 7}
EVERYTHING = ["a", "b", "noise", "code"]
EVERYWHERE = [
    Refused("cv: ", {"alpha": 0.1, "cv": 3}),
    Refused("cv: ", {"alpha": 0.1, "cv": HALVES}),
    Refused("rule: ", {"alpha": 0.1, "rule": "best"}),
    Refused("n_alphas: ", {"alpha": 0.1, "n_alphas": 10}),
    Refused("max_features: ", {"alpha": 0.1, "max_features": 2}),
    Refused("cv: ", {"always_keep": EVERYTHING, "cv": 3}),
    Refused("rule: ", {"always_keep": EVERYTHING, "rule": "best"}),
    Refused("n_alphas: ", {"always_keep": EVERYTHING, "n_alphas": 10}),
    Refused("max_features: ", {"always_keep": EVERYTHING, "max_features": 2}),
    Refused("max_features: ", {"always_keep": ["a", "b"], "max_features": 1}),
    Refused("groups: ", {"alpha": 0.1}, GROUPS),
    Refused("groups: ", {"cv": 5}, GROUPS),
    Refused("groups: ", {"cv": HALVES}, GROUPS),
    Refused("feature_types", {"feature_types": {"nobody": "category"}}),
    Refused("feature_groups: ", {"feature_groups": [["a", "nobody"]]}),
    Refused("penalty_weights", {"penalty_weights": {"nobody": 2.0}}),
    Refused("always_keep: ", {"always_keep": ["nobody"]}),
    Refused("n_jobs: ", {"n_jobs": 0}),
    Refused("max_seconds: ", {"max_seconds": 0.0}),
    Refused("convex solver: expected a convex penalty", {"penalty": "group_bridge"}),
]
IN_RANDOM_FEATURES = [
    Refused("width: ", {"features": "random", "width": 8}),
    Refused("hidden: ", {"hidden": (8,)}),
    Refused("hidden: ", {"features": "hinges", "hidden": (8,)}),
    Refused("activation: ", {"activation": "tanh"}),
    Refused("activation: ", {"features": "random", "hidden": (), "activation": "tanh"}),
    Refused("hidden: ", {"features": "random", "hidden": 8}),
    Refused("hidden: ", {"features": "random", "hidden": {"a": (8,)}}),
    Refused("tol: ", {"tol": 0.0}),
]


def of_network(message, alpha=0.1, **network):
    return Refused(message, {"alpha": alpha, "network": Network(**{"max_epochs": 5} | network)})


IN_NETWORKS = [
    of_network("learning_rate", solver="fista", learning_rate=0.1),
    of_network("schedule", solver="prox_gd", schedule="cosine"),
    of_network("patience", solver="fista", patience=3),
    of_network("batch_size", solver="gd", batch_size=16),
    of_network("batch_size", solver="fista", batch_size=16),
    of_network("dropout", solver="fista", dropout=0.1),
    of_network("feature_dropout", solver="fista", feature_dropout=0.1),
    of_network("dropout", hidden=(), solver="prox_adam", dropout=0.1),
    of_network("activation", hidden=(), activation="tanh"),
    of_network("activation", hidden=lambda names, outputs: pytest.fail("built"), activation="tanh"),
    of_network("penalize", alpha="auto", penalize="output"),
    of_network("penalize", init="convex", penalize="output"),
    of_network("threshold", threshold=0.1),
    of_network("threshold", alpha="auto", solver="adam", threshold=0.1),
    of_network("threshold", alpha=0.0, solver="adam", threshold=0.1),
    of_network("init", hidden=lambda names, outputs: pytest.fail("built"), init="convex"),
    of_network("validation_fraction", validation_fraction=0.001),
    of_network("device", device="quantum"),
    Refused("checkpoint", {"alpha": 0.1, "random_state": None, "network": Network(checkpoint="fit")}),
    Refused("network: ", {"network": (100, 50)}),
    Refused("refit: ", {"refit": "perhaps"}),
]
RISING = {"shapes": {"a": "increasing"}}
IN_SHAPES = [
    Refused("shapes: ", RISING | {"network": SMALL}),
    Refused("shapes: ", RISING | {"refit": False}),
    Refused("shapes: ", {"shapes": {"nobody": "increasing"}}),
    Refused("shapes: ", {"shapes": ["a"]}),
    Refused("shapes of column 'a': ", {"shapes": {"a": "wavy"}}),
    Refused("shapes of column 'a': ", {"shapes": {"a": "increasing+decreasing"}}),
    Refused("shapes of column 'code': ", {"shapes": {"code": "linear"}, "feature_types": {"code": "category"}}),
]
CASES = [
    *((estimator, case) for estimator in ESTIMATORS for case in EVERYWHERE),
    *((estimator, case) for estimator in RANDOM_FEATURES for case in IN_RANDOM_FEATURES),
    *((estimator, case) for estimator in SNAM for case in IN_NETWORKS + IN_SHAPES),
    (SNAMRegressor, Refused("exposure: ", {}, {"exposure": np.ones(ROWS)})),
    (RandomFeatureSNAMRegressor, Refused("exposure: ", {"family": "huber"}, {"exposure": np.ones(ROWS)})),
    (SNAMSurvival, Refused("ties: ", {"ties": "exact"})),
]


@pytest.mark.parametrize(
    ("estimator", "case"),
    CASES,
    ids=[f"{estimator.__name__}-{case.message.strip(': ')}-{index}" for index, (estimator, case) in enumerate(CASES)],
)
def test_a_parameter_that_could_not_act_is_refused_in_a_sentence(estimator, case):
    model = estimator(**{"random_state": 0} | case.settings)
    with pytest.raises(InputError) as caught:
        model.fit(columns(), target_of(estimator), **case.fit_params)
    message = str(caught.value)
    assert message.startswith(case.message)
    assert "expected" in message and "got" in message and message.endswith(".")
    assert "\n" not in message and len(message) < 300
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("estimator", [SNAMClassifier, RandomFeatureSNAMClassifier])
@pytest.mark.parametrize(
    ("name", "value"), [("class_weight", "balanced"), ("family", "binomial"), ("family", "multinomial")]
)
def test_settings_of_classes_are_refused_for_several_labels(estimator, name, value):
    labels = np.random.default_rng(0).integers(0, 2, size=(ROWS, 3))
    with pytest.raises(InputError, match=f"{name}: expected"):
        estimator(**{name: value}).fit(columns(), labels)


def test_groups_act_where_the_splitter_takes_them():
    curves = [
        fitted(SNAMRegressor, {"cv": GroupKFold(3)}, groups=groups).cv_curve_
        for groups in (np.arange(ROWS) % 7, np.arange(ROWS) % 5)
    ]
    assert np.abs(curves[0].mean[0] - curves[1].mean[0]) > 1e-9


@pytest.mark.parametrize("path", [sparsenam.random_feature_path, sparsenam.snam_path])
def test_the_length_of_a_path_is_refused_where_its_alphas_are_given(path):
    with pytest.raises(InputError, match="n_alphas: expected its default"):
        path(columns(), target_of(SNAMRegressor), alphas=[0.2, 0.1], n_alphas=5)
