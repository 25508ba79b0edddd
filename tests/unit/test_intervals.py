"""Intervals, sets and corrected probabilities: what they cover, what they cost, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival
from sparsenam.cli.app import app
from sparsenam.context import Context, Streams
from sparsenam.errors import InputError, SmallGroupWarning
from sparsenam.export import ModelFileError
from sparsenam.export.model_file import read_container, write_container
from sparsenam.families import Binomial, Multinomial, NegativeBinomial, Poisson
from sparsenam.tables.sample import Sample, prepare
from sparsenam.uncertainty.reliability import reliability_of, tempered
from sparsenam.uncertainty.residuals import OrderStatistics, kept_ranks, spread_of, unit_spread


def hetero(rows, seed=0):
    """Return a table whose noise depends on a column that the mean does not use."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    return X, np.sin(2.0 * X[:, 0]) + np.exp(0.8 * X[:, 2]) * 0.4 * generator.normal(size=rows)


@pytest.fixture(scope="module")
def model():
    return SNAMRegressor(random_state=0).fit(*hetero(700))


@pytest.fixture(scope="module")
def new_rows():
    return hetero(4000, seed=1)


@pytest.fixture(scope="module")
def grouped():
    """Return a model of a table in which one group is noisier, with its table."""
    generator = np.random.default_rng(2)
    site = generator.choice(["a", "b", "c"], 600, p=[0.6, 0.39, 0.01])
    table = pd.DataFrame({"x": generator.normal(size=600), "site": site, "z": generator.normal(size=600)})
    y = table.x + np.where(site == "b", 1.5, 0.3) * generator.normal(size=600)
    return SNAMRegressor(random_state=0).fit(table, y), table, y.to_numpy()


@pytest.fixture(scope="module")
def classifier():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(1500, 3))
    y = (generator.random(1500) < 1.0 / (1.0 + np.exp(-2.0 * np.sin(2.0 * X[:, 0])))).astype(int)
    return SNAMClassifier(random_state=0).fit(X[:400], y[:400]), X[400:], y[400:]


def test_intervals_cover_at_their_level_and_each_fifth_of_the_spread_alike(model, new_rows):
    X, y = new_rows
    for level in (0.5, 0.8, 0.9, 0.95):
        assert abs(model.predict_interval(X, level).covers(y).mean() - level) < 0.04
    scaled, constant = model.predict_interval(X), model.predict_interval(X, scale="constant")
    noisiest = X[:, 2] > np.quantile(X[:, 2], 0.8)
    assert scaled.covers(y)[noisiest].mean() > 0.84
    assert constant.covers(y)[noisiest].mean() < 0.75
    assert np.ptp(constant.upper - constant.lower) < 1e-9
    assert np.mean(scaled.upper - scaled.lower) < np.mean(constant.upper - constant.lower)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
@pytest.mark.parametrize("case", ["empty", "binary", "rare"])
def test_intervals_of_models_with_next_to_no_feature_cover_at_their_level(case, family):
    generator = np.random.default_rng(4)
    flag = (np.arange(6300) % (20 if case == "rare" else 2) == 0).astype(float)
    means = np.exp(4.0 + (case != "empty") * flag)
    draw = {
        "gaussian": lambda: 9.0 * np.log(means) + generator.normal(size=flag.size),
        "poisson": lambda: generator.poisson(means).astype(float),
        "gamma": lambda: means * generator.gamma(2.0, 0.5, flag.size),
    }
    X, y = np.column_stack([flag, generator.normal(size=flag.size)]), draw[family]()
    keep = None if case == "empty" else ["x0"]
    settings = {} if family == "gaussian" else {"family": family}
    model = SNAMRegressor(alpha=1e3, random_state=0, always_keep=keep, **settings).fit(X[:300], y[:300])
    assert model.get_support().tolist() == [case != "empty", False]
    assert abs(model.predict_interval(X[300:]).covers(y[300:]).mean() - 0.9) < 0.04


def test_intervals_of_a_model_without_features_end_at_order_statistics():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(40, 2)), generator.gamma(2.0, size=40)
    model = SNAMRegressor(family="gamma", alpha=1e3, random_state=0).fit(X, y)
    assert not model.get_support().any()
    found = model.predict_interval(X[:1])
    assert np.allclose([found.lower[0], found.upper[0]], np.sort(y)[[1, 38]], rtol=1e-3)  # ranks 2 and 39 of 40


