"""Smooth fits on supports, by which cross-validation judges them."""

import numpy as np
import pytest

from sparsenam.convex.design import RampFeatures
from sparsenam.convex.problem import convex_problem
from sparsenam.convex.squared import GramCache
from sparsenam.families import Gaussian
from sparsenam.penalties import GroupLasso
from sparsenam.selection.task import ConvexTask
from sparsenam.smooth.judge import Prior, PriorForms, SmoothJudge
from sparsenam.tables.sample import Sample, prepare
from tests.convex_cases import OUTPUTS, family_of, grouped, target_of

every_loss = pytest.mark.parametrize("case", OUTPUTS)


def judge_with(design, target, family, weights, held_out, **more):
    return SmoothJudge(convex_problem(design, target, family, weights), weights.sum(axis=1), held_out, **more)


def judge_of(case, rows=120, folds=3):
    design, family = grouped(rows=rows), family_of(case)
    target = target_of(case, design)
    fold = np.arange(rows) % folds
    weights = np.stack([np.ones(rows), *((fold != k) * 1.0 for k in range(folds))])
    held_out = [np.flatnonzero(fold == k) for k in range(folds)]
    return judge_with(design, target, family, weights, held_out), target, weights


@every_loss
def test_a_fold_is_judged_by_the_most_probable_function_under_its_prior(case):
    """The gradient of Σ loss/φ + ½ Σ pθ² is 0 with the precisions that the fit ends with, and in the intercept."""
    judge, target, _ = judge_of(case)
    problem, family, support = judge.problem, judge.problem.family, np.array([0, 1, 3])
    for _ in range(100):  # strengths and noise at rest
        judge._found.clear()
        scores = judge.scores([support], [0])[0]
    columns = problem.design.columns(support)
    blocks = judge.prior(np.array([0]), support, np.ones((1, 3), dtype=bool), np.full((1, 3), 1e9)).precisions[0]
    precision = np.einsum("gaa->ga", blocks).ravel()  # of a design's own forms: diagonal
    theta, *_ = np.linalg.lstsq(columns.T, scores - scores.mean(axis=0), rcond=None)
    noise = judge.noise[0] if family.is_quadratic else 1.0
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
    other = judge_with(judge.problem.design, changed, judge.problem.family, weights, judge.held_out[1:])
    support = np.array([0, 2])
    np.testing.assert_allclose(judge.scores([support], [1])[0], other.scores([support], [1])[0], atol=1e-9)


def test_a_support_without_effect_is_shrunk_to_nothing():
    """Restricted likelihood: noise gets hardly a degree of freedom."""
    generator = np.random.default_rng(3)
    design, rows = grouped(rows=400, groups=8), np.arange(400)
    target, held_out = generator.normal(size=(400, 1)), [np.flatnonzero(rows % 2 == 0)]
    weights = np.stack([np.ones(400), (rows % 2) * 1.0])
    judge = judge_with(design, target, family_of("gaussian"), weights, held_out)
    for _ in range(10):
        judge._found.clear()
        scores = judge.scores([np.arange(8)], [1])[0]
    assert scores.std() < 0.2


def test_squared_loss_is_judged_alike_with_sums_shared_with_the_path():
    judge, target, weights = judge_of("gaussian")
    shared = GramCache(judge.problem.design, target, weights)
    shared.add(np.array([4, 2, 0]))
    given = judge.problem.design, target, judge.problem.family, weights
    other = judge_with(*given, judge.held_out[1:], gram=shared)
    for support in (np.array([2]), np.array([0, 2, 5])):
        np.testing.assert_allclose(judge.scores([support], [2])[0], other.scores([support], [2])[0], atol=1e-9)


def test_an_update_of_the_strengths_is_that_of_fellner_and_schall():
    """λ · tr((P⁻¹ - V)S) / θᵀSθ for S of the smooth and of the rough part."""
    generator = np.random.default_rng(0)
    rough = np.abs(generator.normal(size=(2, 3)))
    strengths = np.abs(generator.normal(size=(1, 2, 2))) + 0.5
    prior = Prior(PriorForms.of_design(rough), strengths.copy(), np.ones((1, 2), dtype=bool))
    precision = np.einsum("gaa->ga", prior.precisions[0]).ravel()
    theta, covariances = prior.posterior(np.eye(6)[None] * 3.0, generator.normal(size=(1, 6, 1)))
    variances = np.einsum("fgaa->fga", covariances).reshape(1, 6)
    np.testing.assert_allclose(variances[0], 1.0 / (3.0 + precision), rtol=1e-9)
    prior.update(theta, covariances[:, None], 1)
    for group in range(2):
        columns = slice(3 * group, 3 * group + 3)
        for part, share in enumerate((1 / (1 + rough[group]), rough[group] / (1 + rough[group]))):
            above = np.sum((1 / precision - variances[0])[columns] * share)
            below = np.sum(theta[0, columns, 0] ** 2 * share)
            assert prior.strengths[0, group, part] == pytest.approx(strengths[0, group, part] * above / below, rel=1e-9)


