"""Figures hold the numbers they are given, whatever the names, and reach the disk whole."""

import json
import os
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib._pylab_helpers import Gcf
from matplotlib.axis import Tick
from matplotlib.text import Text

from sparsenam.datasets import make_regression, true_effects
from sparsenam.errors import InputError
from sparsenam.explain.drawing import Axis
from sparsenam.explain.plots.sheet import plain
from sparsenam.explain.text import shorten
from sparsenam.paper.curves import densities, effect_curves, largest
from sparsenam.paper.figures import (
    draw_effects,
    draw_effects_against_truth,
    draw_estimation_error,
    draw_flows,
    draw_identification,
    draw_optimizers,
    draw_recovery,
    draw_variation,
    draw_zoo,
    save_figure,
)

HOSTILE = ("$x_{", "_$\\frac{$\n\0", "<b>&amp;", "name " * 16)
N = [100, 200, 400]


def curve(feature="x", effect=(0.0, 1.0, -1.0), kept=True):
    x = list(np.linspace(-1, 1, len(effect)))
    truth = [2 * value for value in effect]
    size = max(effect) - min(effect)
    return {"feature": feature, "x": x, "effect": list(effect), "truth": truth, "kept": kept, "variation": size}


def history(*objective):
    points = list(range(1, len(objective) + 1))
    return {"epochs": points, "seconds": [point / 10 for point in points], "objective": list(objective)}


def flow(*objective, **more):
    return {"iteration": list(range(len(objective))), "objective": list(objective), **more}


def recovery(**more):
    return {"n": N, "multipliers": [0.5, 0.1], "probability": [[0.0, 0.5, 1.0], [0.1, 0.2, 0.3]], **more}


ESTIMATION = {"n": N, "error": [[4.0, 2.0], [2.0, 1.0], [1.0, 0.5]], "slope": -1.0, "interval": [-1.1, -0.9]}
NAMED = {  # every figure, with a name where it takes one
    "optimizers": lambda name: draw_optimizers({name: history(3.0, 2.0), "fista": history(3.0, 1.0)}, name),
    "truth": lambda name: draw_effects_against_truth([curve(name), curve("b", (0.0, 0.0), kept=False)], name),
    "zoo": lambda name: draw_zoo({name: [curve(name), curve("b")], "other": [curve(name), curve("b")]}),
    "effects": lambda name: draw_effects([curve(name), curve("b"), curve("c", (0.0, 0.0), kept=False)], name),
    "variation": lambda name: draw_variation({name: {name: 1.0, "b": 0.0}, "other": {name: 0.5}}, name),
    "estimation": lambda name: draw_estimation_error(ESTIMATION, -0.5),
    "recovery": lambda name: draw_recovery(recovery(theory_lambda_ratio={name: [3.0, None, 2.0]})),
    "identification": lambda name: draw_identification({"n": N, "error": {name: [3.0, 2.0, 1.0], "f2": [1, 0, 0]}}),
    "flows": lambda name: draw_flows({name: flow(3.0, 2.0, optimum=1.0), "b": flow(3.0, 1.0, optimum=1.0)}),
}


def lines_of(figure, panel=0):
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[panel].get_lines()]


