"""What the estimators promise beyond scikit-learn's checks."""

import pickle
import signal
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from networks_by_name import trained
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.errors import CheckpointError, ConstantColumnWarning, DivergenceError, InputError
from sparsenam.model import FittedCurve, keep_terms
from sparsenam.networks.bank import MLPBank
from sparsenam.penalties import GroupLasso
from sparsenam.training import SOLVERS

QUICK = {"alpha": 0.01, "hidden": (8,), "max_epochs": 20, "random_state": 0}


def table(rows=120, seed=0):
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.normal(size=(rows, 4)), columns=["bmi", "age", "sex", "dose"])
    return X, 3 * np.sin(2 * X["age"]) + X["dose"] ** 2 + 0.1 * generator.normal(size=rows)


def test_effects_and_intercept_add_up_to_the_prediction():
    X, y = table()
    model = trained(SNAMRegressor, **QUICK).fit(X, y)
    np.testing.assert_allclose(model.intercept_ + model.effects(X).sum(axis=1), model.predict(X), atol=1e-9)
    np.testing.assert_allclose(model.effects(X).mean(axis=0), 0, atol=1e-9)
    labels = np.select([y > 2, y > 0], ["high", "middle"], "low")
    classifier = trained(SNAMClassifier, **QUICK).fit(X, labels)
    scores = classifier.intercept_ + classifier.effects(X).sum(axis=1)
    np.testing.assert_allclose(scores, classifier.decision_function(X), atol=1e-9)


def test_reordering_columns_reorders_the_answer_and_nothing_else():
    X, y = table()
    order = ["dose", "bmi", "sex", "age"]
    settings = {**QUICK, "alpha": 0.05, "dropout": 0.1, "batch_size": 32}
    one, other = trained(SNAMRegressor, **settings).fit(X, y), trained(SNAMRegressor, **settings).fit(X[order], y)
    np.testing.assert_array_equal(one.predict(X), other.predict(X[order]))
    assert set(one.get_feature_names_out()) == set(other.get_feature_names_out())
    np.testing.assert_array_equal(one.predict(X[order]), one.predict(X))


def test_one_seed_gives_one_model_and_a_refit_forgets():
    X, y = table()
    model = trained(SNAMRegressor, **QUICK).fit(X, y)
    first = model.predict(X)
    np.testing.assert_array_equal(trained(SNAMRegressor, **QUICK).fit(X, y).predict(X), first)
    model.fit(X[["age", "bmi"]], -y)
    assert model.n_features_in_ == 2
    np.testing.assert_array_equal(model.fit(X, y).predict(X), first)
    assert not np.array_equal(clone(model).set_params(random_state=1).fit(X, y).predict(X), first)


def test_pruning_changes_no_bit():
    X, y = table()
    model = trained(SNAMRegressor, **{**QUICK, "hidden": (100, 50), "alpha": 0.0}).fit(X, y).model_
    flat = FittedCurve.level_beyond(np.zeros(1), np.zeros((1, 1)))
    padded = replace(model, functions=(model.curves[0], flat, flat, model.curves[3]))
    pruned = keep_terms(padded, np.array([True, False, False, True]))
    np.testing.assert_array_equal(padded.scores(X.to_numpy()), pruned.scores(X.to_numpy()))


@pytest.mark.parametrize("solver", [name for name, solver in SOLVERS.items() if solver.proximal])
def test_proximal_solvers_switch_features_off_exactly(solver):
    X, y = table()
    patience = {} if SOLVERS[solver].searches_step else {"patience": 300}
    settings = {"hidden": (8,), "solver": solver, "alpha": 0.1, "max_epochs": 300, **patience}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 300 iterations are enough for the support
        model = trained(SNAMRegressor, **settings, random_state=0).fit(X, y)
    assert model.get_support().tolist() == [False, True, False, True]
    assert model.norms_[[0, 2]].tolist() == [0, 0]
    assert not model.effects(X)[:, [0, 2]].any()
    assert list(model.get_feature_names_out()) == ["age", "dose"]
    assert model.transform(X).shape == (120, 2)
    assert model.n_parameters_ == 2 * 24 + 1


@pytest.mark.parametrize("solver", [name for name, solver in SOLVERS.items() if not solver.proximal])
def test_subgradient_solvers_switch_features_off_by_threshold(solver):
    X, y = table()
    settings = {"hidden": (8,), "solver": solver, "alpha": 0.1, "max_epochs": 200, "patience": 200}
    model = trained(SNAMRegressor, **settings, learning_rate=0.05, random_state=0).fit(X, y)
    strict = trained(SNAMRegressor, **settings, learning_rate=0.05, threshold=100.0, random_state=0).fit(X, y)
    assert model.get_support()[1]
    assert not strict.get_support().any()
    np.testing.assert_allclose(strict.predict(X), np.mean(y))


