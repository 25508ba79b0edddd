"""What training promises: the best epoch, the rate it was told, its regularisers, its stops and its checkpoints."""

import json
import math
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors import safe_open

from sparsenam import SNAMRegressor
from sparsenam.families import Gaussian
from sparsenam.networks import Dropout, build_bank, initial_parameters
from sparsenam.penalties import GroupLasso
from sparsenam.streams import Streams
from sparsenam.training import (
    SCHEDULES,
    SOLVERS,
    Deadline,
    Parameters,
    Problem,
    Regularizers,
    TrainingPlan,
    checkpoint,
    measure_stationarity,
    run,
)
from sparsenam.training import run as stopping
from sparsenam.training.run import Stall, until_stalled
from sparsenam.training.state import Epoch

NAMES = ["a", "b", "c"]
QUICK = {"alpha": 0.0, "hidden": (8,), "max_epochs": 20, "patience": 1000, "random_state": 0}


def table(rows=90, noise=0.3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + noise * generator.normal(size=rows)


def small_problem(alpha=0.0, rows=40, regularizers=Regularizers()):  # noqa: B008 - frozen
    """A tanh network with three hidden units for each of three features, and where its training starts."""
    X, y = table(rows)
    bank = build_bank((3,), NAMES, 1, "tanh")
    weights = torch.as_tensor(np.random.default_rng(1).uniform(0.5, 1.5, rows))
    problem = Problem(
        bank=bank, family=Gaussian(), penalty=GroupLasso(), alpha=alpha, group=slice(0, bank.size),
        x=torch.as_tensor(X.T.copy()), target=torch.as_tensor(y)[:, None], weights=weights / weights.mean(),
        features=np.arange(3), n_features=3, regularizers=regularizers,
    )  # fmt: skip
    theta = initial_parameters(bank, NAMES, Streams(0))
    return problem, Parameters.starting_from(theta, torch.zeros(1, dtype=torch.float64))


def plan_of(**changes):
    plan = TrainingPlan(SOLVERS["prox_adam"], SCHEDULES["constant"], 0.01, None, 20, 1000, 1e-4, Deadline(None))
    return replace(plan, **changes)


def by_hand(problem, theta, intercept, silence=1.0):
    """The smooth part of the objective in plain PyTorch."""
    weight, bias, output = theta[:, :3], theta[:, 3:6], theta[:, 6:]
    units = torch.tanh(problem.x[:, :, None] * weight[:, None] + bias[:, None])
    effects = (units * output[:, None]).sum(2)
    residuals = problem.target[:, 0] - intercept - (silence * effects).sum(0)
    settings = problem.regularizers
    losses = 0.5 * residuals**2 + settings.output_penalty / problem.n_features * effects.square().sum(0)
    return (problem.weights * losses).mean() + 0.5 * settings.weight_decay * theta.square().sum()


def gradient_by_hand(problem, parameters, silence=1.0):
    theta = parameters.theta.clone().requires_grad_()
    intercept = parameters.intercept.clone().requires_grad_()
    value = by_hand(problem, theta, intercept, silence)
    return float(value.detach()), *torch.autograd.grad(value, (theta, intercept))


# --- the best epoch


def test_the_epoch_with_the_lowest_held_out_loss_wins():
    problem, start = small_problem()
    scores = [5.0, 3.0, 1.0, 2.0, 1.0, 4.0]
    seen = []

    def validate(parameters):
        seen.append(parameters)
        return scores[len(seen) - 1]

    outcome = run(problem, start, plan_of(max_epochs=len(scores)), Streams(0), validate)
    assert [entry["validation"] for entry in outcome.history] == scores
    torch.testing.assert_close(outcome.parameters.theta, seen[2].theta, rtol=0, atol=0)
    assert not torch.equal(outcome.parameters.theta, seen[1].theta)
    assert not torch.equal(outcome.parameters.theta, seen[3].theta)


def test_without_held_out_rows_the_last_epoch_wins():
    problem, start = small_problem()
    few, many = (run(problem, start, plan_of(max_epochs=epochs), Streams(0)) for epochs in (5, 6))
    assert not torch.equal(few.parameters.theta, many.parameters.theta)
    assert many.history[-1]["validation"] is None


def test_an_overfitted_network_is_taken_back_to_its_best_epoch():
    X, y = table(rows=60, noise=1.0)
    settings = {**QUICK, "hidden": (30,), "learning_rate": 0.1, "validation_fraction": 0.4}
    model = SNAMRegressor(**{**settings, "max_epochs": 40}).fit(X, y)
    held_out = [entry["validation"] for entry in model.history_]
    best = int(np.argmin(held_out)) + 1
    assert 1 < best < len(held_out) == 40
    stopped = SNAMRegressor(**{**settings, "max_epochs": best}).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), stopped.predict(X))


