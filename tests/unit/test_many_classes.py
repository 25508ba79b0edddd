"""A fit of many classes says before it begins what it will take, and ends when it is told to."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from cli_cases import invoke, write_csv
from sparsenam import SNAMClassifier
from sparsenam.errors import LongFitWarning
from sparsenam.estimators import classification
from sparsenam.estimators.classification import what_classes_take


def table(classes, rows=300):
    generator = np.random.default_rng(0)
    y = np.arange(rows) % classes
    return pd.DataFrame({"a": y % 7 + generator.normal(size=rows), "b": generator.normal(size=rows)}), y


def test_the_sentence_has_time_memory_and_what_to_do():
    assert what_classes_take(4000, 21, 200) == (
        "200 classes: a fit of 4000 rows and 21 columns takes about 3.6 minutes of one core and 560 MB; merge rare "
        "classes, leave columns out, or set max_seconds."
    )
    assert "takes about 52 seconds of one core and 280 MB;" in what_classes_take(2000, 10, 200)
    assert "takes about 7.2 hours of one core and 14 GB;" in what_classes_take(100_000, 100, 200)
    assert "takes about 15 days of one core and 140 GB;" in what_classes_take(1_000_000, 500, 200)


@pytest.mark.parametrize(
    ("rows", "columns", "classes"),
    [(1797, 64, 10), (178, 13, 3), (200_000, 100, 3), (2000, 10, 50), (500, 4, 200), (20_000, 16, 19)],
)
def test_ordinary_tables_are_not_spoken_of(rows, columns, classes):
    assert what_classes_take(rows, columns, classes) == ""


def test_time_is_said_in_proportion_to_rows_columns_and_classes():
    def minutes(*sizes):
        return float(re.search(r"about (\S+) minutes", what_classes_take(*sizes))[1])

    first = minutes(20_000, 20, 50)
    assert minutes(40_000, 20, 50) == minutes(20_000, 40, 50) == minutes(20_000, 20, 100)
    assert minutes(40_000, 20, 50) == pytest.approx(2.0 * first, rel=0.1)


@pytest.mark.parametrize("limit", [None, 100.0])
def test_the_fit_says_it_before_it_begins_unless_its_time_is_limited(monkeypatch, limit):
    monkeypatch.setattr(classification, "LONG_SECONDS", 0.1)
    monkeypatch.setattr(SNAMClassifier, "_fit_by", lambda self, *rest: None)  # nothing but what comes before
    X, y = table(30)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        SNAMClassifier(max_seconds=limit).fit(X, y)
    assert [each.category for each in said] == ([LongFitWarning] if limit is None else [])
    if limit is None:
        assert "30 classes: a fit of 300 rows and 2 columns" in str(said[0].message)
        assert said[0].filename == __file__


def test_the_command_prints_it_as_a_line(monkeypatch, tmp_path):
    monkeypatch.setattr(classification, "LONG_SECONDS", 0.1)
    X, y = table(25, rows=500)
    cells = {name: [str(cell) for cell in X[name]] for name in X} | {"kind": [f"kind {code}" for code in y]}
    done = invoke("fit", write_csv(tmp_path / "kinds.csv", cells), "--target", "kind", "--out", tmp_path / "model")
    (line,) = [line for line in done.stderr.splitlines() if "classes: a fit of" in line]
    assert line.startswith("sparsenam: warning: 25 classes: a fit of 400 rows and 2 columns takes about ")


def test_many_classes_end_within_a_limit_of_time():
    X, y = table(100, rows=600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was cut short
        model = SNAMClassifier(random_state=0, max_seconds=0.5).fit(X, y)
    assert model.predict_proba(X).shape == (600, 100)
    assert model.summary_.cut_short
