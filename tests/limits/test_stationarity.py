"""A proximal fit run to convergence ends where its objective is stationary, whatever the penalty."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from networks_by_name import trained
from sparsenam import SNAMRegressor
from sparsenam.families import Gaussian
from sparsenam.networks.bank import MLPBank
from sparsenam.penalties import PENALTIES, GroupLasso
from sparsenam.training.problem import Problem
from sparsenam.training.run import measure_stationarity
from sparsenam.training.state import Parameters

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


def test_terms_at_zero_count_for_stationarity():
    bank = MLPBank((6,), 1, "tanh")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 200, generator=generator, dtype=torch.float64)
    theta = torch.randn(4, bank.size, generator=generator, dtype=torch.float64)
    output = bank.output_columns
    theta[2:, output] = 0.0
    target = bank.effects(theta, x).sum(0) + torch.sin(x[2])[:, None]  # term 2 is at zero and is needed
    problem = Problem(
        bank=bank,
        family=Gaussian(),
        penalty=GroupLasso(),
        alpha=0.01,
        group=output,
        x=x,
        target=target,
        weights=torch.ones(200, dtype=torch.float64),
        terms=np.arange(4),
        n_terms=4,
    )
    whole = Parameters.starting_from(theta, torch.zeros(1, dtype=torch.float64))
    dormant = replace(whole, active=np.array([0, 1]))
    # at zero the condition is ‖gradient‖ ≤ α: beyond it the step goes along the gradient, shorter by α
    pull = problem.gradient(theta, whole.intercept).theta[2, output]
    excess = float((pull * (1.0 - 0.01 / pull.norm())).abs().max())
    assert excess > 0.1
    measured = measure_stationarity(problem, dormant, 1e-3)
    assert measured == pytest.approx(measure_stationarity(problem, whole, 1e-3))
    assert measured >= excess * (1.0 - 1e-6)
