"""Smooth additive fits: coefficients, smoothness and knots chosen by the data."""

import numpy as np
import pytest

from smooth_cases import scores_of
from sparsenam.context import Clock, Context, Streams
from sparsenam.families import Binomial, Gaussian, Multilabel, Multinomial, Poisson
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.fit import MemoryRows, smooth_fit

CONTEXT = Context(Streams(0))
FAMILIES = [Gaussian(), Binomial(), Multilabel(), Multinomial(), Poisson()]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def sample(family, rows=200, features=2, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((features, rows))
    signal = np.sin(2 * x[0])
    uniform, noise = generator.random(rows), generator.standard_normal(rows)
    if family.name == "gaussian":
        target = np.stack([signal + 0.3 * noise, signal**2 + 0.3 * noise], axis=1)
    elif family.name == "poisson":
        target = generator.poisson(np.exp(signal))[:, None].astype(float)
    elif family.name == "multinomial":
        target = np.eye(3)[np.digitize(signal + 0.3 * noise, [-0.5, 0.5])]
    else:
        target = (uniform < 1 / (1 + np.exp(-3 * signal))).astype(float)[:, None]
        if family.name == "multilabel":
            target = np.hstack([target, 1 - target[::-1]])
    return x, target, np.ones(rows)


def is_finite(fit):
    parts = [
        fit.coefficients,
        *fit.layout.precisions(fit.strengths),
        fit.intercept,
        fit.degrees_of_freedom,
        np.array(fit.noise),
    ]
    return all(np.isfinite(part).all() for part in parts)


def test_sine_is_recovered_and_a_line_needs_about_one_degree_of_freedom():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 1000))
    truth = np.sin(2 * x[0]) + x[1]
    target = (truth + 0.5 * generator.standard_normal(1000))[:, None]
    fit = smooth_fit(x, target, np.ones(1000), Gaussian(), context=CONTEXT)
    assert np.mean((scores_of(fit, x)[:, 0] - truth) ** 2) < 0.01
    assert 0.9 < fit.degrees_of_freedom[1] < 3.0
    assert fit.degrees_of_freedom[0] > 4.0
    assert abs(fit.noise - 0.25) < 0.03


@every_family
def test_integer_weights_are_repeated_rows(family):
    x, target, _ = sample(family, rows=120)
    weights = np.random.default_rng(1).integers(0, 3, 120)
    weighted = smooth_fit(x, target, weights.astype(float), family, context=CONTEXT)
    rows = np.repeat(np.arange(120), weights)
    repeated = smooth_fit(x[:, rows], target[rows], np.ones(rows.size), family, context=CONTEXT)
    assert np.allclose(scores_of(weighted, x), scores_of(repeated, x), atol=1e-5)
    assert np.allclose(weighted.degrees_of_freedom, repeated.degrees_of_freedom, atol=1e-4)


@every_family
def test_fit_beats_the_intercept_and_is_finite(family):
    x, target, weights = sample(family)
    fit = smooth_fit(x, target, weights, family, context=CONTEXT)
    alone = smooth_fit(x[:0], target, weights, family, context=CONTEXT)
    assert is_finite(fit)
    assert family.loss(scores_of(fit, x), target).mean() < 0.95 * family.loss(scores_of(alone, x[:0]), target).mean()


@every_family
@pytest.mark.parametrize("rows", [2, 5])
def test_tiny_samples_are_fitted(family, rows):
    x, target, weights = sample(family, rows=rows, features=3)
    fit = smooth_fit(x, target, weights, family, context=CONTEXT)
    assert is_finite(fit)


@pytest.mark.parametrize("outputs", [1, 2])
def test_separated_classes_stay_finite(outputs):
    x = np.random.default_rng(0).standard_normal((1, 100))
    yes = (x[0] > 0).astype(float)
    family = Binomial() if outputs == 1 else Multinomial()
    target = yes[:, None] if outputs == 1 else np.stack([1 - yes, yes], axis=1)
    fit = smooth_fit(x, target, np.ones(100), family, context=CONTEXT)
    assert is_finite(fit)
    assert np.abs(scores_of(fit, x)).max() < 100
    right = (scores_of(fit, x)[:, -1] > (0 if outputs == 1 else scores_of(fit, x)[:, 0])) == (yes == 1)
    assert right[np.abs(x[0]) > 0.02].all()  # a ramp has 8 rows at least and is of finite height


