"""Pictures hold the numbers of the explanation, whatever the names, and touch nothing but their figure."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from sparsenam import Network, SNAMRegressor
from sparsenam.errors import InputError
from sparsenam.explain import (
    Contribution,
    Curve,
    Density,
    Dropped,
    Explanation,
    Feature,
    Level,
    LocalExplanation,
    Missing,
    RowExplanation,
)
from sparsenam.explain.plots import (
    plot_curve,
    plot_history,
    plot_importance,
    plot_local,
    plot_path,
    plot_shapes,
    plot_truth,
)
from sparsenam.explain.plots.canvas import wrapped
from sparsenam.text import number_text

HOSTILE = ("$x_{", "_$\\frac{$\n\0", "<b>&amp;</b>", "name " * 16, "")
EMPTY = {"norm": 1.0, "entry": None, "substitutes": {}, "reason": ""}


def number(name="a", outputs=1, size=1.0, missing=None):
    x = tuple(np.linspace(0.0, 10.0, 11))
    effect = tuple(tuple(size * (value - 5.0 + output) for output in range(outputs)) for value in x)
    density = Density(x, tuple(range(1, 11)))
    return Feature(name, "number", mean_absolute=size, variation=10 * size, curve=Curve(x, effect), density=density,
                   levels=None, missing=missing, **EMPTY)  # fmt: skip


def category(name="c", outputs=1, levels=("Rome", "Paris"), kind="category", missing=None):
    found = tuple(Level(name, (float(index - 1),) * outputs, 10 + index) for index, name in enumerate(levels))
    return Feature(name, kind, mean_absolute=0.5, variation=1.0, curve=None, density=None, levels=found,
                   missing=missing, **EMPTY)  # fmt: skip


def explanation(*features, outputs=("y",), **more):
    card = {"alpha": 0.1, "rows": 55, "columns": 9, "seconds": 1.0, "estimator": "SNAMRegressor"}
    return Explanation("regression", None, outputs, "identity", "units of y", (0.0,) * len(outputs), features,
                       (Dropped("gone", "constant"),), card, **more)  # fmt: skip


def local(names=("a", "b"), outputs=("y",)):
    parts = tuple(Contribution(name, "3", (1.0 - index,) * len(outputs), "") for index, name in enumerate(names))
    total = sum(part.effect[0] for part in parts)
    row = RowExplanation(4, (total,) * len(outputs), (total,) * len(outputs), (0.0,) * len(outputs), parts)
    return LocalExplanation(outputs, "identity", "units of y", "the average row: centred", (row,))


CURVE = [
    {"alpha": alpha, "features": float(index), "mean": 1.0 - 0.1 * index, "standard_error": 0.05}
    for index, alpha in enumerate((1.0, 0.5, 0.2, 0.1))
]
HISTORY = [{"epoch": epoch, "loss": 1.0 / (1 + epoch), "penalty": 0.1, "terms": 3} for epoch in range(4)]


def path(names):
    norms = [[0.1 * point * (1 + index) for index in range(len(names))] for point in range(4)]
    return {"alphas": [1.0, 0.5, 0.2, 0.1], "names": list(names), "norms": norms}


def drawn(figure):
    """Draw a figure; anything that matplotlib warns of, such as labels that do not fit, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Glyph")  # no font has every letter
        FigureCanvasAgg(figure).draw()
    return figure


def texts(figure):
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


PICTURES = {
    "shapes": lambda name: plot_shapes(explanation(number(name), category(name, levels=(name or "x", "b")))),
    "importance": lambda name: plot_importance(explanation(number(name))),
    "local": lambda name: plot_local(local((name, "b"))),
    "path": lambda name: plot_path(explanation(number(name), path=path([name, "b"]))),
    "truth": lambda name: plot_truth(explanation(number(name)), {name: ([0.0, 1.0], [0.0, 1.0])}),
    "curve": lambda name: plot_curve(explanation(number(name), curve=CURVE, chosen={"best": 3, "taken": 2})),
    "history": lambda name: plot_history(explanation(number(name), history=HISTORY)),
}


