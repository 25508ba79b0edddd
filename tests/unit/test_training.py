"""What training promises: the best epoch, the rate it was given, its regularisers, its stops and its checkpoints."""

import json
import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from safetensors import safe_open

from networks_by_name import trained
from sparsenam import SNAMRegressor
from sparsenam.context import Context, Streams
from sparsenam.families import Gaussian
from sparsenam.networks.bank import Dropout, build_bank, initial_parameters
from sparsenam.penalties import GroupLasso
from sparsenam.training import SCHEDULES, SOLVERS, Regularizers, TrainingPlan, state
from sparsenam.training.problem import Problem
from sparsenam.training.run import EarlyStopping, measure_stationarity, run
from sparsenam.training.state import Parameters

NAMES = ["a", "b", "c"]
CONTEXT = Context(Streams(0))
QUICK = {"alpha": 0.0, "hidden": (8,), "max_epochs": 20, "patience": 1000, "random_state": 0}


def table(rows=90, noise=0.3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + noise * generator.normal(size=rows)


def small_problem(alpha=0.0, rows=40, regularizers=Regularizers()):  # noqa: B008 - frozen
    """A tanh network with three hidden units for each of three terms, and where its training starts."""
    X, y = table(rows)
    bank = build_bank((3,), NAMES, 1, "tanh")
    weights = torch.as_tensor(np.random.default_rng(1).uniform(0.5, 1.5, rows))
    problem = Problem(
        bank=bank, family=Gaussian(), penalty=GroupLasso(), alpha=alpha, group=slice(0, bank.size),
        x=torch.as_tensor(X.T.copy()), target=torch.as_tensor(y)[:, None], weights=weights / weights.mean(),
        terms=np.arange(3), n_terms=3, regularizers=regularizers,
    )  # fmt: skip
    theta = torch.as_tensor(initial_parameters(bank, NAMES, Streams(0)))
    return problem, Parameters.starting_from(theta, torch.zeros(1, dtype=torch.float64))


def plan_of(**changes):
    plan = TrainingPlan(SOLVERS["prox_adam"], SCHEDULES["constant"], 0.01, None, 20, 1000, 1e-4)
    return replace(plan, **changes)


def by_hand(problem, theta, intercept, mask=1.0):
    """The smooth part of the objective in plain PyTorch."""
    weight, bias, output = theta[:, :3], theta[:, 3:6], theta[:, 6:]
    units = torch.tanh(problem.x[:, :, None] * weight[:, None] + bias[:, None])
    effects = (units * output[:, None]).sum(2)
    residuals = problem.target[:, 0] - intercept - (mask * effects).sum(0)
    settings = problem.regularizers
    losses = 0.5 * residuals**2 + settings.output_penalty / problem.n_terms * effects.square().sum(0)
    return (problem.weights * losses).mean() + 0.5 * settings.weight_decay * theta.square().sum()


def gradient_by_hand(problem, parameters, mask=1.0):
    theta = parameters.theta.clone().requires_grad_()
    intercept = parameters.intercept.clone().requires_grad_()
    value = by_hand(problem, theta, intercept, mask)
    return float(value.detach()), *torch.autograd.grad(value, (theta, intercept))


# --- the best epoch


def test_the_epoch_with_the_lowest_held_out_loss_wins():
    problem, start = small_problem()
    scores = [5.0, 3.0, 1.0, 2.0, 1.0, 4.0]
    seen = []

    def validate(parameters):
        seen.append(parameters)
        return scores[len(seen) - 1]

    outcome = run(problem, start, plan_of(max_epochs=len(scores)), CONTEXT, validate=validate)
    assert [entry.validation for entry in outcome.history] == scores
    torch.testing.assert_close(outcome.parameters.theta, seen[2].theta, rtol=0, atol=0)
    assert not torch.equal(outcome.parameters.theta, seen[1].theta)
    assert not torch.equal(outcome.parameters.theta, seen[3].theta)


def test_without_held_out_rows_the_last_epoch_wins():
    problem, start = small_problem()
    few, many = (run(problem, start, plan_of(max_epochs=epochs), CONTEXT) for epochs in (5, 6))
    assert not torch.equal(few.parameters.theta, many.parameters.theta)
    assert many.history[-1].validation is None


def test_an_overfitted_network_is_taken_back_to_its_best_epoch():
    X, y = table(rows=60, noise=1.0)
    settings = {**QUICK, "hidden": (30,), "learning_rate": 0.1, "validation_fraction": 0.4}
    model = trained(SNAMRegressor, **{**settings, "max_epochs": 40}).fit(X, y)
    held_out = [entry["validation"] for entry in model.history_]
    best = int(np.argmin(held_out)) + 1
    assert 1 < best < len(held_out) == 40
    stopped = trained(SNAMRegressor, **{**settings, "max_epochs": best}).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), stopped.predict(X))