@every_family
def test_duplicate_and_constant_columns_do_no_harm(family):
    x, target, weights = sample(family)
    x = np.concatenate([x, x[:1], np.ones((1, x.shape[1])), (x[:1] > 0)])
    fit = smooth_fit(x, target, weights, family, context=CONTEXT)
    assert is_finite(fit)
    assert fit.degrees_of_freedom[3] < 1e-6


@every_family
def test_constant_target_gives_constant_scores(family):
    x, target, weights = sample(family)
    constant = np.tile(target[:1], (len(target), 1)) * (family.name != "gaussian")
    scores = scores_of(smooth_fit(x, constant, weights, family, context=CONTEXT), x)
    assert np.isfinite(scores).all()
    assert np.ptp(family.mean(scores), axis=0).max() < 0.01


def test_far_outlier_changes_little():
    x, target, weights = sample(Gaussian(), rows=500)
    plain = smooth_fit(x, target, weights, Gaussian(), context=CONTEXT)
    far = x.copy()
    far[0, 0], far[1, 1] = 1000.0, -1000.0
    robust = smooth_fit(far, target, weights, Gaussian(), context=CONTEXT)
    grid = np.tile(np.linspace(-2, 2, 50), (2, 1))
    assert np.sqrt(np.mean((scores_of(plain, grid) - scores_of(robust, grid)) ** 2)) < 0.05


def test_no_features_give_the_best_constant():
    _, target, weights = sample(Gaussian())
    fit = smooth_fit(np.zeros((0, 200)), target, weights, Gaussian(), context=CONTEXT)
    assert np.allclose(fit.intercept, target.mean(0))


def test_clock_ends_the_fit_after_one_step():
    x, target, weights = sample(Binomial())
    assert is_finite(smooth_fit(x, target, weights, Binomial(), context=Context(Streams(0), Clock(0.0))))


class Reports:
    def __init__(self):
        self.steps = []

    def report(self, stage, done, total=None, note=""):
        self.steps.append((stage, done))

    def close(self):
        pass


@pytest.mark.parametrize("family", [Gaussian(), Binomial()], ids=lambda family: family.name)
def test_every_solver_step_is_reported_once(family):
    x, target, weights = sample(family)
    progress = Reports()
    smooth_fit(x, target, weights, family, context=Context(Streams(0), progress=progress))
    assert len(progress.steps) >= 3
    assert progress.steps == [("smooth", done + 1) for done in range(len(progress.steps))]


@every_family
def test_the_curves_of_a_fit_are_the_fit(family):
    x, target, weights = sample(family)
    fit = smooth_fit(x, target, weights, family, context=CONTEXT)
    effects = np.sum([curve(cells) for curve, cells in zip(fit.functions(), x, strict=True)], axis=0)
    assert np.allclose(fit.intercept + effects, scores_of(fit, x), atol=1e-10)


def test_renaming_classes_renames_scores_which_sum_to_zero():
    x, target, weights = sample(Multinomial(), rows=150)
    order = [2, 0, 1]
    fit = smooth_fit(x, target, weights, Multinomial(), context=CONTEXT)
    renamed = smooth_fit(x, target[:, order], weights, Multinomial(), context=CONTEXT)
    assert np.allclose(scores_of(fit, x)[:, order], scores_of(renamed, x), atol=1e-6)
    assert np.allclose(scores_of(fit, x).sum(axis=1), 0.0, atol=1e-8)


