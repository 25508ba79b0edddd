"""One cell of the matrix: run the check, and compare what came of it with what is declared."""

import warnings

import pytest

from matrix.checks import CHECKS
from matrix.refusals import RESERVATIONS, refusal_of, says
from matrix.scenarios import fitted


def check_cell(ways, use, folder):
    """Assert that a use of a model works, or is refused or reserved as is declared for one of the ways of its fit."""
    fit = fitted(*ways)
    refusals = [refusal for way in ways if (refusal := refusal_of(way, use))]
    reserved = {RESERVATIONS[way, use] for way in ways if (way, use) in RESERVATIONS}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if refusals:
            with pytest.raises(Exception) as raised:  # its type and sentence are looked at below
                CHECKS[use](fit, folder)
            assert any(refusal.fits(raised.value) for refusal in refusals), raised.value
            return
        assert CHECKS[use](fit, folder) > 0, "a check that compares nothing is none"
    said = [str(warning.message) for warning in caught]
    assert [text for text in said if not any(says(text, sentence) for sentence in reserved)] == []
    if len(ways) == 1:
        assert [sentence for sentence in reserved if not any(says(text, sentence) for text in said)] == []
