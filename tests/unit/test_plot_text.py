"""Names and numbers on plots: short, plain, and never read as formulas."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsenam.explain.drawing import Axis
from sparsenam.explain.plots.canvas import plain
from sparsenam.text import abbreviations, number_text, shorten


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


def test_names_that_differ_in_their_middle_stay_different_when_they_are_cut():
    styles = [f"One_and_Half_{part}_All_Ages" for part in ("Finished", "Unfinished", "Remodelled")]
    for names in (styles, [f"region {number} of the kingdom" for number in range(30)], ["a" * 40, "a" * 41, "b"]):
        for length in (6, 10, 19):
            assert len(set(abbreviations(names, length))) == len(names)
    assert ["Finished" in text for text in abbreviations(styles, 19)] == [True, False, False]
    assert abbreviations(["short", "short"], 19) == ["short", "short"]


def test_years_have_no_thousands_and_large_numbers_have():
    assert [number_text(value) for value in (1987, -2024, 9999.7, 12345)] == [
        "1987",
        "−2024",
        "10\u202f000",
        "12\u202f345",
    ]