def test_held_out_rows_are_scored_and_never_trained_on():
    X, y = table(rows=50)
    settings = {**QUICK, "validation_fraction": 0.3, "batch_size": None}
    held_out = Streams(0).generator("validation").permutation(50)[:15]
    shuffled = y.copy()
    shuffled[held_out] = shuffled[held_out[::-1]]
    one, other = SNAMRegressor(**settings).fit(X, y), SNAMRegressor(**settings).fit(X, shuffled)
    for left, right in zip(one.history_, other.history_, strict=True):
        assert left["loss"] == pytest.approx(right["loss"], rel=1e-9)
        assert left["validation"] != pytest.approx(right["validation"], rel=1e-6)


# --- the rate


@pytest.mark.parametrize(
    ("schedule", "factor"),
    [
        ("constant", lambda share: 1.0),
        ("cosine", lambda share: 0.5 * (1 + math.cos(math.pi * share))),
        ("exponential", lambda share: 0.01**share),
        (lambda share: 1 / (1 + share), lambda share: 1 / (1 + share)),
    ],
    ids=["constant", "cosine", "exponential", "callable"],
)
def test_a_schedule_sets_the_rate_of_every_epoch(schedule, factor):
    X, y = table()
    settings = {**QUICK, "schedule": schedule, "learning_rate": 0.02, "batch_size": None, "max_epochs": 8}
    model = SNAMRegressor(**settings).fit(X, y)
    expected = [0.02 * factor(epoch / 8) for epoch in range(8)]
    np.testing.assert_allclose([entry["rate"] for entry in model.history_], expected)
    assert (expected[-1] < expected[0]) == (schedule != "constant")


def test_a_schedule_goes_on_within_an_epoch():
    shares = []
    X, y = table(rows=90)
    settings = {**QUICK, "max_epochs": 4, "batch_size": 45}
    SNAMRegressor(**settings, schedule=lambda share: shares.append(share) or 1.0).fit(X, y)
    assert sorted(set(shares)) == [step / 8 for step in range(8)]


def test_a_schedules_factor_is_a_factor_of_the_step():
    X, y = table()
    half = SNAMRegressor(**QUICK, learning_rate=0.02, schedule=lambda share: 0.5).fit(X, y)
    plain = SNAMRegressor(**QUICK, learning_rate=0.01).fit(X, y)
    np.testing.assert_array_equal(half.predict(X), plain.predict(X))
    still = SNAMRegressor(**QUICK, schedule=lambda share: 0.0, batch_size=None).fit(X, y)
    assert np.ptp([entry["loss"] for entry in still.history_]) < 1e-12
    assert np.ptp([entry["loss"] for entry in plain.history_]) > 0.01


# --- the regularisers


def test_the_smooth_part_and_its_gradient_are_those_of_plain_pytorch():
    problem, start = small_problem(regularizers=Regularizers(output_penalty=0.7, weight_decay=0.3))
    intercept = torch.tensor([0.4], dtype=torch.float64)
    value, by_theta, by_intercept = gradient_by_hand(problem, replace(start, intercept=intercept))
    smooth = problem.gradient(start.theta, intercept)
    assert smooth.loss == pytest.approx(value, rel=1e-12)
    assert problem.value(start.theta, intercept) == pytest.approx(value, rel=1e-12)
    torch.testing.assert_close(smooth.theta, by_theta)
    torch.testing.assert_close(smooth.intercept, by_intercept)


def test_dropped_features_are_silent_in_the_loss_and_get_no_gradient():
    problem, start = small_problem(regularizers=Regularizers(feature_dropout=0.4))
    silence = Dropout(0.4, torch.Generator().manual_seed(3)).mask(torch.zeros(3, 40, 1, dtype=torch.float64))
    assert {round(float(number), 9) for number in silence.unique()} == {0.0, round(1 / 0.6, 9)}
    value, by_theta, by_intercept = gradient_by_hand(problem, start, silence[:, :, 0])
    smooth = problem.gradient(start.theta, start.intercept, noise=torch.Generator().manual_seed(3))
    assert smooth.loss == pytest.approx(value, rel=1e-12)
    torch.testing.assert_close(smooth.theta, by_theta)
    torch.testing.assert_close(smooth.intercept, by_intercept)


