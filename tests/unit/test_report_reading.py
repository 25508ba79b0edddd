"""What a reader takes from the report: axes that suit the rows, words that agree with drawings, honest errors."""

import math
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from report_cases import HOSTILE, explanation, local_dict
from report_tables import flowers, patients
from sparsenam.explain import charts, shapes
from sparsenam.explain.drawing import Axis
from sparsenam.explain.explanation import Curve, Feature, Level
from sparsenam.explain.local import LocalExplanation, describe_effect
from sparsenam.explain.performance import class_performance, number_performance
from sparsenam.explain.report import render_report
from sparsenam.explain.report.sections import local_rows
from sparsenam.fit.summary import density_of
from sparsenam.text import number_text


def column(values, effect):
    """Return a feature over the rows ``values`` whose curve goes through ``effect`` of x."""
    x = np.unique(values)
    curve = Curve(tuple(x.tolist()), tuple((float(effect(one)),) for one in x))
    return Feature("x", "number", 1.0, 2.0, 1.0, 1, curve, density_of(values), None, None, {}, "")


def test_a_skewed_axis_and_its_inverse_agree():
    axis = Axis(-50.0, 1e6, "skewed", 3.0)
    for value in (-50.0, -1.0, 0.0, 0.5, 3.0, 700.0, 1e6):
        assert axis.value_at(axis.place(value)) == pytest.approx(value)
    assert axis.fraction(-50.0) == 0.0 and axis.fraction(1e6) == pytest.approx(1.0)
    ticks = axis.fitting(40)
    assert len(ticks) >= 4 and 0.0 in [tick.value for tick in ticks]


def test_only_columns_whose_rows_crowd_a_straight_axis_get_a_skewed_one():
    draw = np.random.default_rng(0)
    gains = np.where(draw.random(4000) < 0.9, 0.0, draw.lognormal(8, 1.2, 4000))
    for values, skewed in (
        (gains, True),
        (draw.lognormal(0, 2, 4000), True),
        (draw.normal(size=4000), False),
        (draw.uniform(size=4000), False),
        (1950.0 + draw.integers(0, 70, 4000), False),
    ):
        feature = column(values, np.tanh)
        assert (shapes.axis_of(feature, whole=True).kind == "skewed") is skewed
    bent = shapes.bent(column(gains, np.sqrt)).curve
    assert len(bent.x) > 80 and all(math.isfinite(row[0]) for row in bent.effect)


def test_a_curve_that_falls_where_there_are_no_rows_does_not_press_the_rest_flat():
    values = np.concatenate([np.random.default_rng(0).uniform(0, 10, 1000), [60.0]])
    feature = column(values, lambda x: math.sin(x) if x <= 10 else -500_000.0)
    ((start, stop),) = shapes.thin_spans(feature)
    assert start < 15 and stop == 60.0
    axis = shapes.effect_axis([feature], [0])
    assert -10 < axis.low < -1 < 1 < axis.high < 10
    assert shapes.thin_spans(column(values[:-1], math.sin)) == []


def test_a_tail_of_few_rows_is_pale_without_stripes_but_for_a_value_of_many():
    bulk = np.random.default_rng(0).uniform(0, 10, 1000)
    tail = np.repeat(np.arange(12.0, 40.0, 4.0), 5)  # five rows here and there: above the limit, and alone
    assert len(shapes.thin_spans(column(np.concatenate([bulk, tail]), math.sin))) == 1
    many = np.concatenate([bulk, [12.0, 40.0], np.full(100, 25.0)])
    spans = shapes.thin_spans(column(many, math.sin))
    assert not any(start < 25.0 < stop for start, stop in spans)


def test_levels_come_by_effect_unless_they_have_an_order():
    given = (("a", 2.0, 5), ("b", -1.0, 9), ("c", 0.5, 7))
    levels = tuple(Level(name, (effect,), count) for name, effect, count in given)
    for kind, names in (("category", ["b", "c", "a"]), ("ordered", ["a", "b", "c"])):
        feature = Feature("x", kind, 1.0, 2.0, 1.0, 1, None, None, levels, None, {}, "")
        assert [level.name for level in shapes.drawn_levels(feature)] == names


