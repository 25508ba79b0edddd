"""Straight lines as finalists, fits with more columns than rows, and classes that a fit separates."""

import numpy as np
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.context import Context, Streams
from sparsenam.families import Gaussian
from sparsenam.smooth.constraints import Shape
from sparsenam.smooth.design import Layout, Posterior, PosteriorOfRows, RampDesign, ramps_of
from sparsenam.smooth.fit import smooth_fit


def lines_with_wild_rows(seed, rows=90, columns=6):
    """Return a linear table with heavy tails in columns and noise, on which curves follow single rows."""
    generator = np.random.default_rng(seed)
    X = generator.standard_t(2, size=(rows, columns))
    return X, X @ np.linspace(1.0, 0.3, columns) + generator.standard_t(3, size=rows)


def test_lines_are_taken_where_they_predict_better_and_a_note_says_so():
    found = [SNAMRegressor(pairs=0, random_state=0).fit(*lines_with_wild_rows(seed)) for seed in range(6)]
    straight = [model for model in found if model.evidence_.lines]
    assert straight, "no table of six was taken for lines"
    for model in straight:
        assert any("Straight lines" in note for note in model.evidence_.notes())
        assert {each.form for each in model.explain().features} == {"linear"}


def test_a_number_that_is_asked_to_be_smooth_has_a_curve_among_lines():
    X, y = lines_with_wild_rows(0)
    given = X.T / X.std(axis=0)[:, None], (y[:, None] - y.mean()) / y.std(), np.ones(len(y)), Gaussian()
    fit = smooth_fit(*given, shapes={0: Shape(form="smooth")}, lines=True, context=Context(Streams(0)))
    assert [ramps.size > 1 for ramps in fit.ramps] == [True] + [False] * 5


def test_curves_are_not_given_up_where_effects_bend():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 4))
    model = SNAMRegressor(pairs=0, random_state=0).fit(X, np.sin(2 * X[:, 0]) + 0.3 * generator.normal(size=300))
    assert not model.evidence_.lines


@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_the_posterior_through_rows_is_the_posterior(noise):
    generator = np.random.default_rng(0)
    x, weights = generator.normal(size=(12, 60)), generator.random(60) + 0.1
    x[0, :5] = np.nan
    layout = Layout.of([ramps_of(cells, weights, 10) for cells in x])
    gram = RampDesign(layout, x, weights).weighted_gram(weights)
    assert gram.root is not None
    assert layout.size > 60
    strengths = [10.0 ** generator.integers(-2, 3, len(matrices)) for matrices in layout.roughness]
    one = Posterior(layout, gram.matrix, strengths, noise)
    other = PosteriorOfRows(layout, gram.root, strengths, noise)
    pull = generator.normal(size=(layout.size, 2))
    np.testing.assert_allclose(other.solve(pull), one.solve(pull), rtol=1e-7, atol=1e-7)
    for first, second in zip(one.blocks(), other.blocks(), strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(other.spread.degrees_of_freedom, one.spread.degrees_of_freedom, atol=1e-7)


def test_scores_of_separated_classes_end():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 200))
    y = X[:, 0] + X[:, 1] > 0
    model = SNAMClassifier(alpha=0.0, pairs=0, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert np.abs(model.decision_function(X)).max() < 30.0
    assert model.certificate_ is None
