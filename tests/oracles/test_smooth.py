"""The sums, inverses and steps of a smooth fit against the same written out in full."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sparsenam.convex.ramps import Ramps, place_ramps
from sparsenam.families import Gaussian, Multinomial
from sparsenam.smooth.design import Layout, Posterior, RampDesign, scatter, updated_strengths
from sparsenam.smooth.engine import SecondOrder, SmoothProblem, SquaredRows
from sparsenam.smooth.fit import MemoryRows


def table(rows=150, seed=0):
    """Return x of a number, a number with absent cells, a category with absent cells and a 0/1 term, and weights."""
    generator = np.random.default_rng(seed)
    x = np.stack(
        [
            generator.standard_normal(rows),
            generator.exponential(size=rows),
            generator.integers(0, 7, rows).astype(float),
            generator.integers(0, 2, rows).astype(float),
        ]
    )
    x[1, generator.random(rows) < 0.2] = np.nan
    x[2, generator.random(rows) < 0.1] = np.nan
    ramps = [place_ramps(cells[~np.isnan(cells)], np.ones((~np.isnan(cells)).sum()), 9) for cells in x]
    return x, Layout.of(ramps, [False, False, True, False]), generator.integers(1, 4, rows).astype(float)


def columns(layout, x, weights):
    """Return Z, shape (rows, columns): centred ramps, 0 where the term is absent."""
    parts = []
    for ramps, cells in zip(layout.ramps, x, strict=True):
        present = ~np.isnan(cells)
        values = ramps.columns(np.where(present, cells, 0.0))
        parts.append((values - np.average(values[present], axis=0, weights=weights[present])) * present[:, None])
    return np.hstack(parts)


def test_sums_over_rows_are_those_of_the_columns_written_out():
    x, layout, weights = table()
    z, design = columns(layout, x, weights), RampDesign(layout, x, weights)
    generator = np.random.default_rng(1)
    bends, beta, values = generator.random(150), generator.standard_normal((layout.size, 2)), generator.random((150, 2))
    gram, centred = design.weighted_gram(bends), z - bends @ z / bends.sum()
    assert np.allclose(gram.matrix, centred.T @ (bends[:, None] * centred), atol=1e-11)
    assert np.allclose(gram.means, bends @ z / bends.sum())
    assert np.allclose(design.times(beta), z @ beta)
    assert np.allclose(design.transposed_times(values), z.T @ values)


def test_least_squares_are_those_of_a_regression_with_intercept():
    x, layout, weights = table()
    z, target = columns(layout, x, weights), np.random.default_rng(1).standard_normal((150, 2))
    rows, roots = MemoryRows(SmoothProblem(x, target, weights, Gaussian()), layout), np.sqrt(weights)[:, None]
    squared = SquaredRows(rows, rows.at(np.zeros((layout.size, 2)), np.array([0.3, -0.2])))
    both = np.linalg.lstsq(roots * np.column_stack([np.ones(150), z]), roots * target, rcond=None)[0]
    found = np.linalg.lstsq(squared.gram.matrix, squared.moment, rcond=None)[0]
    assert np.allclose(found, both[1:], atol=1e-8)
    point = squared.at(found, np.zeros(2))
    assert np.allclose(point.intercept + rows.basis.means @ found, both[0])
    residuals = target - both[0] - z @ both[1:]
    assert np.isclose(2.0 * point.loss, np.sum(weights @ residuals**2))


def test_posterior_is_the_inverse_of_data_and_prior():
    x, layout, weights = table()
    gram = RampDesign(layout, x, weights).weighted_gram(weights).matrix
    strengths = [np.full(len(matrices), 3.0) for matrices in layout.roughness]
    precisions = layout.precisions(strengths)
    found, whole = Posterior(layout, gram, strengths, 0.5), gram / 0.5
    for place, precision in zip(layout.slices, precisions, strict=True):
        whole[place, place] += precision
    inverse = np.linalg.inv(whole)
    assert np.allclose(found.solve(np.eye(layout.size)), inverse, atol=1e-8)
    for term, place in enumerate(layout.slices):
        assert np.allclose(found.spread.covariances[term], inverse[place, place], atol=1e-8)
        freedom = layout.ramps[term].size - np.trace(inverse[place, place] @ precisions[term])
        assert np.isclose(found.spread.degrees_of_freedom[term], freedom, atol=1e-6)


def test_the_strongest_prior_of_a_term_leaves_the_other_terms_alone():
    x, layout, weights = table()
    gram = RampDesign(layout, x, weights).weighted_gram(weights).matrix
    strengths = [np.full(len(matrices), 0.01) for matrices in layout.roughness]
    freedoms = []
    for strength in (1e6, 1e9):
        strengths[0] = np.full(len(layout.roughness[0]), strength)
        freedoms.append(Posterior(layout, gram, strengths, 1.0).spread.degrees_of_freedom)
    assert np.allclose(freedoms[0], freedoms[1], atol=0.01)


def test_scatter_of_a_category_is_the_sum_of_squares_about_the_mean_of_its_levels():
    levels = np.random.default_rng(0).standard_normal(6)
    rises = np.diff(levels)
    assert np.isclose(rises @ scatter(Ramps(np.arange(6.0)))[0] @ rises, np.sum((levels - levels.mean()) ** 2))


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_a_newton_step_of_softmax_solves_with_the_whole_hessian(monkeypatch, classes):
    monkeypatch.setattr("sparsenam.smooth.fit.INNER_TOL", 1e-10)
    monkeypatch.setattr("sparsenam.smooth.fit.INNER_STEPS", 500)
    x, layout, weights = table(rows=80)
    generator = np.random.default_rng(2)
    task = SmoothProblem(x, np.eye(classes)[generator.integers(0, classes, 80)], weights, Multinomial())
    rows, z = MemoryRows(task, layout), columns(layout, x, weights)
    strengths = [np.full(len(matrices), 2.0) for matrices in layout.roughness]
    precisions = layout.precisions(strengths)
    beta = generator.standard_normal((layout.size, classes))
    beta -= beta.mean(axis=1, keepdims=True)
    scores = z @ beta
    point = rows.at(beta, -rows.design.means @ beta)
    assert np.allclose(point.scores, scores)
    model = SecondOrder(layout, rows.grams(point), strengths, 1.0)
    move, lift = rows.direction(model, point)

    ones, size = np.column_stack([z, np.ones(80)]), layout.size + 1
    prior = np.zeros((size, size))
    for place, precision in zip(layout.slices, precisions, strict=True):
        prior[place, place] = precision
    mean = task.family.mean(scores)
    bends = mean[:, :, None] * np.eye(classes) - mean[:, :, None] * mean[:, None, :]
    hessian = np.einsum("i,ia,ikl,ib->kalb", weights, ones, bends, ones).reshape(classes * size, -1)
    hessian += np.kron(np.eye(classes), prior)
    slope = ones.T @ (weights[:, None] * (mean - task.target)) + prior @ np.vstack([beta, np.zeros(classes)])
    wanted = -np.linalg.pinv(hessian, rcond=1e-11) @ slope.T.ravel()
    assert np.allclose(np.vstack([move, lift]), wanted.reshape(classes, size).T, atol=1e-5)
    assert np.allclose(move.sum(axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("strength", [0.4, 1.0, 2.0])
def test_an_update_of_the_smoothness_follows_the_slope_of_the_restricted_likelihood(strength):
    """With y ~ N(0, φI + ZS⁻¹Zᵀ/λ) and l its log-density, λg - λq = 2 dl/dlog λ, and the update is λ g/q."""
    generator, noise = np.random.default_rng(0), 0.5
    layout = Layout.of([Ramps(np.array([0.0, 1.0, 2.0]))], [False])
    (matrix,) = layout.roughness[0]
    Z = generator.normal(size=(40, 2))
    y = Z @ np.array([1.0, -0.5]) + np.sqrt(noise) * generator.normal(size=40)

    def density(log_strength):
        covariance = noise * np.eye(40) + Z @ np.linalg.solve(np.exp(log_strength) * matrix, Z.T)
        return multivariate_normal(np.zeros(40), covariance).logpdf(y)

    slope = (density(np.log(strength) + 1e-4) - density(np.log(strength) - 1e-4)) / 2e-4
    strengths = [np.array([strength])]
    found = Posterior(layout, Z.T @ Z, strengths, noise)
    beta = found.solve((Z.T @ y / noise)[:, None])
    squares = float(beta[:, 0] @ matrix @ beta[:, 0])
    (updated,) = updated_strengths(layout, strengths, [found.spread], beta, 1)
    gained = (2.0 * slope + strength * squares) / strength  # at least 1/λ here, where nothing is pulled to 0
    assert strength * gained >= 1.0
    assert updated[0] == pytest.approx(strength * gained / squares, rel=1e-4)
