"""The portable model: evaluated by hand it says what the library says, for every kind of column and family."""

import json
import math
from bisect import bisect_right

import numpy as np
import pandas as pd
import pytest

from export_cases import random_case
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.export.portable import ExportError
from sparsenam.tables.text import MARKERS, has_leading_zero, number_in


def code_in(column, cell):
    """Return the code of a category's cell, as docs/portable.md describes it; None where it is not known."""
    if isinstance(cell, bool):
        return column["true"] if cell else column["false"]
    if isinstance(cell, str):
        number = None if has_leading_zero(cell) else number_in(cell)
        if number is None or not math.isfinite(number):
            return next((level["code"] for level in column["levels"] if level["text"] == cell), None)
        cell = number
    return next((level["code"] for level in column["levels"] if level["number"] == cell), None)


def value_in(record, row, column, reads):
    """Return what a term or an axis reads of a row: a number, a code, 0 or 1; NaN where it is not known."""
    column = record["columns"][column]
    cell = row[column["name"]]
    if isinstance(cell, str) and cell.strip() in record["missing_texts"]:
        cell = None
    if reads == "missing":
        return float(cell is None)
    if cell is None:
        return math.nan
    if column["kind"] != "category":
        return float(cell)
    code = code_in(column, cell)
    return math.nan if code is None else float(code)


def score_of(record, row):
    """Return the scores of a row from the JSON of a portable model alone."""
    total = [0.0] * len(record["intercept"])
    for term in record["terms"]:
        x = value_in(record, row, term["column"], term.get("reads", "number"))
        for output in range(len(total)):
            if math.isnan(x):
                total[output] += term["absent"][output]
            elif math.isinf(x):
                total[output] = math.nan
            elif term["type"] == "table":
                total[output] += term["values"][int(x)][output]
            else:
                piece = bisect_right(term["knots"], x)
                across = x - term["anchors"][piece]
                total[output] += term["slopes"][output][piece] * across + term["bases"][output][piece]
    for pair in record["pairs"]:
        (i, k, u), (j, m, v) = (place_of(record, row, axis) for axis in pair["axes"])
        for output in range(len(total)):
            at = [[pair["values"][a][b][output] for b in (j, m)] for a in (i, k)]
            low, high = ((1.0 - v) * side[0] + v * side[1] for side in at)
            total[output] += (1.0 - u) * low + u * high
    return [score + start for score, start in zip(total, record["intercept"], strict=True)]


def place_of(record, row, axis):
    """Return the nodes about a value of an axis and the share of the second."""
    x, knots = value_in(record, row, axis["column"], axis["reads"]), axis["knots"]
    if math.isnan(x):
        return len(knots), len(knots), 0.0
    if math.isinf(x):
        return 0, 0, math.nan
    inside = min(max(x, knots[0]), knots[-1])
    node = min(bisect_right(knots, inside) - 1, len(knots) - 2)
    return node, node + 1, (inside - knots[node]) / (knots[node + 1] - knots[node])


@pytest.mark.parametrize("seed", range(60))
def test_the_json_alone_gives_the_scores_of_the_library_to_the_bit(seed):
    case = random_case(seed, rows=200)
    record = json.loads(case.portable.to_json())
    found = np.array([score_of(record, row) for row in case.rows])
    assert np.array_equal(found, case.scores, equal_nan=True)


def test_the_json_is_strict_and_says_its_format_and_version():
    record = json.loads(random_case(3).portable.to_json(), parse_constant=pytest.fail)
    assert record["format"] == "sparsenam portable model"
    assert record["version"] == 1
    assert record["missing_texts"] == sorted(MARKERS)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"age": generator.uniform(20, 80, 300), "city": generator.choice(["a", "b", "c"], 300)})
    X.loc[::9, "age"] = np.nan
    return X, np.sin(X["age"].fillna(50) / 9) + (X["city"] == "a") + 0.1 * generator.standard_normal(300)


def test_a_fitted_regressor_has_a_portable_form_with_its_scores(table):
    X, y = table
    model = SNAMRegressor(random_state=0).fit(X, y)
    record = model.portable().to_dict()
    rows = X.astype(object).where(X.notna(), None).to_dict("records")
    assert np.array_equal([score_of(record, row)[0] for row in rows], model.predict(X))
    assert (record["task"], record["link"], record["outputs"]) == ("regression", "identity", ["y"])


def test_a_classifier_keeps_the_type_of_its_labels(table):
    X, y = table
    record = SNAMClassifier(random_state=0).fit(X, y > y.mean()).portable().to_dict()
    assert record["classes"] == [False, True]
    assert (record["task"], record["link"], record["outputs"]) == ("classes", "logit", ["True"])


def test_a_custom_loss_cannot_be_carried_and_says_so():
    class Half:
        def loss(self, scores, target):
            return 0.5 * (scores - target) ** 2

        def gradient(self, scores, target):
            return scores - target

    generator = np.random.default_rng(1)
    X = generator.standard_normal((80, 2))
    model = SNAMRegressor(family=Half(), random_state=0).fit(X, X[:, 0])
    with pytest.raises(ExportError, match=r"model to export: expected one of the families .* got the custom loss Half"):
        model.portable()


def test_networks_with_smooth_activations_cannot_be_carried_and_nothing_is_written(tmp_path):
    from sparsenam import Network

    generator = np.random.default_rng(1)
    X = generator.standard_normal((80, 2))
    network = Network(hidden=(4,), activation="gelu", max_epochs=2)
    model = SNAMRegressor(network=network, alpha=0.01, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ExportError, match="expected piecewise linear effects, got networks with the activation 'gelu'"):
        model.export(tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_suffix_or_target_names_those_there_are(tmp_path, table):
    model = SNAMRegressor(random_state=0).fit(*table)
    with pytest.raises(ExportError, match=r"expected a suffix of \['.h', '.js'"):
        model.export(tmp_path / "model.txt")
    with pytest.raises(ExportError, match="to: expected one of"):
        model.export(tmp_path / "model.py", to="cobol")
