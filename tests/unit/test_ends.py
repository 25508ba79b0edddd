"""A few far rows do not turn the end of a curve, and what many rows say stays."""

import warnings

import numpy as np
import pandas as pd
import pytest

import sparsenam
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.convex.design import Ramps
from sparsenam.errors import StrayRowsWarning
from sparsenam.smooth.design import has_far_cells
from sparsenam.smooth.ends import run_offs

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
def test_a_pair_of_far_rows_moves_the_curve_little(seed, fall):
    X, y = table(seed)
    plain = SNAMRegressor(random_state=0).fit(X, y)
    with pytest.warns(StrayRowsWarning, match="2 rows far from the others in 'area' would have turned the curve"):
        pulled = SNAMRegressor(random_state=0).fit(*with_far_rows(X, y, 2, fall))
    cells = np.append(np.sort(X.area), 4.0 * X.area.max())
    moved = np.abs(effect_of_area(pulled, cells) - effect_of_area(plain, cells)).max()
    assert moved < 1.5 * NOISE  # y falls by 10 to 27 times that


def test_one_row_of_a_class_does_not_turn_the_curve_of_classes():
    X, score = table()
    y = np.asarray(score > np.median(score)).astype(int)
    X.loc[0, "area"], y[0] = 5.0 * X.area.max(), 0
    cells = np.array([1.0, X.area[1:].max(), X.area.max()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StrayRowsWarning)
        middle, last, far = effect_of_area(SNAMClassifier(random_state=0).fit(X, y), cells)
    assert far > last - 0.5 * abs(last - middle)


def test_many_far_rows_are_followed():
    X, y = with_far_rows(*table(), 8, 5.0)
    model = SNAMRegressor(random_state=0).fit(X, y)  # a warning would be an error
    top, far = effect_of_area(model, np.array([X.area[8:].max(), X.area.max()]))
    assert far < top - 4.0


@pytest.mark.parametrize("effect", [np.log, np.tanh, np.square, lambda x: x, lambda x: -np.abs(x - 2.0)])
def test_lines_bends_and_turns_of_many_rows_leave_no_row_out(effect):
    SNAMRegressor(random_state=0).fit(*table(effect=effect))


def test_columns_without_long_tails_have_no_far_cells():
    generator = np.random.default_rng(0)
    for cells in (generator.normal(size=ROWS), generator.uniform(size=ROWS), np.arange(ROWS) % 7.0):
        assert not has_far_cells(cells, np.ones(ROWS))
    assert not has_far_cells(np.full(3, np.nan), np.ones(3))
    assert has_far_cells(np.append(np.arange(100.0), 1000.0), np.ones(101))


def test_a_curve_leaves_its_room_only_where_it_turns_far_enough():
    cells = np.append(np.linspace(0.0, 10.0, 1000), 60.0)
    ramps = Ramps(np.array([0.0, 2.5, 5.0, 7.5, 10.0, 60.0]))
    for last, found in ((1.0, 0), (-4.0, 0), (-6.0, 1), (1000.0, 0), (2000.0, 1)):
        rises = np.array([2.5, 2.5, 2.5, 2.5, last])[:, None]
        ends = list(run_offs(0, cells, np.ones(1001), ramps, rises))
        assert len(ends) == found, last
    (end,) = run_offs(3, -cells, np.ones(1001), Ramps(-ramps.knots[::-1]), np.array([[6.0], *[[-2.5]] * 4]))
    assert (end.term, end.side, end.rows.tolist()) == (3, -1, [1000])


def test_a_row_that_counts_twice_is_two_rows():
    X, y = with_far_rows(*table(), 2, 5.0)
    for weight, far in ((1.0, True), (4.0, False)):
        weights = np.ones(ROWS)
        weights[:2] = weight
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            SNAMRegressor(random_state=0).fit(X, y, sample_weight=weights)
        assert [warning.category for warning in said] == [StrayRowsWarning] * far


def test_rows_that_alone_have_a_level_stay():
    X, y = with_far_rows(*table(), 3, -12.0)
    X["kind"] = np.where(np.arange(ROWS) < 3, "rare", np.where(np.arange(ROWS) % 2, "one", "other"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", StrayRowsWarning)
        model = SNAMRegressor(alpha=0.0, random_state=0).fit(X, y)
    assert np.abs(model.predict(X[:3]) - y[:3]).max() < 6.0


def test_rows_left_out_are_said_by_explanation_file_and_report(tmp_path):
    with pytest.warns(StrayRowsWarning, match="2 rows far from the others in 'area'") as caught:
        model = SNAMRegressor(random_state=0).fit(*with_far_rows(*table(), 2, 5.0))
    (said,) = {str(warning.message) for warning in caught}
    model.save(tmp_path / "model.snam")
    for each in (model, sparsenam.load(tmp_path / "model.snam")):
        assert said in each.explain().notes
    model.explain().report(tmp_path / "report.html")
    assert "2 rows far from the others" in (tmp_path / "report.html").read_text()


def three_columns(seed=0):
    """Return a table in which two columns act as a pair, and two far rows of the third that would turn its curve."""
    generator = np.random.default_rng(seed)
    X = pd.DataFrame({"area": np.exp(0.5 * generator.normal(size=900)), "age": generator.uniform(size=900)})
    X["b"] = generator.normal(size=900)
    y = np.log(X.area) + X.age + X.b + X.age * X.b + NOISE * generator.normal(size=900)
    return with_far_rows(X, y, 2, 8.0)


@pytest.mark.parametrize("pairs", [[("age", "b")], 1, [("area", "b")]])
def test_rows_left_out_stay_out_when_pairs_are_fitted(pairs):
    X, y = three_columns()
    without = SNAMRegressor(pairs=pairs, random_state=0).fit(X[2:], y[2:])
    with pytest.warns(StrayRowsWarning, match="2 rows far from the others in 'area'"):
        model = SNAMRegressor(pairs=pairs, random_state=0).fit(X, y)
    assert [pair.terms for pair in model.model_.pairs] == [pair.terms for pair in without.model_.pairs]
    at = pd.DataFrame({"area": [1.0, X.area[2:].max(), X.area.max()], "age": 0.5, "b": 0.0})
    assert np.abs(model.predict(at) - without.predict(at)).max() < 1.5 * NOISE
    assert np.abs(model.effects(at) - without.effects(at)).max() < 1.5 * NOISE
    assert model.residuals_.rows == 898


def test_bands_and_errors_do_not_count_rows_left_out():
    X, y = three_columns()
    X, y = X.drop(columns="b"), y - X.b - X.age * X.b
    without = SNAMRegressor(random_state=0).fit(X[2:], y[2:])
    with pytest.warns(StrayRowsWarning):
        model = SNAMRegressor(random_state=0).fit(X, y)
    at = pd.DataFrame({"area": [1.0, X.area[2:].max(), X.area.max()], "age": 0.5})
    widths, expected = ((each.upper - each.lower)[:, 0] for each in (model.effect_bands(at), without.effect_bands(at)))
    assert np.allclose(widths[1:], expected[1:], rtol=0.2)  # half as wide with rows that the fit does not have
    assert model.residuals_.rows == without.residuals_.rows == 898
    assert np.allclose(model.predict(at), without.predict(at), atol=0.05)
