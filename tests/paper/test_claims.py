"""The table of the paper's claims: made from recorded results, with verdicts that the numbers decide."""

import json
import shutil
from pathlib import Path

import pytest

from paper import claims, tables
from paper.__main__ import main
from sparsenam.errors import InputError

RESULTS = Path(claims.__file__).parent / "results"


@pytest.fixture
def reports(tmp_path):
    """A copy of the committed reports, to be changed."""
    for path in RESULTS.glob("*.json"):
        shutil.copy(path, tmp_path)
    return tmp_path


def changed(folder, name, method, **measures):
    """Give every record of a method other measures."""
    path = folder / f"{name}.json"
    report = json.loads(path.read_text())
    for record in report["records"]:
        if record["method"] == method and "measures" in record:
            record["measures"] |= measures
    path.write_text(json.dumps(report))


def row(make, folder):
    return make(claims.Evidence(folder))


def test_the_committed_table_is_made_from_the_committed_reports():
    assert (RESULTS / "claims.md").read_text() == claims.claims_table(RESULTS).markdown()


def test_the_command_writes_and_prints_the_table(reports, capsys):
    assert main(["claims", "--out", str(reports)]) == 0
    assert "3 times faster than SPAM" in capsys.readouterr().out
    assert (reports / "claims.md").read_text() == claims.claims_table(reports).markdown()


def test_every_claim_has_numbers_and_a_verdict():
    for make in claims.CLAIMS:
        found = row(make, RESULTS)
        assert found.verdict.startswith((claims.HOLDS, claims.PARTLY, claims.FAILS)), found
        assert any(character.isdigit() for character in found.measured), found


def test_the_papers_shares_are_those_of_its_tables():
    shares = {
        claims.half_of_the_parameters: "26750 of 69552 is 38.5 %, saves 61.5 %",
        claims.saved_on_california: "37101 of 42401 is 87.5 %, saves 12.5 %",
        claims.saved_on_superconductivity: "3457 of 6289 is 55 %, saves 45 %",
        claims.faster_than_spam: "3.13 ×",
        claims.higher_accuracy: "19.9 and 33 points",
    }
    for make, expected in shares.items():
        assert row(make, RESULTS).printed == expected


def test_a_faster_snam_would_change_the_verdict(reports):
    changed(reports, "synthetic-regression", "spam", seconds=8.0)
    changed(reports, "synthetic-regression", "snam-paper", seconds=16.0)
    assert (
        row(claims.faster_than_spam, reports).verdict == "does not hold: SPAM is 2.0 × faster than the paper's training"
    )
    changed(reports, "synthetic-regression", "snam-paper", seconds=2.0)
    assert row(claims.faster_than_spam, reports).verdict == "holds"


@pytest.mark.parametrize(
    ("make", "name", "changes", "before", "after"),
    [
        (claims.better_than_spam, "synthetic-regression", {"spam": {"mse": 1e3}}, "holds in part", "holds"),
        (claims.compas_auc, "compas", {"snam-paper": {"auc_of_labels": 0.9}}, "does not hold", "holds"),
        (claims.superconductivity_loss, "superconductivity", {"nam": {"mse": 394.0}}, "does not hold", "holds in part"),
        (
            claims.best_on_california,
            "california",
            {"lasso": {"mse": 9.0}, "l1-svm": {"mse": 9.0}},
            "holds in part",
            "holds",
        ),
        (claims.saved_on_california, "california", {"nam": {"parameters": 1e5}}, "holds in part", "does not hold"),
        (claims.only_exact, "synthetic-regression", {"snam-paper": {"recall": 1.0}}, "does not hold", "holds in part"),
    ],
)
def test_numbers_decide_a_verdict(make, name, changes, before, after, reports):
    assert row(make, reports).verdict.startswith(before)
    for method, measures in changes.items():
        changed(reports, name, method, **measures)
    assert row(make, reports).verdict.startswith(after)


def test_a_number_of_the_paper_is_read_from_its_row():
    evidence = claims.Evidence(RESULTS)
    for name in ("synthetic-regression", "california", "compas", "superconductivity"):
        for printed in tables.published(name)["rows"]:
            for measure in {"seconds", "features"} & set(printed):
                assert evidence.printed(name, printed["method"], measure) == printed[measure]


def test_a_report_that_is_missing_is_named(tmp_path):
    with pytest.raises(InputError, match="a report of synthetic-regression"):
        claims.claims_table(tmp_path)


def test_a_method_that_is_missing_is_named(reports):
    with pytest.raises(InputError, match="a record of magic in the report compas"):
        claims.Evidence(reports).mean("compas", "magic", "auc")