def test_held_out_rows_are_scored_and_never_trained_on():
    X, y = table(rows=50)
    settings = {**QUICK, "validation_fraction": 0.3, "batch_size": None}
    held_out = Streams(0).generator("validation").permutation(50)[:15]
    shuffled = y.copy()
    shuffled[held_out] = shuffled[held_out[::-1]]
    one, other = trained(SNAMRegressor, **settings).fit(X, y), trained(SNAMRegressor, **settings).fit(X, shuffled)
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
    model = trained(SNAMRegressor, **settings).fit(X, y)
    expected = [0.02 * factor(epoch / 8) for epoch in range(8)]
    np.testing.assert_allclose([entry["rate"] for entry in model.history_], expected)
    assert (expected[-1] < expected[0]) == (schedule != "constant")


def test_a_schedule_goes_on_within_an_epoch():
    shares = []
    X, y = table(rows=90)
    settings = {**QUICK, "max_epochs": 4, "batch_size": 45}
    trained(SNAMRegressor, **settings, schedule=lambda share: shares.append(share) or 1.0).fit(X, y)
    assert sorted(set(shares)) == [step / 8 for step in range(8)]


def test_a_schedules_factor_is_a_factor_of_the_step():
    X, y = table()
    half = trained(SNAMRegressor, **QUICK, learning_rate=0.02, schedule=lambda share: 0.5).fit(X, y)
    plain = trained(SNAMRegressor, **QUICK, learning_rate=0.01).fit(X, y)
    np.testing.assert_array_equal(half.predict(X), plain.predict(X))
    still = trained(SNAMRegressor, **QUICK, schedule=lambda share: 0.0, batch_size=None).fit(X, y)
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


def test_dropped_terms_are_zero_in_the_loss_and_get_no_gradient():
    problem, start = small_problem(regularizers=Regularizers(feature_dropout=0.4))
    mask = Dropout(0.4, torch.Generator().manual_seed(3)).mask(torch.zeros(3, 40, 1, dtype=torch.float64))
    assert {round(float(number), 9) for number in mask.unique()} == {0.0, round(1 / 0.6, 9)}
    value, by_theta, by_intercept = gradient_by_hand(problem, start, mask[:, :, 0])
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
    plain = trained(SNAMRegressor, **QUICK).fit(X, y)
    dropped = trained(SNAMRegressor, **QUICK, **{name: 0.5}).fit(X, y)
    assert np.abs(dropped.predict(X) - plain.predict(X)).max() > 1e-3
    one_row = np.tile(X[:1], (300, 1))  # every row would have another mask
    assert np.ptp(dropped.predict(one_row)) == 0
    np.testing.assert_array_equal(dropped.predict(X), dropped.predict(X))
    np.testing.assert_array_equal(
        dropped.predict(X), trained(SNAMRegressor, **QUICK, **{name: 0.5}).fit(X, y).predict(X)
    )


def test_an_output_penalty_shrinks_the_effects():
    X, y = table()
    settings = {**QUICK, "learning_rate": 0.05, "max_epochs": 60}
    sizes = [
        np.sqrt((trained(SNAMRegressor, **settings, output_penalty=weight).fit(X, y).effects(X) ** 2).mean())
        for weight in (0.0, 1.0, 10.0)
    ]
    assert sizes[0] > 1.2 * sizes[1] > 1.2 * 1.2 * sizes[2]


def test_weight_decay_shrinks_the_norms():
    X, y = table()
    norms = [
        trained(SNAMRegressor, **QUICK, learning_rate=0.05, weight_decay=weight).fit(X, y).norms_.sum()
        for weight in (0.0, 0.1, 1.0)
    ]
    assert norms[0] > norms[1] > 1.2 * norms[2]


# --- the stops


@pytest.mark.parametrize("patience", [1, 3, 7])
def test_a_stalled_fit_stops_when_patience_has_run_out(patience):
    X, y = table()
    model = trained(SNAMRegressor, **{**QUICK, "patience": patience}, tol=1e9).fit(X, y)
    assert len(model.history_) == 1 + patience < 20