def test_a_column_of_two_values_spends_no_freedom_on_smoothness():
    flag = np.arange(40) % 2.0
    y = 5.0 * flag + np.random.default_rng(0).normal(size=40)
    model = SNAMRegressor(alpha=0.0, random_state=0).fit(flag[:, None], y)
    left_out = y - [y[(flag == one) & (np.arange(40) != row)].mean() for row, one in enumerate(flag)]
    table = model.residuals_.constant.tables[0]
    assert np.allclose(table.values, np.sort(np.abs(left_out))[table.ranks.astype(int) - 1], rtol=0.02, atol=0.02)


def test_a_higher_level_contains_a_lower_one(model, new_rows):
    inner, outer = (model.predict_interval(new_rows[0], level) for level in (0.6, 0.9))
    assert (outer.lower < inner.lower).all()
    assert (inner.upper < outer.upper).all()


def test_errors_of_one_size_have_no_spread_that_depends_on_columns():
    found = 0
    for seed in range(25):
        generator = np.random.default_rng(seed)
        x, score = generator.normal(size=(200, 6)), generator.normal(size=200)
        sample = Sample(x, generator.normal(size=(200, 1)), np.ones(200), [f"x{column}" for column in range(6)])
        prepared = prepare(sample, standardize=True)
        rows, kept, context = np.arange(200), np.arange(2), Context(Streams.from_random_state(0))
        errors = generator.standard_t(4, size=(200, 1))
        found += spread_of(prepared, rows, errors, score, kept, context) is not None
    assert found <= 2  # the level is 1 %


@pytest.mark.filterwarnings("ignore::sparsenam.errors.ChoiceWarning")
def test_errors_along_columns_chosen_from_many_have_no_spread():
    spreads = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(60, 250))
        model = SNAMRegressor(random_state=0).fit(X, X[:, 0] + X[:, 1] + generator.normal(size=60))
        spreads.append(model.residuals_.scaled)
    assert spreads == [None] * 4


def test_columns_chosen_from_noise_enlarge_the_errors():
    generator = np.random.default_rng(5)
    X = generator.normal(size=(40, 40))
    y = X[:, 0] + 0.5 * X[:, 1:5].sum(axis=1) + generator.normal(size=40)
    splits = [(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))]
    wide = SNAMRegressor(random_state=0, rule="best", cv=splits, n_alphas=8).fit(X, y)
    assert wide.get_support().any()
    assert wide.residuals_.inflation > 1.0


def test_rows_of_a_group_are_covered_at_the_level_of_the_group(grouped):
    model = grouped[0]
    generator = np.random.default_rng(9)
    new = pd.DataFrame({"x": generator.normal(size=2000), "site": ["a", "b"] * 1000, "z": 0.0})
    target = new.x + np.where(new.site == "b", 1.5, 0.3) * generator.normal(size=2000)
    with pytest.warns(SmallGroupWarning, match="'c'"):
        covered = model.predict_interval(new, groups="site").covers(target)
    for site in "ab":
        assert abs(covered[new.site == site].mean() - 0.9) < 0.05


def test_a_group_with_too_few_rows_gets_what_all_rows_get(grouped):
    model, table = grouped[:2]
    rare = table[table.site == "c"].head(3)
    with pytest.warns(SmallGroupWarning):
        by_group = model.predict_interval(rare, groups="site")
    assert np.array_equal(np.asarray(by_group), np.asarray(model.predict_interval(rare)))


@pytest.mark.parametrize("groups", ["x", "nothing"])
def test_a_column_that_makes_no_groups_is_refused_in_a_sentence(grouped, groups):
    with pytest.raises(InputError, match="groups: expected"):
        grouped[0].predict_interval(grouped[1], groups=groups)


def test_calibration_changes_errors_and_no_prediction(model, new_rows):
    X, y = new_rows
    other = model.calibrate(X[:1000], y[:1000])
    assert np.array_equal(other.predict(X), model.predict(X))
    assert model.residuals_.method == "leave-one-out"
    assert other.residuals_.method == "new rows"
    found = other.predict_interval(X[1000:])
    assert abs(found.covers(y[1000:]).mean() - 0.9) < 0.04
    assert "finite-sample guarantee" in found.guarantee
    assert "not guaranteed" in model.predict_interval(X).guarantee


