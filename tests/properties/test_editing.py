"""Edits of shapes: monotone to the bit, flat where asked and untouched elsewhere, and taken back without a trace."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from sklearn.exceptions import ConvergenceWarning

import sparsenam
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.model import FittedCurve
from sparsenam.model.editing import flattened, knot_weights, monotone

ROWS = 240
SEEDS = st.integers(0, 2**32 - 1)


def random_shape(seed, outputs=1):
    """A shape with knots and values of sizes that differ by many orders, or alike."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(1, 40))
    spread = 10.0 ** draw.integers(-6, 7) * (1.0 if draw.uniform() < 0.5 else 10.0 ** draw.uniform(-6, 0, count))
    knots = np.unique(draw.normal(size=count) * spread + draw.choice([0.0, 1e4]))
    sizes = 10.0 ** draw.uniform(-8, 8, (knots.size, outputs)) if draw.uniform() < 0.5 else 10.0 ** draw.integers(-6, 6)
    values = draw.normal(size=(knots.size, outputs)) * sizes
    slopes = draw.normal(size=(2, outputs)) * draw.choice([0.0, 1.0])
    return FittedCurve(knots, values, *slopes, draw.normal(size=outputs)), draw


def points_around(shape, draw, count=2000):
    """Points in and around the knots, next to each of them above all, ascending."""
    knots = shape.knots
    reach = 1.0 + np.ptp(knots)
    near = [knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf), knots * (1 - 1e-15), knots * (1 + 1e-15)]
    return np.sort(np.concatenate([*near, draw.uniform(knots[0] - reach, knots[-1] + reach, count)]))


@given(SEEDS, st.sampled_from(["increasing", "decreasing"]))
@settings(max_examples=300)
def test_a_monotone_shape_never_turns_back_by_a_bit(seed, direction):
    shape, draw = random_shape(seed, outputs=1 + seed % 3)
    made = monotone(shape, direction, draw.normal(size=50), draw.uniform(size=50))
    steps = np.diff(made(points_around(made, draw)), axis=0)
    assert (steps >= 0).all() if direction == "increasing" else (steps <= 0).all()


@given(SEEDS)
def test_a_shape_that_is_monotone_already_stays_as_it_is(seed):
    shape, draw = random_shape(seed)
    rising = FittedCurve(shape.knots, np.sort(shape.values, axis=0), np.ones(1), np.zeros(1), shape.absent)
    made = monotone(rising, "increasing", draw.normal(size=50), np.ones(50))
    x = points_around(shape, draw, 100)
    size = np.abs(rising(x)).max()
    np.testing.assert_allclose(made(x), rising(x), rtol=1e-12, atol=1e-12 * size)


@pytest.mark.parametrize("seed", range(20))
def test_a_monotone_shape_is_about_the_projection_under_the_density_of_the_rows(seed):
    draw = np.random.default_rng(seed)
    knots, x = np.linspace(0.0, 1.0, 25), draw.beta(2.0, 4.0, 3000)
    values = np.sin(draw.uniform(2, 8) * knots + draw.uniform(0, 6))
    nothing = np.zeros(1)
    shape = FittedCurve(knots, values[:, None], nothing, nothing, nothing)
    made = monotone(shape, "increasing", x, np.ones(x.size))(x)[:, 0]
    hats = np.stack([np.interp(x, knots, row) for row in np.eye(knots.size)], axis=1)
    rises = hats @ np.tril(np.ones((knots.size, knots.size)))
    low = np.concatenate([[-np.inf], np.zeros(knots.size - 1)])
    best = rises @ lsq_linear(rises, shape(x)[:, 0], bounds=(low, np.inf), tol=1e-12).x
    off, least = (np.mean((found - shape(x)[:, 0]) ** 2) for found in (made, best))
    assert off <= 1.05 * least + 1e-4 * np.var(shape(x))


@given(SEEDS)
def test_the_weights_of_knots_are_those_of_the_rows(seed):
    draw = np.random.default_rng(seed)
    knots, x, weights = np.unique(draw.normal(size=9)), draw.normal(size=40), draw.uniform(0.5, 1.0, 40)
    mass = knot_weights(knots, x, weights)
    assert mass.sum() == pytest.approx(weights.sum(), rel=1e-6)
    inside = (x > knots[0]) & (x < knots[-1])
    alone = knot_weights(knots, x[inside], weights[inside])
    assert alone @ knots == pytest.approx(weights[inside] @ x[inside], rel=1e-6, abs=1e-6)


