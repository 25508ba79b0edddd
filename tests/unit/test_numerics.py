"""Numbers at the ends of their range: constant targets, huge and tiny cells, weights in any unit, flat losses."""

import json
import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold

import sparsenam
from fuzz.table_cases import draw
from fuzz.tables import examine
from sparsenam import (
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    survival_target,
)
from sparsenam.convex.design import grouped_design
from sparsenam.convex.newton import NewtonSolver
from sparsenam.convex.path import SortedSolver
from sparsenam.convex.problem import convex_problem
from sparsenam.convex.squared import rows_left_out
from sparsenam.errors import ConstantTargetWarning, InputError, RowError
from sparsenam.families import Gamma, NegativeBinomial, Quantile, Tweedie, dispersion
from sparsenam.penalties import GroupSLOPE
from sparsenam.selection.pairs import screen
from sparsenam.smooth.judge import WorkingProblem

ROWS = 30


def table(rows=ROWS, columns=2, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns))


def constants():
    """Return estimators by name, each with a target that holds one value, or next to nothing else."""
    signal, same = table()[:, 0], np.full(ROWS, 3.0)
    nearly = 1e9 + 1e-5 * signal
    found = {
        "labels": (SNAMClassifier, {}, np.column_stack([np.zeros(ROWS), np.ones(ROWS), signal > 0]).astype(int)),
        "random labels": (RandomFeatureSNAMClassifier, {}, np.column_stack([same, same > 9]).astype(int) // 3),
        "random features": (RandomFeatureSNAMRegressor, {}, same),
        "nearly, random features": (RandomFeatureSNAMRegressor, {"family": "huber"}, nearly),
        "network": (SNAMRegressor, {"network": Network(hidden=(4,), max_epochs=3)}, same),
        "pairs": (SNAMRegressor, {"pairs": 1}, same),
        "two outputs": (SNAMRegressor, {}, np.column_stack([same, signal])),
        "tied times": (SNAMSurvival, {}, survival_target(signal > 0, same)),
        "nearly tied times": (SNAMSurvival, {"ties": "breslow"}, survival_target(signal > -9, nearly)),
    }
    for family in ("gaussian", "huber", "quantile", "poisson", "negative_binomial", "gamma", "tweedie"):
        found[family] = (SNAMRegressor, {"family": family}, same)
    for family in ("gaussian", "huber", "tweedie"):
        found[f"nearly, {family}"] = (SNAMRegressor, {"family": family}, nearly)
    for family in ("poisson", "negative_binomial", "tweedie"):
        found[f"zeros, {family}"] = (SNAMRegressor, {"family": family}, np.zeros(ROWS))
    return found


CONSTANTS = constants()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_target_gives_a_model_like_any_other(name, tmp_path):
    make, settings, y = CONSTANTS[name]
    chosen = {} if "network" in settings else {"n_alphas": 5, "cv": KFold(2)}
    X, model = table(), make(random_state=0, **chosen, **settings)
    model.fit(X, y)
    assert np.isfinite(model.predict(X)).all() and np.isfinite(model.effects(X)).all()
    for ask in ("effect_bands", "predict_interval", "predict_set"):
        if hasattr(model, ask):
            try:
                getattr(model, ask)(X)
            except InputError as refusal:
                assert "\n" not in str(refusal)
    explanation = model.explain()
    json.loads(explanation.to_json(), parse_constant=pytest.fail)
    assert explanation.report(tmp_path / "report.html", model.explain_local(X)).exists()
    model.save(tmp_path / "model.snam")
    assert sparsenam.load(tmp_path / "model.snam").predict(X).tobytes() == model.predict(X).tobytes()


def test_a_column_beyond_the_range_of_products_is_refused_by_its_name_and_row():
    X, y = table(), table(seed=1)[:, 0]
    X[7, 1] = -1e308
    with pytest.raises(
        RowError, match=r"^column 'x1': expected numbers of at most 1e\+300 in size, got -1e\+308 in row 7"
    ):
        SNAMRegressor().fit(X, y)
    X[:, 1] = 1e200 * table(seed=2)[:, 0]
    with pytest.raises(InputError, match=r"^column 'x1': expected numbers of at most 1e\+100 in size, got"):
        SNAMRegressor().fit(X, y)


@pytest.mark.parametrize("network", [None, Network(hidden=(4,), max_epochs=2)])
@pytest.mark.parametrize("scale", [1e-300, 1e-308, 1e-320])
def test_a_column_whose_values_hardly_differ_is_refused_by_its_name(scale, network):
    X, y = table() * [1.0, scale], table(seed=1)[:, 0]
    with pytest.raises(InputError, match=r"^column 'x1': expected numbers that are equal or differ by 1e-100 or more"):
        SNAMRegressor(network=network).fit(X, y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            np.where(np.arange(ROWS) == 4, 1e308, 1.0),
            r"^y: expected numbers of at most 1e\+100 .* in row 4",
        ),
        (1e-300 * np.arange(ROWS), "^y: expected numbers that are equal or differ by 1e-100 or more"),
    ],
)
def test_a_target_beyond_the_range_of_products_is_refused(y, message):
    with pytest.raises(InputError, match=message):
        SNAMRegressor().fit(table(), y)