def test_errors_of_classes_agree_with_those_of_scikit_learn():
    draw = np.random.default_rng(1)
    chances = draw.uniform(size=500).round(3)
    truth = draw.random(500) < chances
    found = class_performance(chances, truth, "yes")
    at = found["thresholds"]["at"].index(0.5)
    (_, wrong), (_, right) = confusion_matrix(truth, chances >= 0.5)
    assert (found["thresholds"]["right"][at], found["thresholds"]["wrong"][at]) == (right, wrong)
    assert sum(found["calibration"]["counts"]) == 500
    page = render_report(replace(explanation(3), card=explanation(3).card | {"performance": found}))
    area = float(page.split("Area ")[1].split(":")[0])
    assert area == pytest.approx(roc_auc_score(truth, chances), abs=0.01)


def test_residuals_of_numbers_are_drawn_row_by_row():
    found = number_performance([1.0, 2.0, 3.0], [1.5, 2.0, 2.0])
    assert found["points"]["residual"] == [0.5, 0.0, -1.0]
    page = render_report(replace(explanation(3), card=explanation(3).card | {"performance": found}))
    assert page.count('class="point"') == 3


def test_the_report_of_a_survival_model_speaks_of_hazard_ratios_and_not_of_an_intercept():
    model, table = patients()
    page = render_report(model.explain(), model.explain_local(table.head(1)))
    assert "<dt>Intercept</dt>" not in page
    for words in ("Hazard ratio", "twice the hazard", "Share without the event", "doubles the hazard"):
        assert words in page
    assert "Training" not in page
    shown = model.explain().card["baseline"]
    assert shown["times"][-1] == model.event_times_[-1] and len(shown["times"]) == len(shown["hazard"])


def test_words_about_a_row_are_about_the_class_that_is_drawn():
    model, table = flowers()
    local = model.explain_local(table.head(4))
    page = render_report(model.explain(), local)
    for row, card in zip(local.rows, page.split("Drawn for ")[1:], strict=True):
        drawn = local.outputs[charts.shown_output(local, row)]
        words = card.split('<ul class="texts">')[1].split("</ul>")[0]
        assert card.startswith(drawn)
        assert all(drawn in line or "adds nothing" in line for line in words.split("</li>")[:-1])
    reasons = {feature.reason for feature in model.explain().features}
    assert not any("number" in reason for reason in reasons) and len(reasons) > 1
    for shown in (model.explain()._repr_html_(), model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert "Keeps 3 of 3 columns" in shown
    assert "Kept: habitat" in model._repr_mimebundle_()["text/plain"]
    assert len(model.explain().plot(2).axes) == 2


def test_a_notebook_shows_hostile_names_as_text():
    shown = explanation(30)._repr_html_()
    assert "<script" not in shown and "<img" not in shown and "&lt;img" in shown
    assert HOSTILE[0] not in shown


def test_large_numbers_are_the_same_in_words_and_drawings():
    assert describe_effect((58_986.2,), ("y",)) == "adds +58\u202f986"
    assert describe_effect((-0.000001,), ("y",)).startswith("takes ")


@pytest.mark.parametrize(
    ("chance", "said"),
    [(0.62934, "0.629"), (0.99952, "above 0.999"), (1.0, "1"), (0.00241, "0.00241")],
)
def test_a_row_of_two_classes_says_its_probability_and_of_what(chance, said):
    local = LocalExplanation.from_dict(local_dict(1, hostile=False))
    row = replace(local.rows[0], prediction=(chance,))
    page = unescape(str(local_rows(replace(local, units="log odds of fell = 'yes'", rows=(row,)))))
    assert f"Probability of fell = 'yes': {said}." in page
    assert f"Prediction: {number_text(chance, 3)}." in str(local_rows(replace(local, units="units of y", rows=(row,))))
