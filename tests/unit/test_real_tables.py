"""Tables as they come: text, holes, categories, groups, weights; nothing is prepared by hand."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import KFold

from sparsenam import Network, RandomFeatureSNAMRegressor, SNAMClassifier, SNAMRegressor
from sparsenam.errors import InputError

ROWS = 600


def census(rows=ROWS, seed=0):
    """Numbers, text with many levels, "?" and empty cells, and one yes in seven."""
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": generator.integers(17, 90, rows).astype(float),
            "hours": generator.normal(40, 10, rows).round(),
            "job": generator.choice([f"job {index}" for index in range(30)], rows),
            "country": generator.choice(["here", "there", "elsewhere"], rows, p=[0.8, 0.15, 0.05]),
            "sex": generator.choice(["Male", "Female"], rows),
            "gain": np.where(generator.uniform(size=rows) < 0.1, 5000.0, 0.0),
        }
    )
    scores = 0.1 * (table.age - 40) + 4.0 * (table.gain > 0) + 1.5 * (table.sex == "Male") - 4.5
    y = np.where(generator.uniform(size=rows) < 1 / (1 + np.exp(-scores)), ">50K", "<=50K")
    for name, marker in (("job", "?"), ("country", "?"), ("age", np.nan)):
        table.loc[generator.uniform(size=rows) < 0.06, name] = marker
    return table, y


def holes(rows=ROWS, seed=1):
    """Three in ten cells missing at random."""
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(generator.normal(size=(rows, 5)), columns=list("abcde"))
    y = np.sin(2 * table.a) + table.b + 0.2 * generator.normal(size=rows)
    return table.mask(generator.uniform(size=table.shape) < 0.3), y.to_numpy()


def categories(rows=ROWS, seed=2):
    """Nothing but categories, one of them a boolean."""
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "colour": generator.choice(["red", "green", "blue"], rows),
            "size": generator.choice(["S", "M", "L", "XL"], rows),
            "noise": generator.choice(list("pqrst"), rows),
            "flag": generator.uniform(size=rows) < 0.5,
        }
    )
    values = {"red": 1.0, "green": 0.0, "blue": -1.0}
    return table, (table.colour.map(values) + table.flag + 0.3 * generator.normal(size=rows)).to_numpy()


TABLES = {"census": census, "holes": holes, "categories": categories}


@pytest.mark.parametrize("format", ["csv", "parquet", "polars csv", "polars parquet", "polars categories"])
@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_from_a_file_fits_predicts_and_explains(name, format, tmp_path):
    table, y = TABLES[name]()
    path = tmp_path / f"table.{format.split()[-1]}"
    table.to_parquet(path) if "parquet" in format else table.to_csv(path, index=False)
    if format == "polars categories":
        read = pl.from_pandas(table).with_columns(pl.col(pl.String).cast(pl.Categorical))
    else:
        reader = pl if "polars" in format else pd
        read = reader.read_parquet(path) if "parquet" in format else reader.read_csv(path)
    classify = name == "census"
    model = (SNAMClassifier if classify else SNAMRegressor)(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(read, y)
        predicted = model.predict(read)
        total = np.asarray(model.intercept_) + model.effects(read).sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(read) if classify else predicted, atol=1e-9)
    kept = set(model.get_feature_names_out())
    wanted = {"census": {"age", "gain"}, "holes": {"a", "b"}, "categories": {"colour", "flag"}}[name]
    assert wanted <= kept
    assert not kept & {"noise", "c", "d", "e"}
    assert len(str(model.encoder_).splitlines()) == table.shape[1] + 1
    baseline = np.mean(y == "<=50K") if classify else 0.0
    assert model.score(read, y) > baseline + 0.02


def fitted_and_predicted(table, y, asked=None):
    return SNAMRegressor(random_state=0).fit(table, y).predict(table if asked is None else asked)


@pytest.mark.parametrize("change", ["levels", "columns", "dtypes", "constant", "library"])
def test_what_changes_no_value_changes_no_prediction(change):
    table, y = categories()
    table["number"] = np.random.default_rng(3).integers(0, 50, len(table))
    y = y + 0.05 * table["number"].to_numpy()
    expected = fitted_and_predicted(table, y)
    other = table.copy()
    if change == "levels":
        other["colour"] = other.colour.map({"red": "zz", "green": "aa", "blue": "mm"})
    elif change == "columns":
        other = other[other.columns[::-1]]
    elif change == "dtypes":
        other = other.astype({"number": float, "colour": "category", "size": object, "flag": object})
    elif change == "constant":
        other["one"] = 1.0
    else:
        other = pl.from_pandas(other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(fitted_and_predicted(other, y), expected, atol=1e-8)


def test_a_category_of_numbers_is_matched_by_value():
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 4, ROWS)
    y = np.array([2.0, -1.0, 0.0, 1.0])[codes] + 0.2 * generator.normal(size=ROWS)
    table = pd.DataFrame({"zip": codes, "noise": generator.normal(size=ROWS)})
    model = SNAMRegressor(feature_types={"zip": "category"}, random_state=0).fit(table, y)
    assert {term.kind for term in model.encoder_.terms if term.name == "zip"} == {"levels"}
    np.testing.assert_array_equal(model.predict(table.astype({"zip": float})), model.predict(table))
    np.testing.assert_array_equal(model.predict(table.astype({"zip": "int8"})), model.predict(table))


def test_a_level_of_many_rows_gets_its_mean_and_a_rare_one_is_drawn_to_the_others():
    generator = np.random.default_rng(0)
    codes = np.repeat(["many", "rare"] + [f"level {index}" for index in range(8)], [300, 3] + [37] * 8)
    y = np.where(np.isin(codes, ["many", "rare"]), 3.0, 0.0) + generator.normal(size=codes.size)
    model = SNAMRegressor(random_state=0).fit(pd.DataFrame({"code": codes}), y)
    many, rare = model.predict(pd.DataFrame({"code": ["many", "rare"]}))
    assert abs(many - y[codes == "many"].mean()) < 0.1
    assert rare < y[codes == "rare"].mean() - 0.2


def test_a_category_of_many_even_levels_is_found_and_one_without_effect_is_not():
    generator = np.random.default_rng(0)
    levels = [f"z{index:03d}" for index in range(100)]
    table = pd.DataFrame({"zip": generator.choice(levels, 3000), "other": generator.choice(levels, 3000)})
    effect = dict(zip(levels, generator.normal(size=100), strict=True))
    y = table.zip.map(effect).to_numpy() + generator.normal(size=3000)
    model = SNAMRegressor(random_state=0).fit(table, y)
    assert list(model.get_feature_names_out()) == ["zip"]
    assert np.corrcoef(model.predict(table), table.zip.map(effect))[0, 1] > 0.95


def test_a_binary_category_costs_one_weight():
    table, y = categories()
    model = SNAMRegressor(random_state=0).fit(table[["flag"]], y)
    assert model.n_parameters_ <= 4


def test_an_unseen_level_adds_nothing_and_is_named():
    table, y = categories()
    model = SNAMRegressor(random_state=0).fit(table, y)
    new = table.iloc[:3].assign(colour="violet")
    with pytest.warns(UserWarning, match="colour.*violet"):
        effects = model.effects(new)
    np.testing.assert_array_equal(effects[:, 0], 0.0)


def test_missing_not_at_random_is_a_separate_effect():
    """The value of the measurement does not matter, but that it was not taken does."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(1000, 4)), columns=["lab", "dose", "age", "noise"])
    gone = generator.uniform(size=1000) < 0.3
    table.loc[gone, "lab"] = np.nan
    y = np.sin(2 * table.dose) + 1.5 * gone + 0.3 * generator.normal(size=1000)
    model = SNAMRegressor(random_state=0).fit(table, y)
    assert set(model.get_feature_names_out()) == {"lab", "dose"}
    kept = [model.encoder_.terms[index].name for index in model.model_.terms]
    assert "lab (missing)" in kept and "lab" not in kept
    shown = model.missing_effects(table)[:, 0]
    assert shown[gone].mean() - shown[~gone].mean() == pytest.approx(1.5, abs=0.1)
    np.testing.assert_array_equal(model.missing_effects(table)[:, 1], 0.0)


