"""Figures hold the numbers they are given, and reach the disk whole."""

import json
import os
import warnings

import numpy as np
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.axis import Tick
from matplotlib.text import Text

from paper.figures import draw_effects, draw_variation, draw_zoo, explanation_of, save_figure
from paper.fitted import FittedMethod
from paper.lines import Lines, draw_estimation, draw_flows, draw_histories, draw_lines, draw_recovery
from paper.tasks import Rows, Split
from sparsenam.explain import Explanation

HOSTILE = "_$\\frac{$ <b>&amp; $x_{"
N = [100, 200, 400]
ESTIMATION = {"n": N, "error": [[4.0, 2.0], [2.0, 1.0], [1.0, 0.5]], "slope": -1.0, "interval": [-1.1, -0.9]}
GRID = {"n": N, "multipliers": [0.5, 0.1], "probability": [[0.0, 0.5, 1.0], [0.1, 0.2, 0.3]]}
VERSIONS = ("as_printed", "with_the_usual_norm", "corrected")


def split_of(X, names=None):
    rows = Rows(np.asarray(X, dtype=float), np.zeros(len(X)))
    return Split("regression", rows, rows, tuple(names or (f"x{j}" for j in range(rows.X.shape[1]))))


def explained(effects, X, names=None, support=None):
    columns = np.shape(X)[1]
    fitted = FittedMethod(lambda Z: Z.sum(axis=1), effects, tuple(range(columns)) if support is None else support, None)
    return explanation_of(fitted, split_of(X, names))


def some(names=("a", "b"), support=None):
    X = np.random.default_rng(0).normal(size=(100, len(names)))
    return explained(lambda Z: Z * np.arange(1, len(names) + 1), X, names, support)


def truth(names=("a", "b")):
    x = np.linspace(-2, 2, 50)
    return {name: (x, 2 * x) for name in names}


def history(*objective):
    return [{"epoch": k + 1, "seconds": k / 10, "loss": value, "penalty": 0.5} for k, value in enumerate(objective)]


def flow(*objective, **facts):
    trace = {"iteration": list(range(1, len(objective) + 1)), "objective": list(objective)}
    return trace | {"zeros": [0] * len(objective)}, {"lowest": min(objective), **facts}


def theory(*rows):
    return [dict(zip(VERSIONS, row, strict=True)) for row in rows]


NAMED = {  # every figure, with a name where it takes one
    "zoo": lambda name: draw_zoo({name: some(("a", name)), "other": some(("a", name), (0,))}, truth(("a", name))),
    "effects": lambda name: draw_effects(some((name, "b", "c"), (0, 1)), name),
    "variation": lambda name: draw_variation({name: some((name, "b")), "other": some(("b", name))}),
    "histories": lambda name: draw_histories({name: history(3.0, 2.0), "fista": history(3.0, 1.0)}, name),
    "estimation": lambda name: draw_estimation(ESTIMATION, -0.5),
    "recovery": lambda name: draw_recovery(GRID, theory((3.0, None, 2.0), (2.0, None, None), (1.0, None, 0.1))),
    "lines": lambda name: draw_lines([Lines("n", "error", {name: (N, [3.0, 2.0, 1.0]), "f2": (N, [1, 0, 0])})]),
    "flows": lambda name: draw_flows({name: flow(3.0, 2.0, optimum=1.0), "b": flow(3.0, 1.0, optimum=1.0)}),
}
every_figure = pytest.mark.parametrize("kind", NAMED)


def lines_of(figure, panel=0):
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[panel].get_lines()]


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def title_of(figure):
    return figure.get_suptitle()


# --- every figure ---