@pytest.mark.parametrize(("picture", "name"), list(itertools.product(PICTURES, HOSTILE)))
def test_hostile_names_are_drawn_as_they_are(picture, name):
    assert isinstance(drawn(PICTURES[picture](name)), Figure)


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_leave_pyplot_alone(picture):
    before = dict(Gcf.figs)
    PICTURES[picture]("a")
    assert dict(Gcf.figs) == before


ON_AXES = {
    "shapes": lambda ax: plot_shapes(explanation(number(missing=Missing((1.0,), 3))), axes=ax),
    "importance": lambda ax: plot_importance(explanation(number()), ax=ax),
    "local": lambda ax: plot_local(local(), ax=ax),
    "path": lambda ax: plot_path(explanation(number(), path=path("ab")), ax=ax),
    "truth": lambda ax: plot_truth(explanation(number()), {"a": ([0.0, 1.0], [0.0, 1.0])}, axes=ax),
    "curve": lambda ax: plot_curve(explanation(number(), curve=CURVE, chosen={"best": 3, "taken": 2}), ax=ax),
    "history": lambda ax: plot_history(explanation(number(), history=HISTORY), ax=ax),
}


@pytest.mark.parametrize("picture", ON_AXES)
def test_axes_of_the_caller_are_drawn_on_and_its_title_is_left_alone(picture):
    figure = Figure()
    ax = figure.subplots()
    figure.suptitle("mine")
    assert ON_AXES[picture](ax) is figure
    assert figure.get_suptitle() == "mine" and len(figure.axes) == 1
    assert ax.lines or ax.patches
    drawn(figure)


def test_shapes_draw_the_curve_the_levels_and_the_missing_cell():
    curve, levels = number(missing=Missing((2.5,), 3)), category(missing=Missing((0.7,), 2))
    first, second = plot_shapes(explanation(curve, levels)).axes[:2]
    curve = next(line for line in first.lines if len(line.get_xdata()) == 11)
    np.testing.assert_allclose(curve.get_ydata(), np.linspace(-5, 5, 11))
    assert [2.5] in [list(line.get_ydata()) for line in first.lines]
    assert [0.7] in [list(line.get_ydata()) for line in second.lines]
    bars = [bar.get_height() for bar in second.patches if bar.get_width() < 0.8]
    assert bars == [-1.0, 0.0]
    assert [tick.get_text() for tick in second.get_xticklabels()] == ["Rome", "Paris", "missing"]


def test_ranks_and_days_are_written_in_words():
    ordered = category("size", levels=("S", "M", "L"), kind="ordered")
    day = dataclasses.replace(number("day"), kind="date")
    figure = drawn(plot_shapes(explanation(ordered, day)))
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["S", "M", "L"]
    assert any("Jan" in tick.get_text() or "1970" in tick.get_text() for tick in figure.axes[1].get_xticklabels())


def test_a_category_of_many_levels_shows_the_most_frequent():
    many = category(levels=tuple(f"town {index}" for index in range(40)))
    figure = drawn(plot_shapes(explanation(many)))
    (panel,) = figure.axes
    assert len(panel.get_xticklabels()) == 16
    assert "the 16 most frequent of 40 levels" in panel.get_xlabel().replace("\n", " ")
    assert "town 39" in [tick.get_text() for tick in panel.get_xticklabels()]


def test_each_output_has_a_line_of_its_own():
    three = explanation(number(outputs=3), category(outputs=3), outputs=("a", "b", "c"))
    lines = [line for line in drawn(plot_shapes(three)).axes[0].lines if len(line.get_xdata()) == 11]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 3
    alone = plot_shapes(three, outputs=["b"]).axes[0]
    assert len([line for line in alone.lines if len(line.get_xdata()) == 11]) == 1
    with pytest.raises(InputError, match="'z'"):
        plot_shapes(three, outputs=["z"])


def test_the_history_of_a_trained_network_says_how_many_terms_are_left():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = SNAMRegressor(alpha=0.01, network=Network(hidden=(4,), max_epochs=2), random_state=0)
    figure = plot_history(model.fit(X, X[:, 0]).explain())
    assert f"training, {model.history_[-1]['terms']} terms at the end" in [text.get_text() for text in texts(figure)]