def test_two_classes_of_softmax_are_a_yes_or_no():
    x, target, weights = sample(Binomial(), rows=400)
    yes = smooth_fit(x, target, weights, Binomial(), context=CONTEXT)
    both = smooth_fit(x, np.hstack([1 - target, target]), weights, Multinomial(), context=CONTEXT)
    difference = scores_of(both, x)[:, 1] - scores_of(both, x)[:, 0]
    assert np.sqrt(np.mean((difference - scores_of(yes, x)[:, 0]) ** 2)) < 0.05 * np.std(scores_of(yes, x))


def with_a_category(family, rows=300):
    """Return x of a number and a category of 9 levels of which the last is rare, and a target that reads both."""
    generator = np.random.default_rng(3)
    codes = np.where(np.arange(rows) < 2, 8, generator.integers(0, 8, rows))
    x = np.stack([generator.standard_normal(rows), codes.astype(float)])
    scores = x[0] + np.array([-1.0, 0.5, 1.0, -0.5, 0.0, 2.0, -2.0, 0.3, 0.0])[codes]
    if family.is_quadratic:
        target = scores + 0.5 * generator.standard_normal(rows)
        target[:2] += 4.0
    else:
        target = (generator.random(rows) < 1 / (1 + np.exp(-scores))).astype(float)
    return x, target[:, None]


@pytest.mark.parametrize("family", [Gaussian(), Binomial()], ids=lambda family: family.name)
def test_order_of_levels_does_not_matter(family):
    x, target = with_a_category(family)
    order, levels = np.random.default_rng(0).permutation(9), np.array([False, True])
    mixed = np.stack([x[0], order[x[1].astype(int)].astype(float)])
    fit = smooth_fit(x, target, np.ones(300), family, levels=levels, context=CONTEXT)
    other = smooth_fit(mixed, target, np.ones(300), family, levels=levels, context=CONTEXT)
    assert np.allclose(scores_of(fit, x), scores_of(other, mixed), atol=1e-6)
    assert [each.size for each in fit.ramps][1] == 8


def test_a_rare_level_is_drawn_to_the_others():
    x, target = with_a_category(Gaussian())
    fit = smooth_fit(x, target, np.ones(300), Gaussian(), levels=np.array([False, True]), context=CONTEXT)
    values = np.concatenate([np.zeros(1), np.cumsum(fit.parts[1][:, 0])])
    assert 0.3 < (values[8] - values[:8].mean()) / 4.0 < 0.97


@every_family
def test_absent_cells_add_nothing(family):
    x, target, weights = sample(family)
    rows = np.arange(200) % 4 == 0
    gone = np.concatenate([x, np.where(rows, np.nan, x[:1])])
    fit = smooth_fit(gone, target, weights, family, context=CONTEXT)
    assert is_finite(fit)
    never = smooth_fit(np.concatenate([gone, np.full((1, 200), np.nan)]), target, weights, family, context=CONTEXT)
    assert is_finite(never)


def test_weak_terms_of_few_rows_are_kept_and_classes_are_told_apart():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 3, 600)
    x = generator.standard_normal((12, 600)) + 1.2 * generator.standard_normal((12, 3))[:, codes]
    train, target = slice(0, 90), np.eye(3)[codes]
    fit = smooth_fit(x[:, train], target[train], np.ones(90), Multinomial(), context=CONTEXT)
    assert fit.degrees_of_freedom.min() > 0.1
    assert Multinomial().loss(scores_of(fit, x[:, 90:]), target[90:]).mean() < 0.35


@every_family
def test_the_scores_of_a_fit_on_some_rows_are_those_of_its_engine_with_an_absent_term_at_its_mean(family):
    x, target, _ = sample(family)
    x[1, ::7] = np.nan
    weights = (np.arange(200) % 5 > 0).astype(float)
    fit, kept = smooth_fit(x, target, weights, family, context=CONTEXT), weights > 0
    rows = MemoryRows(SmoothProblem(x[:, kept], target[kept], weights[kept], family), fit.layout)
    assert np.allclose(scores_of(fit, x)[kept], rows.at(fit.coefficients, fit.intercept).scores, atol=1e-9)
    assert np.isfinite(scores_of(fit, x)).all()
