"""Defects that were found once, each kept out by a test."""

import functools
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.model_selection import GroupKFold, KFold

from networks_by_name import trained
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival
from sparsenam.context import Clock, ResumeFile, StageResult
from sparsenam.datasets import make_survival
from sparsenam.errors import CheckpointError, ConstantColumnWarning, DivergenceError, InputError
from sparsenam.families import Poisson, Tweedie
from sparsenam.fit.plan import describe_setting
from sparsenam.model import FittedCurve, keep_terms
from sparsenam.networks.bank import MLPBank
from sparsenam.penalties import GroupLasso

QUICK = {"alpha": 0.01, "hidden": (4,), "max_epochs": 3, "random_state": 0}


def table(rows=60, features=4, seed=0):
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.normal(size=(rows, features)), columns=[f"f{index}" for index in range(features)])
    return X, 2 * np.sin(2 * X["f0"]) + X["f1"] + 0.3 * generator.normal(size=rows)


# --- penalize="function" on batches in which a function is constant


def test_a_last_batch_of_one_row_leaves_unit_functions_finite():
    X, y = table(rows=257)
    model = trained(SNAMRegressor, **QUICK, penalize="function", batch_size=256).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite([entry["loss"] for entry in model.history_]).all()
    assert model.get_support().all()


def test_a_rare_dummy_column_leaves_unit_functions_finite():
    X, y = table(rows=200)
    X["rare"] = 0.0
    X.loc[17, "rare"] = 1.0
    model = trained(SNAMRegressor, **QUICK, penalize="function", batch_size=32).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.get_support()[:2].all()


def test_batches_of_one_row_leave_unit_functions_finite():
    X, y = table(rows=20)
    model = trained(SNAMRegressor, **QUICK, penalize="function", batch_size=1).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


# --- models that keep nothing


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 50.0, "penalize": "function"},
        {"alpha": 5.0, "hidden": ()},
        {"alpha": 50.0, "hidden": {f"f{index}": (2 + index,) for index in range(4)}},
        {"alpha": 50.0, "hidden": {f"f{index}": (2 + index,) for index in range(4)}, "penalize": "function"},
        {"alpha": 50.0, "validation_fraction": 0.3},
    ],
    ids=["function", "linear", "widths by column", "widths by column, function", "held-out rows"],
)
def test_a_model_that_keeps_nothing_predicts_the_mean(settings):
    X, y = table()
    model = trained(SNAMRegressor, **{**QUICK, "max_epochs": 300, **settings}).fit(X, y)
    assert not model.get_support().any()
    assert model.n_parameters_ == 1
    np.testing.assert_allclose(model.predict(X), y.mean())
    assert model.effects(X).shape == (60, 4)
    assert not model.effects(X).any()


@pytest.mark.parametrize("settings", [{}, {"hidden": ()}, {"hidden": {}}, {"validation_fraction": 0.5}], ids=str)
def test_a_table_of_constant_columns_predicts_the_mean(settings):
    X = np.ones((10, 2))
    with pytest.warns(ConstantColumnWarning, match="'x0', 'x1'"):
        model = trained(SNAMRegressor, **{**QUICK, **settings}, penalize="function").fit(X, np.arange(10))
    np.testing.assert_allclose(model.predict(X), 4.5)


# --- checkpoints

LONG = {"hidden": (4,), "alpha": 0.02, "batch_size": 32, "patience": 100, "random_state": 0}


def test_the_same_call_again_trains_no_more_and_a_longer_one_goes_on(tmp_path):
    X, y = table()
    fits = [
        trained(SNAMRegressor, **LONG, max_epochs=epochs, checkpoint=tmp_path / "fit").fit(X, y)
        for epochs in (12, 12, 30)
    ]
    for model, epochs in zip(fits, (12, 12, 30), strict=True):
        assert [entry["epoch"] for entry in model.history_] == list(range(1, epochs + 1))
    np.testing.assert_array_equal(fits[0].predict(X), fits[1].predict(X))
    np.testing.assert_array_equal(
        fits[2].predict(X), trained(SNAMRegressor, **LONG, max_epochs=30).fit(X, y).predict(X)
    )


