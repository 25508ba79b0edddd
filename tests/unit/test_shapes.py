"""Shapes that a user asks for: what they mean, that they hold exactly, and what is said where they cannot."""

import numpy as np
import pandas as pd
import pytest

from smooth_cases import scores_of
from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, load, survival_target
from sparsenam.context import Context, Streams
from sparsenam.errors import InputError
from sparsenam.families import Gaussian
from sparsenam.smooth.constraints import Shape, StepBins, read_shape
from sparsenam.smooth.fit import smooth_fit

CONTEXT = Context(Streams(0))
ROWS = 250
FAMILIES = ("gaussian", "huber", "quantile", "poisson", "negative_binomial", "gamma", "tweedie")
TASKS = (*FAMILIES, "two targets", "two classes", "labels", "survival")
UNKNOWN = ("wavy", "", "increasing+", 3, None)
CONTRADICTIONS = (
    "increasing+decreasing",
    "convex+concave",
    "linear+steps",
    "linear+convex",
    "steps+concave",
    "smooth+increasing",
    "increasing+increasing",
)
KEEP_ALL = {"alpha": 1e-4, "random_state": 0}


def table(rows=ROWS, seed=0):
    generator = np.random.default_rng(seed)
    return pd.DataFrame({"wave": generator.normal(size=rows), "rise": generator.gamma(2.0, 5.0, rows)})


def score_of(X):
    return np.sin(2.0 * X["wave"].to_numpy()) + np.sqrt(X["rise"].to_numpy()) - 3.0


def fitted(task, shapes, seed=0):
    """Return a model that keeps both columns of a small table, with a target of one task."""
    X, generator = table(seed=seed), np.random.default_rng(100 + seed)
    score, noise = score_of(X), generator.normal(size=ROWS)
    mean, chance = np.exp(0.5 * score), 1.0 / (1.0 + np.exp(-score))
    if task == "survival":
        event, time = generator.random(ROWS) < 0.7, generator.exponential(size=ROWS) * np.exp(-score)
        return SNAMSurvival(shapes=shapes, **KEEP_ALL | {"alpha": 0.05}).fit(X, survival_target(event, time))
    if task in ("two classes", "labels"):
        labels = (generator.random((ROWS, 2)) < np.stack([chance, 1.0 - chance], axis=1)).astype(int)
        return SNAMClassifier(shapes=shapes, **KEEP_ALL).fit(X, labels[:, 0] if task == "two classes" else labels)
    if task == "two targets":
        return SNAMRegressor(shapes=shapes, **KEEP_ALL).fit(X, np.stack([score + noise, noise - score], axis=1))
    targets = {"poisson": generator.poisson(mean), "negative_binomial": generator.poisson(mean)}
    targets |= {"gamma": mean * generator.gamma(2.0, size=ROWS)}
    targets |= {"tweedie": mean * generator.gamma(2.0, size=ROWS) * (generator.random(ROWS) < 0.7)}
    y = np.asarray(targets.get(task, score + noise), dtype=float)
    return SNAMRegressor(family=task, shapes=shapes, **KEEP_ALL).fit(X, y)


def scores(model, X):
    return model.model_.scores(model.encoder_.encode(X))


def steps_along(model, column, points):
    """Return the changes of the scores from one of the rising points of a column to the next, shape (…, outputs)."""
    X = pd.DataFrame({name: np.full(points.size, table()[name].median()) for name in table()}).assign(
        **{column: points}
    )
    return np.diff(scores(model, X), axis=0)


def hard_points(model, column):
    """Return random points, within and far beyond the data, and the numbers next to every knot."""
    values, generator = table()[column], np.random.default_rng(5)
    width = np.ptp(values)
    points = [generator.uniform(values.min() - width, values.max() + width, 5000)]
    for term, shape in zip(model.model_.terms, model.model_.curves, strict=True):
        if model.encoder_.terms[int(term)].name == column:
            near = shape.knots
            for _ in range(3):
                near = np.unique(np.concatenate([near, np.nextafter(near, -np.inf), np.nextafter(near, np.inf)]))
            points.append(near)
    return np.unique(np.concatenate(points))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of the choice, which is not the question
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["increasing", "decreasing", "increasing+concave", "steps+increasing"])
def test_a_monotone_effect_never_turns_back_by_a_single_bit(task, kind):
    model = fitted(task, {"wave": kind, "rise": kind})
    sign = -1 if "decreasing" in kind else 1
    for column in model.get_feature_names_out():
        assert (sign * steps_along(model, column, hard_points(model, column)) >= 0).all()


