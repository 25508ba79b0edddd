"""The examples of the gallery run, and their pictures are there, small, and on the page."""

import importlib.util
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
LARGEST = 100_000  # bytes: a page loads in a moment, and so does a clone


def load_drawing():
    spec = importlib.util.spec_from_file_location("gallery_draw", DOCS / "gallery" / "draw.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRAWING = load_drawing()


@pytest.mark.parametrize("name", DRAWING.EXAMPLES)
def test_an_example_draws_a_figure(name, tmp_path):
    with mpl.rc_context({"backend": "Agg"}):
        figure = DRAWING.figure_of(name)
        figure.savefig(tmp_path / "picture.png")
        plt.close(figure)
    assert figure.axes


@pytest.mark.parametrize("name", DRAWING.EXAMPLES)
def test_an_example_is_on_the_page_with_a_small_picture(name):
    page = (DOCS / "gallery.md").read_text("utf-8")
    assert f"images/gallery/{name}.png" in page
    assert f"literalinclude}} gallery/{name}.py" in page
    assert (DOCS / "images" / "gallery" / f"{name}.png").stat().st_size < LARGEST