def test_calibration_by_folds_refits_and_covers(new_rows):
    X, y = hetero(300, seed=4)
    found = SNAMRegressor(alpha=0.05, random_state=0).fit(X, y).calibrate(X, y, cv=3).predict_interval(new_rows[0])
    assert found.method == "folds"
    assert abs(found.covers(new_rows[1]).mean() - 0.9) < 0.06
    assert "80 %" in found.guarantee


def test_a_network_has_intervals_once_it_is_calibrated(new_rows):
    X, y = hetero(120)
    network = SNAMRegressor(alpha=0.1, network=Network(hidden=(4,), max_epochs=3), random_state=0).fit(X, y)
    with pytest.raises(InputError, match=r"predict_interval: expected a smooth fit .* call calibrate"):
        network.predict_interval(X)
    new = network.calibrate(new_rows[0][:500], new_rows[1][:500]).predict_interval(new_rows[0][500:])
    assert abs(new.covers(new_rows[1][500:]).mean() - 0.9) < 0.05


@pytest.mark.parametrize(
    "settings", [{"pairs": [("x0", "x1")]}, {"shapes": {"x0": "increasing"}}], ids=["pairs", "shapes"]
)
def test_fits_with_pairs_and_shapes_have_intervals(settings):
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(2400, 2)), columns=["x0", "x1"])
    y = X.x0 + X.x1 + X.x0 * X.x1 * ("pairs" in settings) + 0.5 * generator.normal(size=2400)
    model = SNAMRegressor(alpha=0.01, random_state=0, **settings).fit(X[:400], y[:400])
    assert abs(model.predict_interval(X[400:]).covers(y[400:]).mean() - 0.9) < 0.05


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_counts_and_amounts_are_covered_in_their_range(family):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(2500, 2))
    mean = np.exp(0.8 + 0.6 * X[:, 0])
    y = generator.poisson(mean) * 1.0 if family == "poisson" else mean * generator.gamma(2.0, 0.5, 2500)
    model = SNAMRegressor(alpha=0.02, family=family, random_state=0).fit(X[:500], y[:500])
    found = model.predict_interval(X[500:])
    assert abs(found.covers(y[500:]).mean() - 0.9) < 0.05
    assert (found.lower >= 0.0).all()
    if family == "poisson":
        assert np.array_equal(np.asarray(found), np.rint(np.asarray(found)))


def test_the_spread_that_families_expect_is_the_root_of_their_variance():
    scores = np.array([[-1.0], [0.5], [2.0]])
    mean = np.exp(scores)
    assert np.allclose(unit_spread(Poisson(), scores, None), np.sqrt(mean))
    assert np.allclose(unit_spread(NegativeBinomial(0.5), scores, None), np.sqrt(mean + 0.5 * mean**2))
    exposure = np.array([2.0, 3.0, 4.0])
    assert np.allclose(unit_spread(Poisson(), scores, exposure), np.sqrt(exposure[:, None] * mean))
    far = np.array([[500.0]])  # the square of this mean is no number
    assert np.allclose(np.log(unit_spread(Poisson(), far, None)), 250.0)


def test_exposure_widens_counts_by_its_root():
    generator = np.random.default_rng(0)
    X, exposure = generator.normal(size=(3000, 1)), generator.uniform(5.0, 50.0, 3000)
    y = generator.poisson(exposure * np.exp(0.3 * X[:, 0])) * 1.0
    model = SNAMRegressor(alpha=0.01, family="poisson", random_state=0).fit(X[:500], y[:500], exposure=exposure[:500])
    found = model.predict_interval(X[500:], exposure=exposure[500:])
    covered, large = found.covers(y[500:]), exposure[500:] > 27.5
    assert abs(covered.mean() - 0.9) < 0.04
    assert abs(covered[large].mean() - covered[~large].mean()) < 0.05


def test_several_outputs_have_an_interval_each():
    X, y = hetero(300)
    both = SNAMRegressor(alpha=0.02, random_state=0).fit(X, np.column_stack([y, -3.0 * y]))
    found = both.predict_interval(X, scale="constant")
    assert np.asarray(found).shape == (300, 2, 2)
    width = (found.upper - found.lower)[0]
    assert np.isclose(width[1], 3.0 * width[0])