def words_of(figure):
    return [text.get_text() for text in figure.findobj(Text)]


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- every figure ---


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("kind", NAMED)
def test_every_figure_is_drawn_without_a_warning_whatever_the_names(kind, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = NAMED[kind](name)
        figure.canvas.draw()
    assert Gcf.figs == {}  # pyplot knows nothing of it


@pytest.mark.parametrize("kind", NAMED)
def test_no_words_leave_the_figure(kind):
    figure = NAMED[kind]("a_long_name_of_a_feature_" * 3)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    marks = {text for tick in figure.findobj(Tick) for text in (tick.label1, tick.label2)}  # laid out beyond limits
    for text in set(figure.findobj(Text)) - marks:
        if text.get_text().strip() and text.get_visible():
            box = text.get_window_extent(renderer)
            assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, text.get_text()
            assert box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1, text.get_text()


@pytest.mark.parametrize("kind", NAMED)
def test_every_figure_is_saved_as_png_and_svg(kind, tmp_path):
    png, svg = save_figure(NAMED[kind]("<b>"), tmp_path / "new" / "folder", kind)
    assert (png.name, svg.name) == (f"{kind}.png", f"{kind}.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(svg.read_bytes()).tag.endswith("svg")


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    first, second = (
        [path.read_bytes() for path in save_figure(NAMED["variation"]("a"), tmp_path, "same")] for _ in range(2)
    )
    assert first == second


def test_a_png_has_150_dots_an_inch(tmp_path):
    figure = NAMED["flows"]("a")
    png, _ = save_figure(figure, tmp_path, "flows")
    width = int.from_bytes(png.read_bytes()[16:20], "big")
    assert width == round(150 * figure.get_size_inches()[0])


@pytest.mark.parametrize("name", ["", "a/b", "../a", "/a"])
def test_a_name_that_leads_elsewhere_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="a name without folders"):
        save_figure(NAMED["flows"]("a"), tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_saved_leaves_the_old_one_and_no_part(tmp_path, monkeypatch):
    png, _ = save_figure(NAMED["flows"]("a"), tmp_path, "flows")
    before = png.read_bytes()

    def fail(*names):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        save_figure(NAMED["flows"]("b"), tmp_path, "flows")
    assert png.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flows.png", "flows.svg"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: draw_optimizers({}),
        lambda: draw_effects_against_truth([], "none"),
        lambda: draw_zoo({}),
        lambda: draw_zoo({"none": []}),
        lambda: draw_effects([], "none"),
        lambda: draw_variation({}),
        lambda: draw_variation({"none": {}}),
        lambda: draw_identification({"n": N, "error": {}}),
        lambda: draw_flows({}),
    ],
)
def test_nothing_to_draw_is_an_error(draw):
    with pytest.raises(InputError, match="at least one entry"):
        draw()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: draw_optimizers({"gd": history(1.0, 2.0) | {"epochs": [1]}}),
        lambda: draw_effects_against_truth([curve() | {"truth": [1.0]}], "a"),
        lambda: draw_effects([curve() | {"x": [1.0]}], "a"),
        lambda: draw_estimation_error(ESTIMATION | {"n": [1, 2]}),
        lambda: draw_recovery(recovery() | {"multipliers": [0.5]}),
        lambda: draw_recovery(recovery() | {"n": [1, 2]}),
        lambda: draw_identification({"n": N, "error": {"f1": [1.0]}}),
        lambda: draw_flows({"a": flow(1.0, 2.0, optimum=0.0) | {"iteration": [1]}}),
    ],
)
def test_columns_of_unequal_length_are_an_error(draw):
    with pytest.raises(InputError, match="columns of one length"):
        draw()


# --- what each figure holds ---


def test_optimizers_hold_each_history_against_epochs_and_seconds():
    histories = {"gd": history(3.0, 2.0, 1.0), "prox_gd": history(4.0, 1.0, 0.5)}
    figure = draw_optimizers(histories)
    for panel, key in enumerate(("epochs", "seconds")):
        assert lines_of(figure, panel) == [(own[key], own["objective"]) for own in histories.values()]
    assert figure.axes[0].get_yscale() == "log"
    assert legend_of(figure) == ["gd", "prox_gd"]
    plain_line, proximal_line = figure.axes[0].get_lines()
    assert plain_line.get_color() == proximal_line.get_color()
    assert plain_line.get_linestyle() != proximal_line.get_linestyle()


def test_optimizers_without_seconds_have_one_panel():
    figure = draw_optimizers({"gd": {"epochs": [1, 2], "objective": [2.0, 1.0]}})
    assert len(figure.axes) == 1 and lines_of(figure) == [([1, 2], [2.0, 1.0])]


