"""scikit-learn's HTML view of an estimator links to its part of the API reference."""

import re
from pathlib import Path

import pytest

import sparsenam

API = Path(__file__).resolve().parents[2] / "docs" / "api"
KINDS = [getattr(sparsenam, name) for name in sparsenam.__all__ if isinstance(getattr(sparsenam, name), type)]
ESTIMATORS = [kind for kind in KINDS if hasattr(kind, "get_params") and kind is not sparsenam.FDR]
LINK = re.compile(r"https://sparsenam\.readthedocs\.io/en/stable/api/(\w+)\.html#(sparsenam[\w.]*)\.(\w+)")


def test_every_estimator_is_among_those_tested():
    assert len(ESTIMATORS) == 7


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_the_html_view_links_to_the_page_that_documents_the_estimator(kind):
    page, module, name = LINK.search(kind()._repr_html_()).groups()
    text = (API / f"{page}.md").read_text("utf-8")
    assert name == kind.__name__
    documented = f"automodule:: {module}" in text or (f"module:: {module}" in text and f"autoclass:: {name}" in text)
    assert documented


def test_an_estimator_of_somebody_else_that_is_built_on_ours_has_no_link():
    class Mine(sparsenam.SNAMRegressor):
        pass

    assert "readthedocs" not in Mine()._repr_html_()