def test_a_fit_that_makes_progress_does_not_stop():
    X, y = table()
    settings = {**QUICK, "patience": 1, "batch_size": None, "learning_rate": 1e-3}
    assert len(trained(SNAMRegressor, **settings, tol=1e-9).fit(X, y).history_) == 20
    assert len(trained(SNAMRegressor, **settings, tol=0.5).fit(X, y).history_) == 2


def test_progress_is_a_relative_fall_below_the_best_so_far():
    stopping = EarlyStopping(patience=2, tol=0.1)
    assert [stopping.observe(number) for number in (10.0, 9.5, 8.9, 8.8, 8.0, 8.5, 7.3)] == [
        False, False, False, False, False, False, True,
    ]  # fmt: skip
    below_zero = EarlyStopping(patience=1, tol=0.1)
    assert [below_zero.observe(number) for number in (-10.0, -11.5, -12.0)] == [False, False, True]


def epochs_until_stopped(losses, penalties, held_out=None):
    """Number of epochs that a training runs whose reports are scripted, with a patience of 2."""
    problem, start = small_problem()
    reports = iter(zip(losses, penalties, strict=True))

    def scripted(problem, start, *rest):
        for number, (loss, penalty) in enumerate(reports, start=start.number + 1):
            yield replace(start, number=number, loss=loss, penalty=penalty)

    validate = None if held_out is None else (lambda parameters: held_out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("sparsenam.training.run"), "train", scripted)
        plan = plan_of(patience=2, max_epochs=len(losses))
        return len(run(problem, start, plan, CONTEXT, validate=validate).history)


def test_the_whole_objective_is_observed_or_the_held_out_loss_where_there_is_one():
    falling, flat = [10.0 - number for number in range(8)], [1.0] * 8
    assert epochs_until_stopped(flat, falling) == 8
    assert epochs_until_stopped(falling, flat) == 8
    assert epochs_until_stopped(flat, flat) == 3
    assert epochs_until_stopped(falling, falling, held_out=1.0) == 3


@pytest.mark.parametrize(("solver", "batch_size"), [("prox_adam", 32), ("prox_adam", None), ("fista", 256)])
def test_a_fit_ends_when_its_seconds_are_over(ticking, solver, batch_size):
    X, y = table()
    patience = {} if solver == "fista" else {"patience": 10**6}
    settings = {"alpha": 0.0, "hidden": (8,), "solver": solver, "batch_size": batch_size, "max_epochs": 10**6}
    model = trained(SNAMRegressor, **settings, **patience, random_state=0, tol=1e-15, max_seconds=60.0).fit(X, y)
    seconds = [entry["seconds"] for entry in model.history_]
    assert 5 < len(seconds) < 60
    assert seconds == sorted(seconds)
    assert seconds[-2] < 60 <= next(ticking)
    assert model.stationarity_ is None


# --- the checkpoints


def epochs_in(path):
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["sparsenam"])["stages"]["train"]["last"]["number"]


def test_a_checkpoint_follows_the_fit_from_epoch_to_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "SECONDS_BETWEEN", 0.0)
    path, seen = tmp_path / "fit", []

    def schedule(share):
        seen.append(epochs_in(path) if path.exists() else 0)
        return 1.0

    X, y = table()
    trained(SNAMRegressor, **{**QUICK, "max_epochs": 6}, batch_size=None, schedule=schedule, checkpoint=path).fit(X, y)
    assert sorted(set(seen)) == [0, 1, 2, 3, 4, 5]
    assert epochs_in(path) == 6
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]


def test_a_short_fit_writes_its_checkpoint_once(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "SECONDS_BETWEEN", 1e9)
    path, seen = tmp_path / "fit", []
    X, y = table()
    trained(SNAMRegressor, **QUICK, schedule=lambda share: seen.append(path.exists()) or 1.0, checkpoint=path).fit(X, y)
    assert len(seen) >= 20
    assert not any(seen)
    assert epochs_in(path) == 20


# --- stationarity


def test_stationarity_is_small_at_a_solution_and_large_beside_it():
    problem, start = small_problem(alpha=0.02)
    plan = plan_of(solver=SOLVERS["fista"], max_epochs=20_000, tol=1e-5)
    outcome = run(problem, start, plan, CONTEXT)
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
    whole = trained(SNAMRegressor, **settings, batch_size=None).fit(X, y)
    for size in (90, 91, 10_000):
        model = trained(SNAMRegressor, **settings, batch_size=size).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))
        assert [entry["loss"] for entry in model.history_] == [entry["loss"] for entry in whole.history_]
    smaller = trained(SNAMRegressor, **settings, batch_size=89).fit(X, y)
    assert np.abs(smaller.predict(X) - whole.predict(X)).max() > 1e-6
