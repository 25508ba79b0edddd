"""The HTML report as text: what it holds, what it must never hold, and the small sums behind its drawings."""

import base64
import hashlib
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from report_cases import HOSTILE, explanation, explanation_dict, local_explanation
from sparsenam.errors import InputError
from sparsenam.explain import Curve, Explanation
from sparsenam.explain.charts import waterfall
from sparsenam.explain.drawing import Axis, axis_over
from sparsenam.explain.report import DARK, LIGHT, PRINTED, render_report, write_report
from sparsenam.explain.report.markup import clean, data_block, element
from sparsenam.explain.report.svg import PENS, polyline
from sparsenam.explain.shapes import THIN, named_outputs, thinned
from sparsenam.text import date_text, number_text, shorten, signed_text

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "article", "footer"),
    *(
        "a",
        "h1",
        "h2",
        "h3",
        "button",
        "div",
        "p",
        "span",
        "bdi",
        "ul",
        "li",
        "dl",
        "dt",
        "dd",
        "details",
        "summary",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "script"),
    *("label", "input", "select", "option", "output", "svg", "g", "line", "rect", "circle", "text", "path"),
}
TEXT = st.text(alphabet="<>&;\"'/=!-ab \u2028") | st.sampled_from(HOSTILE) | st.text()
CASES = [("regression", 1), ("classification", 4), ("classification", 9), ("survival", 1)]


