"""Every kind of method on small synthetic splits, and the ℓ1 support-vector regression against its oracle."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor

from paper.baselines import insensitive_objective, insensitive_path
from paper.fitted import BY_THRESHOLD, EXACT_ZEROS, FittedMethod, choose
from paper.methods import METHODS, fit_paper_snam
from paper.tasks import Rows, Task

PAPER = {"hidden": [8], "learning_rate": 5e-3, "max_epochs": 2}
SETTINGS = {
    "paper-snam": {"lambdas": [0.1], **PAPER},
    "nam": {"learning_rates": [5e-3], "hidden": [8], "max_epochs": 2},
    "ebm": {"max_rounds": 20, "outer_bags": 2},
    "l1-svm": {"alphas": [0.1], "strengths": [0.1]},
    "l1-logistic": {"strengths": [0.1]},
}
CASES = [
    (kind, dataset)
    for kind in METHODS
    for dataset in ("synthetic-regression", "synthetic-classification")
    if (kind, dataset)
    not in {
        ("lasso", "synthetic-classification"),
        ("spam", "synthetic-classification"),
        ("l1-logistic", "synthetic-regression"),
    }
]


@pytest.fixture(scope="module")
def splits():
    size = {"n_rows": 300, "n_features": 6}
    return {
        name: Task({"dataset": name, **size}).split(0) for name in ("synthetic-regression", "synthetic-classification")
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # two epochs converge nowhere
@pytest.mark.parametrize(("kind", "dataset"), CASES)
def test_every_method_hands_over_effects_that_add_up_to_its_score(kind, dataset, splits):
    if kind == "ebm":
        pytest.importorskip("interpret")
    split = splits[dataset]
    fitted = METHODS[kind](split, SETTINGS.get(kind, {}), 0)
    answers, effects = fitted.predict(split.test.X), fitted.effects(split.test.X)
    assert answers.shape == split.test.y.shape
    assert effects.shape == split.test.X.shape
    scores = answers
    if split.kind == "classification":
        assert np.all((answers >= 0) & (answers <= 1))
        inside = (answers > 1e-9) & (answers < 1 - 1e-9)
        scores, effects = np.log(answers[inside] / (1 - answers[inside])), effects[inside]
    rest = scores - effects.sum(axis=1)
    assert np.ptp(rest) <= 1e-5 * max(1.0, np.ptp(scores))
    dropped = [index for index in range(6) if index not in fitted.support]
    assert np.all(np.ptp(fitted.effects(split.test.X)[:, dropped], axis=0) == 0)


def test_the_paper_model_has_two_outputs_for_two_classes(splits):
    fitted = METHODS["paper-snam"](splits["synthetic-classification"], {"lambdas": [0.0], **PAPER}, 0)
    assert fitted.n_parameters == 6 * (8 + 8 + 2 * 8) + 2


def test_half_the_papers_lambda_is_alpha_for_regression(splits):
    regression = METHODS["paper-snam"](splits["synthetic-regression"], {"lambdas": [0.1], **PAPER}, 0)
    classification = METHODS["paper-snam"](splits["synthetic-classification"], {"lambdas": [0.1], **PAPER}, 0)
    assert regression.chosen == {"lambda": 0.1, "alpha": 0.05}
    assert classification.chosen == {"lambda": 0.1, "alpha": 0.1}


def test_standardised_columns_make_units_irrelevant(splits):
    split = splits["synthetic-regression"]
    settings = {"lambdas": [0.1], "columns": "standardised", **PAPER}
    factors = np.array([1.0, 10.0, 0.1, 5.0, 1.0, 1.0])
    scaled = type(split)(
        split.kind,
        Rows(split.train.X * factors, split.train.y),
        Rows(split.test.X * factors, split.test.y),
        split.names,
    )
    one = METHODS["paper-snam"](split, settings, 0).predict(split.test.X)
    other = METHODS["paper-snam"](scaled, settings, 0).predict(scaled.test.X)
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_a_classification_has_no_spam(splits):
    with pytest.raises(ValueError, match="expected a regression"):
        METHODS["spam"](splits["synthetic-classification"], {}, 0)


@pytest.mark.parametrize("alpha", [0.3, 0.03, 0.003])
def test_without_insensitivity_the_support_vector_regression_is_median_regression(alpha):
    generator = np.random.default_rng(3)
    X = generator.normal(size=(200, 5))
    y = X @ [3.0, -1.0, 0.5, 0.0, 0.0] + generator.standard_t(2, size=200)
    ((coefficients, intercept),) = insensitive_path(X, y, [alpha], 0.0, tol=1e-6, max_iter=5000)
    # scikit-learn's pinball loss at ½ is half the absolute loss
    oracle = QuantileRegressor(quantile=0.5, alpha=alpha / 2, solver="highs").fit(X, y)
    best = insensitive_objective(X, y, oracle.coef_, oracle.intercept_, alpha, 0.0)
    assert insensitive_objective(X, y, coefficients, intercept, alpha, 0.0) <= best * (1 + 1e-4)
    assert set(np.flatnonzero(coefficients)) == set(np.flatnonzero(np.abs(oracle.coef_) > 1e-9))


def test_within_the_insensitive_tube_nothing_is_kept():
    generator = np.random.default_rng(4)
    X, y = generator.normal(size=(50, 3)), generator.uniform(-1, 1, size=50)
    ((coefficients, intercept),) = insensitive_path(X, y, [0.01], 2.0)
    assert not coefficients.any()
    assert insensitive_objective(X, y, coefficients, intercept, 0.01, 2.0) == 0.0


def test_a_setting_is_chosen_by_the_lowest_loss_on_rows_that_the_fit_has_not_seen():
    rows = Rows(np.arange(50.0)[:, None], np.full(50, 3.0))
    seen = []

    def fit(level, rows):
        seen.append(rows.y.size)
        return FittedMethod(lambda X: np.full(len(X), level), np.zeros_like, (), None)

    assert choose([1.0, 2.9, 5.0], fit, rows, "regression", 0) == 2.9
    assert seen == [40, 40, 40]
    assert choose([1.0], fit, rows, "regression", 0) == 1.0
    assert len(seen) == 3


def test_a_setting_whose_answers_are_not_finite_is_never_chosen():
    rows = Rows(np.zeros((20, 1)), np.zeros(20))

    def fit(level, rows):
        return FittedMethod(lambda X: np.full(len(X), level), np.zeros_like, (), None)

    assert choose([np.nan, 7.0], fit, rows, "regression", 0) == 7.0


def test_the_papers_model_has_exact_zeros_under_a_proximal_solver_and_says_so():
    split = Task({"dataset": "synthetic-regression", "n_rows": 200, "n_features": 4}).split(0)
    settings = {"penalty": "two_level_slope", "hidden": [4], "max_epochs": 3, "lambdas": [1e6]}
    proximal = fit_paper_snam(split, {**settings, "solver": "prox_adam"}, 0)
    assert proximal.support_rule == EXACT_ZEROS and proximal.support == ()
    assert proximal.chosen["lambda"] == 1e6
    assert fit_paper_snam(split, settings, 0).support_rule == BY_THRESHOLD
