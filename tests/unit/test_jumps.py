"""A value of many rows at the end of a column, as 0 is among gains, may jump, and what is beside it stays smooth."""

import numpy as np
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.convex.ramps import Ramps
from sparsenam.smooth import design, fit
from sparsenam.smooth.design import Layout, roughness


def gains(generator, rows, share=0.8):
    return np.where(generator.random(rows) < share, 0.0, np.exp(generator.normal(3.0, 1.0, rows)))


def truth(x):
    return np.where(x > 0, 1.0 + 0.3 * np.log1p(x), 0.0)


def test_ramps_begin_with_a_jump_from_the_value_of_many_rows_and_mirror_with_the_cells():
    x = gains(np.random.default_rng(0), 1000)
    weights = np.ones(1000)
    ramps = design.ramps_of(x, weights, 16)
    assert ramps.jump == 0
    np.testing.assert_array_equal(ramps.knots[:2], np.unique(x)[:2])
    assert (np.diff(ramps.knots) > 0).all()
    mirrored = design.ramps_of(-x, weights, 16)
    assert mirrored.jump == mirrored.size - 1
    np.testing.assert_array_equal(mirrored.knots[-2:], -ramps.knots[1::-1])
    assert (np.diff(mirrored.knots) > 0).all()


@pytest.mark.parametrize(
    "cells",
    [
        np.random.default_rng(0).normal(size=1000),  # no value twice
        np.random.default_rng(0).poisson(0.5, 1000).astype(float),  # every value is a knot
        np.where(np.arange(1000) % 100 == 0, 0.0, np.arange(1000.0)),  # too few rows
        np.where(np.arange(1000) % 2 == 0, 0.0, np.arange(1000.0) - 500.0),  # in the midst
        np.where(np.arange(1000) % 12 == 0, 0.0, np.arange(1000) // 20 + 1.0),  # 84 rows of 0, 18 of each other value
    ],
    ids=["continuous", "few values", "few rows", "in the midst", "as many rows"],
)
def test_other_columns_have_no_jump(cells):
    assert design.ramps_of(cells, np.ones(1000), 16).jump is None


def test_smoothness_does_not_see_the_jump():
    ramps = Ramps(np.array([0.0, 1.0, 1.5, 2.5, 3.0, 4.0, 6.0]), 0)
    *smooth, jump = roughness(ramps)
    alone = roughness(Ramps(ramps.knots[1:]))
    increments = np.random.default_rng(0).normal(size=6)
    for matrix, other in zip(smooth, alone, strict=True):
        assert increments @ matrix @ increments == pytest.approx(increments[1:] @ other @ increments[1:])
    assert increments @ jump @ increments == pytest.approx(increments[0] ** 2)


def test_strengths_of_a_fit_with_other_ramps_keep_that_of_the_jump():
    x = gains(np.random.default_rng(0), 2000)
    coarse, fine = (Layout.of([design.ramps_of(x, np.ones(2000), count)]) for count in (8, 16))
    found = fine.first_strengths(np.eye(fine.size), (coarse, [np.array([1.0, 1.0, 1.0, 5.0])]))[0]
    assert found[-1] == 5.0
    assert (np.diff(found[:3]) > 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_jump_does_not_make_the_curve_beside_it_rough(sign, monkeypatch):
    ratios = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        x, other = gains(generator, 1000), generator.normal(size=1000)
        y = truth(x) + np.sin(other) + 0.7 * generator.normal(size=1000)
        X, fresh = np.column_stack([sign * x, other]), gains(generator, 5000)
        others = np.zeros(5000)
        errors = []
        for many in (design.JUMP_SHARE, 2.0):  # no value has twice as many rows as there are
            monkeypatch.setattr(design, "JUMP_SHARE", many)
            model = SNAMRegressor(alpha=0.0, random_state=0).fit(X, y)
            effect = model.effects(np.column_stack([sign * fresh, others]))[:, 0]
            true = truth(fresh)
            errors.append(np.mean((effect - effect.mean() - true + true.mean()) ** 2))
            monkeypatch.undo()
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < 0.6


def test_rows_of_one_value_do_not_pay_for_the_knots_of_others():
    generator = np.random.default_rng(0)
    x = gains(generator, 4000, 0.95)
    task = fit.SmoothProblem(x[None], np.zeros((4000, 1)), np.ones(4000), None)
    assert fit.most_ramps(task, np.zeros(1, bool), {})[0] <= (x > 0).sum() // fit.ROWS_PER_RAMP + 1


def test_fits_with_jumps_are_monotone_where_asked_have_bands_and_serve_classes():
    generator = np.random.default_rng(1)
    x, other = gains(generator, 800), generator.normal(size=800)
    X, scores = np.column_stack([x, other]), truth(x) + np.sin(other)
    y = scores + 0.5 * generator.normal(size=800)
    rising = SNAMRegressor(alpha=0.0, shapes={0: "increasing"}, random_state=0).fit(X, y)
    grid = np.column_stack([np.sort(x), np.zeros(800)])
    assert (np.diff(rising.effects(grid)[:, 0]) >= 0).all()
    bands = SNAMRegressor(alpha=0.0, random_state=0).fit(X, y).effect_bands(X)
    assert not bands.without
    assert (bands.upper[:, 0] > bands.lower[:, 0]).all()
    classes = SNAMClassifier(random_state=0).fit(X, generator.random(800) < 1 / (1 + np.exp(1 - scores)))
    assert np.ptp(classes.effects(X)[:, 0]) > 0.5


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("make", [SNAMRegressor, SNAMClassifier])
def test_an_effect_is_level_beyond_a_cap_at_which_it_jumps(make, share):
    generator = np.random.default_rng(0)
    x, other = generator.exponential(1.0, 1000), generator.normal(size=1000)
    cap = np.quantile(x, 1.0 - share)
    x = np.minimum(x, cap)
    y = 1.5 * (x == cap) + other + 0.5 * generator.logistic(size=1000)
    model = make(random_state=0).fit(np.column_stack([x, other]), y > 1.0 if make is SNAMClassifier else y)
    at, beyond = model.effects(np.array([[cap, 0.0], [2.0 * cap, 0.0]]))[:, 0].ravel()
    assert beyond == at


def test_a_convex_curve_whose_last_slope_goes_on_has_no_jump(monkeypatch):
    generator = np.random.default_rng(0)
    x = np.minimum(generator.exponential(1.0, 1000), 1.0)
    y = 1.5 * (x == 1.0) + 0.5 * generator.normal(size=1000)
    beyond = np.linspace(0.0, 1.2, 50)[:, None]
    found = []
    for many in (design.JUMP_SHARE, 2.0):
        monkeypatch.setattr(design, "JUMP_SHARE", many)
        model = SNAMRegressor(shapes={0: "convex"}, alpha=0.0, random_state=0).fit(x[:, None], y)
        found.append(model.effects(beyond))
    np.testing.assert_array_equal(found[0], found[1])


def test_times_until_an_event_have_effects_that_are_level_beyond_a_cap():
    generator = np.random.default_rng(1)
    x, other = np.minimum(generator.exponential(2.0, 600), 2.0), generator.normal(size=600)
    times = generator.exponential(np.exp(-1.5 * (x == 2.0) - 0.5 * other))
    y = survival_target(generator.random(600) < 0.8, times)
    at, beyond = (
        SNAMSurvival(random_state=0)
        .fit(np.column_stack([x, other]), y)
        .effects(np.array([[2.0, 0.0], [3.0, 0.0]]))[:, 0]
        .ravel()
    )
    assert beyond == at