def test_a_diverged_solver_is_called_so_and_does_not_set_the_range():
    figure = draw_optimizers({"gd": history(3.0, 1e9, float("inf"), None), "adam": history(3.0, 2.0, 1.0, 0.5)})
    assert legend_of(figure) == ["gd (diverged)", "adam"]
    assert figure.axes[0].get_ylim()[1] == pytest.approx(6.0)
    assert np.isnan(lines_of(figure)[0][1][2:]).all()


def test_an_objective_below_zero_cannot_be_on_a_log_axis():
    with pytest.raises(InputError, match="objectives above 0, got -1 of gd"):
        draw_optimizers({"gd": history(3.0, -1.0)})


def test_fit_and_truth_differ_in_colour_and_in_style_and_a_dropped_feature_is_named():
    figure = draw_effects_against_truth([curve("a"), curve("b", (0.0, 0.0, 0.0), kept=False)], "SNAM")
    truth, fit = figure.axes[0].get_lines()
    own = curve("a")
    assert list(truth.get_ydata()) == own["truth"] and list(fit.get_ydata()) == own["effect"]
    assert truth.get_color() != fit.get_color() and truth.get_linestyle() != fit.get_linestyle()
    said = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert said == [[], ["dropped"]]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_at_most_eight_features_are_drawn_and_empty_places_are_hidden():
    figure = draw_effects_against_truth([curve(str(number)) for number in range(20)], "SNAM")
    assert [axes.get_xlabel() for axes in figure.axes] == [str(number) for number in range(8)]
    figure = draw_effects_against_truth([curve(str(number)) for number in range(6)], "SNAM")
    assert [axes.get_visible() for axes in figure.axes] == [True] * 6 + [False] * 2


def test_a_zoo_has_a_row_for_each_method_and_one_scale_a_column():
    figure = draw_zoo(
        {
            "SNAM": [curve("f1", (0.0, 50.0)), curve("noise", (0.0, 0.0), kept=False)],
            "NAM": [curve("f1", (-9.0, 9.0)), curve("noise", (0.0, 1e-9))],
        }
    )
    first, noise, second, other_noise = figure.axes
    assert (first.get_ylabel(), second.get_ylabel()) == ("SNAM", "NAM")
    assert [first.get_title(), noise.get_title()] == ["f1", "noise"]
    assert first.get_ylim() == second.get_ylim()
    low, high = other_noise.get_ylim()
    assert high - low == pytest.approx(np.ptp(first.get_ylim()) / 10)  # rounding does not fill the panel
    assert [text.get_text() for text in noise.texts] == ["dropped"] and not other_noise.texts


def test_effects_come_largest_first_without_dropped_ones():
    curves = [curve("small", (0.0, 1.0)), curve("none", (0.0, 0.0), kept=False), curve("large", (0.0, 9.0))]
    figure = draw_effects(curves, "Table")
    assert [axes.get_xlabel() for axes in figure.axes] == ["large", "small"]
    assert (curves[2]["x"], curves[2]["effect"]) in lines_of(figure)
    assert any("1 of 3 features dropped" in words for words in words_of(figure))
    assert len(draw_effects([curve(str(k)) for k in range(40)], "Table").axes) == 16


def test_counts_of_the_whole_model_are_told_where_only_some_curves_are_there():
    figure = draw_effects([curve(str(k)) for k in range(16)], "Table", counts=(114, 131))
    assert any("the 16 largest of 114 effects, 17 of 131 features dropped" in words for words in words_of(figure))


def test_marks_of_values_that_lie_close_do_not_run_into_each_other():
    own = curve("Cr", (0.0, 1.0, 2.0)) | {"x": [0.0, 0.1, 5.0]}
    marks = draw_effects([own], "Table").axes[0].get_xticks()
    assert 0.1 not in marks
    even = draw_effects([curve("even", (0.0, 1.0, 2.0))], "Table").axes[0].get_xticks()
    assert list(even) == [-1.0, 0.0, 1.0]


