"""Pairs in explanations: what a surface says is what the model does, in the units of the table, after JSON too."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.explain import Explanation, LocalExplanation, against_class

ROWS = 400
PAIRS = [("size", "colour"), ("size", "day"), ("grade", "gaps")]


def table():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": generator.normal(size=ROWS),
            "colour": generator.choice(["red", "green", "blue"], ROWS),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 300, ROWS), unit="D"),
            "grade": pd.Categorical(
                generator.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high"], ordered=True
            ),
            "gaps": generator.uniform(-1.0, 1.0, ROWS),
        }
    )
    frame.loc[::6, "gaps"] = np.nan
    return frame, generator


def score_of(frame):
    late = (frame["day"] - pd.Timestamp("2024-06-01")).dt.days / 100
    joint = frame["size"] * (frame["colour"] == "red") + frame["size"] * late
    return joint + (frame["grade"] == "high") * frame["gaps"].fillna(1.0)


@pytest.fixture(scope="module")
def regression():
    frame, generator = table()
    target = score_of(frame) + 0.05 * generator.normal(size=ROWS)
    return SNAMRegressor(alpha=0.001, pairs=PAIRS, random_state=0).fit(frame, target), frame


@pytest.fixture(scope="module")
def classes():
    frame, _ = table()
    target = np.array(["a", "b", "c"])[np.searchsorted([-0.4, 0.4], score_of(frame))]
    return SNAMClassifier(alpha=0.001, pairs=PAIRS, random_state=0).fit(frame, target), frame


@pytest.fixture(params=["regression", "classes"])
def fitted(request):
    return request.getfixturevalue(request.param)


def axis_of(pair, name):
    return pair.one if pair.one.name == name else pair.other


def cell_of(axis, node):
    """The value of a column at a node, as a table has it."""
    if axis.missing and node == axis.size - 1:
        return np.nan
    if axis.levels is not None:
        return axis.levels[node]
    return pd.Timestamp("1970-01-01") + pd.Timedelta(days=axis.x[node]) if axis.kind == "date" else axis.x[node]


def centred(effects, outputs):
    return effects - effects.mean(axis=-1, keepdims=True) if outputs > 1 else effects


@pytest.mark.parametrize("names", PAIRS)
def test_a_surface_and_its_mains_are_what_the_model_adds_at_the_nodes(names, fitted):
    model, frame = fitted
    explanation = model.explain()
    pair, outputs = explanation.pair(*names), len(explanation.outputs)
    index = model.interactions_.index((pair.one.name, pair.other.name))
    nodes = [(one, other) for one in range(pair.one.size) for other in range(pair.other.size)]
    rows = pd.concat([frame.head(1)] * len(nodes), ignore_index=True)
    for axis, side in ((pair.one, 0), (pair.other, 1)):
        cells = [cell_of(axis, node[side]) for node in nodes]
        rows[axis.name] = pd.Categorical(cells, ["low", "mid", "high"], ordered=True) if axis.name == "grade" else cells
    columns = [list(frame).index(axis.name) for axis in (pair.one, pair.other)]
    joint = centred(model.interaction_effects(rows).reshape(len(nodes), -1, outputs)[:, index], outputs)
    mains = centred(model.effects(rows).reshape(len(nodes), -1, outputs)[:, columns], outputs)
    effect, total = (np.array(surface).reshape(len(nodes), outputs) for surface in (pair.effect, pair.total))
    np.testing.assert_allclose(effect, joint, atol=1e-10)
    np.testing.assert_allclose(total, joint + mains.sum(axis=1), atol=1e-10)


def test_a_surface_has_mean_zero_along_each_axis_over_the_shares_of_the_rows(fitted):
    for pair in fitted[0].explain().pairs:
        share, effect = np.array(pair.share), np.array(pair.effect)
        assert share.sum() == pytest.approx(1.0, abs=1e-12) and (share >= 0).all()
        for axis in (0, 1):
            assert np.abs((share[..., None] * effect).sum(axis=axis)).max() < 1e-10


def test_the_importance_of_a_pair_is_measured_as_that_of_a_column(regression):
    model, frame = regression
    effects = model.interaction_effects(frame)
    for names, effect in zip(model.interactions_, effects.T, strict=True):
        pair = model.explain().pair(*names)
        assert pair.mean_absolute == pytest.approx(np.abs(effect).mean())
        assert pair.variation == pytest.approx(np.ptp(effect))
        assert model.explain(frame.head(50)).pair(*names).mean_absolute == pytest.approx(np.abs(effect[:50]).mean())
    sizes = [pair.mean_absolute for pair in model.explain().pairs]
    assert sizes == sorted(sizes, reverse=True)


def test_axes_have_names_dates_and_missing_cells(regression):
    explanation = regression[0].explain()
    colour = axis_of(explanation.pair("colour", "size"), "colour")
    assert set(colour.levels) == {"red", "green", "blue"} and colour.kind == "category" and not colour.missing
    day = axis_of(explanation.pair("size", "day"), "day")
    assert day.kind == "date" and day.text_at(day.size // 2).startswith("2024-0")
    grade, gaps = (axis_of(explanation.pair("grade", "gaps"), name) for name in ("grade", "gaps"))
    assert grade.levels == ("low", "mid", "high") and not grade.missing
    assert gaps.missing and gaps.text_at(gaps.size - 1) == "missing"


def test_the_contributions_of_a_row_add_up_to_its_score(fitted):
    model, frame = fitted
    local = model.explain_local(frame.head(40))
    for row in local.rows:
        parts = [row.intercept, *(part.effect for part in row.contributions)]
        np.testing.assert_allclose(np.sum(parts, axis=0), row.score, atol=1e-10)
        assert len(row.contributions) == len(model.explain().features) + len(PAIRS)
    texts = [part.text for part in local.rows[0].contributions if "grade" in part.feature and "×" in part.feature]
    assert "grade '" in texts[0] and "gaps missing " in texts[0] and " × " in texts[0]
    assert LocalExplanation.from_dict(json.loads(local.to_json())) == local


def test_an_explanation_with_pairs_survives_json(fitted):
    explanation = fitted[0].explain()
    assert Explanation.from_dict(json.loads(explanation.to_json())) == explanation


def test_a_summary_and_the_records_rank_pairs_with_columns(regression):
    explanation = regression[0].explain()
    assert "columns and 3 pairs kept" in str(explanation)
    assert re.search(rf"^  {explanation.pairs[0].name} +pair ", str(explanation), re.MULTILINE)
    records = [record for record in explanation.to_records() if record["kept"]]
    assert [record["mean_absolute"] for record in records] == sorted(
        (record["mean_absolute"] for record in records), reverse=True
    )
    found = [record for record in records if record["kind"] == "pair"]
    assert [record["feature"] for record in found] == [pair.name for pair in explanation.pairs]
    assert all(record["reason"] == "it was asked for" for record in found)
    assert len(explanation.to_frame()) == len(explanation.to_records())


def test_a_model_without_pairs_says_nothing_of_them():
    frame, _ = table()
    explanation = SNAMRegressor(alpha=0.01, pairs=0).fit(frame, score_of(frame)).explain()
    assert explanation.pairs == () and "pair" not in str(explanation)
    with pytest.raises(InputError, match="the model has none"):
        explanation.pair("size", "day")


def test_a_pair_that_is_not_there_is_refused_by_name(regression):
    explanation = regression[0].explain()
    for names in (("size", "grade"), ("size", "size"), ("size", "nothing")):
        with pytest.raises(InputError, match=explanation.pairs[0].name):
            explanation.pair(*names)


def shorter_effect(pair):
    pair["effect"] = pair["effect"][:-1]


def narrower_share(pair):
    pair["share"][0] = pair["share"][0][:-1]


def more_outputs(pair):
    pair["effect"][0][0] = [0.0] * 7


def no_nodes(pair):
    pair["one"]["x"] = pair["one"]["levels"] = None


def shorter_main(pair):
    pair["other"]["main"] = pair["other"]["main"][:-1]


@pytest.mark.parametrize("damage", [shorter_effect, narrower_share, more_outputs, no_nodes, shorter_main])
def test_a_pair_whose_parts_do_not_fit_is_refused(damage, regression):
    data = json.loads(regression[0].explain().to_json())
    damage(data["pairs"][0])
    with pytest.raises(InputError, match=r"^explanation: expected what to_dict\(\) returns"):
        Explanation.from_dict(data)


def test_against_a_class_a_pair_is_the_difference_and_its_importance_too(classes):
    explanation = classes[0].explain()
    turned = against_class(explanation, "b")
    for pair in explanation.pairs:
        other = turned.pair(pair.one.name, pair.other.name)
        effect = np.array(pair.effect)
        np.testing.assert_allclose(np.array(other.effect), effect[..., [0, 2]] - effect[..., [1]], atol=1e-12)
        total = np.array(pair.total)
        np.testing.assert_allclose(np.array(other.total), total[..., [0, 2]] - total[..., [1]], atol=1e-12)
        share = np.array(pair.share)
        assert other.mean_absolute == pytest.approx((share[..., None] * np.abs(np.array(other.effect))).sum() / 2)
