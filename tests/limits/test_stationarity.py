"""A proximal fit run to convergence ends where its objective is stationary, whatever the penalty."""

import numpy as np
import pytest

from networks_by_name import trained
from sparsenam import SNAMRegressor
from sparsenam.penalties import PENALTIES

TOLERANCE = 1e-4


def five_features(seed=0, rows=150):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 5))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * generator.normal(size=rows)


@pytest.mark.parametrize(
    ("penalty", "penalize"),
    [
        *((penalty, "subnetwork") for penalty in PENALTIES),
        ("group_lasso", "output"),
        ("group_lasso", "function"),
    ],
)
def test_a_converged_fit_is_stationary(penalty, penalize):
    X, y = five_features()
    model = trained(
        SNAMRegressor,
        alpha=0.02,
        penalty=penalty,
        penalize=penalize,
        hidden=(6,),
        activation="tanh",
        solver="fista",
        tol=TOLERANCE / 3,
        max_epochs=20_000,
        random_state=0,
    ).fit(X, y)
    assert model.stationarity_ <= TOLERANCE
    assert model.get_support()[0]
