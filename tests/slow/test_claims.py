"""What README claims of choosing, on every seed it claims it for; ``make claims`` runs this."""

import numpy as np
import pytest

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.datasets import make_classification, make_regression

pytestmark = pytest.mark.slow
TRUE = [0, 1, 2, 3]


def kept_of(estimator, task):
    return np.flatnonzero(estimator(random_state=0).fit(task.X, task.y).get_support()).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_regression_keeps_exactly_the_true_columns(seed):
    assert kept_of(SNAMRegressor, make_regression(seed=seed)) == TRUE


@pytest.mark.parametrize("seed", range(20))
def test_classification_keeps_exactly_the_true_columns(seed):
    assert kept_of(SNAMClassifier, make_classification(seed=seed)) == TRUE


@pytest.mark.parametrize("seed", range(10))
def test_correlated_columns_do_not_mislead(seed):
    assert kept_of(SNAMRegressor, make_regression(correlation=0.7, seed=seed)) == TRUE


@pytest.mark.parametrize("seed", range(10))
def test_four_columns_are_found_among_ten_thousand(seed):
    assert kept_of(SNAMRegressor, make_regression(n_rows=500, n_features=10_000, seed=seed)) == TRUE