@every_figure
def test_every_figure_is_drawn_without_a_warning_whatever_the_names(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NAMED[kind](HOSTILE).canvas.draw()
    assert Gcf.figs == {}  # pyplot knows nothing of it


@every_figure
def test_no_text_leaves_the_figure(kind):
    figure = NAMED[kind]("a name of a method that is long")
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    marks = {text for tick in figure.findobj(Tick) for text in (tick.label1, tick.label2)}  # laid out beyond limits
    for text in set(figure.findobj(Text)) - marks:
        if text.get_text().strip() and text.get_visible():
            box = text.get_window_extent(renderer)
            assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, text.get_text()


def test_a_saved_figure_is_a_small_png_with_the_same_bytes_every_day(tmp_path):
    figure = NAMED["flows"]("a")
    first, second = (save_figure(figure, tmp_path / "new" / f"{k}.png").read_bytes() for k in range(2))
    assert first == second and first.startswith(b"\x89PNG")
    assert int.from_bytes(first[16:20], "big") == round(100 * figure.get_size_inches()[0])
    assert len(first) < 40_000


def test_a_figure_that_cannot_be_saved_leaves_the_old_one_and_no_part(tmp_path, monkeypatch):
    path = save_figure(NAMED["flows"]("a"), tmp_path / "flows.png")
    before = path.read_bytes()

    def fail(*names):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        save_figure(NAMED["flows"]("b"), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["flows.png"]


# --- what each figure holds ---


def test_a_zoo_has_a_row_for_each_method_and_one_scale_a_column():
    x = np.linspace(-2, 2, 50)
    figure = draw_zoo({"SNAM": some(), "NAM": some(support=(0,))}, {"a": (x, 25 * x), "b": (x, 0 * x)})
    first, noise, second, other = figure.axes
    assert (first.get_ylabel(), second.get_ylabel()) == ("SNAM", "NAM")
    assert [panel.get_title() for panel in (first, noise)] == ["a", "b"]
    assert first.get_ylim() == second.get_ylim() and noise.get_ylim() == other.get_ylim()
    assert [text.get_text() for text in other.texts] == ["dropped"] and not noise.texts
    assert np.ptp(draw_zoo({"SNAM": some(support=(0,))}, {"a": (x, 25 * x), "b": (x, 0 * x)}).axes[1].get_ylim()) == (
        pytest.approx(np.ptp(first.get_ylim()) / 10)  # rounding does not fill the panel
    )


def test_effects_say_which_model_and_how_many_columns_it_drops():
    title = title_of(draw_effects(some(("a", "b", "c"), (0, 1)), "Table 3"))
    assert title.startswith("Table 3\n") and "1 of 3 columns dropped" in title


def test_variation_has_a_panel_for_each_method():
    figure = draw_variation({"SNAM": some(), "LASSO": some(support=(1,))})
    assert [panel.get_title() for panel in figure.axes] == ["SNAM", "LASSO"]
    assert [len(panel.patches) for panel in figure.axes] == [2, 1]


def test_histories_hold_each_objective_against_epochs_and_seconds():
    histories = {"gd": history(3.0, 2.0, 1.0), "prox_gd": history(4.0, 1.0, 0.5)}
    figure = draw_histories(histories, "t")
    for panel, key in enumerate(("epoch", "seconds")):
        expected = [
            ([point[key] for point in points], [point["loss"] + 0.5 for point in points])
            for points in histories.values()
        ]
        assert lines_of(figure, panel) == expected
    assert figure.axes[0].get_yscale() == "log"
    assert legend_of(figure) == ["gd", "prox gd"]
    plain_line, proximal_line = figure.axes[0].get_lines()
    assert plain_line.get_color() == proximal_line.get_color()
    assert plain_line.get_linestyle() != proximal_line.get_linestyle()


def test_a_solver_that_climbs_far_does_not_set_the_range():
    figure = draw_histories({"gd": history(2.5, 1e9), "adam": history(2.5, 0.5)}, "t")
    assert figure.axes[0].get_ylim()[1] == pytest.approx(6.0)


def test_estimation_holds_repeats_means_and_the_theorem():
    dots, means, rule = lines_of(draw_estimation(ESTIMATION, -0.5))
    assert dots == ([100, 100, 200, 200, 400, 400], [4.0, 2.0, 2.0, 1.0, 1.0, 0.5])
    assert means == (N, [3.0, 1.5, 0.75])
    assert rule[1] == pytest.approx([3.0, 3.0 / 2**0.5, 1.5])


def test_few_sizes_have_no_slope_and_are_drawn():
    assert legend_of(draw_estimation({"n": [100], "error": [[1.0, 2.0]]}, -0.5))[1] == "mean"


def test_recovery_holds_a_line_for_each_multiplier_and_the_theorem_apart():
    figure = draw_recovery(GRID, theory((3.0, None, None), (None, None, None), (2.0, None, None)))
    assert lines_of(figure) == [(N, row) for row in GRID["probability"]]
    ((_, printed),) = lines_of(figure, 1)
    np.testing.assert_array_equal(printed, [3.0, np.nan, 2.0])
    assert legend_of(figure) == ["0.5 λ max", "0.1 λ max", "as printed"]


def test_a_theorem_that_never_speaks_has_no_panel():
    assert len(draw_recovery(GRID, theory(*[(None, None, None)] * 3)).axes) == 1


def test_a_log_axis_leaves_gaps_where_there_is_no_logarithm():
    (line,) = lines_of(draw_lines([Lines("n", "error", {"f2": (N, [1.0, 0.0, -1.0])})]))
    np.testing.assert_array_equal(line[1], [1.0, np.nan, np.nan])


@pytest.mark.parametrize("top", [1.9, 15.0, 1e9])
def test_a_log_axis_has_plain_numbers_over_its_whole_length(top):
    figure = draw_lines([Lines("n", "error", {"a": (N, [top, 1.4, 1.0])})])
    figure.canvas.draw()
    axis = figure.axes[0]
    low, high = axis.get_ylim()
    labels = [tick.label1.get_text() for tick in axis.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    assert len(labels) >= 2 and all(float(label) > 0 for label in labels)


def test_flows_hold_the_gap_and_end_where_it_is_closed():
    figure = draw_flows({"a": flow(3.0, 2.0, 1.0, optimum=1.0)})
    ((iterations, gap),) = lines_of(figure)
    assert iterations == [1, 2, 3] and gap[:2] == [2.0, 1.0] and np.isnan(gap[2])
    assert lines_of(figure, 1) == [([1, 2, 3], [0, 0, 0])]
    network = draw_flows({"a": flow(3.0, 2.0), "b": flow(3.0, 1.0)})  # the optimum is the lowest seen
    assert lines_of(network)[0] == ([1, 2], [2.0, 1.0])


# --- explanations of any method ---


def test_curves_are_the_effects_centred_over_the_rows_with_the_largest_first():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1, 10, 1] + [0, 0, 5]
    explanation = explained(
        lambda Z: np.stack([Z[:, 0] ** 2, 3 * Z[:, 1], 0 * Z[:, 2]], axis=1), X, "abc", support=(0, 1)
    )
    assert [feature.name for feature in explanation.features] == ["b", "a"]
    assert [dropped.name for dropped in explanation.dropped] == ["c"]
    large, square = explanation.features
    assert len(square.curve.x) == len(square.curve.effect) == 200
    expected = np.array(square.curve.x) ** 2 - np.mean(X[:, 0] ** 2)
    np.testing.assert_allclose(np.ravel(square.curve.effect), expected, atol=1e-6)
    edges = np.quantile(X[:, 1], [0.005, 0.995])
    assert (large.curve.x[0], large.curve.x[-1]) == pytest.approx(tuple(edges), 1e-6)
    assert large.variation == pytest.approx(3 * np.ptp(X[:, 1]), 1e-6)
    assert sum(large.density.counts) == pytest.approx(495, abs=1)
    assert Explanation.from_dict(json.loads(json.dumps(explanation.to_dict()))) == explanation


def test_a_column_with_few_values_is_drawn_at_these_values():
    X = np.column_stack([np.arange(60) % 2, np.arange(60) % 5 / 4])
    features = {feature.name: feature for feature in explained(lambda Z: Z, X, ["two", "five"]).features}
    assert features["two"].curve.x == (0.0, 1.0) and features["two"].curve.effect == ((-0.5,), (0.5,))
    assert features["five"].curve.x == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert features["two"].density.counts == (30, 30)


def test_rounding_keeps_apart_the_points_of_a_column_far_from_zero():
    X = 1e9 + 1e3 * np.random.default_rng(0).uniform(size=(400, 1))
    assert len(set(explained(lambda Z: Z - 1e9, X).features[0].curve.x)) == 200


def test_a_column_that_is_nearly_constant_still_has_a_curve():
    X = np.zeros((10_000, 1))
    X[:30, 0] = np.arange(30)
    (feature,) = explained(lambda Z: Z, X).features
    assert (feature.curve.x[0], feature.curve.x[-1]) == (0.0, 29.0)