@pytest.mark.parametrize(
    ("name", "seed", "message"),
    [
        ("fit", None, "set random_state"),
        ("missing/fit", 0, "a folder that is not there"),
        (7, 0, "checkpoint: expected a path, got 7"),
    ],
    ids=["no seed", "no folder", "a number"],
)
def test_an_impossible_checkpoint_is_refused_before_training(tmp_path, name, seed, message):
    X, y = table()
    path = tmp_path / name if isinstance(name, str) else name
    settings = {**LONG, "random_state": seed, "schedule": lambda share: pytest.fail("training began")}
    with pytest.raises(InputError, match=message):
        trained(SNAMRegressor, **settings, max_epochs=3, checkpoint=path).fit(X, y)


def test_numbers_of_numpy_and_of_python_are_one_fit(tmp_path):
    X, y = table()
    path = tmp_path / "fit"
    trained(SNAMRegressor, **LONG, max_epochs=3, checkpoint=path).fit(X, y)
    by_numpy = {"alpha": np.float64(0.02), "batch_size": np.int64(32), "patience": np.int32(100)}
    again = {**LONG, **by_numpy, "hidden": [np.int64(4)], "random_state": np.int64(0), "max_epochs": np.int64(5)}
    assert len(trained(SNAMRegressor, **again, checkpoint=str(path)).fit(X, y).history_) == 5
    with pytest.raises(CheckpointError, match="other data or settings"):
        trained(SNAMRegressor, **{**again, "batch_size": np.int64(16)}, checkpoint=path).fit(X, y)


def slower(share, by):
    return 1.0 / (1.0 + by * share)


def times(factor):
    return lambda share: factor


class Falling:
    def __init__(self, by):
        self.by = by

    def __call__(self, share):
        return slower(share, self.by)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cosine", "exponential"),
        (lambda share: 1.0, lambda share: 0.5),
        (lambda share: math.cos(share), lambda share: math.exp(share)),
        (math.cos, math.exp),
        (np.cos, np.exp),
        (lambda share: 1.0 if share in {0.0, 0.5} else 0.9, lambda share: 1.0 if share in {0.0, 0.6} else 0.9),
        (times(1.0), times(0.5)),
        (lambda share, by=1.0: by, lambda share, by=0.5: by),
        (functools.partial(slower, by=1.0), functools.partial(slower, by=2.0)),
        (Falling(1.0), Falling(2.0)),
        (Falling(1.0).__call__, Falling(2.0).__call__),
    ],
    ids=[
        "names",
        "constants",
        "functions called",
        "built in",
        "of numpy",
        "sets",
        "closures",
        "defaults",
        "partials",
        "objects",
        "methods",
    ],
)
def test_different_schedules_are_different_fits(tmp_path, one, other):
    X, y = table()
    path = tmp_path / "fit"
    trained(SNAMRegressor, **LONG, max_epochs=3, schedule=one, checkpoint=path).fit(X, y)
    assert len(trained(SNAMRegressor, **LONG, max_epochs=3, schedule=one, checkpoint=path).fit(X, y).history_) == 3
    with pytest.raises(CheckpointError, match="other data or settings"):
        trained(SNAMRegressor, **LONG, max_epochs=3, schedule=other, checkpoint=path).fit(X, y)


def test_a_schedule_that_depends_on_the_last_epoch_is_another_fit_with_another_one(tmp_path):
    X, y = table()
    path = tmp_path / "fit"
    trained(SNAMRegressor, **LONG, max_epochs=3, schedule="cosine", checkpoint=path).fit(X, y)
    with pytest.raises(CheckpointError, match="other data or settings"):
        trained(SNAMRegressor, **LONG, max_epochs=5, schedule="cosine", checkpoint=path).fit(X, y)


def test_a_function_is_described_without_an_address_of_memory():
    source = "def nested(share):\n    return sum(map(lambda step: step * share, (1.0, 2.0)))"
    spaces = [{"__name__": "module"}, {"__name__": "module"}]
    for space in spaces:
        exec(source, space)
    assert " at 0x" not in describe_setting(spaces[0]["nested"])
    assert describe_setting(spaces[0]["nested"]) == describe_setting(spaces[1]["nested"])


