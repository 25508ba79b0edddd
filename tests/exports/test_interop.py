"""Models in the forms of SHAP, interpret and scikit-learn: the numbers are those of our explanations."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import partial_dependence

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.interop import interpret_explanation, shap_explanation
from sparsenam.interop.explanations import LibraryError, library

pytestmark = pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")  # SHAP's import says so


def table(rows=240):
    generator = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "age": generator.uniform(20, 80, rows),
            "size": generator.standard_normal(rows),
            "city": generator.choice(["a", "b", "c"], rows),
            "noise": generator.standard_normal(rows),
        }
    )
    X.loc[::11, "age"] = np.nan
    score = np.sin(X["age"].fillna(50) / 9) + X["size"] + 1.2 * (X["city"] == "a")
    return X, score + 0.3 * generator.standard_normal(rows)


@pytest.fixture(scope="module")
def regression():
    X, y = table()
    return SNAMRegressor(random_state=0).fit(X, y), X


@pytest.fixture(scope="module")
def classes():
    X, y = table()
    return SNAMClassifier(random_state=0).fit(X, y > 0.3), X


@pytest.fixture(scope="module")
def three_classes():
    X, y = table()
    return SNAMClassifier(random_state=0).fit(X, np.digitize(y, [-0.3, 0.8])), X


@pytest.fixture(scope="module")
def with_pair():
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.uniform(-1, 1, (500, 3)), columns=["a", "b", "c"])
    y = X["a"] + 3.0 * X["a"] * X["b"] + 0.1 * generator.standard_normal(500)
    model = SNAMRegressor(pairs=[("a", "b")], random_state=0).fit(X, y)
    assert model.interactions_ == (("a", "b"),)
    return model, X


MODELS = ["regression", "classes", "three_classes", "with_pair"]


@pytest.fixture(params=MODELS)
def fitted(request):
    return request.getfixturevalue(request.param)


def test_shap_values_and_the_base_add_up_to_the_score(fitted):
    model, X = fitted
    found = shap_explanation(model, X)
    scores = model.model_.scores(model.encoder_.encode(X))
    total = found.values.sum(axis=1) + found.base_values
    assert np.allclose(total.reshape(scores.shape), scores, rtol=0, atol=1e-12)
    assert found.values.shape[1] == X.shape[1] + len(model.interactions_) == len(found.feature_names)
    assert found.data.shape == found.values.shape[:2]


def test_shap_features_are_the_columns_then_the_pairs_with_the_cells_as_data(with_pair, regression):
    model, X = with_pair
    found = shap_explanation(model, X)
    assert found.feature_names == ["a", "b", "c", "a × b"]
    assert np.array_equal(found.values[:, :3], model.effects(X))
    assert np.array_equal(found.values[:, 3], model.interaction_effects(X)[:, 0])
    model, X = regression
    data = shap_explanation(model, X).data
    assert list(data[:, 2]) == list(X["city"])
    assert np.array_equal(data[:, 0].astype(float), X["age"], equal_nan=True)


def test_a_pair_named_like_a_column_is_a_feature_of_another_name():
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.uniform(-1, 1, (500, 3)), columns=["a", "b", "a × b"])
    y = X["a"] + 3.0 * X["a"] * X["b"] + 0.1 * generator.standard_normal(500)
    model = SNAMRegressor(pairs=[("a", "b")], random_state=0).fit(X, y)
    assert shap_explanation(model, X).feature_names == ["a", "b", "a × b", "a × b (2)"]


def test_effects_are_the_shapley_values_with_the_training_rows_as_background():
    shap = pytest.importorskip("shap")
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (80, 3))
    model = SNAMRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2)
    masker = shap.maskers.Independent(X, max_samples=80)
    exact = shap.explainers.Exact(model.predict, masker)(X[:6])
    assert np.allclose(exact.values, shap_explanation(model, X[:6]).values, atol=1e-6)
    assert np.allclose(exact.base_values, shap_explanation(model, X[:6]).base_values, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_shap_draws_its_plots(request, name):
    mpl.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    shap = pytest.importorskip("shap")
    model, X = request.getfixturevalue(name)
    found = shap_explanation(model, X.head(40))
    found = found[:, :, 1] if found.values.ndim == 3 else found
    for draw in (
        lambda: shap.plots.waterfall(found[3], show=False),
        lambda: shap.plots.bar(found, show=False),
        lambda: shap.plots.beeswarm(found, show=False),
    ):
        draw()
        assert plt.gcf().axes
        plt.close("all")


def test_shap_scatters_a_column_of_texts_with_missing_cells():
    mpl.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    shap = pytest.importorskip("shap")
    X, y = table()
    X.loc[::7, "city"] = None
    model = SNAMRegressor(random_state=0).fit(X, y)
    found = shap_explanation(model, X)
    assert list(found.data[:, 2]) == list(X["city"].fillna("missing"))
    shap.plots.scatter(found[:, "city"], show=False)
    assert plt.gcf().axes
    plt.close("all")


def test_interpret_has_the_names_scores_and_densities_of_the_explanation(fitted):
    model, _ = fitted
    explanation = model.explain()
    output = len(explanation.outputs) - 1
    found = interpret_explanation(model, output if output else None)
    for place, feature in enumerate(explanation.features):
        data = found.data(place)
        assert found.feature_names[place] == feature.name
        if feature.levels is None:
            assert tuple(data["names"]) == feature.curve.x
            assert data["scores"].tolist() == [effect[output] for effect in feature.curve.effect]
            assert tuple(data["density"]["names"]) == feature.density.edges
            assert tuple(data["density"]["scores"]) == feature.density.counts
        else:
            assert data["names"][: len(feature.levels)] == [level.name for level in feature.levels]
            assert data["scores"].tolist()[: len(feature.levels)] == [level.effect[output] for level in feature.levels]
    for place, pair in enumerate(explanation.pairs, start=len(explanation.features)):
        assert found.feature_names[place] == f"{pair.one.name} & {pair.other.name}"
        assert found.data(place)["scores"].shape == (pair.one.size, pair.other.size)
    overall = found.data()
    assert overall["scores"] == [part.mean_absolute for part in (*explanation.features, *explanation.pairs)]
    assert list(found.selector["Name"]) == overall["names"] == found.feature_names


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", MODELS)
def test_interpret_draws_every_feature(request, name):
    plotly = pytest.importorskip("plotly")
    found = interpret_explanation(request.getfixturevalue(name)[0], 0)
    for key in (None, *range(len(found.feature_names))):
        figure = found.visualize(key)
        assert isinstance(figure, plotly.graph_objs.Figure)
        assert figure.data


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_interpret_writes_pages_of_every_feature(with_pair, tmp_path):
    for needed in ("dash", "IPython"):
        pytest.importorskip(needed)
    interpret = pytest.importorskip("interpret")
    found = interpret_explanation(with_pair[0])
    for key in found.feature_names:
        interpret.preserve(found, key, file_name=str(tmp_path / f"{key}.html"))
        assert (tmp_path / f"{key}.html").stat().st_size > 1000


def test_several_outputs_are_shown_one_at_a_time(three_classes):
    model, _ = three_classes
    with pytest.raises(InputError, match="output: expected one of"):
        interpret_explanation(model)
    names = model.explain().outputs
    assert np.array_equal(
        interpret_explanation(model, names[1]).data(0)["scores"],
        interpret_explanation(model.explain(), 1).data(0)["scores"],
    )


def test_a_library_that_is_not_there_is_named():
    with pytest.raises(LibraryError, match=r'expected the package shapely, got .* pip install "shapely"'):
        library("no_such_module", "shapely", "shap_explanation")


@pytest.mark.parametrize(("name", "method"), [("regression", "predict"), ("classes", "decision_function")])
@pytest.mark.parametrize("column", ["age", "size", "city"])
def test_partial_dependence_is_the_shape_but_for_a_constant(request, name, method, column):
    model, X = request.getfixturevalue(name)
    X = X.dropna().reset_index(drop=True)
    response = "auto" if method == "predict" else method
    kinds = {"categorical_features": ["city"]} if column == "city" else {}
    with_grid = partial_dependence(
        model, X, [column], method="brute", grid_resolution=12, response_method=response, **kinds
    )
    grid, average = with_grid["grid_values"][0], with_grid["average"][0]
    rows = X.iloc[[0] * len(grid)].copy()
    rows[column] = grid
    shape = model.effects(rows)[:, list(X.columns).index(column)]
    assert np.allclose(average - average.mean(), shape - shape.mean(), atol=1e-10)