def test_a_model_without_features_is_drawn_as_such():
    figure = draw_effects([curve("a", (0.0, 0.0), kept=False)], "Table")
    assert any("all 1 features dropped" in words for words in words_of(figure))


def test_the_density_lies_under_the_curve():
    own = curve("a", (0.0, 1.0, 2.0))
    figure = draw_effects([own], "Table", {"a": {"edges": [-1.0, 0.0, 1.0], "counts": [10, 5]}})
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights[0] == 2 * heights[1] > 0
    low, high = figure.axes[0].get_ylim()
    assert low + heights[0] * (high - low) < min(own["effect"])


def test_variation_is_sorted_and_zero_is_called_dropped():
    figure = draw_variation({"SNAM": {"a": 1.0, "b": 0.0, "c": 3.0}})
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c", "a", "b"]
    assert [bar.get_width() for bar in axes.patches] == [3.0, 1.0, 0.0]
    assert [(text.get_text().strip(), text.xy) for text in axes.texts] == [("dropped", (0.0, 2.0))]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the largest on top


def test_each_method_counts_by_its_own_largest_variation():
    sizes = {"SNAM": {"a": 1.0, "b": 0.9, "c": 0.1}, "paper": {"a": 0.0, "b": 0.0, "c": 50.0, "d": 40.0}}
    axes = draw_variation(sizes, most=3).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "c", "b"]


def test_variation_of_several_methods_differs_by_colour_and_hatch():
    figure = draw_variation({"SNAM": {"a": 1.0, "b": 2.0}, "LASSO": {"a": 3.0}})
    bars = figure.axes[0].patches
    assert [bar.get_width() for bar in bars] == [1.0, 2.0, 3.0, 0.0]
    assert bars[0].get_facecolor() != bars[2].get_facecolor() and bars[0].get_hatch() != bars[2].get_hatch()
    assert len(figure.axes[0].texts) == 1  # LASSO lacks b


def test_estimation_holds_repeats_means_and_the_theorem():
    dots, means, rule = lines_of(draw_estimation_error(ESTIMATION, -0.5))
    assert dots == ([100, 100, 200, 200, 400, 400], [4.0, 2.0, 2.0, 1.0, 1.0, 0.5])
    assert means == (N, [3.0, 1.5, 0.75])
    assert rule[1] == pytest.approx([3.0, 3.0 / 2**0.5, 1.5])
    assert len(lines_of(draw_estimation_error(ESTIMATION))) == 2


def test_recovery_holds_a_line_for_each_multiplier_and_the_theorem_apart():
    grid = recovery(theory_lambda_ratio={"stated": [3.0, None, 2.0], "corrected": [None, None, None]})
    figure = draw_recovery(grid)
    assert lines_of(figure) == [(N, row) for row in grid["probability"]]
    assert legend_of(figure) == ["0.5 λ_max", "0.1 λ_max"]
    stated = lines_of(figure, 1)[0]
    np.testing.assert_array_equal(stated[1], [3.0, np.nan, 2.0])
    labels = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert labels == ["stated", "corrected (no such λ)"]
    assert lines_of(draw_recovery(recovery(theory_lambda_ratio=[3.0, 2.0, 1.0])), 1)[0] == (N, [3.0, 2.0, 1.0])
    assert len(draw_recovery(recovery()).axes) == 1


def test_a_theorem_that_never_speaks_is_still_drawn():
    figure = draw_recovery(recovery(theory_lambda_ratio={"a": [None] * 3, "b": [None] * 3}))
    figure.canvas.draw()
    assert figure.axes[1].get_xlim() == pytest.approx(figure.axes[0].get_xlim())
    labels = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert labels == ["a (no such λ)", "b (no such λ)"]