def test_several_outputs_and_labels():
    X, y = table()
    Y = np.column_stack([y, -y, X["bmi"]])
    model = trained(SNAMRegressor, **QUICK).fit(X, Y)
    assert model.predict(X).shape == (120, 3)
    assert model.effects(X).shape == (120, 4, 3)
    labels = (Y > 0).astype(int)
    classifier = trained(SNAMClassifier, **QUICK).fit(X, labels)
    assert classifier.predict(X).shape == (120, 3)
    assert classifier.predict_proba(X).shape == (120, 3)
    two = trained(SNAMClassifier, **{**QUICK, "hidden": (100, 50), "alpha": 0.0}, family="multinomial").fit(X, y > 0)
    assert two.n_parameters_ == 4 * 5350 + 2
    assert two.predict_proba(X).shape == (120, 2)
    np.testing.assert_allclose(two.predict_proba(X).sum(axis=1), 1)


def test_models_work_in_scikit_learns_tools():
    X, y = table()
    scores = cross_val_score(make_pipeline(StandardScaler(), trained(SNAMRegressor, **QUICK)), X, y, cv=2)
    assert np.isfinite(scores).all()
    search = GridSearchCV(trained(SNAMRegressor, **QUICK), {"alpha": [0.0, 10.0]}, cv=2).fit(X, y)
    assert search.best_params_ == {"alpha": 0.0}
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.best_estimator_.predict(X))


def test_custom_sub_networks_and_widths_by_column():
    X, y = table()
    custom = {**QUICK, "alpha": 0, "hidden": lambda names, outputs: MLPBank((5,), outputs, "tanh")}
    assert trained(SNAMRegressor, **custom).fit(X, y).n_parameters_ == 4 * 15 + 1
    widths = {"bmi": (2,), "age": (9,), "sex": (1,), "dose": (4,)}
    model = trained(SNAMRegressor, **{**QUICK, "hidden": widths, "alpha": 0.0}).fit(X, y)
    assert model.n_parameters_ == 3 * (2 + 9 + 1 + 4) + 1


def test_penalty_weights_follow_the_tables_columns():
    X, y = table()
    weights = np.array([1.0, np.inf, 1.0, 1.0])
    model = trained(SNAMRegressor, **{**QUICK, "alpha": 0.01}, penalty=GroupLasso(weights)).fit(X, y)
    assert "age" not in model.get_feature_names_out()


def test_class_weights_move_the_decision():
    X, y = table()
    labels = np.where(y > np.quantile(y, 0.9), "rare", "common")
    plain = trained(SNAMClassifier, **{**QUICK, "alpha": 0.05}).fit(X, labels)
    balanced = trained(SNAMClassifier, **{**QUICK, "alpha": 0.05}, class_weight="balanced").fit(X, labels)
    assert (balanced.predict(X) == "rare").sum() > (plain.predict(X) == "rare").sum()


def test_constant_columns_are_left_out_and_named():
    X, y = table()
    X["site"] = 3.0
    with pytest.warns(ConstantColumnWarning, match="site"):
        model = trained(SNAMRegressor, **QUICK).fit(X, y)
    assert not model.get_support()[4]
    with pytest.warns(ConstantColumnWarning):
        empty = trained(SNAMRegressor, **QUICK).fit(np.ones((10, 2)), np.arange(10))
    np.testing.assert_allclose(empty.predict(np.ones((3, 2))), 4.5)


def test_validation_keeps_the_best_epoch():
    X, y = table()
    model = trained(SNAMRegressor, hidden=(30,), alpha=0, validation_fraction=0.3, learning_rate=0.05, random_state=0)
    model.fit(X, y)
    assert all(entry["validation"] is not None for entry in model.history_)
    function = trained(SNAMRegressor, **QUICK, penalize="function", validation_fraction=0.3).fit(X, y)
    assert np.isfinite(function.predict(X)).all()


def test_a_time_budget_is_kept(ticking):
    X, y = table()
    settings = {**QUICK, "max_epochs": 100_000, "patience": 100_000}
    model = trained(SNAMRegressor, **settings, max_seconds=50.0).fit(X, y)
    assert 1 < len(model.history_) < 50
    assert model.history_[-1]["seconds"] <= 51.0


@pytest.mark.filterwarnings("ignore:The fit stopped:sklearn.exceptions.ConvergenceWarning")  # on purpose
@pytest.mark.parametrize("settings", [{"solver": "prox_adam"}, {"solver": "fista"}, {"validation_fraction": 0.3}])
def test_an_interrupted_fit_goes_on_to_the_same_model(tmp_path, settings):
    X, y = table()
    steps = {} if settings.get("solver") == "fista" else {"batch_size": 32, "patience": 100}
    common = {"hidden": (8,), "alpha": 0.02, "random_state": 0, **steps, **settings}
    whole = trained(SNAMRegressor, **common, max_epochs=30).fit(X, y)
    path = tmp_path / "fit.checkpoint"
    trained(SNAMRegressor, **common, max_epochs=12, checkpoint=path).fit(X, y)
    resumed = trained(SNAMRegressor, **common, max_epochs=30, checkpoint=path).fit(X, y)
    assert len(resumed.history_) == len(whole.history_) == 30
    np.testing.assert_allclose(resumed.predict(X), whole.predict(X), rtol=1e-12)
    with pytest.raises(CheckpointError, match="other data or settings"):
        trained(SNAMRegressor, **{**common, "activation": "tanh"}, max_epochs=30, checkpoint=path).fit(X, y)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="does not read"):
        trained(SNAMRegressor, **common, max_epochs=30, checkpoint=path).fit(X, y)


