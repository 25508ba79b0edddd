"""Partial likelihood, concordance and curves: formulas against their definitions, row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fit_cases import partial_gradient
from sparsenam.fit.cox import PartialLikelihoodLoss
from sparsenam.survival import TIES, Baseline, RiskSets, StepFunction, concordance


@st.composite
def censored_samples(draw):
    rows = draw(st.integers(2, 25))
    event = draw(arrays(bool, rows))
    event[draw(st.integers(0, rows - 1))] = True
    time = draw(arrays(float, rows, elements=st.integers(1, 6).map(float)))
    weights = draw(arrays(float, rows, elements=st.sampled_from([0.5, 1.0, 2.0])))
    scores = draw(arrays(float, rows, elements=st.integers(-8, 8).map(lambda k: k / 4)))
    return event, time, weights, scores


def log_likelihood(event, time, weights, scores, ties):
    powers, total = weights * np.exp(scores), 0.0
    for t in np.unique(time[event]):
        died = event & (time == t)
        at_risk, leaving, count = powers[time >= t].sum(), powers[died].sum(), int(died.sum())
        total += weights[died] @ scores[died]
        for gone in range(count):
            left = at_risk - (gone / count * leaving if ties == "efron" else 0.0)
            total -= weights[died].mean() * np.log(left)
    return total


def slow_concordance(event, time, risk, weights):
    good = pairs = 0.0
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            if time[i] < time[j] or (time[i] == time[j] and not event[j]):
                pairs += weights[i] * weights[j]
                good += weights[i] * weights[j] * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return good / pairs if pairs else None


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=40)
@given(sample=censored_samples())
def test_partial_likelihood_is_its_definition(ties, sample):
    event, time, weights, scores = sample
    found = RiskSets.of(event, time, weights).hazard(scores, ties).log_likelihood
    np.testing.assert_allclose(found, log_likelihood(*sample, ties), atol=1e-10)


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=40)
@given(sample=censored_samples())
def test_gradient_is_the_slope_of_the_partial_likelihood(ties, sample):
    event, time, weights, scores = sample
    risk_sets = RiskSets.of(event, time, weights)
    slopes = [
        (
            risk_sets.hazard(scores + 1e-5 * unit, ties).log_likelihood
            - risk_sets.hazard(scores - 1e-5 * unit, ties).log_likelihood
        )
        / 2e-5
        for unit in np.eye(scores.size)
    ]
    np.testing.assert_allclose(partial_gradient(risk_sets, scores, ties), slopes, atol=1e-7)


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=40)
@given(sample=censored_samples(), move=arrays(float, 25, elements=st.integers(-8, 8).map(lambda k: k / 4)))
def test_poisson_likelihood_lies_below_the_partial_one_and_touches_it(ties, sample, move):
    event, time, weights, scores = sample
    risk_sets, moved = RiskSets.of(event, time, weights), scores + move[: scores.size]
    hazard = risk_sets.hazard(scores, ties)

    def poisson(at):
        return weights @ (event * at - hazard.rows * np.exp(at))

    gained = risk_sets.hazard(moved, ties).log_likelihood - hazard.log_likelihood
    assert poisson(moved) - poisson(scores) <= gained + 1e-9


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=40)
@given(sample=censored_samples(), shift=st.sampled_from([-600.0, -3.0, 5.0, 600.0]))
def test_a_common_shift_of_the_scores_changes_no_likelihood(ties, sample, shift):
    event, time, weights, scores = sample
    risk_sets = RiskSets.of(event, time, weights)
    value = risk_sets.hazard(scores, ties).log_likelihood
    shifted = risk_sets.hazard(scores + shift, ties).log_likelihood
    np.testing.assert_allclose(shifted, value, atol=1e-8)


@pytest.mark.parametrize("ties", TIES)
@settings(max_examples=40)
@given(sample=censored_samples())
def test_expected_events_are_the_events(ties, sample):
    event, time, weights, scores = sample
    risk_sets = RiskSets.of(event, time, weights)
    expected = weights @ (risk_sets.hazard(scores, ties).rows * np.exp(scores))
    np.testing.assert_allclose(expected, risk_sets.n_events)


@settings(max_examples=40)
@given(sample=censored_samples())
def test_breslow_counts_a_row_of_weight_2_as_two_rows(sample):
    event, time, _, scores = sample
    twice = RiskSets.of(event, time, np.full(time.size, 2.0)).hazard(scores, "breslow")
    doubled = RiskSets.of(np.tile(event, 2), np.tile(time, 2)).hazard(np.tile(scores, 2), "breslow")
    np.testing.assert_allclose(twice.log_likelihood, doubled.log_likelihood)
    np.testing.assert_allclose(twice.jumps, doubled.jumps)


@settings(max_examples=40)
@given(event=arrays(bool, 12), order=st.permutations(range(12)))
def test_without_ties_efron_is_breslow(event, order):
    event[0] = True
    time, scores = np.arange(1.0, 13.0), np.array(order) / 4.0
    efron, breslow = (RiskSets.of(event, time).hazard(scores, ties) for ties in ("efron", "breslow"))
    np.testing.assert_allclose(efron.rows, breslow.rows)
    np.testing.assert_allclose(efron.log_likelihood, breslow.log_likelihood)


@settings(max_examples=40)
@given(sample=censored_samples())
def test_losses_of_events_add_up_to_the_partial_likelihood_of_any_rows(sample):
    event, time, weights, scores = sample
    rows = np.flatnonzero(np.arange(time.size) % 3 != 1)
    among = RiskSets.of(event, time, weights).take(rows)
    direct = RiskSets.of(event[rows], time[rows], weights[rows])
    np.testing.assert_array_equal(among.event_times, direct.event_times)
    np.testing.assert_array_equal(among.passed, direct.passed)
    total = weights[rows] @ among.event_losses(scores[rows])
    if event[rows].any():
        np.testing.assert_allclose(-total, direct.hazard(scores[rows], "breslow").log_likelihood, atol=1e-10)
    else:
        assert total == 0.0


def held_out_losses(loss, scores, folds):
    """Return the losses of fits whose held-out rows have these scores."""
    return loss.mean([scores[fold, None] for fold in folds], folds)


@settings(max_examples=40)
@given(sample=censored_samples(), shifts=st.lists(st.integers(-3, 3), min_size=2, max_size=2))
def test_held_out_losses_see_no_shift_of_a_fold(sample, shifts):
    event, time, weights, scores = sample
    folds = [np.arange(0, time.size, 2), np.arange(1, time.size, 2)]
    loss = PartialLikelihoodLoss.of(RiskSets.of(event, time, weights), [(folds[1], folds[0]), (folds[0], folds[1])])
    moved = scores.copy()
    for fold, shift in zip(folds, shifts, strict=True):
        moved[fold] += shift
    losses = held_out_losses(loss, scores, folds)
    np.testing.assert_allclose(held_out_losses(loss, moved, folds), losses, atol=1e-10)
    assert (losses[~event] == 0.0).all()


@settings(max_examples=40)
@given(sample=censored_samples())
def test_concordance_is_its_definition(sample):
    event, time, weights, scores = sample
    expected = slow_concordance(event, time, scores, weights)
    if expected is None:
        with pytest.raises(ValueError, match="before another ends"):
            concordance(event, time, scores, weights)
    else:
        np.testing.assert_allclose(concordance(event, time, scores, weights), expected)
        np.testing.assert_allclose(concordance(event, time, -scores, weights), 1.0 - expected, atol=1e-12)


def test_curves_start_at_no_hazard_and_fall_at_events():
    baseline = Baseline(np.array([1.0, 3.0]), np.array([0.5, 2.0]))
    times, scores = [0.5, 1.0, 2.9, 3.0, 9.0], np.array([0.0, np.log(2.0)])
    steps = np.array([0.0, 0.5, 0.5, 2.0, 2.0])
    np.testing.assert_allclose(baseline.cumulative_hazards(scores, times), [steps, 2 * steps])
    np.testing.assert_allclose(baseline.survival(scores, times), np.exp([-steps, -2 * steps]))
    step = StepFunction(baseline.times, baseline.cumulative_hazard, 0.0)
    assert step(2.0) == 0.5
    assert step([[0.0], [3.0]]).tolist() == [[0.0], [2.0]]