@given(SEEDS, st.floats(-2, 2), st.floats(0.01, 3), st.sampled_from(["both", "left", "right"]))
def test_a_flattened_shape_is_flat_between_and_the_same_elsewhere(seed, start, length, ends):
    draw = np.random.default_rng(seed)
    knots = np.unique(draw.normal(size=8))
    values, slopes = draw.normal(size=(knots.size, 2)), draw.normal(size=(2, 2))
    shape = FittedCurve(knots, values, *slopes, np.zeros(2))
    low = -np.inf if ends == "left" else start
    high = np.inf if ends == "right" else start + length
    made = flattened(shape, low, high, np.array([3.0, -1.0]), span=1.0)
    x = draw.uniform(-6, 6, 500)
    inside, outside = (x >= low) & (x <= high), (x < low - 1e-8) | (x > high + 1e-8)
    np.testing.assert_array_equal(made(x[inside]), np.broadcast_to([3.0, -1.0], (inside.sum(), 2)))
    np.testing.assert_allclose(made(x[outside]), shape(x[outside]), rtol=1e-9, atol=1e-9)


def mixed_table(seed=0):
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": draw.uniform(0, 10, ROWS),
            "age": draw.uniform(0, 100, ROWS),
            "town": draw.choice(["north", "south", "west", "east"], ROWS),
            "grade": pd.Categorical(draw.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high"], ordered=True),
            "noise": draw.normal(size=ROWS),
        }
    )
    score = np.sin(table["size"]) + 0.03 * table["age"] + (table["town"] == "north") + (table["grade"] == "high")
    table.loc[draw.uniform(size=ROWS) < 0.1, "age"] = np.nan
    score = score + table["age"].isna() + 0.2 * draw.normal(size=ROWS)
    return table, score.to_numpy()


def several_outputs():
    table, score = mixed_table()
    target = np.column_stack([score, table["size"] - score])
    return SNAMRegressor(alpha=0.005, random_state=0), table, target


def with_network():
    table, score = mixed_table()
    network = Network(hidden=(6,), max_epochs=30)
    return SNAMRegressor(alpha=0.0, network=network, random_state=0), table, score


def counts():
    table, score = mixed_table()
    return SNAMRegressor(alpha=0.005, family="poisson", random_state=0), table, np.round(np.exp(score / 2))


def classes(count):
    table, score = mixed_table()
    cuts = np.quantile(score, np.arange(1, count) / count)
    return SNAMClassifier(alpha=0.003, random_state=0), table, np.searchsorted(cuts, score)


def survival():
    table, score = mixed_table()
    times = np.random.default_rng(1).exponential(np.exp(-score)) + 0.01
    return SNAMSurvival(alpha=0.003, random_state=0), table, survival_target(times < 1, np.minimum(times, 1))