def test_sets_hold_the_class_at_their_level_and_are_never_empty(classifier):
    model, X, y = classifier
    for level in (0.8, 0.9, 0.95):
        members = np.asarray(model.predict_set(X, level))
        assert abs(members[np.arange(len(y)), y].mean() - level) < 0.05
        assert members.any(axis=1).all()
    assert model.predict_set(X[:2]).labels()[0][0] in (0, 1)


def test_probabilities_are_corrected_only_where_that_helps(classifier):
    model, X, _ = classifier
    assert model.residuals_.reliability.kind == "none"
    assert np.array_equal(model.calibrated_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("family", [Binomial(), Multinomial()], ids=lambda family: family.name)
def test_scores_that_claim_too_much_are_shrunk_and_honest_ones_are_left(family):
    generator = np.random.default_rng(0)
    honest = 1.5 * generator.normal(size=(1200, 1 if family.name == "binomial" else 3))
    if family.name == "binomial":
        target = (generator.random((1200, 1)) < family.mean(honest)) * 1.0
    else:
        target = np.eye(3)[(honest + generator.gumbel(size=honest.shape)).argmax(axis=1)]
    assert reliability_of(family, honest, target).kind == "none"
    found = reliability_of(family, 3.0 * honest, target)
    assert found.kind == "platt"
    assert found.loss - found.corrected > 2.0 * found.gain_error
    assert np.allclose(np.concatenate(found.values), 1.0 / 3.0, atol=0.06)
    assert np.allclose(found.apply(family, 3.0 * honest), family.mean(honest), atol=0.06)


def test_probabilities_off_in_the_middle_need_a_rising_function():
    generator = np.random.default_rng(0)
    scores = generator.uniform(-4.0, 4.0, size=(3000, 1))
    target = (generator.random((3000, 1)) < np.where(np.abs(scores) < 2.0, 0.5, Binomial().mean(scores))) * 1.0
    found = reliability_of(Binomial(), scores, target)
    assert found.kind == "isotonic"
    corrected = found.apply(Binomial(), np.linspace(-4.0, 4.0, 50)[:, None])[:, 0]
    assert (np.diff(corrected) >= 0.0).all()
    assert np.abs(corrected[20:30] - 0.5).max() < 0.15


def test_tempered_scores_have_the_loss_that_was_asked_for():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(500, 1))
    target = (generator.random((500, 1)) < Binomial().mean(2.0 * scores)) * 1.0
    before = Binomial().loss(scores, target).mean()
    after = Binomial().loss(tempered(Binomial(), scores, target, 1.05), target).mean()
    assert np.isclose(after, 1.05 * before, rtol=1e-6)
    assert np.array_equal(tempered(Binomial(), scores, target, 1.0), scores)
    assert np.ptp(tempered(Binomial(), scores, target, 100.0)) < 1e-6


def test_kept_order_statistics_are_exact_near_the_ends_and_close_between():
    generator = np.random.default_rng(0)
    values = generator.exponential(size=5000)
    table = OrderStatistics.of(values, np.ones(5000), 16, both_ends=True)
    ranked = np.sort(values)
    assert table.values.size < 250
    assert [table.at(rank) for rank in (1, 7, 4990, 5000)] == ranked[[0, 6, 4989, 4999]].tolist()
    for level in (0.6, 0.9, 0.99):
        exact = ranked[int(np.ceil(5001 * level)) - 1]
        assert abs(table.above(level) / exact - 1.0) < 0.02
    assert np.isinf(table.above(0.99999))
    assert kept_ranks(9, 2, both_ends=False).tolist() == [1, 4, 6, 7, 8, 9]


def test_a_row_of_weight_two_counts_as_two_rows():
    generator = np.random.default_rng(0)
    values, weights = np.sort(generator.normal(size=60)), generator.integers(1, 3, 60) * 1.0
    twice = np.repeat(values, weights.astype(int))
    one = OrderStatistics.of(values, weights, 1000, both_ends=True)
    all_rows = OrderStatistics.of(twice, np.ones(twice.size), 1000, both_ends=True)
    assert abs(one.above(0.9) - all_rows.above(0.9)) < 0.1


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_loaded_model_gives_the_same_intervals_from_a_small_file(kind, model, classifier, new_rows, tmp_path):
    fitted, X = (model, new_rows[0]) if kind == "numbers" else classifier[:2]
    fitted.save(tmp_path / "model.snam")
    loaded = sparsenam.load(tmp_path / "model.snam")
    before, after = (
        np.asarray(each.predict_interval(X) if kind == "numbers" else each.predict_set(X)) for each in (fitted, loaded)
    )
    assert np.array_equal(before, after)
    assert str(loaded.uncertainty()) == str(fitted.uncertainty())
    bare = fitted.calibrate(X[:20], (new_rows[1] if kind == "numbers" else classifier[2])[:20])
    bare.fit_ = replace(bare.fit_, residuals=None)
    bare.save(tmp_path / "bare.snam")
    assert (tmp_path / "model.snam").stat().st_size < 2 * (tmp_path / "bare.snam").stat().st_size
    with pytest.raises(InputError, match="call calibrate with new rows"):
        sparsenam.load(tmp_path / "bare.snam").uncertainty()


