"""Pairs as cells and pictures: each cell shows the mean of the surface over it, and every row is in some cell."""

import dataclasses

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.interpolate import RegularGridInterpolator

from pair_cases import case, plain
from sparsenam.errors import InputError
from sparsenam.explain import Density
from sparsenam.explain.plots import plot_importance, plot_pair
from sparsenam.explain.surfaces import surface

HOSTILE = ("$x_{", "_$\\frac{$\n\0", "name " * 16, "")


KINDS = [("number", "number"), ("date", "number"), ("number", "category"), ("category", "ordered")]
GAPS = [(False, False), (True, False), (True, True)]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("missing", GAPS)
def test_every_row_is_in_a_cell_or_counted_as_out_of_view(kinds, missing):
    made, pair = case(kinds, missing)
    cells = surface(made, pair, 0, 25)
    assert (cells.share >= -1e-15).all()
    assert cells.share.sum() + cells.beyond == pytest.approx(1.0)
    assert cells.beyond < 1e-12  # neither long tails nor rare levels
    for side, drawn in enumerate((cells.one, cells.other)):
        assert drawn.spans.shape == (cells.share.shape[side], 2) and (np.diff(drawn.spans, axis=1) > 0).all()
        assert len(drawn.texts) == len(drawn.spans) <= 26
        assert (drawn.texts[-1] == "missing") == missing[side]


def test_a_cell_of_numbers_shows_the_mean_of_the_bilinear_surface_over_it():
    made, pair = case()
    cells = surface(made, pair, 0, 10)
    read = RegularGridInterpolator((pair.one.x, pair.other.x), np.array(pair.effect)[..., 0])
    shares = (np.arange(4) + 0.5) / 4
    for row, column in ((0, 0), (3, 7), (9, 9)):
        one = cells.one.spans[row, 0] + shares * np.diff(cells.one.spans[row])
        other = cells.other.spans[column, 0] + shares * np.diff(cells.other.spans[column])
        expected = read(np.stack(np.meshgrid(one, other, indexing="ij"), axis=-1)).mean()
        assert cells.effect[row, column] == pytest.approx(expected, abs=1e-12)


def test_fine_cells_agree_with_the_surface_at_their_middles():
    made, pair = case(kinds=("number", "date"), outputs=2)
    cells = surface(made, pair, 1, 400)
    read = RegularGridInterpolator((pair.one.x, pair.other.x), np.array(pair.total)[..., 1])
    at = np.stack(np.meshgrid(cells.one.middles, cells.other.middles, indexing="ij"), axis=-1)
    assert np.abs(cells.total - read(at)).mean() < 0.05


def test_a_cell_of_levels_and_of_missing_values_shows_the_node_itself():
    made, pair = case(("category", "ordered"), (True, True))
    cells = surface(made, pair, 0, 10)
    np.testing.assert_array_equal(cells.effect, np.array(pair.effect)[..., 0])
    np.testing.assert_allclose(cells.total, np.array(pair.total)[..., 0], atol=1e-12)
    np.testing.assert_array_equal(cells.share, np.array(pair.share))
    assert cells.one.texts == (*pair.one.levels, "missing")


def test_rows_of_levels_that_are_not_drawn_are_out_of_view():
    made, pair = case(("category", "number"), sizes=(40, None))
    cells = surface(made, pair, 0, 10)
    assert len(cells.one.texts) == 16
    weights = np.sort(np.array(pair.share).sum(axis=1))[::-1]
    assert cells.beyond == pytest.approx(weights[16:].sum())


def test_a_column_of_few_values_has_a_cell_for_each():
    made, pair = case()
    one = dataclasses.replace(pair.one, x=plain(np.linspace(-0.1, 2.1, 20)))
    first = dataclasses.replace(made.features[0], density=Density((-0.5, 0.5, 1.5, 2.5), (3, 4, 5)))
    made = dataclasses.replace(made, features=(first, made.features[1]))
    cells = surface(made, dataclasses.replace(pair, one=one), 0, 30)
    assert cells.one.texts == ("0", "1", "2") and cells.share.sum() == pytest.approx(1.0)


def test_the_word_for_missing_values_covers_no_label_of_the_axis():
    made, pair = case(missing=(False, True))
    other = surface(made, pair, 0, 20).other
    width = other.values.high - other.values.low
    ticks = other.ticks(9, letters=40.0)
    assert ticks[-1].text == "missing" and len(ticks) > 2
    for tick in ticks[:-1]:
        assert 40.0 * (ticks[-1].value - tick.value) / width >= (len("missing") + len(tick.text)) / 2


@pytest.mark.parametrize("total", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("missing", GAPS)
def test_a_picture_of_any_pair_can_be_drawn_and_has_map_sides_and_scale(kinds, missing, total):
    made, _ = case(kinds, missing)
    figure = plot_pair(made, total=total)
    figure.canvas.draw()
    assert len(figure.axes) == 4
    assert ("summed surface" in figure.get_suptitle()) == total


def colours(figure):
    return np.concatenate(
        [mesh.get_array().ravel() for mesh in figure.axes[0].collections if mesh.get_array() is not None]
    )


def test_the_map_has_the_numbers_of_the_surface_asked_for():
    made, pair = case(("category", "ordered"), outputs=2)
    for output, name in enumerate(made.outputs):
        figure = plot_pair(made, ("across", "up"), output=name)
        np.testing.assert_allclose(colours(figure), np.array(pair.effect)[..., output].ravel())
        assert name in figure.get_suptitle()
        summed = plot_pair(made, 0, output=name, total=True)
        np.testing.assert_allclose(colours(summed), np.array(pair.total)[..., output].ravel())


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_drawn_as_they_stand(name):
    made, _ = case(("category", "number"), (True, True), names=(name, "other"))
    plot_pair(made).canvas.draw()


def test_a_map_can_be_drawn_on_axes_of_the_callers():
    figure = Figure()
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    assert plot_pair(case()[0], ax=panel) is figure and len(figure.axes) == 1 and panel.collections


def test_a_flat_surface_can_be_drawn():
    made, pair = case()
    flat = dataclasses.replace(pair, effect=plain(np.zeros((20, 20, 1))), share=plain(np.zeros((20, 20))))
    plot_pair(dataclasses.replace(made, pairs=(flat,))).canvas.draw()


@pytest.mark.parametrize("asked", [1, -1, ("up",), "up", ("up", "up"), ("up", "nothing")])
def test_a_pair_that_is_not_there_is_refused(asked):
    with pytest.raises(InputError, match=r"^pair: expected "):
        plot_pair(case()[0], asked)


def test_pairs_are_ranked_among_the_columns():
    made, pair = case()
    figure = plot_importance(made)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0] == pair.name and "2 columns and 1 pair kept" in figure.get_suptitle()


def test_a_pair_of_the_explanation_may_be_given_itself():
    made, pair = case()
    assert plot_pair(made, pair).axes[0].get_title() == plot_pair(made, 0).axes[0].get_title()