def test_ctrl_c_leaves_nothing_half_fitted(tmp_path):
    X, y = table()

    def interrupted(share):
        if share > 0.5:
            signal.raise_signal(signal.SIGINT)
        return 1.0

    model = trained(SNAMRegressor, **QUICK, schedule=interrupted, checkpoint=tmp_path / "c")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
    assert (tmp_path / "c").exists()


X_BAD, Y_BAD = table(rows=30)
WRONG = {
    "inf": (lambda: (X_BAD.assign(age=np.inf), Y_BAD), {}, "column 'age': .*inf"),
    "no rows": (lambda: (X_BAD[:0], Y_BAD[:0]), {}, "0 sample"),
    "short y": (lambda: (X_BAD, Y_BAD[:-1]), {}, "inconsistent numbers of samples"),
    "nan in y": (lambda: (X_BAD, Y_BAD.where(Y_BAD > 0)), {}, "y: expected finite numbers, got NaN in row"),
    "text in y": (lambda: (X_BAD, ["a"] * 30), {}, "y: expected numbers"),
    "negative alpha": (lambda: (X_BAD, Y_BAD), {"alpha": -1.0}, "alpha: expected a number of at least 0"),
    "alpha as text": (lambda: (X_BAD, Y_BAD), {"alpha": "strong"}, "alpha: expected"),
    "nan alpha": (lambda: (X_BAD, Y_BAD), {"alpha": np.nan}, "alpha: expected"),
    "solver": (lambda: (X_BAD, Y_BAD), {"solver": "newton"}, "solver: expected one of"),
    "penalty": (lambda: (X_BAD, Y_BAD), {"penalty": "lasso"}, "penalty: expected one of"),
    "penalize": (lambda: (X_BAD, Y_BAD), {"penalize": "input"}, "penalize: expected"),
    "activation": (lambda: (X_BAD, Y_BAD), {"activation": "sine"}, "activation: expected"),
    "device": (lambda: (X_BAD, Y_BAD), {"device": "quantum"}, "device: expected"),
    "dropout": (lambda: (X_BAD, Y_BAD), {"dropout": 1.0}, "dropout: expected"),
    "fista with dropout": (lambda: (X_BAD, Y_BAD), {"dropout": 0.1, "solver": "fista"}, "dropout: expected"),
    "epochs": (lambda: (X_BAD, Y_BAD), {"max_epochs": 0}, "max_epochs: expected a whole number"),
    "schedule": (lambda: (X_BAD, Y_BAD), {"schedule": "warm"}, "schedule: expected"),
    "family": (lambda: (X_BAD, Y_BAD), {"family": "binomial"}, "family: expected"),
    "weights": (lambda: (X_BAD, Y_BAD), {"penalty": GroupLasso(np.ones(9))}, "one weight for each of the 4"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_bad_input_gets_one_sentence_and_leaves_nothing(case):
    make, settings, message = WRONG[case]
    X, y = make()
    model = trained(SNAMRegressor, **{**QUICK, **settings})
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_refit_keeps_the_first_fit():
    X, y = table()
    model = trained(SNAMRegressor, **QUICK).fit(X, y)
    before = model.predict(X)
    with pytest.raises(InputError):
        model.fit(X[["age"]].assign(age=np.inf), y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_classifier_refuses_one_class_and_wrong_labels():
    X, y = table(rows=30)
    with pytest.raises(InputError, match="at least two classes, got 1 class"):
        trained(SNAMClassifier, **QUICK).fit(X, np.zeros(30))
    with pytest.raises(InputError, match="binomial"):
        trained(SNAMClassifier, **QUICK, family="binomial").fit(X, np.arange(30) % 3)
    with pytest.raises(ValueError, match="continuous"):
        trained(SNAMClassifier, **QUICK).fit(X, y)


@pytest.mark.parametrize("solver", ["sgd", "prox_sgd", "adam"])
def test_divergence_names_epoch_rate_and_column(solver):
    X, y = table()
    with pytest.raises(DivergenceError, match=r"epoch \d+ at learning rate 1e\+\d+, first in (column '\w+'|the inter)"):
        trained(SNAMRegressor, hidden=(100, 50), solver=solver, learning_rate=1e100, alpha=0.0, random_state=0).fit(
            1e3 * X, 1e3 * y
        )


def test_units_do_not_change_the_selection():
    X, y = table()
    settings = {**QUICK, "alpha": 0.1, "max_epochs": 100}
    plain = trained(SNAMRegressor, **settings).fit(X, y)
    scaled = trained(SNAMRegressor, **settings).fit(X * [10, 0.001, 1, 1000] + [5, 0, -3, 1e4], 1000 * y + 7)
    np.testing.assert_array_equal(plain.get_support(), scaled.get_support())


def test_threads_are_left_as_they_were():
    X, y = table(rows=40)
    before = torch.get_num_threads()
    trained(SNAMRegressor, **QUICK).fit(X, y)
    assert torch.get_num_threads() == before
