"""Pairs of columns in fits: what is found, what sums up, what is refused."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from pair_cases import margins
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.errors import InputError
from sparsenam.tables.text import UnseenMissingWarning

ROWS = 700
PAIR = (("c", "d"),)


def table(rows=ROWS, seed=0):
    """Columns with gaps and a category; c and d act only together, a alone."""
    generator = np.random.default_rng(seed)
    X = pd.DataFrame(generator.normal(size=(rows, 4)), columns=list("abcd"))
    X["sort"] = np.array(list("uvw"), dtype=object)[generator.integers(3, size=rows)]
    X.loc[generator.uniform(size=rows) < 0.1, "b"] = np.nan
    return X, (1.5 * np.sin(2 * X.a) + 2.0 * np.sign(X.c) * np.sign(X.d)).to_numpy(), generator


def assert_sums_up(model, X):
    encoded = model.encoder_.encode(X)
    scores = model.model_.scores(encoded)
    total = model.effects(X).reshape(len(X), -1, scores.shape[1]).sum(axis=1) + model.intercept_
    total = total + model.interaction_effects(X).reshape(len(X), -1, scores.shape[1]).sum(axis=1)
    assert np.abs(total - scores).max() <= 1e-10
    for pair in model.model_.pairs:
        assert max(np.abs(margin).max() for margin in margins(pair)) <= 1e-10


def targets(score, generator):
    size, mean = score.size, np.exp(0.4 * score)
    several = np.stack([score, -score, np.zeros(size)], axis=1)
    time, end = generator.exponential(np.exp(-score)), generator.exponential(3.0, size)
    sure = generator.uniform(size=size) < 1 / (1 + np.exp(-score))
    return {
        "gaussian": (SNAMRegressor(pairs="auto"), score + generator.normal(size=size)),
        "binary": (SNAMClassifier(pairs="auto"), sure),
        "classes": (SNAMClassifier(pairs="auto"), np.argmax(several + generator.gumbel(size=several.shape), axis=1)),
        "labels": (SNAMClassifier(pairs="auto"), np.stack([sure, ~sure], axis=1).astype(int)),
        "poisson": (SNAMRegressor(family="poisson", pairs="auto"), generator.poisson(mean)),
        "gamma": (SNAMRegressor(family="gamma", pairs="auto"), generator.gamma(3.0, mean / 3.0)),
        "quantile": (SNAMRegressor(alpha=0.05, family="quantile", pairs="auto"), score + generator.normal(size=size)),
        "survival": (SNAMSurvival(pairs="auto"), survival_target(time < end, np.minimum(time, end) + 1e-3)),
    }


@pytest.mark.parametrize(
    "kind", ["gaussian", "binary", "classes", "labels", "poisson", "gamma", "quantile", "survival"]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pair_without_main_effects_is_found_and_everything_sums_up(kind):
    X, score, generator = table()
    model, y = targets(score, generator)[kind]
    model.set_params(random_state=0).fit(X, y)
    assert PAIR[0] in model.interactions_
    assert {"a", "c", "d"} <= set(model.get_feature_names_out())
    assert_sums_up(model, X)


def test_an_additive_table_has_no_pair():
    X, _, generator = table()
    y = (np.sin(2 * X.a) + 0.5 * X.c**2).to_numpy() + generator.normal(size=ROWS)
    model = SNAMRegressor(pairs="auto", random_state=0).fit(X, y)
    assert model.interactions_ == ()
    assert model.interaction_effects(X).shape == (ROWS, 0)
    plain = SNAMRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_pairs_that_are_named_are_in_and_no_others():
    X, score, generator = table()
    y = score + generator.normal(size=ROWS)
    model = SNAMRegressor(pairs=[("sort", "b"), (0, "c")], random_state=0).fit(X, y)
    assert model.interactions_ == (("sort", "b"), ("a", "c"))
    assert_sums_up(model, X)
    # what was never missing adds nothing where it is missing now, alone or with another
    with pytest.warns(UnseenMissingWarning):
        effects = model.interaction_effects(X.assign(sort=None))
    np.testing.assert_array_equal(effects[:, ["sort" in pair for pair in model.interactions_]], 0.0)


def test_a_cap_is_the_best_so_many():
    X, score, generator = table()
    y = score + np.where(X.sort == "u", 1.0, -1.0) * X.a + generator.normal(size=ROWS)
    assert len(SNAMRegressor(pairs="auto", random_state=0).fit(X, y).interactions_) == 2
    assert SNAMRegressor(pairs=1, random_state=0).fit(X, y).interactions_ == PAIR


@pytest.mark.parametrize(("heredity", "found"), [("none", PAIR), ("weak", ()), ("strong", ())])
def test_heredity_decides_which_pairs_are_tested(heredity, found):
    X, score, generator = table()
    model = SNAMRegressor(pairs="auto", heredity=heredity, random_state=0).fit(X, score + generator.normal(size=ROWS))
    assert model.interactions_ == found


def test_the_order_of_rows_and_of_columns_changes_nothing_that_matters():
    X, score, generator = table()
    y = score + generator.normal(size=ROWS)
    order = generator.permutation(ROWS)
    one = SNAMRegressor(pairs="auto", random_state=0).fit(X, y)
    other = SNAMRegressor(pairs="auto", random_state=0).fit(X.iloc[order][["sort", "d", "c", "b", "a"]], y[order])
    assert set(map(frozenset, one.interactions_)) == set(map(frozenset, other.interactions_))
    difference = one.predict(X) - other.predict(X[["sort", "d", "c", "b", "a"]])
    assert np.sqrt(np.mean(difference**2)) < 0.1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pairs": [("a", "a")]}, "two different columns"),
        ({"pairs": [("a", "fixed")]}, "columns that vary"),
        ({"pairs": [("a", "nobody")]}, "names of columns"),
        ({"pairs": [("a", "b"), ("b", "a")]}, "each pair once"),
        ({"pairs": 10**6}, "at most the 15 pairs"),
        ({"pairs": [("a", "b")] * 101}, "at most 100 named pairs"),
        ({"pairs": -1}, "at least 0"),
        ({"pairs": "all"}, "'auto'"),
        ({"pairs": True}, "'auto'"),
        ({"pairs": ["ab"]}, "two columns in each pair"),
        ({"pairs": "auto", "heredity": "some"}, "heredity"),
        ({"pairs": 0, "heredity": "weak"}, "could not act"),
        ({"pairs": [("a", "b")], "heredity": "weak"}, "could not act"),
        ({"pairs": 1, "network": Network((4,))}, "with a network"),
        ({"pairs": 1, "refit": False}, "refit=False"),
        ({"pairs": [("a", "b")], "shapes": {"a": "concave"}}, "leave it out of pairs"),
        ({"pairs": [("a", "b")], "shapes": {"b": "steps+increasing"}}, "leave it out of pairs"),
    ],
)
@pytest.mark.filterwarnings("ignore::sparsenam.errors.ConstantColumnWarning")
def test_requests_that_cannot_be_met_get_one_sentence(settings, words):
    X, score, _ = table(60)
    X["fixed"] = 1.0
    with pytest.raises(InputError, match=words) as error:
        SNAMRegressor(random_state=0, **settings).fit(X, score)
    assert "\n" not in str(error.value)


def test_a_column_is_dropped_by_an_edit_with_its_pair_and_other_edits_keep_the_pair():
    X, score, generator = table()
    model = SNAMRegressor(pairs="auto", random_state=0).fit(X, score + generator.normal(size=ROWS))
    assert model.interactions_ == PAIR
    edited = model.edit()
    with pytest.raises(InputError, match="in no pair"):
        edited.make_monotone("d", "increasing", reason="known")
    edited.drop("c", reason="costly")
    assert edited.interactions_ == () and "c" not in edited.get_feature_names_out()
    assert_sums_up(edited, X)
    edited.undo()
    assert edited.interactions_ == PAIR
    edited.flatten("a", 0.0, np.inf, reason="few rows")
    np.testing.assert_array_equal(edited.interaction_effects(X), model.interaction_effects(X))
    assert_sums_up(edited, X)
    np.testing.assert_array_equal(edited.undo().predict(X), model.predict(X))


def test_what_is_asked_of_a_column_holds_beside_pairs():
    """A pair is found of a column that must rise, and not of one that must bend."""
    X, score, generator = table()
    y = score + 0.5 * X.b.fillna(0.0).to_numpy() + generator.normal(size=ROWS)
    model = SNAMRegressor(pairs="auto", shapes={"a": "increasing"}, random_state=0).fit(X, y)
    assert model.interactions_ == PAIR
    assert_sums_up(model, X)
    grid = X.iloc[np.zeros(500, dtype=int)].assign(a=np.linspace(-4, 4, 500))
    assert (np.diff(model.predict(grid)) >= 0.0).all()
    shaped = SNAMRegressor(pairs="auto", shapes={"c": "convex"}, random_state=0).fit(X, y)
    assert all("c" not in pair for pair in shaped.interactions_)


@pytest.mark.parametrize("make", [SNAMRegressor, SNAMClassifier])
def test_a_further_pair_does_not_make_the_fit_worse(make):
    """Neither on the rows of the fit nor, beyond noise, on others: steps, a smooth surface, pairs without effect."""
    generator = np.random.default_rng(7)
    X = generator.uniform(-1, 1, size=(4000, 4))
    score = 2.0 * ((X[:, 0] > 0.2) & (X[:, 1] < 0.4)) + 1.5 * np.sin(3 * X[:, 2] * X[:, 3]) + X[:, 0]
    y = score + 0.5 * generator.normal(size=4000)
    if make is SNAMClassifier:
        y = (y > 1.0).astype(int)
    pairs = [("x0", "x1"), ("x2", "x3"), ("x0", "x2"), ("x1", "x3"), ("x0", "x3"), ("x1", "x2")]
    table = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
    losses = []
    for count in (0, 1, 2, 4, 6):
        model = make(pairs=pairs[:count], random_state=0).fit(table[:1500], y[:1500])
        if make is SNAMClassifier:
            missed = -np.log(np.choose(y, model.predict_proba(table).T))
        else:
            missed = (model.predict(table) - y) ** 2
        losses.append((missed[:1500].mean(), missed[1500:].mean()))
    for before, after in pairwise(np.array(losses)):
        assert np.all(after <= before * 1.02)


def test_a_step_in_a_pair_stays_a_step():
    """A prior that is equally strong everywhere would spread it over the width of several intervals."""
    generator = np.random.default_rng(8)
    X = generator.uniform(size=(2000, 2))
    y = 2.0 * ((X[:, 0] > 0.5) == (X[:, 1] > 0.5)) + 0.5 * generator.normal(size=2000)
    model = SNAMRegressor(pairs=[(0, 1)], random_state=0).fit(X, y)
    beside, away = model.predict(np.array([[0.46, 0.25], [0.54, 0.25]])), model.predict(np.array([[0.1, 0.25]]))
    assert beside[0] - beside[1] > 1.6
    assert abs(beside[0] - away[0]) < 0.25


@pytest.mark.parametrize("seed", range(4))
def test_amounts_of_heavy_tails_have_no_pairs_of_their_own(seed):
    """Large amounts had all the curvature of their cells: pairs were found that put means off by a factor."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(800, 6))
    mean = np.exp(np.sin(2 * X[:, 0]) + 0.5 * X[:, 3] ** 2 - 0.5)
    claims = generator.poisson(1.5, mean.size)
    y = np.array([generator.gamma(2.0, size / 3.0, n).sum() for size, n in zip(mean, claims, strict=True)])
    assert SNAMRegressor(family="tweedie", random_state=0).fit(X, y).interactions_ == ()