def test_both_panels_of_a_recovery_have_the_same_sizes():
    figure = draw_recovery(recovery(theory_lambda_ratio=[None, None, 2.0]))
    assert figure.axes[1].get_xlim() == pytest.approx(figure.axes[0].get_xlim())


def test_few_sizes_have_no_slope_and_are_drawn():
    figure = draw_estimation_error({"n": [100], "error": [[1.0, 2.0]]}, -0.5)
    assert legend_of(figure)[1] == "mean"


def test_an_effect_without_error_is_called_so():
    figure = draw_identification({"n": N, "error": {"f1": [3.0, 2.0, 1.0], "false": [0.0, 0.0, 0.0]}})
    assert legend_of(figure) == ["f1", "false (exactly 0)"]


def test_identification_holds_a_line_for_each_effect():
    figure = draw_identification({"n": N, "error": {"f1": [3.0, 2.0, 1.0], "f2": [0.3, 0.2, 0.1]}})
    assert lines_of(figure) == [(N, [3.0, 2.0, 1.0]), (N, [0.3, 0.2, 0.1])]
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"


def test_flows_hold_the_gap_and_end_where_it_is_closed():
    figure = draw_flows({"a": flow(3.0, 2.0, 1.0, optimum=1.0, zeros=[0, 1, 2])})
    ((iterations, gap),) = lines_of(figure)
    assert iterations == [0, 1, 2] and gap[:2] == [2.0, 1.0] and np.isnan(gap[2])
    assert lines_of(figure, 1) == [([0, 1, 2], [0, 1, 2])]
    assert lines_of(draw_flows({"a": flow(3.0, 2.0)})) == [([0, 1], [3.0, 2.0])]  # no optimum: the objective
    with pytest.raises(InputError, match="an optimum for all methods or for none"):
        draw_flows({"a": flow(1.0, optimum=0.0), "b": flow(1.0)})


# --- words ---


@settings(max_examples=50)
@given(name=st.text(max_size=120), length=st.integers(8, 60))
def test_a_short_name_keeps_both_ends_and_a_dollar_never_opens_a_formula(name, length):
    short = shorten(name, length)
    assert 0 < len(short) <= length and short.isprintable()
    drawn = plain(name, length)
    assert drawn.count("$") == drawn.count(r"\$") and not drawn.startswith("_")


def test_a_name_that_fits_stays_as_it_is():
    assert shorten("wtd_mean_Valence") == "wtd_mean_Valence"
    assert shorten("a" * 30 + "z" * 30, 10) == "aaaaaa…zzz"
    assert len(shorten("W" * 80)) < len(shorten("a" * 80)) == 26  # wide letters need more room


def test_labels_of_a_log_axis_are_plain_numbers():
    narrow, wide = Axis(0.5, 3.0, "log"), Axis(1e-8, 1.0, "log")
    assert [tick.text for tick in narrow.ticks()] == ["0.6", "0.8", "1", "2", "3"]
    assert {"1e−08", "0.01", "1"} <= {tick.text for tick in wide.ticks()}


@pytest.mark.parametrize(("low", "high"), [(-0.05, 0.05), (0.0, 1.0), (1.0, 1.1)])
def test_limits_without_a_logarithm_have_labels_all_the_same(low, high):
    assert Axis(low, high, "log").ticks()


def test_a_narrow_log_axis_has_marks_over_its_whole_length():
    figure = draw_estimation_error(ESTIMATION | {"error": [[1.9], [1.4], [1.0]]})
    figure.canvas.draw()
    low, high = figure.axes[0].get_ylim()
    places = [mark for mark in figure.axes[0].get_yticks() if low <= mark <= high]
    words = [label.get_text() for label in figure.axes[0].get_yticklabels() if label.get_text()]
    assert len(places) >= 3 and len(words) >= 3
    assert max(places) > 1.5