@pytest.mark.parametrize("kind", ["convex", "concave", "increasing+convex", "decreasing+concave"])
def test_a_bend_holds_everywhere_and_its_ends_run_on(kind):
    model = fitted("gaussian", {"wave": kind, "rise": kind})
    sign = 1 if "convex" in kind else -1
    for shape in model.model_.curves:
        slopes = np.diff(shape.values[:, 0]) / np.diff(shape.knots)
        every = np.concatenate([shape.left_slope, slopes, shape.right_slope])
        assert (sign * np.diff(every) >= -1e-9 * np.abs(every).max()).all()


def test_a_constraint_that_does_not_bind_changes_nothing():
    generator = np.random.default_rng(0)
    X = generator.uniform(-1.0, 1.0, (600, 2))
    y = 3.0 * X[:, 0] + X[:, 0] ** 3 + np.sin(3.0 * X[:, 1]) + 0.1 * generator.normal(size=600)
    plain = SNAMRegressor(random_state=0, shapes={0: "smooth"}).fit(X, y)
    rising = SNAMRegressor(random_state=0, shapes={0: "increasing"}).fit(X, y)
    np.testing.assert_allclose(rising.predict(X), plain.predict(X), atol=1e-8)
    nothing = SNAMRegressor(random_state=0).fit(X, y)
    np.testing.assert_allclose(nothing.predict(X), plain.predict(X), atol=1e-8)


def test_a_line_has_one_slope_and_goes_on_beyond_the_data():
    model = fitted("gaussian", {"rise": "linear"})
    points = np.array([-100.0, 0.0, 50.0, 150.0, 1000.0])
    slopes = steps_along(model, "rise", points)[:, 0] / np.diff(points)
    assert slopes[0] > 0.01
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)


def test_steps_are_constant_between_jumps_halfway_between_values():
    generator = np.random.default_rng(0)
    x = generator.integers(0, 6, 400).astype(float)
    y = np.array([0.0, 0.0, 2.0, 2.0, -1.0, -1.0])[x.astype(int)] + 0.3 * generator.normal(size=400)
    model = SNAMRegressor(random_state=0, shapes={0: "steps"}).fit(x[:, None], y)
    near = model.predict(np.array([[1.0], [1.49], [1.51], [2.0], [2.3], [9.0], [5.0], [-7.0], [0.0]]))
    assert near[0] == near[1] and near[2] == near[3] == near[4] and near[5] == near[6] and near[7] == near[8]
    assert abs(near[0]) < 0.15 and abs(near[2] - 2.0) < 0.15 and abs(near[5] + 1.0) < 0.15
    (shape,) = model.model_.curves
    assert shape.knots.size <= 2 * 5


def test_steps_fit_jumps_better_than_a_curve_does():
    errors = {"steps": 0.0, "smooth": 0.0}
    for seed in range(6):
        generator = np.random.default_rng(seed)
        x = generator.normal(size=(1, 1500))
        truth = np.where(x[0] > 0.3, 1.0, -1.0) + (x[0] > -0.8)
        target = (truth + 0.5 * generator.normal(size=1500))[:, None]
        for name in errors:
            fit = smooth_fit(x, target, np.ones(1500), Gaussian(), shapes={0: read_shape(name, "")}, context=CONTEXT)
            errors[name] += np.mean((scores_of(fit, x)[:, 0] - truth) ** 2)
    assert errors["steps"] < 0.8 * errors["smooth"]


def test_bins_hold_every_cell_and_no_cell_lies_in_a_jump():
    cells = np.random.default_rng(0).gamma(1.0, size=500)
    bins = StepBins.of(cells, np.ones(500), 40)
    rounded = bins.rounded(cells)
    assert set(rounded) == set(bins.values) and bins.values.size <= 41
    assert bins.rows.sum() == 500
    assert (rounded <= cells).all()
    assert (np.abs(cells[:, None] - bins.cuts) > bins.widths).all()


def test_a_column_against_whose_shape_the_data_speak_is_dropped_and_the_explanation_says_why():
    model = fitted("gaussian", {"rise": "decreasing"})
    assert list(model.get_feature_names_out()) == ["wave"]
    (dropped,) = model.explain().dropped
    assert "speak against the shape" in dropped.reason


def test_what_must_be_kept_stays_with_no_effect():
    X, y = table(), score_of(table())
    model = SNAMRegressor(shapes={"rise": "decreasing"}, always_keep=["rise"], random_state=0).fit(X, y)
    assert "rise" in model.get_feature_names_out()
    assert (model.effects(X)[:, 1] == 0.0).all()


def test_a_curve_that_is_nearly_straight_is_called_linear_by_the_explanation():
    found = []
    for seed in range(6):
        generator = np.random.default_rng(seed)
        X = pd.DataFrame(generator.normal(size=(1000, 2)), columns=["wave", "line"])
        y = np.sin(2.0 * X.wave) + X.line + 0.5 * generator.normal(size=1000)
        explanation = SNAMRegressor(alpha=0.01, random_state=0).fit(X, y).explain()
        assert explanation.feature("wave").form == "curved"
        found.append(explanation.feature("line").form == "linear")
        assert ("  line " in str(explanation)) and (", linear" in str(explanation)) == found[-1]
    assert sum(found) >= 4