def test_cells_missing_at_random_leave_the_curve_alone():
    table, y = holes()
    model = SNAMRegressor(random_state=0).fit(table, y)
    kept = [model.encoder_.terms[index].name for index in model.model_.terms]
    assert sorted(kept) == ["a", "b"]
    effects = model.effects(table)
    np.testing.assert_array_equal(effects[table.a.isna(), 0], 0.0)
    there = table.a.notna().to_numpy()
    truth = np.sin(2 * table.a[there])
    assert np.corrcoef(effects[there, 0], truth)[0, 1] > 0.98


@pytest.mark.parametrize("estimator", [SNAMRegressor, RandomFeatureSNAMRegressor])
def test_grouped_columns_enter_or_leave_together(estimator):
    table, y = holes(seed=4)
    model = estimator(random_state=0, feature_groups=[["a", "c"], ["d", "e"]]).fit(table.fillna(0.0), y)
    assert set(model.get_feature_names_out()) == {"a", "b", "c"}


def test_a_network_trained_under_the_penalty_keeps_groups_together_too():
    table, y = holes(seed=4)
    table = table.fillna(0.0)
    settings = {"network": Network((8,), max_epochs=200, solver="prox_gd", tol=0.01), "random_state": 0}
    groups = [["a", "c"], ["d", "e"]]
    supports = [
        set(SNAMRegressor(alpha=alpha, feature_groups=groups, **settings).fit(table, y).get_feature_names_out())
        for alpha in (0.02, 0.1, 0.2)
    ]
    for support in supports:
        assert ("a" in support) == ("c" in support) and ("d" in support) == ("e" in support)
    assert len({frozenset(support) for support in supports}) > 1