def test_exposures_and_times_beyond_the_range_of_products_are_refused():
    with pytest.raises(InputError, match=r"^exposure: expected 0 or numbers between"):
        SNAMRegressor(family="poisson").fit(table(), np.ones(ROWS), exposure=np.full(ROWS, 1e-200))
    with pytest.raises(InputError, match=r"^the times in y: expected numbers between"):
        survival_target([True, False], [1.0, 1e200])


@pytest.mark.parametrize("network", [None, Network(hidden=(4,), max_epochs=3)])
def test_columns_at_the_ends_of_the_range_give_finite_numbers(network, tmp_path):
    X = table(columns=3) * [1e99, 1e-99, 1.0]
    settings = {"n_alphas": 5, "cv": KFold(2)} if network is None else {"alpha": 1e-3}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model = SNAMRegressor(random_state=0, network=network, **settings).fit(X, X @ [1e-99, 1e99, 1.0])
        assert np.isfinite(model.predict(X)).all()
        model.explain().report(tmp_path / "report.html")


def test_cells_far_from_the_training_rows_give_a_finite_answer_or_a_refusal_that_names_the_row():
    X = table()
    far = X.copy()
    far[3, 0] = 1e308
    smooth = SNAMRegressor(random_state=0, n_alphas=5, cv=KFold(2)).fit(X, X[:, 0])
    assert np.isfinite(smooth.predict(far)).all()
    steep = SNAMRegressor(alpha=0.0, network=Network(hidden=(4,), max_epochs=20), random_state=0).fit(X, 1e9 * X[:, 0])
    for answer in (steep.predict, steep.effects):
        with pytest.raises(RowError, match=r"expected finite numbers, got one beyond the range of float64 in row 3;"):
            answer(far)


def test_weights_count_in_any_unit():
    X, weights = table(), np.random.default_rng(1).uniform(0.5, 1.0, size=ROWS)
    y = X[:, 0] + 0.1 * X[:, 1] ** 2
    fits = [
        SNAMRegressor(random_state=0, n_alphas=5, cv=KFold(2)).fit(X, y, sample_weight=unit * weights)
        for unit in (1.0, 2.0**1023, 2.0**-1000)
    ]
    assert len({model.predict(X).tobytes() for model in fits}) == 1


def test_a_target_whose_differences_are_taken_as_rounding_says_so_once():
    X = table(columns=1)
    with pytest.warns(ConstantTargetWarning, match=r"y differs by .*e-05 at most.* subtract the offset") as heard:
        SNAMRegressor(random_state=0, n_alphas=5).fit(X, 1e9 + 1e-5 * X[:, 0])
    assert len([each for each in heard if each.category is ConstantTargetWarning]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConstantTargetWarning)
        for y in (1e9 + 1e-3 * X[:, 0], np.where(X[:, 0] > 0, 0.1 + 0.2, 0.3), np.zeros(ROWS)):
            SNAMRegressor(random_state=0, n_alphas=5).fit(X, y)


