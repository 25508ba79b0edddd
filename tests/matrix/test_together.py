"""Every two ways of fitting together: the model keeps what it can do with either of them, or ``fit`` refuses."""

from itertools import combinations

import pytest

from matrix.cells import check_cell
from matrix.checks import CHECKS
from matrix.refusals import APART
from matrix.scenarios import AT_ONCE, ROWS, SAMPLE, WAYS, excluded, fitted

TOGETHER = [pair for pair in combinations([way for way in WAYS if way != "plain"], 2) if not excluded(*pair)]
# other exports are written from the same portable form as Python
USED = ("kept columns", "sum", "bands", "intervals", "calibrate", "explain", "save", "edit", "drop", "Python")


@pytest.mark.parametrize("ways", TOGETHER, ids=" + ".join)
def test_two_ways_go_together_or_are_refused_as_declared(ways, tmp_path):
    refusal = APART.get(ways)
    if refusal is not None:
        with pytest.raises(Exception) as raised:  # its type and sentence are looked at below
            fitted(*ways)
        assert refusal.fits(raised.value), raised.value
        return
    for use in USED:
        check_cell(ways, use, tmp_path)


def test_every_declared_refusal_is_looked_at():
    assert set(APART) <= set(TOGETHER)
    assert set(USED) <= set(CHECKS)


@pytest.mark.parametrize("way", [way for way in WAYS if not excluded(way, "large table")])
def test_a_large_table_is_fitted_by_a_sample_unless_the_fit_needs_all_rows_at_once(way):
    fit = fitted(*(one for one in WAYS if one in (way, "large table") and one != "plain"))
    assert fit.model.explain().card["rows"] == (ROWS if way in AT_ONCE else SAMPLE)
