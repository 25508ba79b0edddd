"""Smooth fits on supports, by which cross-validation judges them."""

import numpy as np
import pytest

from sparsenam.convex.squared import GramCache
from sparsenam.smooth.judge import FoldState, Prior, SmoothJudge
from tests.convex_cases import OUTPUTS, family_of, grouped, target_of

every_loss = pytest.mark.parametrize("case", OUTPUTS)


def judge_of(case, rows=120, folds=3):
    design, family = grouped(rows=rows), family_of(case)
    target = target_of(case, design)
    fold = np.arange(rows) % folds
    weights = np.stack([np.ones(rows), *((fold != k) * 1.0 for k in range(folds))])
    held_out = [np.flatnonzero(fold == k) for k in range(folds)]
    return SmoothJudge(design, target, family, weights, count=rows, held_out=held_out), target, weights


@every_loss
def test_a_fold_is_judged_by_the_most_probable_function_under_its_prior(case):
    """The gradient of Σ loss/φ + ½ Σ pθ² is 0 with the precisions that the fit ends with, and in the intercept."""
    judge, target, _ = judge_of(case)
    problem, family, support = judge.problem, judge.problem.family, np.array([0, 1, 3])
    for _ in range(100):  # strengths and noise at rest
        judge._found.clear()
        scores = judge.scores(0, support)
    state, columns = judge._states[0], problem.design.columns(support)
    precision = Prior.of(problem.design, support, state, 1.0).precision
    theta, *_ = np.linalg.lstsq(columns.T, scores - scores.mean(axis=0), rcond=None)
    noise = state.noise if family.is_quadratic else 1.0
    slopes = family.gradient(scores, target)
    gradient = columns @ slopes / noise + precision[:, None] * theta
    information = np.sqrt(np.sum(columns**2, axis=1))[:, None] / np.sqrt(noise)  # of noise in a gradient
    real = precision < 1e6
    assert np.abs(gradient[real] / information[real]).max() < 0.02
    assert np.abs(theta[~real]).max(initial=0.0) < 1e-3
    np.testing.assert_allclose(slopes.sum(axis=0), 0.0, atol=0.02 * np.sqrt(len(target)))


@every_loss
def test_rows_that_a_fold_leaves_out_do_not_change_its_fit(case):
    judge, target, weights = judge_of(case)
    changed = target.copy()
    changed[judge.held_out[1]] = changed[judge.held_out[1]][::-1]
    other = SmoothJudge(
        judge.problem.design, changed, judge.problem.family, weights, count=120, held_out=list(judge.held_out[1:])
    )
    support = np.array([0, 2])
    np.testing.assert_allclose(judge.scores(1, support), other.scores(1, support), atol=1e-9)


def test_a_support_without_effect_is_shrunk_to_nothing():
    """Restricted likelihood: noise gets hardly a degree of freedom."""
    generator = np.random.default_rng(3)
    design, rows = grouped(rows=400, groups=8), np.arange(400)
    target, held_out = generator.normal(size=(400, 1)), [np.flatnonzero(rows % 2 == 0)]
    weights = np.stack([np.ones(400), (rows % 2) * 1.0])
    judge = SmoothJudge(design, target, family_of("gaussian"), weights, count=400, held_out=held_out)
    for _ in range(10):
        judge._found.clear()
        scores = judge.scores(1, np.arange(8))
    assert scores.std() < 0.2


def test_squared_loss_is_judged_alike_with_sums_shared_with_the_path():
    judge, target, weights = judge_of("gaussian")
    shared = GramCache(judge.problem.design, target, weights)
    shared.add(np.array([4, 2, 0]))
    other = SmoothJudge(
        judge.problem.design,
        target,
        judge.problem.family,
        weights,
        count=120,
        held_out=list(judge.held_out[1:]),
        gram=shared,
    )
    for support in (np.array([2]), np.array([0, 2, 5])):
        np.testing.assert_allclose(judge.scores(2, support), other.scores(2, support), atol=1e-9)


def test_an_update_of_the_strengths_is_that_of_fellner_and_schall():
    """λ · tr((P⁻¹ - V)S) / θᵀSθ for S of the smooth and of the rough part."""
    generator = np.random.default_rng(0)
    rough = np.abs(generator.normal(size=(2, 3)))
    strengths = np.abs(generator.normal(size=(2, 2))) + 0.5
    prior = Prior(rough, strengths.copy())
    theta, hessian = generator.normal(size=(6, 1)), np.eye(6) * 3.0
    precision = prior.precision
    covariance = np.linalg.inv(hessian + np.diag(precision))
    prior.update(theta, [np.diag(covariance)], 1)
    for group in range(2):
        columns = slice(3 * group, 3 * group + 3)
        for part, share in enumerate((1 / (1 + rough[group]), rough[group] / (1 + rough[group]))):
            above = np.sum((1 / precision - np.diag(covariance))[columns] * share)
            below = np.sum(theta[columns, 0] ** 2 * share)
            assert prior.strengths[group, part] == pytest.approx(strengths[group, part] * above / below, rel=1e-9)


def test_strengths_that_are_unknown_start_weak():
    state = FoldState(np.array([[np.nan, np.nan], [2.0, 3.0]]), 1.0, np.zeros(0), np.zeros(1))
    design = grouped(groups=2)
    prior = Prior.of(design, np.array([0, 1]), state, 10.0)
    np.testing.assert_allclose(prior.strengths, [[0.5, 0.5], [2.0, 3.0]])