@pytest.mark.parametrize("settings", [{}, {"validation_fraction": 0.3}], ids=["plain", "held-out rows"])
def test_a_fit_whose_time_ran_out_within_an_epoch_resumes_to_the_uninterrupted_model(tmp_path, monkeypatch, settings):
    X, y = table(rows=120)
    common = {**LONG, "batch_size": 20, "max_epochs": 12, **settings}
    whole = trained(SNAMRegressor, **common).fit(X, y)
    path = tmp_path / "fit"
    asked = []
    with monkeypatch.context() as patched:
        patched.setattr(Clock, "passed", lambda clock, *needed: asked.append(None) or len(asked) > 24)
        cut = trained(SNAMRegressor, **common, checkpoint=path).fit(X, y)
    assert 2 < len(cut.history_) < 12
    assert np.abs(cut.predict(X) - whole.predict(X)).max() > 1e-6
    resumed = trained(SNAMRegressor, **common, checkpoint=path).fit(X, y)
    assert [entry["loss"] for entry in resumed.history_] == [entry["loss"] for entry in whole.history_]
    assert cut.history_[-1]["loss"] not in [entry["loss"] for entry in whole.history_]  # it was no whole epoch
    np.testing.assert_array_equal(resumed.predict(X), whole.predict(X))


def test_a_resume_file_returns_what_was_kept_and_single_numbers_stay_single(tmp_path):
    """A single penalty weight came back as an array of one, and no stored choice could be resumed."""
    arrays = {"number": np.array(2.5), "matrix": np.arange(6.0).reshape(2, 3).T, "none": np.zeros((0, 2))}
    first = ResumeFile(tmp_path / "fit")
    first.claim("this fit")
    first.keep("part/stage", StageResult(arrays, {"taken": 3}))
    again = ResumeFile(tmp_path / "fit")
    again.claim("this fit")
    kept = again.recall("part/stage")
    assert kept.facts == {"taken": 3} and again.recall("stage") is None
    for name, array in arrays.items():
        assert kept.arrays[name].shape == array.shape
        np.testing.assert_array_equal(kept.arrays[name], array)
    with pytest.raises(CheckpointError, match="other data or settings"):
        again.claim("another fit")


# --- pruning


@pytest.mark.parametrize(("rows", "features", "outputs"), [(5000, 24, 1), (700, 6, 3)])
def test_pruning_changes_no_bit_of_a_large_table_or_of_several_outputs(rows, features, outputs):
    X, y = table(rows=60, features=features)
    target = y if outputs == 1 else np.column_stack([y, -y, X["f2"]])
    settings = {**QUICK, "hidden": (100, 50), "alpha": 0.0, "max_epochs": 1}
    model = trained(SNAMRegressor, **settings).fit(X, target).model_
    kept = np.arange(0, features, 3)[:7]  # an odd number: blocks that depend on it would not end alike
    dropped = np.setdiff1d(np.arange(features), kept)
    flat = FittedCurve.level_beyond(np.zeros(1), np.zeros((1, outputs)))
    curves = tuple(flat if place in dropped else curve for place, curve in enumerate(model.curves))
    padded = replace(model, functions=curves)
    mask = np.isin(np.arange(features), kept)
    pruned = keep_terms(padded, mask)
    many = table(rows=rows, features=features, seed=1)[0].to_numpy()
    scores = pruned.scores(many)
    np.testing.assert_array_equal(padded.scores(many), scores)
    assert (scores.std(axis=0) > 0).all()
    assert not np.array_equal(model.scores(many), scores)


# --- a convex start