def test_a_penalty_weight_keeps_a_column_out_and_always_keep_keeps_it_in():
    table, y = holes(seed=5)
    table = table.fillna(0.0)
    costly = SNAMRegressor(random_state=0, penalty_weights={"b": 1000.0}).fit(table, y)
    assert "b" not in costly.get_feature_names_out()
    kept = SNAMRegressor(random_state=0, always_keep=["e"]).fit(table, y)
    assert "e" in kept.get_feature_names_out()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"always_keep": ["nobody"]}, "always_keep: expected names of columns"),
        ({"always_keep": "age"}, "always_keep: expected a list"),
        ({"feature_groups": [["a", "b"], ["b"]]}, "feature_groups: expected each column in one group"),
        ({"penalty_weights": {"a": -1.0}}, "penalty_weights"),
        ({"penalty_weights": [1.0]}, "penalty_weights: expected a mapping"),
        ({"feature_types": {"a": "colour"}}, "colour"),
        ({"penalty": "group_slope", "always_keep": ["a"]}, "group_lasso"),
    ],
)
def test_wrong_settings_of_columns_get_one_sentence(settings, message):
    table, y = holes()
    model = SNAMRegressor(random_state=0, **settings)
    with pytest.raises(InputError, match=message):
        model.fit(table, y)
    assert not hasattr(model, "encoder_")


def test_equal_columns_are_one_and_the_other_is_named():
    table, y = holes(seed=6)
    table = table.fillna(0.0)
    plain = SNAMRegressor(random_state=0).fit(table, y)
    copied = table.assign(z=table.a, half=0.5 * table.b + 3, turned=-table.a)
    model = SNAMRegressor(random_state=0).fit(copied, y)
    np.testing.assert_allclose(model.predict(copied), plain.predict(table), atol=1e-9)
    assert model.substitutes_["a"] == {"turned": 1.0, "z": 1.0}
    assert model.substitutes_["b"] == {"half": 1.0}


def test_a_dropped_column_that_could_substitute_a_kept_one_is_named():
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(800, 4)), columns=list("abcd"))
    table["shadow"] = table.a + 0.1 * generator.normal(size=800)
    y = np.sin(2 * table.a) + 0.1 * generator.normal(size=800)
    one, two = (SNAMRegressor(random_state=seed).fit(table, y) for seed in (0, 0))
    assert list(one.get_feature_names_out()) == ["a"]
    assert set(one.substitutes_) == {"a"} and set(one.substitutes_["a"]) == {"shadow"}
    np.testing.assert_array_equal(one.predict(table), two.predict(table))


