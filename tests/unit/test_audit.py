"""Audits: planted harm is found, the order of rows does not matter, and nothing changes the model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import sparsenam
from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.audit.harm import AUDIT_FOLDS, AuditRows, _Curves, harms, holm
from sparsenam.audit.subgroups import BinnedColumn, Partition, mean_and_error
from sparsenam.errors import InputError
from sparsenam.explain import Audit
from sparsenam.families import Binomial, Gaussian, Multinomial

ROWS = 1500


def houses(seed: int = 0, slope: float = 2.0, rows: int = ROWS) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table in which x matters everywhere and z only on the island, which one row in twenty has."""
    draw = np.random.default_rng(seed)
    names = ("x", "z", "u", "v")
    table = pd.DataFrame({name: draw.normal(size=rows) for name in names})
    table["region"] = np.where(draw.random(rows) < 0.05, "island", draw.choice(["north", "south"], rows))
    table.loc[draw.random(rows) < 0.1, "v"] = np.nan
    y = 2.0 * table["x"] + slope * table["z"] * (table["region"] == "island") + draw.normal(size=rows)
    return table, y.to_numpy()


def without(model, column: str):
    return model.edit().drop(column, reason="test") if column in model.get_feature_names_out() else model


@pytest.fixture(scope="module")
def fitted():
    table, y = houses()
    model = without(SNAMRegressor(random_state=0).fit(table, y), "z")
    return table, y, model, model.audit(table, y)


def harm_of(audit: Audit, column: str, groups: str | None, label: str):
    return next(harm for harm in audit.harms if (harm.column, harm.groups, harm.label) == (column, groups, label))


def test_planted_harm_is_flagged_with_its_column_and_group_and_costs_half_of_the_planted_variance(fitted) -> None:
    _, y, _, audit = fitted
    worst = max(audit.flagged, key=lambda harm: harm.cost)
    assert (worst.column, worst.groups, worst.label) == ("z", "region", "island")
    assert 0.6 < worst.cost * y.var() / 2.0 < 1.3  # ½ slope² var(z) is lost, less what a curve of 75 rows cannot learn
    assert audit.finding().sentence.startswith("Of ") and "'z' in region = island" in str(audit)


@pytest.mark.parametrize("seed", [11, 12])
def test_harm_in_a_classifier_is_found_and_its_flags_are_about_the_planted_column(seed: int) -> None:
    table, score = houses(seed, slope=3.0, rows=2500)
    y = np.where(np.random.default_rng(seed).random(2500) < 1.0 / (1.0 + np.exp(-score)), "yes", "no")
    model = without(SNAMClassifier(random_state=0).fit(table, y), "z")
    audit = model.audit(table, y, groups=["region"])
    assert harm_of(audit, "z", "region", "island").flagged
    assert {harm.column for harm in audit.flagged} <= {"z", "region"}
    whole = audit.checks[0]
    assert whole.accuracy == pytest.approx(model.score(table, y))
    said, was = model.predict(table) == "yes", y == "yes"
    assert whole.false_positive == pytest.approx(said[~was].mean())
    assert whole.false_negative == pytest.approx(1 - said[was].mean())


def test_the_order_of_the_rows_and_columns_does_not_matter(fitted) -> None:
    table, y, model, audit = fitted
    order = np.random.default_rng(5).permutation(ROWS)
    other = model.audit(table.iloc[order][list(table.columns[::-1])], y[order])
    assert len(other.harms) == len(audit.harms)
    for harm in audit.harms[:40]:
        same = harm_of(other, harm.column, harm.groups, harm.label)
        assert same.cost == pytest.approx(harm.cost, abs=1e-9)
        assert same.p_value == pytest.approx(harm.p_value, rel=1e-6)


def test_a_group_of_all_rows_is_like_all_rows_and_nothing_changes_predictions(fitted) -> None:
    table, y, model, _ = fitted
    before = model.predict(table)
    audit = model.audit(table, y, groups=np.full(ROWS, "all"))
    for column in audit.dropped:
        whole, group = harm_of(audit, column, None, ""), harm_of(audit, column, "group", "all")
        assert group.rows == whole.rows == ROWS
        assert group.cost == pytest.approx(whole.cost, abs=2 * whole.error + 1e-9)
    assert audit.checks[0].gap == audit.checks[1].gap
    np.testing.assert_array_equal(model.predict(table), before)


