"""Pairs of columns that must rise or fall: the whole model does, in every row, and the fit is no worse for it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.isotonic import IsotonicRegression

from sparsenam import SNAMClassifier, SNAMRegressor, load
from sparsenam.smooth.grid import GridAxis, GridBlock

# w was never absent in training, where the sign must hold too
pytestmark = pytest.mark.filterwarnings("ignore::sparsenam.tables.text.UnseenMissingWarning")
ROUNDING = 1e-12
PAIRS = [("x", "z"), ("x", "w"), ("k", "x")]


def table(seed, rows=700):
    """Return dependent columns with missing cells, and a score that goes against any sign in places."""
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.normal(size=(rows, 3)), columns=["x", "z", "w"])
    X["z"] += 0.8 * X.x
    X["k"] = pd.Categorical.from_codes(generator.integers(4, size=rows), list("abcd"))
    score = np.sin(2.0 * X.x) * X.z + 0.5 * X.x + 0.3 * X.w * X.x + (X.k == "a") * X.x
    for name in ("x", "z"):
        X.loc[generator.random(rows) < 0.1, name] = np.nan
    return X, score.to_numpy(), generator


def rises(model, X, column, score):
    """Return the differences of the score along a column, (rows, steps), in rows of a table and those without cells."""
    rows = pd.concat([X.iloc[:20], X.iloc[:20].assign(**{name: np.nan for name in "zw" if name != column})])
    grid = np.linspace(-5.0, 5.0, 201)
    each = rows.iloc[np.repeat(np.arange(len(rows)), grid.size)].assign(**{column: np.tile(grid, len(rows))})
    return np.diff(score(model, each).reshape(len(rows), grid.size), axis=1)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("shapes", [{"x": "increasing"}, {"x": "decreasing"}, {"x": "increasing", "z": "decreasing"}])
@pytest.mark.parametrize("kind", ["numbers", "classes", "counts"])
def test_the_whole_model_keeps_the_sign_in_every_row(kind, shapes, seed, tmp_path):
    X, score, generator = table(seed)
    if kind == "numbers":
        model, y, of = SNAMRegressor(), score + 0.3 * generator.normal(size=len(X)), SNAMRegressor.predict
    elif kind == "classes":
        model, y = SNAMClassifier(), score + generator.logistic(size=len(X)) > 0
        of = SNAMClassifier.decision_function
    else:
        model, y = SNAMRegressor(family="poisson"), generator.poisson(np.exp(np.clip(score, -3.0, 2.0)))
        of = SNAMRegressor.predict
    model.set_params(pairs=PAIRS, shapes=shapes, random_state=0).fit(X, y)
    assert model.interactions_ == tuple(PAIRS)
    for column, shape in shapes.items():
        sign = 1.0 if shape == "increasing" else -1.0
        assert (sign * rises(model, X, column, of)).min() >= -ROUNDING
        alone = X.iloc[np.zeros(201, dtype=int)].assign(**{column: np.linspace(-5.0, 5.0, 201)})
        main = np.squeeze(model.effects(alone))[:, X.columns.get_loc(column)]
        assert (sign * np.diff(main)).min() >= -ROUNDING
    path = tmp_path / "model.snam"
    model.save(path)
    np.testing.assert_array_equal(of(load(path), X), of(model, X))


def test_several_targets_rise_each():
    X, score, generator = table(3)
    y = np.stack([score, -score], axis=1) + 0.3 * generator.normal(size=(len(X), 2))
    model = SNAMRegressor(pairs=PAIRS[:2], shapes={"x": "increasing"}, random_state=0).fit(X, y)
    for output in (0, 1):
        assert rises(model, X, "x", lambda model, X, at=output: model.predict(X)[:, at]).min() >= -ROUNDING
    parts = model.effects(X).sum(axis=1) + model.interaction_effects(X).sum(axis=1)
    np.testing.assert_allclose(model.intercept_ + parts, model.predict(X), atol=1e-10)


def test_a_rising_joint_effect_is_recovered_as_well_as_without_the_shape():
    """With main effects that stay fixed the pair could not make them less steep: it would miss half of it."""

    def drawn(rows):
        X = generator.uniform(size=(rows, 3)) * [3.0, 1.0, 1.0]
        return X, np.log1p(np.exp(4.0 * (X[:, 0] - 1.5))) * X[:, 1]

    errors = {"free": 0.0, "shape": 0.0, "mains": 0.0}
    for seed in range(3):
        generator = np.random.default_rng(seed)
        (X, score), (new, true) = drawn(600), drawn(3000)
        y = score + 0.5 * generator.normal(size=600)
        for name in errors:
            shapes, pairs = (None if name == "free" else {0: "increasing"}), (0 if name == "mains" else [(0, 1)])
            model = SNAMRegressor(pairs=pairs, shapes=shapes, random_state=0).fit(X, y)
            errors[name] += float(np.mean((model.predict(new) - true) ** 2))
    assert errors["shape"] < errors["free"] < 0.1 * errors["mains"]


def test_beside_steps_and_bends_pairs_are_fitted():
    X, score, generator = table(5)
    y = score + np.floor(2.0 * X.w) + 0.3 * generator.normal(size=len(X))
    for shape in ("steps", "linear", "convex"):
        model = SNAMRegressor(pairs=PAIRS[:1], shapes={"x": "increasing", "w": shape}, random_state=0).fit(X, y)
        assert rises(model, X, "x", SNAMRegressor.predict).min() >= -ROUNDING
        assert model.explain().feature("w").form == shape
        parts = model.effects(X).sum(axis=1) + model.interaction_effects(X).sum(axis=1)
    np.testing.assert_allclose(model.intercept_ + parts, model.predict(X), atol=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_grid_without_prior_is_isotonic_regression_on_each_line(sign):
    generator = np.random.default_rng(0)
    axes = GridAxis(np.arange(8.0), False, sign), GridAxis(np.arange(3.0), False)
    x, z = (generator.integers(size, size=600).astype(float) for size in (8, 3))
    y = generator.normal(size=600) + 0.1 * x
    grid = GridBlock(axes, (x, z), 1, generator)
    grid.strengths = np.full(3, 1e-9)
    grid.update(y[:, None], np.ones((1, 600)), 1.0)
    for line in range(3):
        rows = z == line
        expected = IsotonicRegression(increasing=sign > 0).fit(x[rows], y[rows]).predict(np.arange(8.0))
        found = grid.values.reshape(*grid.shape)[:-1, line]
        np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-3)