def test_the_explanation_names_the_shape_that_was_asked_for():
    explanation = fitted("gaussian", {0: "smooth", "rise": "increasing + concave"}).explain()
    assert explanation.feature("rise").form == "increasing+concave"
    assert explanation.feature("wave").form == "curved"


@pytest.mark.parametrize("kind", ["increasing", "linear", "steps", "concave"])
def test_a_model_with_shapes_is_read_from_its_file_to_the_bit(tmp_path, kind):
    model = fitted("gaussian", {"rise": kind})
    model.save(tmp_path / "model.snam")
    again, X = load(tmp_path / "model.snam"), table()
    X.loc[0, "rise"] = -1000.0
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.get_params()["shapes"] == {"rise": kind}
    assert again.explain().feature("rise").form == kind


def test_missing_cells_are_outside_of_a_shape():
    X, y = table(), score_of(table())
    X.loc[::5, "rise"] = np.nan
    model = SNAMRegressor(shapes={"rise": "increasing"}, **KEEP_ALL).fit(X, y)
    assert (steps_along(model, "rise", hard_points(model, "rise")) >= 0).all()


@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_steps_far_from_zero_keep_their_jumps(shift):
    generator = np.random.default_rng(0)
    x = shift + generator.integers(0, 4, 300).astype(float)
    y = (x - shift > 1.5) + 0.1 * generator.normal(size=300)
    model = SNAMRegressor(shapes={0: "steps"}, random_state=0).fit(x[:, None], y)
    low, high = model.predict(np.array([[shift + 1.0], [shift + 2.0]]))
    assert abs(low) < 0.05 and abs(high - 1.0) < 0.05


@pytest.mark.parametrize(
    ("text", "sign", "bend", "runs_on"),
    [
        ("increasing", 1, 0, (False, False)),
        ("decreasing", -1, 0, (False, False)),
        ("convex", 0, 1, (True, True)),
        ("increasing+convex", 1, 1, (False, True)),
        ("increasing+concave", 1, -1, (True, False)),
        ("decreasing+convex", -1, 1, (True, False)),
        ("decreasing + concave", -1, -1, (False, True)),
        ("linear+increasing", 1, 0, (True, True)),
        ("steps+decreasing", -1, 0, (False, False)),
    ],
)
def test_a_shape_is_read_from_its_words(text, sign, bend, runs_on):
    shape = read_shape(text, "test")
    assert (shape.sign, shape.bend, shape.runs_on) == (sign, bend, runs_on)


def test_an_empty_shape_asks_for_nothing():
    assert Shape().is_free and read_shape("smooth", "test").is_free


@pytest.mark.parametrize("text", [*UNKNOWN, *CONTRADICTIONS], ids=repr)
def test_words_that_do_not_go_together_get_one_sentence(text):
    with pytest.raises(InputError) as caught:
        SNAMRegressor(shapes={"wave": text}).fit(table(), score_of(table()))
    message = str(caught.value)
    assert message.startswith("shapes of column 'wave': expected ") and message.endswith(".") and len(message) < 300


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"kind": "increasing"}, "a category"),
        ({"same": "linear"}, "a constant column"),
        ({"alone": "linear"}, "a constant column"),
        ({"wave": "increasing", 0: "linear"}, "two, by name and by position"),
        ({"nobody": "increasing"}, "'nobody'"),
        ({7: "increasing"}, "7"),
        ("increasing", "a dictionary"),
    ],
)
@pytest.mark.filterwarnings("ignore::sparsenam.errors.ConstantColumnWarning")
def test_a_column_that_can_have_no_shape_is_said_in_one_sentence(shapes, said):
    X = table().assign(kind=list("abcde") * (ROWS // 5), same=1.0, alone=np.arange(ROWS) == 0)
    X = X.assign(alone=X.alone.astype(float))
    weights = np.where(np.arange(ROWS) == 0, 0.0, 1.0)  # of the only row in which "alone" differs
    with pytest.raises(InputError, match=f"shapes.*{said}"):
        SNAMRegressor(shapes=shapes).fit(X, score_of(X), sample_weight=weights)


def test_several_classes_have_lines_and_steps_but_no_direction():
    X = table()
    y = np.digitize(score_of(X), [-0.5, 0.5])
    with pytest.raises(InputError, match="two classes, since several share no direction"):
        SNAMClassifier(shapes={"rise": "increasing"}).fit(X, y)
    model = SNAMClassifier(shapes={"rise": "linear", "wave": "steps"}, **KEEP_ALL).fit(X, y)
    assert model.score(X, y) > 0.5
