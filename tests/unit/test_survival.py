"""SNAMSurvival: what it keeps, what it promises, and what it says when it cannot."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score

from fit_cases import partial_gradient
from sparsenam import Network, SNAMSurvival, survival_target
from sparsenam.datasets import make_survival
from sparsenam.errors import InputError
from sparsenam.fit import pipeline
from sparsenam.fit.cox import alternate
from sparsenam.survival import Baseline, RiskSets, concordance


@cache
def task():
    return make_survival(300, 8, seed=0)


@cache
def fitted():
    return SNAMSurvival(random_state=0).fit(task().X, task().y)


def test_defaults_find_the_true_effects():
    new, model = make_survival(3000, 8, seed=99), fitted()
    assert np.flatnonzero(model.get_support()).tolist() == [0, 1, 2, 3]
    best = concordance(new.y["event"], new.y["time"], new.risk)
    assert model.score(new.X, new.y) > best - 0.03
    for feature in range(4):
        truth = new.effects[:, feature]
        assert np.corrcoef(model.effects(new.X)[:, feature], truth)[0, 1] > 0.85


def test_simulated_share_of_censored_rows_is_the_one_asked_for():
    assert abs(make_survival(4000, censored=0.6).y["event"].mean() - 0.4) < 0.03
    assert make_survival(50, 2, censored=0.0).y["event"].all()


def test_effects_add_up_to_the_centred_risk():
    X, model = task().X, fitted()
    np.testing.assert_allclose(model.effects(X).sum(axis=1) + model.intercept_, model.predict(X), atol=1e-10)
    np.testing.assert_allclose(model.effects(X).mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, 0.0, atol=1e-10)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_convex_choice_meets_the_conditions_of_the_penalised_partial_likelihood(ties):
    """For kept features Qⱼᵀg = α θⱼ/‖θⱼ‖, for dropped ones ‖Qⱼᵀg‖ ≤ α, g being the mean gradient by event."""
    X, y = task().X, task().y.copy()
    y["time"] = np.ceil(20 * y["time"] / y["time"].max())
    model, kept = SNAMSurvival(alpha=0.15, ties=ties, random_state=0), []
    original = pipeline.fit_terms

    def spy(problem, choice, *rest):
        kept.append(choice)
        return original(problem, choice, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "fit_terms", spy)
        model.fit(X, y)
    (choice,) = kept
    design, theta = choice.task.design, choice.point.theta[0][:, :, 0]
    scores = choice.point.scores(design)[:, 0]
    gradient = partial_gradient(RiskSets.of(y["event"], y["time"]), scores, ties) / y["event"].sum()
    pulls = design.blocks @ gradient
    lengths = np.linalg.norm(theta, axis=1)
    assert 0 < np.count_nonzero(lengths) < 8
    for pull, coefficients, length in zip(pulls, theta, lengths, strict=True):
        if length > 0:
            np.testing.assert_allclose(pull, 0.15 * coefficients / length, atol=1e-3 * 0.15)
        else:
            assert np.linalg.norm(pull) <= 0.15 * (1 + 1e-3)
    assert model.certificate_.gap <= 1e-6
    assert set(model.certificate_.kept) == {f"x{index}" for index in np.flatnonzero(lengths)}


def test_refit_is_a_fixed_point_of_the_alternation():
    """The hazard of the final scores expects as many events as there are, in total and along each kept effect."""
    X, y, model = task().X, task().y, fitted()
    gradient = partial_gradient(RiskSets.of(y["event"], y["time"]), model.predict(X))
    assert abs(gradient.sum()) < 1e-8
    for effect in model.effects(X).T[:4]:
        curvature = effect**2 @ np.ones(len(X))
        assert abs(gradient @ effect) / curvature < 0.25  # the smoothness prior pulls a little

    np.testing.assert_allclose(
        model.log_likelihood_, RiskSets.of(y["event"], y["time"]).hazard(model.predict(X)).log_likelihood
    )


def test_curves_are_step_functions_or_arrays():
    X, model = task().X[:6], fitted()
    curves = model.predict_survival_function(X)
    values = model.predict_survival_function(X, return_array=True)
    hazards = model.predict_cumulative_hazard_function(X, return_array=True)
    assert curves.shape == (6,)
    assert values.shape == (6, model.event_times_.size)
    np.testing.assert_allclose(values, np.exp(-hazards))
    np.testing.assert_array_equal([curve(model.event_times_) for curve in curves], values)
    assert curves[0](0.0) == 1.0
    assert model.predict_cumulative_hazard_function(X)[0](0.0) == 0.0
    assert (np.diff(values, axis=1) < 0).all()
    assert model.predict_survival_function(X, times=[0.1, 0.2]).shape == (6, 2)
    np.testing.assert_array_equal(np.argsort(values[:, 10]), np.argsort(-model.predict(X)))
    np.testing.assert_array_equal(model.baseline_.times, model.event_times_)


def test_predicted_survival_is_calibrated():
    new = make_survival(4000, 8, censored=0.0, seed=5)
    for time in np.quantile(new.y["time"], [0.25, 0.5, 0.75]):
        predicted = fitted().predict_survival_function(new.X, [time]).mean()
        assert abs(predicted - (new.y["time"] > time).mean()) < 0.05


def test_field_names_and_the_unit_of_time_do_not_matter():
    X, y = task().X, task().y
    other = np.array(list(zip(1000 * y["time"], y["event"], strict=True)), dtype=[("days", "f4"), ("died", "?")])
    model = SNAMSurvival(alpha=0.2, network=Network(()), random_state=0)
    one, two = clone(model).fit(X, y), clone(model).fit(X, other)
    np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)
    np.testing.assert_allclose(1000 * one.event_times_, two.event_times_, rtol=1e-6)


def test_rows_of_weight_0_are_absent_and_the_unit_of_weights_does_not_matter():
    X, y = task().X, task().y
    weights = np.where(np.arange(len(X)) < 200, 3.0, 0.0)
    model = SNAMSurvival(alpha=0.1, network=Network(()), random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    alone = clone(model).fit(X[:200], y[:200])
    np.testing.assert_allclose(weighted.predict(X), alone.predict(X), atol=1e-8)
    np.testing.assert_array_equal(weighted.event_times_, alone.event_times_)


def test_rows_censored_before_the_first_event_change_no_score():
    X, y = task().X, task().y
    early = survival_target(np.zeros(40, dtype=bool), np.full(40, 0.5 * y["time"][y["event"]].min()))
    model = SNAMSurvival(network=Network(()), alpha=0.1, random_state=0)
    more = clone(model).fit(np.vstack([X, X[:40]]), np.concatenate([y, early]))
    np.testing.assert_array_equal(more.predict(X), clone(model).fit(X, y).predict(X))


def test_a_large_alpha_keeps_nothing_and_leaves_nelson_and_aalen():
    X, y = task().X, task().y
    model = SNAMSurvival(alpha=10.0, random_state=0).fit(X, y)
    assert not model.get_support().any()
    risk_sets = RiskSets.of(y["event"], y["time"])
    np.testing.assert_allclose(model.baseline_.cumulative_hazard, np.cumsum(risk_sets.hazard(np.zeros(len(X))).jumps))
    assert model.score(X, y) == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {"network": Network((8,), max_epochs=20, penalize="function"), "alpha": 0.05},
        {"network": Network((8,), max_epochs=10, batch_size=16)},
        {"network": Network((8,), max_epochs=20), "refit": False},
        {"alpha": 0.1, "refit": False},
        {"penalty": "adaptive", "alpha": 0.1},
    ],
    ids=str,
)
def test_other_ways_of_fitting_order_new_rows_well(settings):
    new = make_survival(1000, 8, seed=99)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SNAMSurvival(random_state=0, **settings).fit(task().X, task().y)
    assert model.score(new.X, new.y) > 0.65
    assert model.get_support().any()


def test_a_fit_without_time_says_so(ticking):
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        SNAMSurvival(max_seconds=10.0, random_state=0).fit(task().X, task().y)


def test_an_alternation_that_never_converges_ends_with_the_smallest_move_and_a_warning():
    y = task().y
    risk_sets = RiskSets.of(y["event"], y["time"])
    steps = iter(np.array([3.0, 0.5, 2.0, 2.5, 3.0, 3.5]))
    unit = np.random.default_rng(0).choice([-1.0, 1.0], size=len(y))

    def restless(scores, iteration):
        step = next(steps)
        return step, scores + step * unit

    with pytest.warns(ConvergenceWarning, match="did not converge in 5 iterations"):
        reached, _ = alternate(
            lambda scores: risk_sets.hazard(scores).log_likelihood,
            restless,
            np.zeros(len(y)),
            exact=False,
            out_of_time=lambda: False,
        )
    assert reached == 0.5


def test_an_exact_alternation_that_hardly_comes_nearer_ends_soon():
    y = task().y
    risk_sets = RiskSets.of(y["event"], y["time"])
    unit = np.random.default_rng(0).choice([-1.0, 1.0], size=len(y))

    def creeping(scores, iteration):
        return iteration, scores + 0.99**iteration * unit

    with pytest.warns(ConvergenceWarning, match="did not converge in 6 iterations"):
        reached, _ = alternate(
            lambda scores: risk_sets.hazard(scores).log_likelihood,
            creeping,
            np.zeros(len(y)),
            exact=True,
            out_of_time=lambda: False,
        )
    assert reached == 6


def test_hazards_of_scores_beyond_all_exponents_are_finite_and_leave_no_survivors():
    baseline = Baseline(np.array([1.0, 2.0]), np.array([0.1, 0.3]))
    scores = np.array([-800.0, 0.0, 299.0, 301.0, 1e6])
    hazards = baseline.cumulative_hazards(scores, [0.5, 1.0, 2.0])
    assert np.isfinite(hazards).all()
    assert np.all(hazards[:, 0] == 0.0)
    np.testing.assert_allclose(np.log(hazards[2:4, 1:]), scores[2:4, None] + np.log([0.1, 0.3]), rtol=1e-12)
    np.testing.assert_array_equal(baseline.survival(scores, [0.5, 2.0])[3:], [[1.0, 0.0]] * 2)


def test_scikit_learn_can_cross_validate_and_select():
    model = SNAMSurvival(network=Network(()), alpha=0.02, random_state=0)
    scores = cross_val_score(model, task().X[:, :3], task().y, cv=2)
    assert (scores > 0.55).all()
    assert fitted().transform(task().X).shape == (300, 4)
    with pytest.raises(NotFittedError):
        model.predict(task().X)


def test_categories_and_missing_cells_are_taken():
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    stage = generator.choice(["early", "late", "middle"], size=400)
    age = generator.normal(60.0, 10.0, size=400)
    risk = np.select([stage == "late", stage == "middle"], [2.0, 1.0], 0.0) + 0.05 * (age - 60)
    time, limit = generator.exponential(size=400) * np.exp(-risk), generator.uniform(0.0, 2.0, size=400)
    age[::7] = np.nan
    table = pandas.DataFrame({"stage": stage, "age": age, "noise": generator.normal(size=400)})
    y = survival_target(time <= limit, np.minimum(time, limit))
    model = SNAMSurvival(random_state=0).fit(table, y)
    assert model.get_support().tolist() == [True, True, False]
    means = pandas.Series(model.effects(table)[:, 0]).groupby(stage).mean()
    assert means["early"] < means["middle"] < means["late"]
    np.testing.assert_allclose(model.predict(table).mean(), 0.0, atol=1e-10)
    total = model.effects(table).sum(axis=1) + model.intercept_
    np.testing.assert_allclose(model.predict(table), total, atol=1e-10)
    with pytest.raises(InputError):
        SNAMSurvival(random_state=0).fit(table.assign(days=y["time"]), y)


def test_a_column_to_keep_is_kept():
    model = SNAMSurvival(always_keep=[7], alpha=0.3, random_state=0).fit(task().X, task().y)
    assert model.get_support()[7]


def test_constant_columns_are_left_out_with_a_warning():
    y = task().y
    with pytest.warns(UserWarning, match="constant column"):
        model = SNAMSurvival(random_state=0).fit(np.ones((300, 2)), y)
    np.testing.assert_allclose(model.predict(np.ones((3, 2))), 0.0, atol=1e-12)


def good(**changes):
    values = {"event": np.array([True, False, True, True]), "time": np.array([1.0, 2.0, 3.0, 4.0])} | changes
    y = np.empty(4, dtype=[("event", "?"), ("time", "f8")])
    y["event"], y["time"] = values["event"], values["time"]
    return y


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.arange(4.0), "structured array with a boolean field"),
        (np.zeros(4, dtype=[("a", "f8"), ("b", "f8")]), "the fields a"),
        (np.zeros(4, dtype=[("a", "?"), ("b", "f8"), ("c", "f8")]), "the fields a"),
        (good(time=[1.0, 0.0, 2.0, 3.0]), r"above 0, got 0.0 in row 1 \(1 such rows\)"),
        (good(time=[1.0, 2.0, np.nan, 3.0]), "got nan in row 2"),
        (good(time=[1.0, 2.0, 3.0, np.inf]), "got inf in row 3"),
        (good(event=[False] * 4), "at least one event, got none"),
        (good(event=[False, False, False, True]), "at risk at the first event"),
        (good()[:3], "inconsistent numbers of samples"),
        (None, "requires y"),
    ],
)
def test_a_wrong_target_is_answered_in_a_sentence(y, message):
    X = np.arange(8.0).reshape(4, 2) ** 2
    model = SNAMSurvival()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


def test_wrong_settings_and_targets_of_the_helper_are_answered():
    with pytest.raises(InputError, match="ties: expected one of"):
        SNAMSurvival(ties="exact").fit(task().X, task().y)
    with pytest.raises(InputError, match="equal lengths"):
        survival_target([True, False], [1.0])
    with pytest.raises(InputError, match="True or False"):
        survival_target([2, 0], [1.0, 2.0])
    with pytest.raises(InputError, match="above 0"):
        survival_target([1, 0], [1.0, -2.0])
    assert survival_target([1, 0], [1, 2]).dtype.names == ("event", "time")
