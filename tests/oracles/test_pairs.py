"""A pair of two categories against ridge regression on its cells, and its strength against the marginal likelihood."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.linear_model import Ridge

from sparsenam.smooth.grid import GridAxis, GridBlock

NOISE = 0.5


def pair_of_categories(rows=4000, levels=(30, 40)):
    """Return the codes, the cell of each row, residuals with a random effect for each cell, weights and the block."""
    generator = np.random.default_rng(0)
    x = np.stack([np.floor(size * generator.uniform(size=rows) ** 2) for size in levels])
    x[1, generator.uniform(size=rows) < 0.05] = np.nan
    weights = generator.uniform(0.5, 2.0, rows)
    cells = np.unique(np.nan_to_num(x, nan=-1.0), axis=1, return_inverse=True)[1].ravel()
    effects = generator.normal(0.0, 0.7, cells.max() + 1)[cells]
    y = effects + np.sqrt(NOISE / weights) * generator.normal(size=rows)
    axes = tuple(GridAxis.of(codes, weights, 5, True) for codes in x)
    return cells, (y - np.average(y, weights=weights))[:, None], weights, GridBlock(axes, tuple(x), 1, generator)


def test_two_categories_are_ridge_regression_on_the_cells_that_hold_rows():
    cells, y, weights, block = pair_of_categories()
    block.update(y, weights[None], NOISE)
    (strength,) = block.strengths
    dummies = np.eye(cells.max() + 1)[cells]
    ridge = Ridge(alpha=strength * NOISE, fit_intercept=False).fit(dummies, y[:, 0], weights)
    expected = ridge.predict(dummies)
    expected -= np.average(expected, weights=weights)
    np.testing.assert_allclose(block.fitted[:, 0], expected, atol=1e-10)
    mass = np.bincount(cells, weights)
    assert block.size == mass.size
    assert block.freedom == pytest.approx(np.sum(mass / (mass + strength * NOISE)), rel=1e-10)
    assert block.mass(weights).sum() == pytest.approx(weights.sum())
    assert np.count_nonzero(block.spread_out(block.values)) == mass.size


def test_the_strength_of_two_categories_has_the_largest_marginal_likelihood():
    cells, y, weights, block = pair_of_categories()
    mass = np.bincount(cells, weights)
    means = np.bincount(cells, weights * y[:, 0]) / mass

    def deviance(log_strength):
        variances = np.exp(-log_strength) + NOISE / mass
        return np.sum(np.log(variances) + means**2 / variances)

    for _ in range(30):
        block.update(y, weights[None], NOISE)
        block.learn(1)
    best = minimize_scalar(deviance, bounds=(-6.0, 6.0), method="bounded").x
    assert np.log(block.strengths[0]) == pytest.approx(best, abs=0.03)


def test_the_deviations_of_two_categories_are_those_of_the_posterior():
    """Drawn in one part or in several, for cells with rows and without."""
    cells, y, weights, block = pair_of_categories(levels=(300, 400))
    block.update(y, weights[None], NOISE)
    (strength,), mass = block.strengths, np.bincount(cells, weights)
    found = block.spread(weights, weights[None], NOISE, np.random.default_rng(1)).nodes[:, :, 0]
    frequent = np.unravel_index(block.mass(weights).argmax(), found.shape)
    assert found[frequent] == pytest.approx((mass.max() / NOISE + strength) ** -0.5, rel=0.3)
    empty = block.mass(weights) == 0
    empty[-1], empty[:, -1] = False, False
    assert np.median(found[empty]) == pytest.approx(strength**-0.5, rel=0.3)
