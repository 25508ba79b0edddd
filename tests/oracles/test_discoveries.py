"""Thresholds, rejections and standard errors beside other libraries and beside their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hidimstat import ModelXKnockoff
from hidimstat.statistical_tools.aggregation import quantile_aggregation
from hidimstat.statistical_tools.multiple_testing import fdr_threshold
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from sparsenam.discover.fdr import benjamini_hochberg, knockoff_threshold
from sparsenam.discover.split_test import one_sided_p, twice_the_median
from sparsenam.families import Binomial, Gaussian, Multinomial, Poisson

SEEDS = range(40)


@pytest.mark.parametrize("q", [0.05, 0.1, 0.2, 0.5])
def test_the_threshold_of_knockoffs_is_that_of_hidimstat_and_of_its_definition(q):
    found = 0
    for seed in SEEDS:
        generator = np.random.default_rng(seed)
        W = np.round(generator.normal(generator.choice([0, 2], 40), 1), 1)
        threshold = knockoff_threshold(W, q)
        allowed = [t for t in np.abs(W) if t > 0 and (1 + (-t >= W).sum()) / max((t <= W).sum(), 1) <= q]
        assert threshold == (min(allowed) if allowed else None)
        other = ModelXKnockoff.knockoff_threshold(W, q)
        if other > 0:  # where 0 would do, hidimstat keeps columns that never entered
            assert other == (np.inf if threshold is None else threshold)
        found += threshold is not None
    assert found > 0 or q < 0.1


@pytest.mark.parametrize("q", [0.05, 0.1, 0.2])
def test_rejections_are_those_of_scipy_hidimstat_and_a_search(q):
    for seed in SEEDS:
        generator = np.random.default_rng(seed)
        p = generator.uniform(size=30) ** generator.choice([1, 6], 30)
        found = benjamini_hochberg(p, q)
        assert np.array_equal(found, false_discovery_control(p) <= q)
        assert np.array_equal(found, p <= fdr_threshold(p, q))
        sizes = [k for k in range(31) if (p <= q * k / 30).sum() >= k]
        assert found.sum() == max(sizes)


def test_twice_the_lower_median_is_the_quantile_of_hidimstat():
    p = np.random.default_rng(0).uniform(size=(5, 20)) ** 3
    assert np.allclose(twice_the_median(p), quantile_aggregation(p, gamma=0.5))
    assert np.array_equal(twice_the_median(np.array([[0.1], [0.2], [0.9], [1.0]])), [0.4])


def curves_and_score(rows, count=4):
    generator = np.random.default_rng(2)
    curves = generator.normal(size=(rows, count)) @ (np.eye(count) + 0.3)
    return generator, curves, 0.2 * curves[:, 0] + 0.1 * curves[:, 1] - 0.05 * curves[:, 2]


def test_a_p_value_of_squared_loss_is_that_of_least_squares_with_hc3_errors():
    generator, curves, score = curves_and_score(80)
    y = score + generator.normal(size=80) * (0.5 + np.abs(curves[:, 0]))
    fit = sm.OLS(y, sm.add_constant(curves)).fit(cov_type="HC3")
    expected = student.sf(fit.tvalues[1:], 80 - 5)
    found = one_sided_p(curves[:, :, None], y[:, None], np.ones(80), Gaussian())
    assert np.allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("family", "peer"), [(Binomial(), sm.families.Binomial()), (Poisson(), sm.families.Poisson())])
def test_p_values_of_other_families_are_those_of_robust_generalised_linear_models(family, peer):
    generator, curves, score = curves_and_score(800)
    mean = family.mean(score[:, None])[:, 0]
    y = (generator.random(800) < mean).astype(float) if family.name == "binomial" else generator.poisson(mean)
    fit = sm.GLM(y, sm.add_constant(curves), family=peer).fit(cov_type="HC0")
    found = one_sided_p(curves[:, :, None], np.asarray(y, dtype=float)[:, None], np.ones(800), family)
    # HC3 differs from HC0 by the leverage, 5/800 on average
    assert np.allclose(student.isf(found, 800 - 5), fit.tvalues[1:], rtol=0.03, atol=0.03)


def test_two_classes_of_softmax_have_the_p_values_of_the_logistic_model():
    generator, curves, score = curves_and_score(400)
    y = (generator.random(400) < 1 / (1 + np.exp(-score))).astype(float)
    one = one_sided_p(curves[:, :, None], y[:, None], np.ones(400), Binomial())
    both = np.stack([-0.5 * curves, 0.5 * curves], axis=2)
    two = one_sided_p(both, np.column_stack([1 - y, y]), np.ones(400), Multinomial())
    assert np.allclose(student.isf(one, 395), student.isf(two, 394), rtol=0.03, atol=0.03)