def test_a_file_whose_errors_do_not_rise_is_refused(model, tmp_path):
    model.save(tmp_path / "model.snam")
    document, tensors = read_container(tmp_path / "model.snam")
    name = "residuals.constant.tables.values"
    tensors[name] = tensors[name][::-1].copy()
    write_container(tmp_path / "model.snam", document, tensors)
    with pytest.raises(ModelFileError, match="damaged errors"):
        sparsenam.load(tmp_path / "model.snam")


@pytest.mark.parametrize("level", [0.0, 1.0, 0.9999, "high"])
def test_a_level_that_cannot_be_is_refused(model, new_rows, level):
    with pytest.raises(InputError, match="level: expected"):
        model.predict_interval(new_rows[0][:5], level)


def test_what_has_no_intervals_says_what_to_use_instead(model, classifier):
    X, _ = hetero(80)
    with pytest.raises(InputError, match="predict_survival_function"):
        SNAMSurvival().predict_interval(X)
    labels = SNAMClassifier(alpha=0.1, random_state=0).fit(X, np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(int))
    with pytest.raises(InputError, match="several labels"):
        labels.predict_set(X)
    assert labels.calibrated_proba(X).shape == (80, 2)
    with pytest.raises(InputError, match="scale: expected"):
        model.predict_interval(X, scale="wide")


def test_an_edited_model_asks_for_a_new_calibration(model, new_rows):
    X, y = new_rows
    edited = model.edit().shift_intercept(1.0, reason="test")
    with pytest.raises(InputError, match="edits since"):
        edited.predict_interval(X)
    again = edited.calibrate(X[:1000], y[:1000] + 1.0).predict_interval(X[1000:])
    assert abs(again.covers(y[1000:] + 1.0).mean() - 0.9) < 0.05


def test_the_report_says_how_far_off_a_prediction_may_be(model, classifier, tmp_path):
    found = model.uncertainty()
    assert re.search(r"9 of 10 new rows lie within [\d.]+ of a typical prediction", str(found))
    assert found.spread_columns == ("x2",)
    page = model.explain().report(tmp_path / "report.html", beside=[found]).read_text("utf-8")
    assert "How far off" in page
    sure = classifier[0].uncertainty()
    assert "are not shown to be off" in str(sure)
    assert sum(cases for _, _, cases in sure.reliability) == 400


def test_the_command_writes_the_ends_of_intervals_and_the_classes_of_sets(tmp_path, grouped, classifier):
    model, table, _ = grouped
    model.save(tmp_path / "numbers.snam")
    table.head(20).to_csv(tmp_path / "rows.csv", index=False)
    run = CliRunner().invoke
    files = [str(tmp_path / name) for name in ("numbers.snam", "rows.csv")]
    assert run(app, ["predict", *files, "--intervals", "0.8", "--out", str(tmp_path / "out.csv")]).exit_code == 0
    written = pd.read_csv(tmp_path / "out.csv")
    expected = np.asarray(model.predict_interval(table.head(20), 0.8))
    assert np.allclose(written[["prediction_lower", "prediction_upper"]], expected)
    fitted, X, _ = classifier
    fitted.save(tmp_path / "classes.snam")
    pd.DataFrame(X[:20], columns=["x0", "x1", "x2"]).to_csv(tmp_path / "cells.csv", index=False)
    files = [str(tmp_path / name) for name in ("classes.snam", "cells.csv")]
    assert run(app, ["predict", *files, "--intervals", "0.9", "--out", str(tmp_path / "out.csv")]).exit_code == 0
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)["prediction set"].tolist()
    assert found == [" | ".join(map(str, labels)) for labels in fitted.predict_set(X[:20]).labels()]