def test_without_noise_dropout_changes_nothing():
    plain, start = small_problem()
    dropping = replace(plain, regularizers=Regularizers(dropout=0.5, feature_dropout=0.5))
    assert torch.equal(
        dropping.gradient(start.theta, start.intercept).theta, plain.gradient(start.theta, start.intercept).theta
    )
    assert dropping.value(start.theta, start.intercept) == plain.value(start.theta, start.intercept)
    noisy = dropping.gradient(start.theta, start.intercept, noise=torch.Generator().manual_seed(0))
    assert noisy.loss != plain.value(start.theta, start.intercept)


def test_dropout_keeps_the_mean_and_the_share():
    mask = Dropout(0.2, torch.Generator().manual_seed(0)).mask(torch.zeros(200, 200))
    assert {round(float(number), 5) for number in mask.unique()} == {0.0, 1.25}
    assert float((mask == 0).float().mean()) == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("name", ["dropout", "feature_dropout"])
def test_dropout_changes_the_fit_and_is_off_at_predict(name):
    X, y = table()
    plain = SNAMRegressor(**QUICK).fit(X, y)
    dropped = SNAMRegressor(**QUICK, **{name: 0.5}).fit(X, y)
    assert np.abs(dropped.predict(X) - plain.predict(X)).max() > 1e-3
    one_row = np.tile(X[:1], (300, 1))  # every row would be silenced in its own way
    assert np.ptp(dropped.predict(one_row)) == 0
    np.testing.assert_array_equal(dropped.predict(X), dropped.predict(X))
    np.testing.assert_array_equal(dropped.predict(X), SNAMRegressor(**QUICK, **{name: 0.5}).fit(X, y).predict(X))


def test_an_output_penalty_shrinks_the_effects():
    X, y = table()
    settings = {**QUICK, "learning_rate": 0.05, "max_epochs": 60}
    sizes = [
        np.sqrt((SNAMRegressor(**settings, output_penalty=weight).fit(X, y).effects(X) ** 2).mean())
        for weight in (0.0, 1.0, 10.0)
    ]
    assert sizes[0] > 1.2 * sizes[1] > 1.2 * 1.2 * sizes[2]


def test_weight_decay_shrinks_the_norms():
    X, y = table()
    norms = [
        SNAMRegressor(**QUICK, learning_rate=0.05, weight_decay=weight).fit(X, y).norms_.sum()
        for weight in (0.0, 0.1, 1.0)
    ]
    assert norms[0] > norms[1] > 1.2 * norms[2]


# --- the stops


@pytest.mark.parametrize("patience", [1, 3, 7])
def test_a_stalled_fit_stops_when_patience_has_run_out(patience):
    X, y = table()
    model = SNAMRegressor(**{**QUICK, "patience": patience}, tol=1e9).fit(X, y)
    assert len(model.history_) == 1 + patience < 20


def test_a_fit_that_makes_progress_does_not_stop():
    X, y = table()
    settings = {**QUICK, "patience": 1, "batch_size": None, "learning_rate": 1e-3}
    assert len(SNAMRegressor(**settings, tol=1e-9).fit(X, y).history_) == 20
    assert len(SNAMRegressor(**settings, tol=0.5).fit(X, y).history_) == 2


def test_progress_is_a_relative_fall_below_the_best_so_far():
    stall = Stall(patience=2, tol=0.1)
    assert [stall.observe(number) for number in (10.0, 9.5, 8.9, 8.8, 8.0, 8.5, 7.3)] == [
        False, False, False, False, False, False, True,
    ]  # fmt: skip
    below_zero = Stall(patience=1, tol=0.1)
    assert [below_zero.observe(number) for number in (-10.0, -11.5, -12.0)] == [False, False, True]


def test_the_whole_objective_is_watched_or_the_held_out_loss_where_there_is_one():
    def epochs(**numbers):
        for number in range(1, 9):
            yield Epoch(number, parameters=None, **{name: value(number) for name, value in numbers.items()})

    falling, flat = (lambda number: 10.0 - number), (lambda number: 1.0)
    assert len(list(until_stalled(epochs(loss=flat, penalty=falling), Stall(2, 1e-4)))) == 8
    assert len(list(until_stalled(epochs(loss=falling, penalty=flat), Stall(2, 1e-4)))) == 8
    assert len(list(until_stalled(epochs(loss=flat, penalty=flat), Stall(2, 1e-4)))) == 3
    watched = epochs(loss=falling, penalty=falling, validation=flat)
    assert len(list(until_stalled(watched, Stall(2, 1e-4)))) == 3