def test_a_network_reads_a_category_level_by_level():
    table, y = categories()
    model = SNAMRegressor(alpha=0.02, network=Network((5,), max_epochs=200), random_state=0).fit(table, y)
    kept = {model.encoder_.terms[int(index)].column for index in model.model_.terms}
    assert {0, 3} <= kept
    assert model.score(table, y) > 0.8
    total = model.intercept_ + model.effects(table).sum(axis=1)
    np.testing.assert_allclose(total, model.predict(table), atol=1e-9)
    linear = SNAMRegressor(network=Network(()), random_state=0).fit(table, y)
    assert {"colour", "flag"} <= set(linear.get_feature_names_out())


def test_hinges_lead_through_the_levels_too():
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"c": generator.choice(list("abcd"), 500)})
    y = table.c.map({"a": 0.0, "b": 3.0, "c": 1.0, "d": 5.0}).to_numpy()
    model = RandomFeatureSNAMRegressor(features="hinges", alpha=0.001).fit(table, y)
    assert model.score(table, y) > 0.999


def test_the_names_of_tied_levels_decide_nothing():
    generator = np.random.default_rng(0)
    codes = np.repeat(np.arange(300), 6)
    y = generator.normal(size=300)[codes] + 0.3 * generator.normal(size=codes.size)
    names = np.array([f"s{index:03d}" for index in range(300)])
    first = fitted_and_predicted(pd.DataFrame({"who": names[codes]}), y)
    second = fitted_and_predicted(pd.DataFrame({"who": names[generator.permutation(300)][codes]}), y)
    np.testing.assert_allclose(first, second, atol=1e-3 * np.std(y))


def test_rows_of_exposure_0_are_absent_for_every_splitter():
    generator = np.random.default_rng(0)
    X, exposure = generator.normal(size=(200, 2)), np.ones(200)
    exposure[:3] = 0.0
    y = generator.poisson(np.exp(X[:, 0])) * (exposure > 0)
    model = SNAMRegressor(family="poisson", cv=KFold(3)).fit(X, y, exposure=exposure)
    assert model.get_support()[0]


def test_keeping_every_column_leaves_nothing_to_choose():
    table, y = holes()
    for estimator in (SNAMRegressor, RandomFeatureSNAMRegressor):
        model = estimator(always_keep=list("abcde"), random_state=0).fit(table.fillna(0.0), y)
        assert model.get_support().all()


def test_nearly_equal_columns_are_one_whatever_their_names():
    generator = np.random.default_rng(0)
    a = generator.normal(size=500)
    y = np.sin(2 * a) + 0.1 * generator.normal(size=500)
    copy = a + 1e-4 * generator.normal(size=500)
    for names in (("a", "b"), ("b", "a")):
        table = pd.DataFrame({names[0]: a, names[1]: copy})
        model = SNAMRegressor(random_state=0).fit(table, y)
        assert list(model.get_feature_names_out()) == ["a"]
        assert model.substitutes_ == {"a": {"b": 1.0}}


def test_a_slip_in_a_column_of_numbers_is_an_error_that_names_its_row():
    table, y = holes()
    text = table.fillna(0.0).a.astype(str)
    text.iloc[3] = "1.2x"
    table = pd.DataFrame({"a": text.iloc[:100], "b": table.b.fillna(0.0)[:100]})
    message = r"column 'a': expected numbers, got the text '1.2x' in row 3 \(1 such cell among \d+ different numbers\)"
    with pytest.raises(InputError, match=message + r"; .*feature_types=\{'a': \"category\"\}"):
        SNAMRegressor(random_state=0).fit(table, y[:100])
    SNAMRegressor(random_state=0, feature_types={"a": "category"}, alpha=1.0).fit(table, y[:100])


def test_exposure_is_the_same_as_rates_with_weights():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(800, 3))
    exposure = generator.uniform(0.2, 3.0, 800)
    y = generator.poisson(exposure * np.exp(0.5 + 0.8 * np.sin(2 * X[:, 0]))).astype(float)
    model = SNAMRegressor(family="poisson", random_state=0).fit(X, y, exposure=exposure)
    assert model.get_support().tolist() == [True, False, False]
    days = SNAMRegressor(family="poisson", random_state=0).fit(X, y, exposure=365 * exposure)
    np.testing.assert_allclose(model.predict(X, exposure), days.predict(X, 365 * exposure), rtol=1e-6)
    assert model.predict(X, exposure).sum() == pytest.approx(y.sum(), rel=0.02)
