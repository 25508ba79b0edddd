"""Left-out scores against fits without the row, intervals and sets against those of mapie."""

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from mapie.regression import CrossConformalRegressor, SplitConformalRegressor
from sklearn.linear_model import LinearRegression

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.convex.ramps import Ramps, place_ramps
from sparsenam.families import Binomial, Gaussian, Poisson
from sparsenam.smooth.design import Layout, RampDesign
from sparsenam.smooth.engine import SmoothFit, SmoothProblem
from sparsenam.uncertainty.bands import FitPosterior, left_out_scores, leverages
from sparsenam.uncertainty.residuals import OrderStatistics

ROWS = 120


def problem(family, seed=0):
    """Return a task with a number, a number with absent cells and a category, and the layout of its ramps."""
    generator = np.random.default_rng(seed)
    x = np.stack([generator.normal(size=ROWS), generator.exponential(size=ROWS), generator.integers(0, 5, ROWS) * 1.0])
    x[1, generator.random(ROWS) < 0.2] = np.nan
    score = np.sin(2.0 * x[0]) + 0.3 * np.nan_to_num(x[1]) + 0.2 * x[2] - 1.0
    target = {
        "gaussian": score + 0.5 * generator.normal(size=ROWS),
        "poisson": generator.poisson(np.exp(score)) * 1.0,
        "binomial": (generator.random(ROWS) < 1.0 / (1.0 + np.exp(-score))) * 1.0,
    }[family.name]
    weights = generator.integers(1, 4, ROWS) * 1.0
    ramps = [place_ramps(cells[~np.isnan(cells)], np.ones((~np.isnan(cells)).sum()), 6) for cells in x]
    return SmoothProblem(x, target[:, None], weights, family), Layout.of(ramps, [False, False, True])


def written_out(layout, task):
    """Return the columns with a constant before them, and the penalty on their coefficients."""
    parts = []
    for ramps, cells in zip(layout.ramps, task.x, strict=True):
        present = ~np.isnan(cells)
        values = ramps.columns(np.where(present, cells, 0.0))
        means = np.average(values[present], axis=0, weights=task.weights[present])
        parts.append((values - means) * present[:, None])
    return np.column_stack([np.ones(ROWS), *parts])


def minimum(task, design, penalty, weights):
    """Return the coefficients of the penalised fit with other weights, by Newton's method to the end."""
    beta = np.zeros(design.shape[1])
    for _ in range(60):
        scores = (design @ beta)[:, None]
        slopes = weights * task.family.gradient(scores, task.target)[:, 0]
        bends = weights * task.family.hessian_diagonal(scores, task.target)[:, 0]
        hessian = design.T @ (bends[:, None] * design) + penalty
        beta = beta - np.linalg.solve(hessian, design.T @ slopes + penalty @ beta)
    return beta


def fitted(family, noise=0.3, strength=1.0):
    """Return the posterior of a fit with given smoothness, and what is needed to fit without a row."""
    task, layout = problem(family)
    noise = noise if family.is_quadratic else 1.0
    strengths = [np.full(len(matrices), strength) for matrices in layout.roughness]
    precisions = layout.precisions(strengths)
    written, penalty = written_out(layout, task), np.zeros((layout.size + 1, layout.size + 1))
    for columns, precision in zip(layout.slices, precisions, strict=True):
        penalty[1 + columns.start : 1 + columns.stop, 1 + columns.start : 1 + columns.stop] = noise * precision
    base, *rises = minimum(task, written, penalty, task.weights)
    means = RampDesign(layout, task.x, task.weights).means
    fit = SmoothFit(layout, np.array(rises)[:, None], means, base - means @ rises, strengths, noise, np.zeros(3))
    return FitPosterior(task, fit), task, written, penalty


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Binomial()], ids=lambda family: family.name)
def test_left_out_scores_are_those_of_fits_without_the_row(family):
    posterior, task, written, penalty = fitted(family)
    rows = np.arange(0, ROWS, 5)
    found = left_out_scores(posterior, rows)[:, 0]
    exact = []
    for row in rows:
        weights = task.weights.copy()
        weights[row] = 0.0
        exact.append(written[row] @ minimum(task, written, penalty, weights))
    if family.is_quadratic:
        assert np.allclose(found, exact, atol=1e-8)
    else:
        step = np.abs(found - posterior.scores[rows, 0])
        assert np.mean(np.abs(found - exact)) < 0.15 * np.mean(step)  # one Newton step of many