def test_few_rows_give_the_posterior_of_their_sums():
    """H = c · SᵀS, one group not kept in one of the batches."""
    generator = np.random.default_rng(1)
    kept = np.array([[True, True, True], [True, False, True]])
    forms = PriorForms.of_design(np.abs(generator.normal(size=(3, 4))))
    prior = Prior(forms, np.abs(generator.normal(size=(2, 3, 2))) + 0.1, kept)
    rows, pull, scale = generator.normal(size=(2, 5, 12)), generator.normal(size=(2, 5, 3)), np.array([0.5, 3.0])
    sums = scale[:, None, None] * np.matmul(rows.transpose(0, 2, 1), rows)
    expected = prior.posterior(sums, np.matmul(rows.transpose(0, 2, 1), pull))
    for found, other in zip(prior.posterior_of_rows(rows, scale, pull), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-12)


@every_loss
def test_folds_fitted_together_are_the_folds_fitted_alone(case):
    """Whatever the other folds keep."""
    supports = [np.array([0, 1]), np.array([1, 2, 4]), np.array([5])]
    together, alone = judge_of(case)[0], judge_of(case)[0]
    for scores, support, batch in zip(together.scores(supports, [1, 2, 3]), supports, [1, 2, 3], strict=True):
        np.testing.assert_allclose(scores, alone.scores([support], [batch])[0], atol=0.02 * np.abs(scores).max())


@pytest.mark.parametrize("size", [3, 200])
def test_the_posterior_is_the_same_for_few_and_many_columns(size):
    generator = np.random.default_rng(size)
    root = generator.normal(size=(2, size, size + 5))
    hessian, pull = np.matmul(root, root.transpose(0, 2, 1)), generator.normal(size=(2, size, 2))
    kept = np.ones((2, size), dtype=bool)
    kept[0, 1] = False
    prior = Prior(PriorForms.of_design(np.zeros((size, 1))), np.full((2, size, 2), 2.0), kept)
    means, covariances = prior.posterior(hessian.copy(), pull)
    variances = covariances[:, :, 0, 0]
    for batch in range(2):
        inside = kept[batch]
        inverse = np.linalg.inv(hessian[batch][np.ix_(inside, inside)] + 2.0 * np.eye(inside.sum()))
        np.testing.assert_allclose(means[batch][inside], inverse @ pull[batch][inside], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(variances[batch][inside], np.diag(inverse), rtol=1e-6)
        assert not means[batch][~inside].any()


def test_strengths_that_are_unknown_start_from_the_information():
    judge, _, _ = judge_of("gaussian")
    judge.strengths[1, 2] = [2.0, 3.0]
    prior = judge.prior(np.array([1]), np.array([0, 2]), np.ones((1, 2), dtype=bool), np.array([[10.0, 10.0]]))
    first = 10.0 / np.where(judge.forms.is_used, judge.forms.traces, 1.0)[0]
    np.testing.assert_allclose(prior.strengths, [[first, [2.0, 3.0]]])


def test_a_near_copy_that_was_judged_before_leaves_no_trace():
    """Beside its copy a group's function may be anything; alone it is judged as if it had always been alone."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3, 300))
    x[2] = x[0] + 0.02 * generator.normal(size=300)
    y = 1.5 * np.sin(x[0]) + x[1] + 0.5 * generator.normal(size=300)
    sample = Sample(x.T, y[:, None], np.ones(300), ["a", "b", "c"])
    prepared, terms = prepare(sample, standardize=True), np.arange(3)
    task = ConvexTask.of(prepared, Gaussian(), RampFeatures(prepared, 16), GroupLasso(), terms, ("a", "b", "c"))
    fold = np.arange(300) % 3
    weights = np.stack([np.ones(300), *((fold != k) * 1.0 for k in range(3))])
    held_out = [np.flatnonzero(fold == k) for k in range(3)]

    def judge():
        given = (task.design, prepared.target, task.family, weights)
        return judge_with(*given, held_out, ramps=task.features.ramps())

    before = judge()
    before.scores([np.array([0, 1, 2])] * 3, [1, 2, 3])
    for support in ([0, 1], [1, 2]):
        given = [np.array(support)] * 3, [1, 2, 3]
        for found, alone in zip(before.scores(*given), judge().scores(*given), strict=True):
            np.testing.assert_allclose(found, alone, atol=0.02)
