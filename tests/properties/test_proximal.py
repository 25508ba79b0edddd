"""Proximal steps on θ solve the problem they are defined by, in any metric."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsenam.families import Gaussian
from sparsenam.networks.bank import MLPBank
from sparsenam.penalties import PENALTIES, AdaptiveGroupLasso, GroupElasticNet, GroupLasso
from sparsenam.training.problem import Problem, proximal_step

TERMS, ROWS = 4, 3
BANK = MLPBank((3,), 1, "relu")


def problem_with(penalty, alpha):
    return Problem(
        bank=BANK,
        family=Gaussian(),
        penalty=penalty,
        alpha=alpha,
        group=slice(0, BANK.size),
        x=torch.zeros(TERMS, ROWS),
        target=torch.zeros(ROWS, 1),
        weights=torch.ones(ROWS),
        terms=np.arange(TERMS),
        n_terms=TERMS,
    )


def energy(problem, point, start, step):
    return float(((point - start) ** 2 / (2 * step)).sum()) + problem.penalty_value(point)


@pytest.mark.parametrize("penalty", [GroupLasso(), GroupElasticNet(0.6), AdaptiveGroupLasso()])
@given(seed=st.integers(0, 10_000), alpha=st.floats(0.01, 3))
def test_step_in_adams_metric_is_the_exact_minimiser(penalty, seed, alpha):
    generator = torch.Generator().manual_seed(seed)
    problem = problem_with(penalty, alpha)
    start = torch.randn(TERMS, BANK.size, generator=generator, dtype=torch.float64)
    step = torch.exp(2 * torch.randn(TERMS, BANK.size, generator=generator, dtype=torch.float64))
    reached = proximal_step(problem, start, step)
    lowest = energy(problem, reached, start, step)
    assert lowest <= energy(problem, torch.zeros_like(start), start, step) + 1e-9
    for _ in range(5):
        rival = reached + 0.01 * torch.randn(reached.shape, generator=generator, dtype=torch.float64)
        assert lowest <= energy(problem, rival, start, step) + 1e-9
    # optimality of each row: (start - Θ)/step is the penalty's gradient, or lies within its ball at zero
    lasso, ridge = penalty.lasso_and_ridge(TERMS, alpha)
    for row in range(TERMS):
        pull = (start[row] - reached[row]) / step[row]
        size = reached[row].norm()
        if size == 0:
            assert pull.norm() <= lasso[row] * (1 + 1e-9)
        else:
            torch.testing.assert_close(pull, (lasso[row] / size + ridge) * reached[row], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", list(PENALTIES))
@given(seed=st.integers(0, 10_000), alpha=st.floats(0.01, 1))
def test_step_with_one_size_a_row_beats_its_rivals(name, seed, alpha):
    generator = torch.Generator().manual_seed(seed)
    problem = problem_with(PENALTIES[name](), alpha)
    start = torch.randn(TERMS, BANK.size, generator=generator, dtype=torch.float64)
    step = torch.exp(torch.randn(TERMS, 1, generator=generator, dtype=torch.float64))
    reached = proximal_step(problem, start, step)
    lowest = energy(problem, reached, start, step)
    for _ in range(5):
        rival = reached + 0.05 * torch.randn(reached.shape, generator=generator, dtype=torch.float64)
        assert lowest <= energy(problem, rival, start, step) + 1e-9
    assert lowest <= energy(problem, torch.zeros_like(start), start, step) + 1e-9


def test_an_equal_metric_gives_the_scalar_step():
    problem = problem_with(GroupLasso(), 0.7)
    start = torch.randn(TERMS, BANK.size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    everywhere = torch.full_like(start, 0.8)
    torch.testing.assert_close(proximal_step(problem, start, everywhere), proximal_step(problem, start, 0.8))


def test_an_infinite_weight_clears_its_term_and_a_zero_weight_leaves_it():
    penalty = GroupLasso(np.array([np.inf, 0.0, 1.0, 1.0]))
    problem = problem_with(penalty, 0.5)
    start = torch.ones(TERMS, BANK.size)
    reached = proximal_step(problem, start, torch.full_like(start, 0.3))
    assert not reached[0].any()
    torch.testing.assert_close(reached[1], start[1])