def counted(monkeypatch, kind, method):
    """Count the calls of a method."""
    calls, original = [], getattr(kind, method)

    def counting(self, *given):
        calls.append(1)
        return original(self, *given)

    monkeypatch.setattr(kind, method, counting)
    return calls


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_extreme_quantile_takes_about_as_many_steps_as_the_median(monkeypatch):
    X = table(200, 4)
    y, steps = X[:, 0] + table(200, 1, seed=1)[:, 0], list[int]()
    for level in (0.5, 0.001):
        calls = counted(monkeypatch, NewtonSolver, "improve")
        SNAMRegressor(family=Quantile(level=level), n_alphas=10, cv=KFold(2), random_state=0).fit(X, y)
        steps.append(len(calls))
    assert steps[1] < 3 * steps[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_huber_loss_on_three_rows_takes_few_steps(monkeypatch):
    solved, improved = counted(monkeypatch, WorkingProblem, "solve"), counted(monkeypatch, NewtonSolver, "improve")
    SNAMRegressor(family="huber", random_state=0).fit(table(3, 6), table(3, 1, seed=1)[:, 0])
    assert len(solved) < 5000 and len(improved) < 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", ["huber", "quantile"])
def test_sorted_penalties_give_up_where_an_outlier_is_out_of_reach(family, monkeypatch):
    """A loss whose slope is bounded takes 10⁸ steps to a y of 10⁹."""
    X, calls = table(20, 3), counted(monkeypatch, SortedSolver, "_proximal_step")
    y = np.where(np.arange(20) == 3, 1e9, X[:, 0])
    settings = {"penalty": "group_slope", "n_alphas": 3, "cv": KFold(2, shuffle=True, random_state=0)}
    SNAMRegressor(family=family, random_state=0, **settings).fit(X, y)
    assert len(calls) < 2000


def test_sorted_penalties_take_steps_where_the_loss_is_far_above_what_can_be_explained():
    """Rounding of a loss of 10⁹ is no reason to halve steps: they would be halved until none is left."""
    X, family = table(20, 2), NegativeBinomial(25.0)
    y = np.where(np.arange(20) == 3, 1e9, np.round(np.exp(X[:, 0])))[:, None]
    design = grouped_design(lambda j: X[:, [j]], 2, np.ones(20))
    solver = SortedSolver(convex_problem(design, y, family, np.ones((1, 20))), GroupSLOPE("linear"))
    gaps, _ = solver.solve(0.01, 1e-4)
    assert np.isfinite(gaps).all() and solver._inverse_steps.max() < 1e6


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("family", ["huber", "poisson", "quantile"])
def test_weights_that_differ_by_fifteen_powers_of_ten_take_few_steps(family, monkeypatch):
    X, calls = table(200, 4), counted(monkeypatch, NewtonSolver, "improve")
    y, weights = np.abs(np.round(X[:, 0] + table(200, 1, seed=1)[:, 0])), np.where(np.arange(200) % 2, 1.0, 1e15)
    SNAMRegressor(family=family, n_alphas=10, cv=KFold(2), random_state=0).fit(X, y, sample_weight=weights)
    assert len(calls) < 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_without_terms_has_no_effects_of_missing_cells():
    model = SNAMRegressor(random_state=0).fit(np.ones((ROWS, 1)), table()[:, 0])
    assert not model.missing_effects(np.ones((ROWS, 1))).any()


@pytest.mark.parametrize("family", [Gamma(), Tweedie(power=1.1)])
def test_the_dispersion_of_a_fit_that_went_astray_is_a_number(family):
    scores, target = np.array([[600.0], [-700.0], [0.0]]), np.array([[1.0], [1e100], [1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(dispersion(family, scores, target, np.array([1.0, 0.0, 1.0]), 1.0))


def test_screening_pairs_after_a_perfect_fit_finds_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = screen(
            table(ROWS, 2).T,
            np.zeros(2, dtype=bool),
            np.zeros((ROWS, 1)),
            np.ones((ROWS, 1)),
            np.array([[0, 1]]),
            freedom=1.0,
            outputs=1.0,
            dispersion=None,
        )
    assert found.log_p.tolist() == [0.0] and found.gain.tolist() == [0.0]


def test_a_fold_that_leaves_nearly_all_weight_out_is_summed_by_itself():
    whole = np.array([1.0, 1e-17, 1e-17])
    assert rows_left_out(whole, np.array([0.0, 0.5, 0.5])) is None
    assert rows_left_out(np.full(4, 0.25), np.array([0.0, 1.0, 1.0, 1.0]) / 3.0) is not None


@pytest.mark.parametrize("number", [260, 637])
def test_eight_rows_some_without_exposure_stop_no_fit(number, tmp_path):
    assert examine(draw(72, number), tmp_path)[0] == []