# --- curves ---


def test_curves_are_the_effects_centred_over_the_data():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1, 10, 1] + [0, 0, 5]
    curves = effect_curves(lambda Z: np.stack([Z[:, 0] ** 2, 3 * Z[:, 1], 0 * Z[:, 2]], axis=1), X, "abc")
    assert [(own["feature"], own["kept"]) for own in curves] == [("a", True), ("b", True), ("c", False)]
    assert all(len(own["x"]) == len(own["effect"]) == 200 for own in curves)
    np.testing.assert_allclose(
        curves[0]["effect"], np.array(curves[0]["x"]) ** 2 - np.mean(X[:, 0] ** 2), atol=1e-4
    )
    assert (curves[1]["x"][0], curves[1]["x"][-1]) == pytest.approx(
        tuple(np.quantile(X[:, 1], [0.005, 0.995])), 1e-5
    )
    assert curves[2]["effect"] == [0.0] * 200 and curves[2]["variation"] == 0.0
    assert curves[1]["variation"] == pytest.approx(3 * np.ptp(X[:, 1]), 1e-5)
    assert json.loads(json.dumps(curves)) == curves


def test_curves_of_a_known_truth_carry_it():
    task = make_regression(300, 6, seed=1)
    curves = effect_curves(true_effects, task.X, [f"x{j}" for j in range(6)], true_effects, features=[3, 5])
    assert [own["feature"] for own in curves] == ["x3", "x5"]
    assert all(own["truth"] == own["effect"] for own in curves)
    assert [own["kept"] for own in curves] == [True, False]


def test_a_column_with_few_values_is_drawn_at_these_values():
    X = np.column_stack([np.arange(60) % 2, np.arange(60) % 5 / 4])
    curves = effect_curves(lambda Z: Z, X, ["two", "five"])
    assert curves[0]["x"] == [0.0, 1.0] and curves[0]["effect"] == [-0.5, 0.5]
    assert curves[1]["x"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert densities(curves, X, ["two", "five"])["two"] == {"edges": [-0.5, 0.5, 1.5], "counts": [30, 30]}


def test_rounding_keeps_apart_the_points_of_a_column_far_from_zero():
    X = 1e9 + np.random.default_rng(0).uniform(size=(400, 1))
    (own,) = effect_curves(lambda Z: Z - 1e9, X, ["time"])
    assert len(set(own["x"])) == 200


def test_a_column_that_is_nearly_constant_still_has_a_curve():
    X = np.zeros((10_000, 1))
    X[:30, 0] = np.arange(30)
    (own,) = effect_curves(lambda Z: Z, X, ["rare"])
    assert (own["x"][0], own["x"][-1]) == (0.0, 29.0)


def test_densities_count_the_rows_in_the_range_of_the_curve():
    X = np.random.default_rng(0).normal(size=(1000, 1))
    curves = effect_curves(lambda Z: Z, X, ["a"])
    own = densities(curves, X, ["a"], bins=10)["a"]
    assert len(own["edges"]) == 11 and sum(own["counts"]) == pytest.approx(990, abs=1)


def test_the_largest_curves_come_first():
    curves = [curve("a", (0.0, 1.0)), curve("b", (-3.0, 3.0)), curve("c", (2.0, 4.0))]
    assert [own["feature"] for own in largest(curves, 2)] == ["b", "c"]


@pytest.mark.parametrize(
    ("effects", "names", "expected"),
    [
        (lambda Z: Z, ["a"], "2 names"),
        (lambda Z: Z[:, :1], ["a", "b"], "effects of shape"),
        (lambda Z: Z * np.nan, ["a", "b"], "finite effects"),
    ],
)
def test_effects_that_cannot_be_drawn_are_an_error(effects, names, expected):
    with pytest.raises(InputError, match=expected):
        effect_curves(effects, np.ones((5, 2)), names)