@pytest.mark.parametrize("seed", range(3))
def test_a_convex_start_brings_its_intercept(seed):
    """Without it the scores of a log link began near 100, and the first epoch diverged."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(200, 3))
    y = generator.poisson(np.exp(np.sin(2 * X[:, 0]))).astype(float)
    settings = {"family": "poisson", "hidden": (8,), "alpha": 0.1, "init": "convex", "max_epochs": 2}
    model = trained(SNAMRegressor, **settings, random_state=seed).fit(X, y)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.2)


# --- weights


@pytest.mark.parametrize("hidden", [(), (3,)], ids=str)
def test_integer_weights_are_repeated_rows_for_function_norms(hidden):
    X, y = table(rows=40)
    weights = np.random.default_rng(1).integers(0, 4, size=40)
    epochs = 2000 if hidden == () else 20
    settings = {"alpha": 0.05, "hidden": hidden, "penalize": "function", "random_state": 0, "max_epochs": epochs}
    if hidden:
        settings |= {"batch_size": None, "patience": 100, "activation": "tanh"}
    weighted = trained(SNAMRegressor, **settings).fit(X, y, sample_weight=weights)
    repeated = trained(SNAMRegressor, **settings).fit(X.loc[X.index.repeat(weights)], np.repeat(y, weights))
    plain = trained(SNAMRegressor, **settings).fit(X, y)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
    np.testing.assert_allclose(weighted.norms_, repeated.norms_, atol=1e-6)
    assert np.abs(weighted.predict(X) - plain.predict(X)).max() > 1e-3


# --- divergence and convergence


def test_a_huge_rate_of_adam_is_called_divergence():
    X, y = table()
    with pytest.raises(DivergenceError, match="at learning rate 100, first in column 'f"):
        trained(SNAMRegressor, **QUICK, solver="adam", learning_rate=100.0).fit(X, y)


ONE_RATE = ["prox_adam", "prox_sgd", "adam", "sgd"]


@pytest.mark.parametrize(
    ("solver", "batch_size"), [("gd", 256), *((name, size) for name in ONE_RATE for size in (20, None))]
)
def test_divergence_names_a_column_or_the_intercept(solver, batch_size):
    X, y = table()
    with pytest.raises(DivergenceError, match=r"first in (column 'f\d'|the intercept): lower learning_rate"):
        trained(SNAMRegressor, **QUICK, solver=solver, learning_rate=1e100, batch_size=batch_size).fit(X, y)


@pytest.mark.parametrize("batch_size", [20, None])  # single and double precision
@pytest.mark.parametrize("rate", [1e20, 1e30, 1e200])
def test_divergence_comes_without_warnings_of_numpy(rate, batch_size):
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(DivergenceError):
            trained(SNAMRegressor, **QUICK, solver="prox_sgd", learning_rate=rate, batch_size=batch_size).fit(X, y)


def test_the_best_epoch_on_held_out_rows_need_not_have_converged():
    X, y = table()
    settings = {**QUICK, "hidden": (), "alpha": 0.0, "max_epochs": 1000}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        trained(SNAMRegressor, **settings, validation_fraction=0.3).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="above tol"):
        trained(SNAMRegressor, **{**settings, "max_epochs": 2}).fit(X, y)


def test_backtracking_finds_its_step_for_columns_in_the_millions():
    X, y = table()
    model = trained(SNAMRegressor, **{**QUICK, "max_epochs": 50}, solver="fista", standardize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X * 1e6, y)
    losses = [entry["loss"] + entry["penalty"] for entry in model.history_]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


# --- settings that make no sense


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 5}, "hidden: expected widths"),
        ({"hidden": None}, "hidden: expected widths"),
        ({"hidden": (8, None)}, "hidden: expected positive whole widths"),
        ({"hidden": "abc"}, "hidden: expected widths"),
        ({"hidden": {f"f{index}": 3 for index in range(4)}}, "hidden: expected"),
        ({"hidden": {f"f{index}": None for index in range(4)}}, "hidden: expected"),
        ({"hidden": {f"f{index}": "ab" for index in range(4)}}, "hidden: expected"),
        ({"hidden": lambda names, outputs: MLPBank((3,), outputs + 1, "relu")}, "a bank with 1 outputs"),
        ({"device": None}, "device: expected a name"),
        ({"device": "meta"}, "device: expected a device of this machine"),
        ({"penalty": GroupLasso}, r"got the class GroupLasso; write GroupLasso\(\)"),
        ({"penalty": None}, "penalty: expected a name or an object"),
        (
            {"penalty": GroupLasso(np.array([1.0, np.inf, 1.0, 1.0])), "solver": "adam"},
            "finite weights for a subgradient solver",
        ),
    ],
    ids=[
        "hidden 5", "hidden None", "hidden (8, None)", "hidden abc", "mapping to 3", "mapping to None",
        "mapping to text", "outputs", "device None", "device meta", "class", "penalty None", "infinite weight",
    ],
)  # fmt: skip
def test_a_senseless_setting_gets_a_sentence(settings, message):
    X, y = table()
    with pytest.raises(InputError, match=message):
        trained(SNAMRegressor, **{**QUICK, **settings}).fit(X, y)


@pytest.mark.parametrize("weights", [-1.0, np.nan, np.array([1.0, -2.0]), np.array([np.nan, 1.0])], ids=str)
def test_negative_weights_of_a_penalty_are_refused(weights):
    with pytest.raises(InputError, match="GroupLasso: expected weights of at least 0"):
        GroupLasso(weights)


def test_a_negative_class_weight_is_refused():
    X, y = table()
    with pytest.raises(InputError, match="class_weight: expected weights of at least 0"):
        trained(SNAMClassifier, **QUICK, class_weight={0: 1.0, 1: -1.0}).fit(X, (y > 0).astype(int))


# --- linear models by column


def test_a_mapping_to_no_hidden_layer_is_the_lasso():
    X, y = table()
    columns, target = (X - X.mean()) / X.std(ddof=0), (y - y.mean()) / y.std(ddof=0)
    model = trained(SNAMRegressor, alpha=0.15, hidden={name: () for name in X}, random_state=0).fit(X, y)
    oracle = Lasso(alpha=0.15, tol=1e-12).fit(columns, target)
    coefficients = np.zeros(4)
    slopes = np.array([curve.right_slope[0] for curve in model.model_.curves])
    coefficients[model.model_.terms] = slopes * X.std(ddof=0).to_numpy()[model.model_.terms] / y.std(ddof=0)
    np.testing.assert_allclose(coefficients, oracle.coef_, atol=1e-6)
    assert 0 < np.count_nonzero(oracle.coef_) < 4
    assert model.stationarity_ < 1e-6


# --- labels


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([None, "a"] * 30, "a class in every row, got none in row 0"),
        ([None] * 60, "a class in every row, got none in row 0"),
        ([0.0, np.nan] * 30, "a class in every row, got none in row 1"),
        (["a", 1] * 30, "not supported between instances of 'int' and 'str'"),  # scikit-learn's message
    ],
    ids=["None and text", "None", "NaN", "text and numbers"],
)
def test_labels_that_are_missing_or_of_no_one_type_are_refused(labels, message):
    X, _ = table()
    with pytest.raises((ValueError, TypeError), match=message):
        trained(SNAMClassifier, **QUICK).fit(X, np.array(labels, dtype=object))


# --- a start far above the loss without columns


def test_raw_columns_that_start_high_and_come_down_do_not_count_as_diverging():
    X, y = table(rows=200)
    settings = {**QUICK, "standardize": False, "solver": "adam", "learning_rate": 1e-3, "max_epochs": 5}
    model = trained(SNAMRegressor, **settings).fit(1e5 * X, y)
    losses = [entry["loss"] for entry in model.history_]
    assert losses[0] > 1e4 * np.var(y) and losses[-1] < losses[0]


def grouped_table(seed):
    generator = np.random.default_rng(seed)
    b, c, d, e = generator.normal(size=(4, 200))
    a = b + c + d + 0.6 * generator.normal(size=200)
    y = 1.5 * a - 1.4 * (b + c + d) + 0.25 * e + 0.2 * generator.normal(size=200)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e, "f": generator.normal(size=200)}), y


@pytest.mark.parametrize(("seed", "most"), [(0, 3), (1, 2), (2, 4)])
def test_a_limit_of_columns_takes_whole_groups(seed, most):
    table, y = grouped_table(seed)
    model = SNAMRegressor(feature_groups=[["b", "c", "d"]], rule="best", max_features=most, random_state=0)
    kept = set(model.fit(table, y).get_feature_names_out())
    assert len(kept) <= most and (kept & {"b", "c", "d"} in (set(), {"b", "c", "d"}))


def test_a_threshold_drops_no_column_that_is_always_kept_and_splits_no_group():
    table, y = grouped_table(0)
    network = Network(hidden=(8,), max_epochs=5, solver="adam", threshold=0.5)
    model = SNAMRegressor(alpha=0.1, always_keep=["f"], network=network, random_state=0).fit(table, y)
    assert "f" in model.get_feature_names_out()
    network = Network(hidden=(8,), max_epochs=30, solver="adam", threshold=0.1)
    model = SNAMRegressor(alpha=0.1, feature_groups=[["a", "f"]], network=network, random_state=0).fit(table, y)
    kept = set(model.get_feature_names_out())
    assert kept & {"a", "f"} in (set(), {"a", "f"})


@pytest.mark.parametrize("settings", [{"refit": True}, {"penalty": "adaptive"}, {"family": "huber", "alpha": "auto"}])
def test_a_longer_resumed_training_is_the_unbroken_one_in_every_stage(tmp_path, settings):
    table, y = grouped_table(0)
    given = {"alpha": 0.05, "random_state": 0, **settings}

    def fitted(epochs, **more):
        network = Network(hidden=(4,), max_epochs=epochs, patience=100, **more)
        return SNAMRegressor(network=network, **given).fit(table, y).predict(table)

    fitted(2, checkpoint=tmp_path / "fit")
    np.testing.assert_array_equal(fitted(8, checkpoint=tmp_path / "fit"), fitted(8))


def test_a_choice_cut_short_is_made_again_when_the_fit_goes_on(tmp_path, ticking):
    table, y = grouped_table(0)
    network = Network(hidden=(4,), max_epochs=2, checkpoint=tmp_path / "fit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        cut = SNAMRegressor(network=network, max_seconds=5.0, random_state=0).fit(table, y)
    resumed = SNAMRegressor(network=network, random_state=0).fit(table, y)
    unbroken = SNAMRegressor(network=Network(hidden=(4,), max_epochs=2), random_state=0).fit(table, y)
    assert len(cut.cv_curve_.alphas) < len(resumed.cv_curve_.alphas) == len(unbroken.cv_curve_.alphas)


def test_a_resumed_fit_with_other_groups_of_rows_chooses_anew(tmp_path):
    table, y = grouped_table(0)
    network = Network(hidden=(4,), max_epochs=2, checkpoint=tmp_path / "fit")
    model = SNAMRegressor(cv=GroupKFold(5), network=network, random_state=0)
    first = model.fit(table, y, groups=np.arange(200) // 4).cv_curve_.mean
    second = model.fit(table, y, groups=np.arange(200) % 50).cv_curve_.mean
    assert not np.array_equal(first[:3], second[:3])


def test_a_wrong_number_of_threads_is_refused_and_leaves_no_limit():
    table, y = grouped_table(0)
    before = torch.get_num_threads()
    for wrong in (1.5, "2", 0, True):
        with pytest.raises(InputError, match="n_jobs"):
            SNAMRegressor(alpha=0.1, n_jobs=wrong).fit(table, y)
    SNAMRegressor(alpha=0.1, n_jobs=1).fit(table, y)
    assert torch.get_num_threads() == before


def test_folds_from_an_iterator_serve_a_family_of_two_passes():
    table, y = grouped_table(0)
    folds = list(KFold(3).split(table))
    by_list = SNAMRegressor(family="huber", cv=folds).fit(table, y)
    by_iterator = SNAMRegressor(family="huber", cv=iter(folds)).fit(table, y)
    np.testing.assert_array_equal(by_iterator.cv_curve_.mean, by_list.cv_curve_.mean)


def test_folds_given_twice_count_once_in_survival():
    task = make_survival(200, 4, seed=0)
    folds = list(KFold(3).split(task.X))
    once = SNAMSurvival(cv=folds, random_state=0).fit(task.X, task.y).cv_curve_
    twice = SNAMSurvival(cv=folds * 2, random_state=0).fit(task.X, task.y).cv_curve_
    np.testing.assert_allclose(twice.mean[:3], once.mean[:3], rtol=1e-6)


def test_exposure_at_prediction_needs_a_family_of_rates():
    table, y = grouped_table(0)
    with pytest.raises(InputError, match="exposure"):
        SNAMRegressor(alpha=0.1).fit(table, y).predict(table, exposure=np.ones(200))


def test_a_rule_may_take_allowed_points_only():
    class Last:
        def choose(self, curve, allowed):
            return len(allowed) - 1

    table, y = grouped_table(0)
    with pytest.raises(InputError, match="allowed point"):
        SNAMRegressor(rule=Last(), max_features=1).fit(table, y)


@pytest.mark.parametrize("settings", [{"always_keep": [0]}, {"penalty_weights": {0: 0.0}}])
def test_a_column_that_is_never_penalised_stays_where_nothing_else_is_kept(settings):
    generator = np.random.default_rng(42)
    X, y = generator.normal(size=(200, 5)), generator.normal(size=200)
    assert SNAMRegressor(random_state=0, **settings).fit(X, y).get_support().tolist() == [True] + [False] * 4


@pytest.mark.parametrize("size", [2, 3, 6])
def test_a_group_of_columns_is_judged_by_curves(size):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 12))
    y = X[:, 0] ** 2 + np.cos(2 * X[:, 1]) + 0.5 * generator.normal(size=600)
    model = SNAMRegressor(random_state=0, feature_groups=[list(range(size))]).fit(X, y)
    assert model.get_support().tolist() == [True] * size + [False] * (12 - size)


def test_names_of_classes_do_not_matter_to_a_category_of_many_levels():
    generator = np.random.default_rng(5)
    table = pd.DataFrame({"level": generator.integers(60, size=500).astype(str), "x": generator.normal(size=500)})
    classes = (table.level.astype(int).to_numpy() + generator.integers(2, size=500)) % 4
    plain, renamed = (
        SNAMClassifier(random_state=0).fit(table, names[classes]) for names in (np.arange(4), np.arange(4)[::-1])
    )
    np.testing.assert_allclose(plain.predict_proba(table), renamed.predict_proba(table)[:, ::-1], atol=1e-6)
    assert plain.alpha_ == pytest.approx(renamed.alpha_, rel=1e-6)


def test_an_empty_model_explains_nothing():
    """At the largest alpha the fit on all rows is empty, but not its folds."""
    for seed in range(12):
        generator = np.random.default_rng(seed)
        model = SNAMRegressor(random_state=0).fit(generator.normal(size=(40, 5)), generator.normal(size=40))
        if not model.get_support().any():
            assert model.evidence_.gain == 0.0


def test_noise_columns_of_near_separable_classes_do_not_all_come_back():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 200))
    classes = np.arange(60) % 3
    X[:, 0] += 4.0 * classes
    X[:, 1] -= 4.0 * classes
    model = SNAMClassifier(random_state=0).fit(X, classes)
    assert model.get_support()[:2].any() and model.get_support().sum() <= 6


@pytest.mark.parametrize("slope", [2.0, 3.0, 4.0])
def test_a_steep_effect_on_amounts_is_kept(slope):
    # beside a constant mean the largest amounts have all the curvature, and no step that they allow was short enough
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 4))
    y = np.exp(slope * X[:, 0]) * generator.gamma(5.0, 0.2, size=300)
    model = SNAMRegressor(family="gamma", random_state=0).fit(X, y)
    assert model.get_support()[0]
    assert np.corrcoef(np.log(model.predict(X)), X[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize("family", ["poisson", "gamma", Tweedie(1.5), Poisson(dispersion="fixed")])
def test_an_exposure_that_is_the_same_in_every_row_changes_nothing(family):
    """Its weights added up to the events, as if there were so many rows to estimate the noise from: fits ran wild."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(200, 4))
    mean = 3.0 * np.exp(np.sin(3 * X[:, 0]) + X[:, 1])
    y = generator.gamma(4.0, mean / 4.0) if family == "gamma" else generator.poisson(mean).astype(float)
    model = SNAMRegressor(family=family, alpha=0.0, random_state=0)
    plain = clone(model).fit(X, y).predict(X)
    np.testing.assert_allclose(2.0 * model.fit(X, y, exposure=np.full(200, 2.0)).predict(X), plain, rtol=1e-6)


def test_a_column_may_be_absent_in_all_rows_that_a_fold_fits():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    y = X[:, 0] + 0.5 * generator.normal(size=60)
    X[30:, 1] = np.nan
    halves = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]
    assert SNAMRegressor(cv=halves, random_state=0).fit(X, y).get_support()[0]
