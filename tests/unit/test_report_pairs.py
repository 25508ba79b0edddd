"""Pairs in the report: small maps that say what the explanation says, with and without a script."""

import dataclasses
import json
import re

import numpy as np
import pytest

from pair_cases import case, plain
from sparsenam.explain import Contribution, LocalExplanation, RowExplanation
from sparsenam.explain.charts import waterfall
from sparsenam.explain.report import render_report
from sparsenam.explain.report.drawings import waterfall_chart
from sparsenam.explain.report.maps import MAP_CELLS, MAP_CELLS_OF_SEVERAL, map_styles, pair_data
from sparsenam.explain.surfaces import surface

CLASSES = re.compile(r'<path d="([^"]*)" class="([pm])(\d+)"')
STEP = re.compile(r"M(-?\d+) (-?\d+)h(-?\d+)v(-?\d+)h(-?\d+)z")


def section_of(page):
    start = page.index('<section id="pairs"')
    return page[start : page.index("</section>", start)]


def embedded(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def painted(layer):
    """The step of the colour at each of 1000 × 1000 units, 0 where nothing is drawn."""
    found = np.zeros((1000, 1000), dtype=int)
    for path, sign, step in CLASSES.findall(layer):
        for left, top, width, height, back in STEP.findall(path):
            assert int(back) == -int(width)
            rows, columns = slice(int(top), int(top) + int(height)), slice(int(left), int(left) + int(width))
            assert not found[rows, columns].any()  # no cell is painted twice
            found[rows, columns] = int(step) if sign == "p" else -int(step)
    return found


@pytest.mark.parametrize("kinds", [("number", "number"), ("category", "number"), ("ordered", "category")])
@pytest.mark.parametrize("surface_of", ["effect", "total"])
def test_each_cell_has_the_colour_of_its_effect(kinds, surface_of):
    made, pair = case(kinds, (True, True))
    layer = section_of(render_report(made)).split(f'data-surface="{surface_of}"')[1].split("</svg>")[0]
    cells = surface(made, pair, 0, MAP_CELLS)
    values = getattr(cells, surface_of)
    largest = np.abs(values[cells.fullness > 0.1]).max()
    steps = painted(layer)
    for (row, column), value in np.ndenumerate(values):
        at = 1000 * (1 - cells.one.axis.fraction(cells.one.middles[row]))
        across = 1000 * cells.other.axis.fraction(cells.other.middles[column])
        expected = np.clip(12 * value / largest, -12, 12)
        assert abs(steps[int(at), int(across)] - expected) <= 0.5 + 1e-9


def test_the_embedded_numbers_are_those_of_the_surface():
    made, pair = case(("number", "category"), (True, False), outputs=2)
    data = embedded(render_report(made))["pairs"][0]
    for output in (0, 1):
        cells = surface(made, pair, output, MAP_CELLS_OF_SEVERAL)
        np.testing.assert_allclose(data["effect"][output], cells.effect, rtol=6e-3)
        np.testing.assert_allclose(data["mains"][output][0], cells.mains[0], rtol=6e-3)
        np.testing.assert_allclose(data["mains"][output][1], cells.mains[1], rtol=6e-3)
    assert data["axes"][0]["texts"][-1] == "missing" and data["axes"][1]["texts"] == list(pair.other.levels)
    row, column = data["first"]
    assert data["share"][row][column] == np.max(data["share"])


def test_a_cell_that_hardly_a_hat_touches_has_no_rows():
    made, pair = case()
    made = dataclasses.replace(made, card={"rows": 100})
    shares = np.array(pair_data(made, pair, [0])["share"])
    assert (shares[shares > 0] * 100 >= 0.49).all() and (shares == 0).any()


@pytest.mark.parametrize("outputs", [1, 5])
def test_a_rough_pair_of_a_hundred_and_thirty_nodes_each_way_stays_small(outputs):
    made, _ = case(outputs=outputs, sizes=(130, 130))
    page, without = render_report(made), render_report(dataclasses.replace(made, pairs=()))
    assert len(page.encode()) - len(without.encode()) < 300_000


def test_without_pairs_there_is_no_section():
    made, _ = case()
    page = render_report(dataclasses.replace(made, pairs=()))
    assert 'id="pairs"' not in page and 'href="#pairs"' not in page
    assert 'href="#pairs"' in render_report(made)


def test_without_a_script_the_joint_effect_is_drawn_and_some_cells_are_in_a_table():
    made, _ = case(("number", "category"), outputs=3)
    section = section_of(render_report(made))
    layers = re.findall(r'<g class="layer"([^>]*)>', section)
    assert len(layers) == 6 and [layer for layer in layers if "hidden" not in layer] == layers[:1]
    assert 'data-surface="effect"' in layers[0]
    assert "drawn for class 0" in section and "<table>" in section


def test_the_table_of_what_is_kept_ranks_the_pair_and_leads_to_it():
    made, pair = case()
    page = render_report(made)
    table = page[page.index('id="kept"') : page.index('id="shapes"')]
    assert [link for link in re.findall(r'href="#(\w+-\d)"', table)] == ["pair-0", "feature-0", "feature-1"]
    assert pair.name in table and 'id="pair-0"' in page and "2 of 2 columns and 1 pair." in page


def test_colours_are_those_of_the_scheme_so_that_a_dark_page_has_a_dark_map():
    assert "#" not in map_styles()
    assert map_styles().count("var(--plus)") == map_styles().count("var(--minus)") == 12


def test_effects_that_are_no_numbers_leave_the_page_whole():
    made, pair = case(("category", "category"))
    effect = np.array(pair.effect)
    effect[0, 0] = np.nan
    page = render_report(dataclasses.replace(made, pairs=(dataclasses.replace(pair, effect=plain(effect)),)))
    assert embedded(page)["pairs"][0]["effect"][0][0][0] == 0.0 and "nan" not in section_of(page)


def test_a_waterfall_names_both_columns_of_a_pair_and_says_the_values_where_the_mouse_rests():
    part = Contribution("latitude × longitude", "32.58 × -117", (0.4,), "latitude 32.58 × longitude -117 adds +0.4")
    row = RowExplanation(0, (1.4,), (1.4,), (1.0,), (part,))
    local = LocalExplanation(("y",), "identity", "units of y", "the average row", (row,))
    drawn = waterfall_chart(waterfall(local, row, 0))
    assert ">latitude × longitude<" in drawn and "latitude × longitude = 32.58 × -117" in drawn
