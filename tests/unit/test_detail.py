"""Fine curves: solved exactly, taken where held-out rows clearly want them, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import PredefinedSplit

import sparsenam
from sparsenam import SNAMRegressor
from sparsenam.errors import StrayRowsWarning
from sparsenam.fitting.detail import _Search
from sparsenam.smooth import fit
from sparsenam.smooth.detail import DetailProblem, DetailRows


def written_out(rows, weights):
    """Return the hat functions less their means (rows, knots), and P (knots, knots), all written out."""
    hats = rows.placed.times(np.eye(rows.placed.size))
    shares = weights @ hats
    for slot in rows.placed.knots:
        present = np.abs(hats[:, slot]).sum(axis=1) > 0
        hats[np.ix_(present, np.arange(slot.start, slot.stop))] -= shares[slot] / shares[slot].sum()
    precision = np.diag(rows.levels)
    for knot in range(rows.placed.size - 1):
        step = np.zeros(rows.placed.size)
        step[knot], step[knot + 1] = -1.0, 1.0
        precision += rows.costs[knot] * np.outer(step, step)
    return hats, precision


@given(seed=st.integers(0, 2**31), strength=st.floats(0.01, 100.0), gaps=st.booleans())
def test_conjugate_gradients_end_at_the_solution_of_the_normal_equations(seed, strength, gaps):
    generator = np.random.default_rng(seed)
    x = np.stack([generator.standard_normal(80), np.round(generator.standard_normal(80)), generator.integers(0, 4, 80)])
    if gaps:
        x[0, generator.random(80) < 0.2] = np.nan
    weights, target = generator.random(80) + 0.1, generator.standard_normal((80, 2))
    rows = DetailRows.of(x, weights, np.array([False, False, True]))
    hats, precision = written_out(rows, weights)
    found = DetailProblem(rows, weights).solve(target, strength, None, 1e-12)
    exact = np.linalg.solve(
        hats.T @ (weights[:, None] * hats) + strength * precision, hats.T @ (weights[:, None] * target)
    )
    assert np.allclose(found, exact, atol=1e-7)
    assert np.allclose(DetailProblem(rows, weights).effects(found), hats @ exact, atol=1e-7)


def test_some_terms_are_those_terms_alone():
    generator = np.random.default_rng(3)
    x, weights = generator.standard_normal((4, 50)), np.ones(50)
    x[2, :9] = np.nan
    all_terms, some = DetailRows.of(x, weights, np.zeros(4, bool)), np.array([0, 2])
    taken, alone = all_terms.take(some), DetailRows.of(x[some], weights, np.zeros(2, bool))
    values = generator.standard_normal((alone.placed.size, 1))
    assert np.array_equal(taken.costs, alone.costs)
    assert np.array_equal(taken.placed.times(values), alone.placed.times(values))


def jagged_table(seed, rows=3000):
    """Return four columns of 300 values each; two act, by a number drawn for each value, the same for all seeds."""
    effects, generator = np.random.default_rng(99).standard_normal((2, 300)), np.random.default_rng(seed)
    codes = generator.integers(0, 300, (rows, 4))
    signal = effects[0][codes[:, 0]] + effects[1][codes[:, 1]]
    return codes.astype(float), signal + 0.3 * generator.standard_normal(rows)


def fitted_with_few_ramps(X, y, **settings):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "COLUMNS", 40)  # a table with so many columns and rows that 2000 are few would take long
        return SNAMRegressor(random_state=0, always_keep=["x0", "x1"], **settings).fit(X, y)


@pytest.fixture(scope="module")
def jagged():
    return fitted_with_few_ramps(*jagged_table(0))


def test_effects_that_ramps_cannot_hold_are_found_by_fine_curves(jagged):
    X, y = jagged_table(1)
    assert jagged.model_.curves[0].knots.size == 300
    assert np.mean((jagged.predict(X) - y) ** 2) < 0.2  # the noise is 0.09, the signal 2
    assert list(jagged.get_feature_names_out()) == ["x0", "x1"]


def test_intervals_of_fine_curves_cover_fresh_rows(jagged):
    X, y = jagged_table(2)
    found = jagged.predict_interval(X, 0.9)
    low, high = found.lower, found.upper
    assert 0.87 < np.mean((low <= y) & (y <= high)) < 0.94


def test_rows_that_the_smooth_fit_left_out_turn_no_fine_curve():
    X, y = jagged_table(0)
    area = np.exp(0.5 * np.random.default_rng(9).standard_normal(len(y)))
    X, y = np.column_stack([X[:, :2], area]), y + np.log(area)
    X[:2, 2], y[:2] = 3.0 * area.max() * np.array([1.0, 1.2]), y[:2] - 20.0
    with pytest.warns(StrayRowsWarning):
        model = fitted_with_few_ramps(X, y)
    assert model.model_.curves[0].knots.size == 300
    assert model.residuals_.rows == len(y) - 2
    middle, last, far = model.effects([[0.0, 0.0, cell] for cell in (1.0, area[2:].max(), X[:, 2].max())])[:, 2]
    assert middle < last < far + 0.1


def test_bands_of_fine_curves_are_refused(jagged):
    with pytest.raises(ValueError, match="finer detail than the fit can say the uncertainty of"):
        jagged.effect_bands(jagged_table(0)[0])


def test_a_file_keeps_fine_curves_to_the_bit(jagged, tmp_path):
    X, _ = jagged_table(3)
    jagged.save(tmp_path / "fine.snam")
    assert np.array_equal(sparsenam.load(tmp_path / "fine.snam").predict(X), jagged.predict(X))


def test_smooth_effects_stay_as_they_were_however_few_the_ramps():
    generator = np.random.default_rng(5)
    X = generator.uniform(-1, 1, (1500, 2))
    y = np.sin(9 * X[:, 0]) + np.cos(11 * X[:, 1]) + 0.3 * generator.standard_normal(1500)
    model = fitted_with_few_ramps(X, y)
    assert max(shape.knots.size for shape in model.model_.curves) <= 41


def test_columns_that_matter_in_detail_only_come_back_up_to_max_features():
    X, y = jagged_table(4)
    X[:, 2] = np.random.default_rng(6).permutation(np.tile(np.arange(300.0), 10))
    y += np.where(X[:, 2] % 2, 1.0, -1.0)  # as often up as down: nothing that a curve of 16 ramps could follow
    free, tight = fitted_with_few_ramps(X, y), fitted_with_few_ramps(X, y, max_features=2)
    assert list(free.get_feature_names_out()) == ["x0", "x1", "x2"]
    assert free.readmitted_ == ("x2",)
    assert list(tight.get_feature_names_out()) == ["x0", "x1"]


def test_columns_that_gain_nothing_in_detail_go_by_the_rule():
    X, y = jagged_table(7, rows=1500)
    X = np.column_stack([X, np.random.default_rng(8).integers(0, 300, (1500, 4))])
    kept = {rule: set(fitted_with_few_ramps(X, y, rule=rule).get_feature_names_out()) for rule in ("compact", "best")}
    assert kept["compact"] == {"x0", "x1"}
    assert kept["compact"] <= kept["best"]


def test_an_alpha_that_was_set_keeps_its_columns():
    X, y = jagged_table(0)
    model = fitted_with_few_ramps(X, y, alpha=0.05)
    assert set(model.get_feature_names_out()) >= {"x0", "x1"}
    assert model.readmitted_ == ()


def small_first_fold(rows):
    folds = 1 + np.arange(rows) % 4
    folds[[8, 9]] = 0
    return PredefinedSplit(folds)


def test_a_first_fold_of_two_rows_decides_nothing():
    generator = np.random.default_rng(5)
    X = generator.uniform(-1, 1, (1500, 4))
    y = np.sin(9 * X[:, 0]) + np.cos(11 * X[:, 1]) + 0.3 * generator.standard_normal(1500)
    smooth = fitted_with_few_ramps(X, y, cv=small_first_fold(1500))
    assert list(smooth.get_feature_names_out()) == ["x0", "x1"]
    assert max(shape.knots.size for shape in smooth.model_.curves) <= 41
    jagged = fitted_with_few_ramps(*jagged_table(0), cv=small_first_fold(3000))
    assert jagged.model_.curves[0].knots.size == 300


@pytest.fixture(scope="module")
def many_codes():
    """A default fit that runs out of ramps without help: 16 columns of codes, each with a number of its own."""
    generator = np.random.default_rng(1)
    X = generator.integers(0, 200, (8000, 24)).astype(float)
    effects = generator.standard_normal((16, 200))
    y = sum(effects[column][X[:, column].astype(int)] for column in range(16)) + generator.standard_normal(8000)
    return SNAMRegressor(random_state=0).fit(X, y), X, y


def test_evidence_and_reasons_are_those_of_the_fine_curves(many_codes):
    model, _, _ = many_codes
    assert model.evidence_.gain > 0.8
    explanation = model.explain()
    dropped = {each.name: each.reason for each in explanation.dropped}
    assert {feature.name for feature in explanation.features} == {f"x{column}" for column in range(16)}
    assert not any("training under the penalty" in reason for reason in dropped.values())
    assert model.cv_curve_ is not None


def test_time_that_runs_out_before_fine_curves_is_said(monkeypatch):
    def timeless(search, groups, strengths):
        search.context.clock.seconds = 0.0
        return 1.0

    monkeypatch.setattr(_Search, "best_strength", timeless)
    with pytest.warns(ConvergenceWarning, match="max_seconds ran out before finer curves"):
        model = fitted_with_few_ramps(*jagged_table(0), max_seconds=1000)
    assert max(shape.knots.size for shape in model.model_.curves) <= 41
