"""Every use of a model, however it was fitted: its numbers agree, or one declared sentence says why it is refused."""

import sys

import pytest

from matrix.cells import check_cell
from matrix.checks import CHECKS
from matrix.page import PAGE, page
from matrix.refusals import APART, REFUSALS, RESERVATIONS
from matrix.scenarios import WAYS, excluded


@pytest.fixture(scope="module", autouse=True)
def end_of_java():
    """End the virtual machine that ran PMML, if there was one."""
    yield
    if "pypmml" in sys.modules:
        sys.modules["pypmml"].PMMLContext.shutdown()


@pytest.mark.parametrize("use", CHECKS)
@pytest.mark.parametrize("way", WAYS)
def test_a_use_works_or_is_refused_as_declared(way, use, tmp_path):
    check_cell((way,), use, tmp_path)


def test_the_page_shows_the_matrix():
    assert PAGE.read_text("utf-8") == page(), "run `make capabilities` to write the page anew"


def test_what_is_declared_belongs_to_the_matrix():
    assert {way for way, _ in (*REFUSALS, *RESERVATIONS)} <= set(WAYS)
    assert {use for _, use in (*REFUSALS, *RESERVATIONS)} <= set(CHECKS)
    assert not set(REFUSALS) & set(RESERVATIONS)
    assert {way for pair in APART for way in pair} <= set(WAYS)
    assert not [pair for pair in APART if excluded(*pair)]