def test_leverages_are_the_diagonal_of_the_smoother_and_add_up_to_the_degrees_of_freedom():
    posterior, task, written, penalty = fitted(Gaussian())
    weighted = task.weights[:, None] * written
    smoother = written @ np.linalg.solve(written.T @ weighted + penalty, weighted.T)
    found = leverages(posterior, np.arange(ROWS))[:, 0]
    assert np.allclose(found, np.diag(smoother), atol=1e-9)
    assert np.isclose(found.sum(), 1.0 + posterior.degrees_of_freedom.sum(), atol=1e-6)


def test_without_a_prior_on_lines_intervals_are_those_of_mapies_jackknife():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(60, 2))
    y = X @ [1.0, -2.0] + generator.normal(size=60)
    peer = CrossConformalRegressor(LinearRegression(), confidence_level=0.9, method="base", cv=-1)
    ends = peer.fit_conformalize(X, y).predict_interval(X[:1])[1][0, :, 0]
    task = SmoothProblem(X.T.copy(), y[:, None], np.ones(60), Gaussian())
    ramps = tuple(Ramps(np.array([cells.min(), cells.max()])) for cells in X.T)
    strengths, line = (np.full(1, 1e-9),) * 2, LinearRegression().fit(X, y)
    rises, base = (line.coef_ * np.ptp(X, axis=0))[:, None], line.predict(X.min(axis=0)[None])
    fit = SmoothFit(Layout.of(ramps), rises, np.full(2, 0.5), base, strengths, 1.0, np.ones(2))
    errors = np.abs(y - left_out_scores(FitPosterior(task, fit), np.arange(60))[:, 0])
    half = OrderStatistics.of(errors, np.ones(60), 1000, both_ends=False).above(0.9)
    assert np.isclose(half, 0.5 * (ends[1] - ends[0]), rtol=1e-6)


def test_calibration_with_new_rows_gives_mapies_split_intervals():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(500, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * generator.normal(size=500)
    model = SNAMRegressor(alpha=0.05, random_state=0).fit(X[:200], y[:200])
    peer = SplitConformalRegressor(model, confidence_level=0.9, prefit=True).conformalize(X[200:215], y[200:215])
    ends = peer.predict_interval(X[400:])[1][:, :, 0]
    found = model.calibrate(X[200:215], y[200:215]).predict_interval(X[400:], scale="constant")
    assert np.allclose(np.asarray(found), ends)


def test_sets_after_calibration_are_mapies_least_ambiguous_sets():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 3))
    scores = np.stack([X[:, 0], 1.5 * np.sin(2.0 * X[:, 1]), np.zeros(600)], axis=1)
    y = (scores + generator.gumbel(size=(600, 3))).argmax(axis=1)
    model = SNAMClassifier(alpha=0.02, random_state=0).fit(X[:250], y[:250])
    peer = SplitConformalClassifier(model, confidence_level=0.9, conformity_score="lac", prefit=True)
    expected = peer.conformalize(X[250:265], y[250:265]).predict_set(X[400:])[1][:, :, 0]
    found = np.asarray(model.calibrate(X[250:265], y[250:265]).predict_set(X[400:]))
    some = expected.any(axis=1)  # ours are never empty
    assert some.mean() > 0.9
    assert np.array_equal(found[some], expected[some])