def test_a_loaded_model_and_plain_data_say_the_same(fitted, tmp_path) -> None:
    table, y, model, audit = fitted
    model.save(tmp_path / "m.snam")
    again = sparsenam.load(tmp_path / "m.snam").audit(table, y)
    assert again.to_dict() == audit.to_dict()
    assert json.loads(json.dumps(audit.to_dict()))["rows"] == ROWS
    page = model.explain().report(tmp_path / "page.html", beside=[audit]).read_text("utf-8")
    assert "region = island" in page and "What dropping cost" in page


def test_a_level_pays_for_its_column_by_a_shift_and_others_do_not() -> None:
    draw = np.random.default_rng(3)
    rows = 1200
    table = pd.DataFrame({"x": draw.normal(size=rows), "kind": draw.choice(list("abcdefgh"), rows)})
    y = table["x"] + 0.8 * (table["kind"] == "c") + draw.normal(size=rows)
    model = without(SNAMRegressor(random_state=0).fit(table, y), "kind")
    audit = model.audit(table, y)
    labelled = model.audit(table, y, groups={"given": table["kind"]})
    assert {harm.label for harm in audit.flagged if harm.groups == "kind"} == {"c"}
    assert harm_of(labelled, "kind", "given", "c").flagged
    check = next(check for check in audit.checks if check.label == "c")
    inside = (table["kind"] == "c").to_numpy()
    difference = y[inside] - model.predict(table)[inside]
    assert check.gap[0] == pytest.approx(difference.mean())
    assert check.gap_error[0] == pytest.approx(stats.sem(difference))


def test_a_shift_of_a_subgroup_is_no_cost_of_a_column_that_has_nothing_to_do_with_it(fitted) -> None:
    table, y, model, _ = fitted
    labels = np.where(np.arange(ROWS) % 3, "right", "wrong")
    audit = model.audit(table, y + 5.0 * (labels == "wrong"), groups=labels)
    harm = harm_of(audit, "u", "group", "wrong")
    assert not harm.flagged and abs(harm.cost) < 0.02
    assert next(check for check in audit.checks if check.label == "wrong").gap[0] == pytest.approx(5.0, abs=0.4)


def test_small_groups_are_listed_and_not_tested(fitted) -> None:
    table, y, model, _ = fitted
    labels = np.where(np.arange(ROWS) < 20, "few", "many")
    audit = model.audit(table, y, groups=labels)
    assert model.audit(table, y, groups=labels.tolist()).to_dict() == audit.to_dict()
    several = model.audit(table, y, groups=np.column_stack([labels, labels]))
    assert several.too_small == ("group 0 = few", "group 1 = few")
    assert audit.too_small == ("group = few",)
    assert {harm.label for harm in audit.harms} == {"", "many"}
    assert "group = few" in str(audit)


def test_missing_cells_are_a_subgroup_and_may_matter() -> None:
    table, _ = houses(4, slope=0.0)
    y = table["x"] + 1.0 * table["v"].isna() + np.random.default_rng(4).normal(size=ROWS)
    model = without(SNAMRegressor(random_state=0).fit(table, y), "v")
    flagged = model.audit(table, y, groups=["v", "u"]).flagged
    assert any((harm.column, harm.label) == ("v", "(missing)") for harm in flagged)
    assert {harm.column for harm in flagged} == {"v"}


def test_survival_and_counts_are_audited_by_their_rates() -> None:
    table, score = houses(6, slope=1.5)
    draw = np.random.default_rng(6)
    y = survival_target(draw.random(ROWS) < 0.8, draw.exponential(size=ROWS) * np.exp(-0.7 * score))
    model = without(SNAMSurvival(random_state=0).fit(table, y), "z")
    assert harm_of(model.audit(table, y, groups="region"), "z", "region", "island").flagged
    units = draw.uniform(0.5, 2.0, ROWS)
    counts = draw.poisson(units * np.exp(0.5 * score))
    rates = without(SNAMRegressor(family="poisson", random_state=0).fit(table, counts, exposure=units), "z")
    audit = rates.audit(table, counts, "region", exposure=units)
    assert harm_of(audit, "z", "region", "island").flagged
    assert audit.checks[0].mean_outcome[0] == pytest.approx(counts.sum() / units.sum())


def test_a_test_of_nothing_has_uniform_p_values_whatever_the_noise() -> None:
    draw, small = np.random.default_rng(7), []
    rows = 400
    for _ in range(150):
        bins = BinnedColumn(0, draw.integers(0, 10, rows), 10, True, False)
        partition = Partition("g", None, ("a", "b"), draw.integers(0, 2, rows))
        scores = draw.normal(size=(rows, 1))
        target = (draw.random((rows, 1)) < 1.0 / (1.0 + np.exp(1.5 - scores))).astype(float)
        given = AuditRows.of(Binomial(), scores - 1.5, target, np.ones(rows), np.arange(rows) % AUDIT_FOLDS)
        small += (_Curves.of(given, bins, partition)._p_values() < 0.05).tolist()
    assert np.mean(small) < 0.08  # 300 subgroups: three standard errors above 0.05


