"""The measures against hand cases and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from paper import measures
from paper.tables import published


@pytest.mark.parametrize(
    ("kept", "precision", "recall"),
    [
        ((0, 1, 2, 3), 1.0, 1.0),
        ((0, 1), 1.0, 0.5),
        ((0, 1, 8, 9), 0.5, 0.5),
        ((8, 9), 0.0, 0.0),
        ((), 0.0, 0.0),
        (tuple(range(24)), 4 / 24, 1.0),
    ],
)
def test_precision_and_recall_are_shares_of_the_kept_and_of_the_true_features(kept, precision, recall):
    assert measures.precision(kept, (0, 1, 2, 3)) == pytest.approx(precision)
    assert measures.recall(kept, (0, 1, 2, 3)) == pytest.approx(recall)


def test_identification_error_is_zero_for_the_truth_up_to_a_constant_for_each_feature():
    truth = np.random.default_rng(0).normal(size=(50, 6))
    assert measures.identification_error(truth + np.arange(6.0), truth) == pytest.approx(0.0, abs=1e-12)


def test_identification_error_of_no_effects_is_the_mean_variance_of_the_truth():
    truth = np.zeros((4, 3))
    truth[:, 0] = [1.0, -1.0, 1.0, -1.0]
    assert measures.identification_error(np.zeros((4, 3)), truth) == pytest.approx(1.0 / 3.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=40))
def test_the_area_under_the_curve_is_scikit_learns_with_ties_too(rows):
    y = np.array([float(label) for label, _ in rows])
    y[0], y[1] = 0.0, 1.0
    scores = np.array([score / 5 for _, score in rows])
    assert measures.area_under_curve(y, scores) == pytest.approx(roc_auc_score(y, scores))


def test_cross_entropy_and_explained_share_are_scikit_learns():
    generator = np.random.default_rng(1)
    y, probabilities = (generator.uniform(size=60) < 0.4).astype(float), generator.uniform(size=60)
    probabilities[:2] = y[:2]  # certain and right
    assert measures.cross_entropy(y, probabilities) == pytest.approx(log_loss(y, probabilities))
    target, predicted = generator.normal(size=30), generator.normal(size=30)
    assert measures.explained_share(target, predicted) == pytest.approx(r2_score(target, predicted))


def test_a_wrong_certainty_costs_much_but_is_finite():
    assert 30 < measures.cross_entropy(np.ones(1), np.zeros(1)) < 40


def test_the_papers_tables_hold_together_where_their_definitions_say_so():
    """Precision times kept features is a whole number of true ones; linear methods have a parameter a feature."""
    tables = ("synthetic-regression", "synthetic-classification", "california", "compas", "superconductivity")
    for name in tables:
        assert {row["beside"] for row in published(name)["rows"]} >= {"l1-svm"}
        for row in published(name)["rows"]:
            if row["method"] in ("ℓ1 SVM", "LASSO"):
                assert row["features"] == row["parameters"], (name, row["method"])
    nam = {row["method"]: row for row in published("california")["rows"]}["NAM"]
    assert nam["parameters"] == 8 * (100 + 100 + 100 * 50 + 50 + 50) + 1
    snam = {row["method"]: row for row in published("superconductivity")["rows"]}["SNAM"]
    assert snam["parameters"] == 72 * (16 + 16 + 16) + 1


# the tables once more, as the paper lays them out: a line for each measure, a number for each method
PRINTED = {
    "synthetic-regression": """
        mse 140.7 139.7 25.75 10.61
        precision 0.17 1.00 0.17 1.00
        recall 1.00 1.00 1.00 1.00
        identification 5.90 6.09 3.07 0.69
        seconds 0.005 0.007 152.1 48.52
        features 24 4 4 4
        parameters 24 4 - 127201""",
    "synthetic-classification": """
        cross_entropy 0.27 0.26 - 0.15
        accuracy 73.2 74.2 - 94.1
        precision 0.57 0.67 - 1.00
        recall 1.00 1.00 - 1.00
        seconds 0.005 0.019 - 10.10
        features 13 6 - 4
        parameters 13 6 - 128402""",
    "california": """
        mse 0.654 0.712 0.451 0.567
        mae 0.594 0.654 0.479 0.526
        r2 0.501 0.457 0.696 0.645
        seconds 1.37 0.01 343 340
        features 6 2 8 7
        parameters 6 2 42401 37101""",
    "compas": """
        cross_entropy 0.486 0.484 0.503 0.504
        accuracy 75.3 75.4 75.3 75.6
        auc_of_labels 0.744 0.743 0.714 0.745
        seconds 0.106 0.175 27.5 27.4
        features 13 12 13 5
        parameters 13 12 69552 26750""",
    "superconductivity": """
        mse 410.0 311.7 274.1 280.3
        mae 15.47 13.43 11.56 12.09
        r2 0.654 0.731 0.787 0.775
        seconds 5.00 1.87 682 688
        features 100 50 131 72
        parameters 100 50 6289 3457""",
}


@pytest.mark.parametrize("name", PRINTED)
def test_two_transcriptions_of_the_papers_tables_agree_by_method_and_by_measure(name):
    lines = [line.split() for line in PRINTED[name].strip().splitlines()]
    by_method = [
        {line[0]: float(line[column]) for line in lines if line[column] != "-"} for column in range(1, len(lines[0]))
    ]
    rows = published(name)["rows"]
    assert [{key: row[key] for key in row if key not in ("method", "beside")} for row in rows] == by_method