CASES = {
    "regression": lambda: (SNAMRegressor(alpha=0.005, random_state=0), *mixed_table()),
    "several outputs": several_outputs,
    "levels that are split": with_network,
    "counts": counts,
    "two classes": lambda: classes(2),
    "three classes": lambda: classes(3),
    "survival": survival,
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    model, table, target = CASES[request.param]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few epochs converge nowhere
        return model.fit(table, target), table, target


def random_edit(edited, draw):
    """Make one of the edits that the model allows, drawn at random; return its name."""
    outputs = edited.model_.intercept.size
    kept = [name for name, has in zip(edited.encoder_.names, edited.get_support(), strict=True) if has]
    shift = draw.normal(size=outputs)
    asked = {"shift_intercept": lambda **why: edited.shift_intercept(shift if outputs > 1 else shift[0], **why)}
    for name in kept:
        asked[f"drop {name}"] = lambda name=name, **why: edited.drop(name, **why)
    for name in {"size", "age", "noise"} & set(kept):
        if not all(edited.encoder_.terms[int(term)].name != name for term in edited.model_.terms):
            start, end = np.sort(draw.uniform(0, 10, 2))
            asked[f"flatten {name}"] = lambda name=name, ends=(start, end), **why: edited.flatten(name, *ends, **why)
            knots = np.sort(draw.uniform(0, 10, 5))
            values = draw.normal(size=(5, outputs)) if outputs > 1 else draw.normal(size=5)
            asked[f"set_shape {name}"] = lambda name=name, to=(knots, values), **why: edited.set_shape(name, *to, **why)
            if not edited.model_.family.couples_outputs:
                way = str(draw.choice(["increasing", "decreasing"]))
                asked[f"make {name} {way}"] = lambda name=name, way=way, **why: edited.make_monotone(name, way, **why)
    for name, levels in {"town": ["north", "south", "west"], "grade": ["low", "high"]}.items():
        if name in kept:
            asked[f"merge {name}"] = lambda name=name, of=levels, **why: edited.merge_levels(name, of, **why)
    word = str(draw.choice(sorted(asked)))
    asked[word](reason=f"drawn: {word}", who="chance")
    return word


def answers(model, table):
    """Everything that a model says of a table, with what it is."""
    words = ("predict", "predict_proba", "effects", "missing_effects", "get_support", "get_feature_names_out")
    said = {}
    for word in words:
        if hasattr(model, word):
            method = getattr(model, word)
            said[word] = method() if word.startswith("get") else method(table)
    return said | {"norms": model.norms_, "intercept": model.intercept_, "parameters": model.n_parameters_}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for word in one:
        np.testing.assert_array_equal(one[word], other[word], err_msg=word)


@pytest.mark.parametrize("seed", range(3))
def test_edits_are_taken_back_one_by_one_to_the_bit_and_the_fitted_model_never_changes(case, seed, tmp_path):
    model, table, target = case
    draw = np.random.default_rng(seed)
    fitted, edited = answers(model, table), model.edit(table, target)
    said = [answers(edited, table)]
    assert_same(said[0], fitted)
    for _ in range(6):
        random_edit(edited, draw)
        said.append(answers(edited, table))
        effects, scores = edited.effects(table), edited.model_.scores(edited.encoder_.encode(table))
        total = effects.sum(axis=1).reshape(len(table), -1) + edited.intercept_
        np.testing.assert_allclose(total, scores, rtol=0, atol=1e-10 * max(1.0, np.abs(scores).max()))
    edited.save(tmp_path / "edited.snam")
    loaded = sparsenam.load(tmp_path / "edited.snam")
    assert loaded.edits_ == edited.edits_ and len(loaded.edits_) == 6
    assert loaded.explain().to_dict() == edited.explain().to_dict()
    other = loaded.edit()
    for expected in reversed(said):
        assert_same(answers(edited, table), expected)
        assert_same(answers(other, table), expected)
        if edited.edits_:
            edited.undo()
            other.undo()
    assert_same(answers(model, table), fitted)
    assert model.edits_ == () and edited.edits_ == ()


def test_a_loaded_edited_model_saves_to_the_same_bytes(case, tmp_path):
    model, table, target = case
    edited = model.edit(table, target).drop("size", reason="a test")
    edited.save(tmp_path / "one.snam")
    sparsenam.load(tmp_path / "one.snam").save(tmp_path / "two.snam")
    assert (tmp_path / "one.snam").read_bytes() == (tmp_path / "two.snam").read_bytes()


# classes of several depend on each other, so that none of their scores is made monotone
@pytest.mark.parametrize("case", [name for name in CASES if name != "three classes"], indirect=True)
@pytest.mark.parametrize("direction", ["increasing", "decreasing"])
def test_predictions_of_an_edited_model_are_monotone_at_many_random_points(case, direction):
    model, table, _ = case
    edited = model.edit().make_monotone("size", direction, reason="a test")
    draw = np.random.default_rng(0)
    rows = table.iloc[np.zeros(100_000, dtype=int)].reset_index(drop=True)
    rows["size"] = np.sort(draw.uniform(-5, 15, len(rows)))
    scores = edited.model_.scores(edited.encoder_.encode(rows))
    steps = np.diff(scores, axis=0)
    assert (steps >= 0).all() if direction == "increasing" else (steps <= 0).all()
    assert np.ptp(scores) > 0