def test_labels_of_thirty_features_do_not_overlap():
    features = [number(f"{index} {HOSTILE[index % 4]}", size=1.0 + index) for index in range(30)]
    for figure in (
        plot_shapes(explanation(*features)),
        plot_importance(explanation(*features)),
        plot_local(local([feature.name for feature in features])),
        plot_path(explanation(*features, path=path([feature.name for feature in features]))),
    ):
        drawn(figure)
        boxes = [text.get_window_extent() for text in texts(figure) if text.get_figure() is not None]
        width, height = figure.canvas.get_width_height()
        inside = [box for box in boxes if box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height]
        assert len(inside) >= 20
        written = [text for ax in figure.axes if ax.get_visible() for text in (ax.xaxis.label, *ax.texts)]
        for text in (*written, figure._suptitle):
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
        for first, second in itertools.combinations(inside, 2):
            across = min(first.x1, second.x1) - max(first.x0, second.x0)
            down = min(first.y1, second.y1) - max(first.y0, second.y0)
            assert min(across, down) < 2.0  # pixels: boxes of letters have a rim


def test_waterfalls_end_at_the_score_and_pool_what_is_small():
    names = [f"f{index}" for index in range(20)]
    (panel,) = plot_local(local(names), features=5).axes
    assert [tick.get_text() for tick in panel.get_yticklabels()][-2:] == ["16 others", "score"]
    assert panel.texts[-1].get_text() == number_text(local(names).rows[0].score[0])
    ends = [bar.get_x() + bar.get_width() for bar in panel.patches]
    assert ends[-1] == pytest.approx(local(names).rows[0].score[0])


def test_the_taken_point_and_the_best_are_marked_and_may_be_one():
    two = plot_curve(explanation(number(), curve=CURVE, chosen={"best": 3, "taken": 2}))
    assert [text.get_text() for text in two.legends[0].get_texts()] == ["best: 3 columns", "taken: 2 columns"]
    one = plot_curve(explanation(number(), curve=CURVE, chosen={"best": 3, "taken": 3}))
    assert [text.get_text() for text in one.legends[0].get_texts()] == ["best and taken: 3 columns"]


def test_truth_is_centred_and_dropped_features_are_marked():
    truth = {"a": ([0.0, 10.0], [100.0, 110.0]), "gone": ([0.0, 1.0], [1.0, 3.0])}
    figure = drawn(plot_truth(explanation(number()), truth))
    assert list(figure.axes[0].lines[0].get_ydata()) == [-5.0, 5.0]
    assert "dropped" in [text.get_text() for text in figure.axes[1].texts]


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (lambda: plot_shapes(explanation()), "at least one entry"),
        (lambda: plot_shapes(explanation(number()), features=["b"]), "'b'"),
        (lambda: plot_shapes(explanation(number(), number("b")), axes=Figure().subplots()), "2 axes"),
        (lambda: plot_importance(explanation(number()), measure="size"), "'size'"),
        (lambda: plot_importance(explanation()), "at least one entry"),
        (lambda: plot_local(local(), row=3), "below 1"),
        (lambda: plot_local(local(), output="z"), "'z'"),
        (lambda: plot_path(explanation(number())), "a path"),
        (lambda: plot_curve(explanation(number())), "cross-validation curve"),
        (lambda: plot_history(explanation(number())), "a history"),
        (lambda: plot_history(explanation(number(), history=[{"epoch": 0, "loss": None}])), "a history"),
        (lambda: plot_truth(explanation(number()), {}), "at least one entry"),
        (lambda: plot_truth(explanation(number()), {"a": ([0.0], [0.0])}, ["b"]), "'b'"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_sentence(picture, words):
    with pytest.raises(InputError, match=words):
        picture()


def test_long_names_are_wrapped_and_keep_both_ends():
    lines = wrapped("the beginning of a name which goes on for a very long while until the end", 20).split("\n")
    assert len(lines) == 2 and all(len(line) <= 22 for line in lines)
    assert lines[0].startswith("the beginning") and lines[1].endswith("the end")
    assert wrapped("short", 20) == "short"