@pytest.mark.parametrize(("solver", "batch_size"), [("prox_adam", 32), ("prox_adam", None), ("fista", None)])
def test_a_fit_ends_when_its_seconds_are_over(monkeypatch, solver, batch_size):
    ticks = count()
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    X, y = table()
    settings = {**QUICK, "solver": solver, "batch_size": batch_size, "max_epochs": 10**6, "patience": 10**6}
    model = SNAMRegressor(**settings, tol=1e-15, max_seconds=60.0).fit(X, y)
    seconds = [entry["seconds"] for entry in model.history_]
    assert 5 < len(seconds) < 60
    assert seconds == sorted(seconds)
    assert seconds[-2] < 60 <= next(ticks)
    assert model.stationarity_ is None


# --- the checkpoints


def epochs_in(path):
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["sparsenam"])["last"]["number"]


def test_a_checkpoint_follows_the_fit_from_epoch_to_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 0.0)
    path, seen = tmp_path / "fit", []

    def schedule(share):
        seen.append(epochs_in(path) if path.exists() else 0)
        return 1.0

    X, y = table()
    SNAMRegressor(**{**QUICK, "max_epochs": 6}, batch_size=None, schedule=schedule, checkpoint=path).fit(X, y)
    assert sorted(set(seen)) == [0, 1, 2, 3, 4, 5]
    assert epochs_in(path) == 6
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]


def test_a_short_fit_writes_its_checkpoint_once(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN", 1e9)
    path, seen = tmp_path / "fit", []
    X, y = table()
    SNAMRegressor(**QUICK, schedule=lambda share: seen.append(path.exists()) or 1.0, checkpoint=path).fit(X, y)
    assert len(seen) >= 20
    assert not any(seen)
    assert epochs_in(path) == 20


# --- stationarity


def test_stationarity_is_small_at_a_solution_and_large_beside_it():
    problem, start = small_problem(alpha=0.02)
    plan = plan_of(solver=SOLVERS["fista"], max_epochs=20_000, tol=1e-5)
    outcome = run(problem, start, plan, Streams(0))
    assert outcome.converged
    assert outcome.stationarity <= 1e-4
    reached = outcome.parameters
    assert measure_stationarity(problem, start, 1e-3) > 0.05
    beside = replace(reached, theta=reached.theta + 0.1)
    assert measure_stationarity(problem, beside, 1e-3) > 1e-2
    shifted = replace(reached, intercept=reached.intercept + 0.3)
    assert measure_stationarity(problem, shifted, 1e-3) == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize("step", [1e-5, 1e-3, 10.0])
def test_without_penalty_stationarity_is_the_largest_entry_of_the_gradient(step):
    problem, start = small_problem()
    _, by_theta, by_intercept = gradient_by_hand(problem, start)
    expected = max(float(by_theta.abs().max()), float(by_intercept.abs().max()))
    assert measure_stationarity(problem, start, step) == pytest.approx(expected, rel=1e-6)
    balanced = replace(start, intercept=start.intercept - by_intercept)  # the loss is quadratic in β
    _, by_theta, by_intercept = gradient_by_hand(problem, balanced)
    assert float(by_intercept.abs().max()) < 1e-12
    assert measure_stationarity(problem, balanced, step) == pytest.approx(float(by_theta.abs().max()), rel=1e-6)


def test_under_a_penalty_stationarity_is_the_gradient_of_the_whole_objective_off_zero():
    problem, start = small_problem(alpha=0.5)
    _, by_theta, by_intercept = gradient_by_hand(problem, start)
    pull = 0.5 * start.theta / start.theta.norm(dim=1, keepdim=True)
    expected = max(float((by_theta + pull).abs().max()), float(by_intercept.abs().max()))
    assert measure_stationarity(problem, start, 1e-6) == pytest.approx(expected, rel=1e-5)  # exact for step → 0


# --- batches


def test_one_batch_of_all_rows_is_the_same_however_it_is_said():
    X, y = table(rows=90)
    settings = {**QUICK, "alpha": 0.02, "dropout": 0.1}
    whole = SNAMRegressor(**settings, batch_size=None).fit(X, y)
    for size in (90, 91, 10_000):
        model = SNAMRegressor(**settings, batch_size=size).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))
        assert [entry["loss"] for entry in model.history_] == [entry["loss"] for entry in whole.history_]
    smaller = SNAMRegressor(**settings, batch_size=89).fit(X, y)
    assert np.abs(smaller.predict(X) - whole.predict(X)).max() > 1e-6
