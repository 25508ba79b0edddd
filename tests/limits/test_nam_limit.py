"""With λ = 0 the bank is NAM: the numbers of one plain PyTorch network for each feature."""

import numpy as np
import pytest
import torch

from sparsenam.context import Streams
from sparsenam.families import Gaussian
from sparsenam.networks.bank import build_bank, initial_parameters
from sparsenam.penalties import GroupLasso
from sparsenam.training import SCHEDULES, SOLVERS, TrainingPlan
from sparsenam.training.loop import train
from sparsenam.training.problem import Problem
from sparsenam.training.state import Epoch, Parameters

FEATURES, ROWS, BATCH, RATE = 24, 1000, 256, 5e-3
NAMES = [f"x{j}" for j in range(FEATURES)]


def sub_network(bank, row):
    first, second, output = (
        torch.nn.Linear(1, 100),
        torch.nn.Linear(100, 50),
        torch.nn.Linear(50, 1, bias=False),
    )
    tensors = [tensor[0] for tensor in bank.tensors(row[None])]
    with torch.no_grad():
        first.weight.copy_(tensors[0].T)
        first.bias.copy_(tensors[1][0])
        second.weight.copy_(tensors[2].T)
        second.bias.copy_(tensors[3][0])
        output.weight.copy_(tensors[4].T)
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), output).double()


@pytest.mark.parametrize("solver", ["adam", "prox_adam"])
def test_an_epoch_without_penalty_is_an_epoch_of_separate_networks(solver):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(FEATURES, ROWS, generator=generator, dtype=torch.float64)
    y = torch.sin(x[:2]).sum(0)[:, None] + torch.randn(ROWS, 1, generator=generator, dtype=torch.float64)
    bank = build_bank((100, 50), NAMES, 1, "relu")
    streams = Streams(3)
    theta = torch.as_tensor(initial_parameters(bank, NAMES, streams)).float().double()
    problem = Problem(
        bank, Gaussian(), GroupLasso(), 0.0, slice(0, bank.size), x, y, torch.ones(ROWS, dtype=torch.float64),
        np.arange(FEATURES), FEATURES,
    )  # fmt: skip
    start = Epoch(0, 0.0, 0.0, Parameters.starting_from(theta, torch.zeros(1, dtype=torch.float64)))
    plan = TrainingPlan(SOLVERS[solver], SCHEDULES["constant"], RATE, BATCH, 1, 1, 0.0)
    epoch = next(train(problem, start, plan, streams))

    networks = [sub_network(bank, row) for row in theta]
    intercept = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    weights = [parameter for network in networks for parameter in network.parameters()]
    adam = torch.optim.Adam([*weights, intercept], lr=RATE)
    order = torch.from_numpy(streams.generator("batches/0").permutation(ROWS))
    for rows in order.split(BATCH):
        adam.zero_grad()
        scores = intercept + sum(network(x[j, rows, None]) for j, network in enumerate(networks))
        (0.5 * (scores - y[rows]) ** 2).mean().backward()
        adam.step()

    with torch.no_grad():
        expected = torch.stack([network(x[j, :, None]) for j, network in enumerate(networks)])
        effects = bank.effects(epoch.parameters.theta, x)
    torch.testing.assert_close(effects, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(epoch.parameters.intercept, intercept.detach(), rtol=1e-6, atol=1e-8)
