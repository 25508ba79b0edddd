"""Names and numbers on plots: short, plain, and never read as formulas."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsenam.explain.drawing import Axis
from sparsenam.explain.plots.sheet import plain
from sparsenam.explain.text import shorten


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