@pytest.mark.parametrize("family", [Gaussian(), Binomial(), Multinomial()], ids=lambda family: family.name)
def test_held_out_effects_know_next_to_nothing_of_the_rows_of_their_fold(family) -> None:
    """Permuted targets of a fold change its effects far less than those of the folds that learn from it."""
    draw = np.random.default_rng(8)
    rows, outputs = 600, 3 if family.couples_outputs else 1
    bins, folds = draw.integers(0, 2, rows), np.arange(rows) % AUDIT_FOLDS
    scores, chosen = np.zeros((rows, outputs)), (draw.random(rows) < 0.2 + 0.5 * bins).astype(int)
    target = np.eye(3)[chosen] if outputs == 3 else chosen[:, None].astype(float)
    other = np.where((folds == 0)[:, None], np.roll(target, -1, axis=1) if outputs == 3 else 1.0 - target, target)
    column = BinnedColumn(0, bins, 2, False, False)
    everyone = Partition("g", None, ("a",), np.zeros(rows, dtype=np.intp))
    effects = [
        _Curves.of(AuditRows.of(family, scores, each, np.ones(rows), folds), column, everyone).held_out(None)
        for each in (target, other)
    ]
    change = np.abs(effects[1] - effects[0]).max(axis=(1, 2, 3))
    assert change[0] < 0.1 * change[1:].min()


def test_costs_without_shrinkage_are_those_of_bin_means() -> None:
    """With a strong effect of a two-valued column the gain is that of the means of its two bins, held out."""
    draw = np.random.default_rng(9)
    rows = 2000
    codes = draw.integers(0, 2, rows)
    target = (3.0 * codes - 1.5 + draw.normal(size=rows))[:, None]
    folds = np.arange(rows) % AUDIT_FOLDS
    given = AuditRows.of(Gaussian(), np.zeros((rows, 1)), target, np.ones(rows), folds)
    found = harms(given, ["x"], [BinnedColumn(0, codes, 2, False, False)], [], lambda done, total: None)[0]
    held = np.empty(rows)
    for fold in range(AUDIT_FOLDS):
        for code in (0, 1):
            train = target[(folds != fold), 0]
            value = train[codes[folds != fold] == code].mean() - train.mean()
            held[(folds == fold) & (codes == code)] = value
    gain = 0.5 * target[:, 0] ** 2 - 0.5 * (target[:, 0] - held) ** 2
    assert found.cost == pytest.approx(gain.mean(), rel=0.01)
    assert found.error == pytest.approx(gain.std(ddof=1) / np.sqrt(rows), rel=0.02)
    assert found.p_value < 1e-10


def test_holm_is_that_of_the_book() -> None:
    corrected = holm(np.array([0.01, 0.04, 0.03]))
    np.testing.assert_allclose(corrected, [0.03, 0.06, 0.06])


def test_means_by_group_are_weighted_and_have_no_value_without_rows() -> None:
    values, codes = np.array([1.0, 2.0, 4.0]), np.array([0, 0, 2])
    mean, error = mean_and_error(values, np.array([1.0, 3.0, 1.0]), codes, 3)
    np.testing.assert_allclose(mean, [1.75, np.nan, 4.0])
    assert np.isnan(error[2]) and error[0] > 0


def test_bad_groups_and_targets_are_refused_in_one_sentence(fitted) -> None:
    table, y, model, _ = fitted
    for groups, said in (
        (["nowhere"], "names of columns"),
        (np.zeros(3), "one label for each of"),
        ({"g": np.zeros((ROWS, 2))}, "one label for each row"),
        (np.full(ROWS, np.nan), "labels"),
    ):
        with pytest.raises(InputError, match=said):
            model.audit(table, y, groups=groups)
    with pytest.raises(ValueError, match="inconsistent"):
        model.audit(table, y[:-1])
    with pytest.raises(InputError, match="a family of rates"):
        model.audit(table, y, exposure=np.ones(ROWS))


def test_a_model_that_keeps_everything_has_nobody_who_pays() -> None:
    table, y = houses(1, rows=300)
    model = SNAMRegressor(always_keep=list(table.columns), random_state=0).fit(table, y)
    audit = model.audit(table, y, groups="region")
    assert audit.harms == () and "every column" in str(audit)
