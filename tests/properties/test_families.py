"""Each family's gradient, link and best constant follow from its loss, in numpy and in torch alike."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sparsenam.errors import InputError
from sparsenam.families import FAMILIES, as_family

OUTPUTS = {"gaussian": 2, "binomial": 1, "multinomial": 3, "multilabel": 2, "poisson": 1}
every_family = pytest.mark.parametrize("name", list(FAMILIES))


def sample(name, seed, rows=7):
    generator = np.random.default_rng(seed)
    outputs = OUTPUTS[name]
    scores = 3 * generator.normal(size=(rows, outputs))
    if name == "gaussian":
        return scores, generator.normal(size=(rows, outputs))
    if name == "multinomial":
        return scores, np.eye(outputs)[generator.integers(outputs, size=rows)]
    return scores, generator.integers(2, size=(rows, outputs)).astype(float)


@every_family
@given(seed=st.integers(0, 10_000))
def test_gradient_is_the_derivative_of_loss(name, seed):
    family = FAMILIES[name]()
    scores, target = sample(name, seed)
    leaf = torch.tensor(scores, requires_grad=True)
    (expected,) = torch.autograd.grad(family.loss(leaf, torch.tensor(target)).sum(), leaf)
    np.testing.assert_allclose(family.gradient(scores, target), expected.numpy(), atol=1e-9)


@every_family
@given(seed=st.integers(0, 10_000))
def test_numpy_and_torch_give_the_same_numbers(name, seed):
    family = FAMILIES[name]()
    scores, target = sample(name, seed)
    in_torch = family.loss(torch.tensor(scores), torch.tensor(target)).numpy()
    np.testing.assert_allclose(family.loss(scores, target), in_torch, atol=1e-12)
    np.testing.assert_allclose(family.mean(scores), family.mean(torch.tensor(scores)).numpy(), atol=1e-12)


@every_family
def test_best_constant_minimises_the_weighted_loss(name):
    family = FAMILIES[name]()
    _, target = sample(name, 3, rows=60)
    weights = np.random.default_rng(4).uniform(0.1, 2, size=60)
    best = family.best_constant(target, weights)

    def cost(constant):
        return weights @ family.loss(np.broadcast_to(constant, target.shape), target)

    assert cost(best) <= minimize(cost, np.zeros(OUTPUTS[name])).fun + 1e-6


@every_family
@given(seed=st.integers(0, 1000))
def test_curvature_bounds_the_second_derivative(name, seed):
    family = FAMILIES[name]()
    scores, target = sample(name, seed, rows=1)
    leaf = torch.tensor(scores)
    hessian = torch.autograd.functional.hessian(lambda s: family.loss(s, torch.tensor(target)).sum(), leaf)
    matrix = hessian.reshape(scores.size, scores.size)
    assert torch.linalg.eigvalsh(matrix).max() <= family.curvature + 1e-9


@every_family
def test_huge_scores_stay_finite(name):
    family = FAMILIES[name]()
    _, target = sample(name, 0)
    scores = np.full(target.shape, 800.0)
    scores[:, 0] = -800.0
    assert np.isfinite(family.loss(scores, target)).all()
    assert np.isfinite(family.mean(scores)).all()


def test_a_target_outside_the_range_is_refused_with_its_row():
    with pytest.raises(InputError, match=r"expected 0 or 1, got 2\.0 in row 1"):
        FAMILIES["binomial"]().range.check(np.array([[0.0], [2.0]]), "this test")
    with pytest.raises(InputError, match="expected one of"):
        as_family("poisson", ("gaussian",))
