"""What README claims of choosing, on every seed it claims it for; ``make claims`` runs this."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.datasets import make_classification, make_regression

pytestmark = pytest.mark.slow
TRUE = [0, 1, 2, 3]


def kept_of(estimator, task, seed, test=0.2):
    """Return what is kept on the training rows of ``benchmarks/bench_tables.py``; the wide task trains on all rows."""
    rows = np.arange(len(task.y))
    if test:
        rows, _ = train_test_split(rows, test_size=test, random_state=seed)
    return np.flatnonzero(estimator(random_state=seed).fit(task.X[rows], task.y[rows]).get_support()).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_regression_keeps_exactly_the_true_columns(seed):
    assert kept_of(SNAMRegressor, make_regression(seed=seed), seed) == TRUE


@pytest.mark.parametrize("seed", range(20))
def test_classification_keeps_exactly_the_true_columns(seed):
    assert kept_of(SNAMClassifier, make_classification(seed=seed), seed) == TRUE


@pytest.mark.parametrize("seed", range(10))
def test_correlated_columns_do_not_mislead(seed):
    assert kept_of(SNAMRegressor, make_regression(correlation=0.7, seed=seed), seed) == TRUE


@pytest.mark.parametrize("seed", range(10))
def test_four_columns_are_found_among_ten_thousand(seed):
    task = make_regression(n_rows=500, n_features=10_000, seed=seed)
    assert kept_of(SNAMRegressor, task, seed, test=0) == TRUE
