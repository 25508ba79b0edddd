"""Rows far from all others: curves, pairs and bands of tables that hold a few."""

import numpy as np
import pandas as pd
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor

ROWS, NOISE = 800, 0.3


def table(seed=0, effect=np.log):
    generator = np.random.default_rng(seed)
    X = pd.DataFrame({"area": np.exp(0.5 * generator.normal(size=ROWS)), "age": generator.uniform(size=ROWS)})
    return X, effect(X.area) + X.age + NOISE * generator.normal(size=ROWS)


def with_far_rows(X, y, count, fall):
    """Return the table with its first rows moved to three times the largest area, their y lower by ``fall``."""
    X, y = X.copy(), y.copy()
    X.loc[: count - 1, "area"] = 3.0 * X.area.max() * np.linspace(1.0, 1.2, count)
    y[:count] -= fall
    return X, y


def effect_of_area(model, cells):
    return model.effects(pd.DataFrame({"area": cells, "age": np.full(len(cells), 0.5)}))[:, 0].ravel()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fall", [3.0, 5.0, 8.0])
def test_a_pair_of_far_rows_moves_the_bulk_of_the_curve_little(seed, fall):
    X, y = table(seed)
    plain = SNAMRegressor(random_state=0).fit(X, y)
    pulled = SNAMRegressor(random_state=0).fit(*with_far_rows(X, y, 2, fall))
    cells = np.quantile(X.area, np.linspace(0.02, 0.98, 50))
    moved = np.abs(effect_of_area(pulled, cells) - effect_of_area(plain, cells)).max()
    assert moved < 1.5 * NOISE  # y falls by 10 to 27 times that


def test_one_far_row_of_a_class_leaves_the_bulk_of_the_curve_as_it_is():
    X, score = table()
    y = np.asarray(score > np.median(score)).astype(int)
    plain = SNAMClassifier(random_state=0).fit(X, y)
    X.loc[0, "area"], y[0] = 5.0 * X.area.max(), 0
    cells = np.quantile(X.area[1:], [0.1, 0.5, 0.9])
    low, middle, high = effect_of_area(SNAMClassifier(random_state=0).fit(X, y), cells)
    assert low < middle < high
    assert np.abs(effect_of_area(plain, cells) - (low, middle, high)).max() < 0.25 * (high - low)


@pytest.mark.parametrize("count", [2, 8])
def test_far_rows_are_followed(count):
    X, y = with_far_rows(*table(), count, 5.0)
    model = SNAMRegressor(random_state=0).fit(X, y)
    top, far = effect_of_area(model, np.array([X.area[count:].max(), X.area.max()]))
    assert far < top - 2.0
    assert model.residuals_.rows == ROWS


def three_columns(seed=0):
    """Return a table in which two columns act as a pair, and two far rows of the third."""
    generator = np.random.default_rng(seed)
    X = pd.DataFrame({"area": np.exp(0.5 * generator.normal(size=900)), "age": generator.uniform(size=900)})
    X["b"] = generator.normal(size=900)
    y = np.log(X.area) + X.age + X.b + X.age * X.b + NOISE * generator.normal(size=900)
    return with_far_rows(X, y, 2, 8.0)


@pytest.mark.parametrize("pairs", [[("age", "b")], 1])
def test_far_rows_move_pairs_of_other_columns_little(pairs):
    X, y = three_columns()
    without = SNAMRegressor(pairs=pairs, random_state=0).fit(X[2:], y[2:])
    model = SNAMRegressor(pairs=pairs, random_state=0).fit(X, y)
    assert [pair.terms for pair in model.model_.pairs] == [pair.terms for pair in without.model_.pairs]
    at = pd.DataFrame({"area": 1.0, "age": [0.1, 0.5, 0.9, 0.1, 0.9], "b": [0.0, 0.0, 0.0, 1.0, -1.0]})
    assert np.abs(model.predict(at) - without.predict(at)).max() < 1.5 * NOISE
    assert np.abs(model.effects(at) - without.effects(at)).max() < 1.5 * NOISE


def test_bands_are_narrow_in_the_bulk_and_wide_at_far_rows():
    X, y = three_columns()
    X, y = X.drop(columns="b"), y - X.b - X.age * X.b
    without = SNAMRegressor(random_state=0).fit(X[2:], y[2:])
    model = SNAMRegressor(random_state=0).fit(X, y)
    at = pd.DataFrame({"area": [1.0, 0.5 * (X.area[2:].max() + X.area.max())], "age": 0.5})
    widths, expected = ((each.upper - each.lower)[:, 0] for each in (model.effect_bands(at), without.effect_bands(at)))
    assert widths[0] < 2.0 * expected[0]
    assert widths[1] > 2.0 * widths[0]