class Parsed(HTMLParser):
    """What a reader of HTML finds: tags, attributes, the text of scripts, all other text."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script" and data.strip():
            self.scripts[-1] += data
        else:
            self.words.append(data)

    def _classes(self):
        return [(tag, attributes.get("class") or "") for tag, attributes in self.tags]

    def count(self, tag: str, name: str = "") -> int:
        return sum(tag == found and (not name or name in classes.split()) for found, classes in self._classes())


def page_of(task="regression", outputs=1, features=30):
    return render_report(explanation(features, outputs, task), local_explanation(outputs=outputs))


@pytest.mark.parametrize(("task", "outputs"), CASES)
def test_hostile_names_become_no_markup(task, outputs):
    found = Parsed(page_of(task, outputs))
    assert {tag.lower() for tag, _ in found.tags} <= TAGS
    assert len(found.scripts) == 2
    assert found.count("style") == 1
    for _, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcdoc", "autofocus")]
        assert (attributes.get("href") or "#").startswith("#")


def test_hostile_names_are_shown_as_they_are():
    words = "".join(Parsed(page_of()).words)
    for name in HOSTILE:
        assert clean(name) in words


@pytest.mark.parametrize("mark", ["http:", "https:", "//cdn", "@import", "url(", "<link", "<iframe", "<img"])
def test_the_page_asks_the_network_for_nothing(mark):
    assert mark not in page_of()


def test_the_policy_allows_the_one_script_and_nothing_else():
    found = Parsed(page_of())
    policy = next(
        a["content"] for t, a in found.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(found.scripts[1].encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["img-src"] == "data:"


def test_the_embedded_numbers_are_the_explanation_s():
    source = explanation(30)
    embedded = json.loads(Parsed(render_report(source)).scripts[0])
    for data, feature in zip(embedded["features"], source.features, strict=True):
        assert data["name"] == clean(feature.name)
        if "x" in data:
            height = np.ptp(np.ravel(feature.curve.effect))
            effects = np.interp(data["x"], feature.curve.x, np.ravel(feature.curve.effect))
            np.testing.assert_allclose(np.ravel(data["y"]), effects, atol=2e-3 * height)


def test_the_line_that_is_drawn_is_the_curve_of_the_read_out():
    page = render_report(explanation(4, hostile=False))
    features = [data for data in json.loads(Parsed(page).scripts[0])["features"] if "x" in data]
    lines = re.findall(r'<path d="([^"]*)" class="line out-0" data-output="0">', page)
    assert len(lines) == len(features) > 1
    for data, drawn in zip(features, lines, strict=True):
        points = np.array([[float(number) for number in point.split()] for point in re.split("[ML]", drawn)[1:]])
        values, effects = (Axis(data[key]["low"], data[key]["high"]) for key in ("values", "effects"))
        np.testing.assert_allclose(points[:, 0] / 1000, [values.fraction(x) for x in data["x"]], atol=1e-4)
        np.testing.assert_allclose(1 - points[:, 1] / 1000, [effects.fraction(y) for (y,) in data["y"]], atol=2e-4)


@given(TEXT)
def test_a_data_block_gives_back_its_text_and_cannot_be_left(text):
    block = data_block("data", {"text": clean(text)})
    inside = block.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == {"text": clean(text)}


@given(TEXT, TEXT)
def test_an_element_holds_one_attribute_and_one_text_whatever_they_say(value, text):
    found = Parsed(element("p", {"title": value}, text))
    assert [tag for tag, _ in found.tags] == ["p"]
    assert found.tags[0][1] == {"title": clean(value)}
    assert "".join(found.words) == clean(text)


@pytest.mark.parametrize(("task", "outputs"), CASES)
def test_without_a_script_each_feature_still_has_its_drawing_and_its_table(task, outputs):
    found = Parsed(page_of(task, outputs))
    assert found.count("article", "card") == 30 + 4 + 3
    assert found.count("svg", "curve") + found.count("svg", "levels") == 30
    assert found.count("details", "numbers") == 30 + 4
    assert found.count("svg", "map") == 4
    assert found.count("svg", "waterfall") == 3


def test_every_dropped_column_has_its_reason_and_the_counts_are_right():
    source = explanation(30)
    words = "".join(Parsed(render_report(source)).words)
    for column in source.dropped:
        assert clean(column.name) + column.reason in words
    assert f"keeps 30 of {30 + len(source.dropped)} columns" in words


def test_what_to_know_of_the_choice_stands_in_a_box_above_the_facts():
    notes = ["The folds contradict each other.", f"All columns are better than {HOSTILE[0]}"]
    source = explanation(5)
    page = render_report(replace(source, card={**source.card, "notes": notes}))
    assert Parsed(page).count("div", "notes") == 1
    words = "".join(Parsed(page).words)
    assert all(sentence in words for sentence in notes)
    assert page.index('class="notes"') < page.index('class="facts"')


def test_a_model_without_notes_has_no_box_that_alarms():
    source = explanation(5)
    for card in ({**source.card, "notes": []}, {"rows": 10, "columns": 3}):
        page = render_report(replace(source, card=card))
        assert Parsed(page).count("div", "notes") == 0
        assert "Before you trust" not in page


def test_the_share_explained_in_held_out_rows_comes_with_its_error():
    source = explanation(5)
    card = {**source.card, "explained": {"share": -0.0123, "error": 0.0456}}
    assert "\N{MINUS SIGN}1.2 % ± 4.6 %" in "".join(Parsed(render_report(replace(source, card=card))).words)
    assert replace(source, card={**card, "explained": None}).explained is None
    assert replace(source, card={**card, "explained": {"share": None, "error": 0.1}}).explained is None


def test_the_table_of_kept_columns_has_the_share_of_the_folds_where_there_were_folds():
    source = explanation(5)
    with_folds = replace(source, features=tuple(replace(one, kept_in=0.95) for one in source.features))
    page = render_report(with_folds)
    assert "In folds" in page and page.count("95 %") == 5
    without = replace(source, features=tuple(replace(one, kept_in=None) for one in source.features))
    assert "In folds" not in render_report(without)
    for shown in (with_folds, without):  # every row has a cell for each heading
        table = re.search(r'<section id="kept".*?</section>', render_report(shown), re.DOTALL)[0]
        rows = re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
        assert len({len(re.findall(r"<t[hd][ >]", row)) for row in rows}) == 1


def test_best_and_taken_are_marked_and_are_one_mark_when_they_are_the_same():
    source = explanation(5)
    apart = "|".join(Parsed(render_report(source)).words)
    assert "best" in apart.split("|")
    together = replace(source, chosen={"best": 10, "taken": 10})
    assert "best and taken" in "|".join(Parsed(render_report(together)).words).split("|")


@pytest.mark.parametrize("outputs", [1, 6])
def test_a_hundred_features_stay_under_three_megabytes(outputs):
    features = replace(explanation(100, outputs), pairs=(), edits=())  # which have limits of their own
    page = render_report(features, local_explanation(20, 40, outputs))
    assert len(page.encode()) < 3_000_000


def test_sections_without_data_are_left_out():
    nothing = {"curve": None, "chosen": None, "path": None, "history": []}
    page = render_report(replace(explanation(3), card={"rows": 10, "columns": 3}, **nothing))
    assert 'id="selection"' not in page
    assert 'id="rows"' not in page
    assert 'href="#selection"' not in page
    assert "No certificate" in page


def test_a_model_without_features_has_a_report_too():
    assert "No column was kept" in render_report(explanation(0))


@pytest.mark.parametrize("x", [[1.0], [2.0, 2.0], [0.0, 1e-300], [-1e15, 1e15]])
def test_curves_of_any_width_can_be_drawn(x):
    source = explanation_dict(1, hostile=False)
    source["features"][0] |= {"curve": {"x": x, "effect": [[0.0]] * len(x)}, "density": None, "levels": None}
    assert Parsed(render_report(Explanation.from_dict(source))).count("svg", "curve") == 1


def test_a_gap_in_a_curve_lifts_the_pen():
    drawn = polyline([(0.0, 1.0), (1.0, float("nan")), (2.0, 1.0), (3.0, 1.0)], "line")
    assert re.findall("[ML]", re.search(r'd="([^"]*)"', drawn)[1]) == ["M", "M", "L"]


def test_effects_that_are_not_numbers_become_null_not_broken_json():
    source = explanation_dict(1, hostile=False)
    source["features"][0]["curve"] = {"x": [0.0, 1.0, 2.0], "effect": [[0.0], [None], [float("inf")]]}
    embedded = json.loads(Parsed(render_report(Explanation.from_dict(source))).scripts[0])
    assert embedded["features"][0]["y"] == [[0.0], [None], [None]]


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=60), st.integers(0, 99))
def test_a_thinned_curve_stays_within_its_tolerance(effects, seed):
    x = np.sort(np.random.default_rng(seed).normal(size=len(effects)))
    thin = thinned(Curve(tuple(x), tuple((effect,) for effect in effects)))
    again = np.interp(x, thin.x, [effect[0] for effect in thin.effect])
    assert np.abs(again - effects).max() <= THIN * np.ptp(effects) * (1 + 1e-6) + 1e-12
    assert (thin.x[0], thin.x[-1]) == (x[0], x[-1])


def test_the_script_draws_nothing_that_python_has_not_drawn():
    script = Parsed(page_of()).scripts[1]
    for word in ("createElement", "innerHTML", "insertAdjacent", "cloneNode", "document.write"):
        assert word not in script


def test_a_straight_line_needs_two_points():
    x = np.linspace(0, 1, 50)
    assert len(thinned(Curve(tuple(x), tuple((2 * value, -value) for value in x))).x) == 2


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 8))
def test_ticks_lie_within_the_range_and_are_about_as_many_as_asked(low, width, about):
    axis = axis_over([low, low + width])
    ticks = [tick.value for tick in axis.ticks(about)]
    assert all(axis.low <= tick <= axis.high for tick in ticks)
    assert len(ticks) <= 2 * about + 1
    assert ticks == sorted(set(ticks))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_labels_of_ticks_differ(low, width):
    labels = [tick.text for tick in axis_over([low, low + width]).ticks(5)]
    assert len(set(labels)) == len(labels)


@given(st.floats(-1e5, 1e5), st.floats(1e-3, 1e5), st.sampled_from(["number", "date"]), st.integers(12, 90))
def test_labels_of_ticks_do_not_touch(low, width, kind, letters):
    axis = axis_over([low, low + width], kind=kind)
    for left, right in pairwise(axis.fitting(letters)):
        distance = letters * (axis.fraction(right.value) - axis.fraction(left.value))
        assert distance >= (len(left.text) + len(right.text)) / 2 + 1


@given(st.floats(-3e5, 3e5), st.floats(4.0, 3e5), st.integers(1, 8))
@example(5e-324, 4.0, 1)
def test_dates_on_an_axis_are_first_days_or_days(low, width, about):
    ticks = Axis(low, low + width, "date").ticks(about)
    assert all(low <= tick.value <= low + width for tick in ticks)
    for tick in ticks:
        assert date_text(tick.value) == (tick.text + "-01-01")[:10]


def test_finer_levels_of_ticks_have_more_ticks():
    levels = Axis(-0.3, 1.2).levels(1 / 16)
    assert all(len(coarse) < len(fine) for coarse, fine in pairwise(levels))
    assert len(levels[-1]) > 60


def test_ticks_of_a_log_axis_are_round_and_within():
    assert [tick.value for tick in Axis(0.6, 0.011, "log").ticks()] == [0.02, 0.05, 0.1, 0.2, 0.5]
    assert [tick.value for tick in Axis(1e-4, 1.0, "log").ticks()] == [1e-4, 1e-3, 1e-2, 0.1, 1.0]


@pytest.mark.parametrize("features", [3, 12, 13, 40])
def test_the_steps_of_a_waterfall_lead_from_the_intercept_to_the_score(features):
    local = local_explanation(4, features, 2)
    for row in local.rows:
        for output in (0, 1):
            start, *steps, score = waterfall(local, row, output).bars
            assert len(steps) == min(features, 12)
            assert (start.stop, score.stop) == (row.intercept[output], row.score[output])
            starts = [row.intercept[output], *(step.stop for step in steps)]
            assert [step.start for step in steps] == starts[:-1]
            assert starts[-1] == pytest.approx(row.score[output])


def test_no_more_outputs_are_drawn_than_there_are_colours_and_the_strongest_are():
    source = explanation_dict(4, 9, "classification")
    for feature in source["features"]:
        for effects in (feature["curve"] or {"effect": []})["effect"]:
            effects[7] *= 50
    shown = named_outputs(Explanation.from_dict(source), None, len(PENS))
    assert len(shown) == 5
    assert 7 in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 1"),
        ({"outputs": "y"}, "outputs: a list expected, got 'y'"),
        ({"outputs": None}, "Explanation.to_dict"),
        ({"task": "ranking"}, "task: one of .* got 'ranking'"),
        ({"intercept": [1.0, 2.0]}, "2 intercepts for 1 outputs"),
        ({"features": [{"name": "a"}]}, "features.0.: the fields of Feature expected, got others, as to .*kind"),
    ],
)
def test_a_dict_of_another_form_is_refused_in_one_sentence(change, message):
    with pytest.raises(InputError, match=message):
        Explanation.from_dict(explanation_dict(2) | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean_absolute": "large"}, "mean_absolute|'large'"),
        ({"curve": {"x": [1, 2], "effect": [[1]]}}, "1 effects for 2 points"),
        ({"density": {"edges": [1], "counts": [1]}}, "1 edges for 1 bins"),
        ({"missing": {"effect": [1, 2], "count": 1}}, "2 numbers for 1 outputs"),
    ],
)
def test_a_feature_of_another_form_is_refused_in_one_sentence(change, message):
    source = explanation_dict(2)
    source["features"][0] |= change
    with pytest.raises(InputError, match=message):
        Explanation.from_dict(source)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        write_report(explanation(2), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_the_page(tmp_path):
    path = write_report(explanation(2), tmp_path / "report.html", local_explanation())
    assert path.read_text("utf-8") == render_report(explanation(2), local_explanation())


def test_numbers_names_and_dates_are_short():
    assert number_text(-1234567.0) == "−1\u202f234\u202f567"
    assert number_text(0.000012345) == "1.234e−05"
    assert number_text(None) == "–"
    assert signed_text(0.5) == "+0.5"
    assert signed_text(0.0) == "0"
    assert date_text(18262.0) == "2020-01-01"
    assert date_text(1e9).startswith("day ")
    assert shorten("abcdefghijkl", 7) == "abcd…kl"


def test_the_page_has_the_colours_of_each_scheme_and_paper_s():
    style = render_report(explanation(1)).split("<style>")[1].split("</style>")[0]
    blocks = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in re.findall(r"\{([^{}]*--paper:[^{}]*)\}", style)
    ]
    assert blocks == [LIGHT, DARK, DARK, PRINTED]  # light, dark by preference, dark by choice, paper
    assert set(re.findall(r"var\(--([\w-]+)\)", style)) <= set(LIGHT) == set(DARK)


def luminance(colour: str) -> float:
    channels = np.array([int(colour[index : index + 2], 16) for index in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK, PRINTED], ids=["light", "dark", "paper"])
def test_text_and_lines_stand_out_as_wcag_asks(palette):
    for text in ("ink", "faint", "link"):
        assert contrast(palette[text], palette["paper"]) >= 4.5
        assert contrast(palette[text], palette["ground"]) >= 4.5
    for line in ("out-0", "out-1", "out-2", "out-3", "out-4", "plus", "minus", "zero"):
        assert contrast(palette[line], palette["paper"]) >= 3
    assert contrast(palette["focus"], palette["ground"]) >= 3


def test_the_explanation_of_a_model_becomes_a_report():
    from sparsenam import SNAMClassifier

    draw = np.random.default_rng(0)
    X = draw.normal(size=(120, 4))
    X[:20, 0] = np.nan
    model = SNAMClassifier(random_state=0).fit(X, (X[:, 1] > 0).astype(int))
    made = model.explain()
    found = Parsed(render_report(made, model.explain_local(X[:2])))
    assert found.count("svg", "curve") + found.count("svg", "levels") == len(made.features) > 0
    assert found.count("svg", "waterfall") == 2
