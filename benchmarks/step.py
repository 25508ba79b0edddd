"""Time one training step: the stacked bank against a loop over sub-networks, in one run.

Both take an Adam step on 24 sub-networks of 100-50 hidden units with 256 rows, as in the paper. Prints JSON: medians of
the time on the clock and of this process's CPU time, which a busy machine disturbs less.

    python benchmarks/step.py
"""

import json
import os
import platform
import statistics
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import torch

from sparsenam.context import Streams
from sparsenam.families import Gaussian
from sparsenam.networks.bank import build_bank, initial_parameters
from sparsenam.penalties import GroupLasso
from sparsenam.training import SCHEDULES, SOLVERS, TrainingPlan
from sparsenam.training.loop import train
from sparsenam.training.problem import Problem
from sparsenam.training.state import Epoch, Parameters

FEATURES, BATCH, STEPS, REPEATS, RATE = 24, 256, 40, 9, 1e-3


def bank_steps(solver: str):
    """Return a function that takes STEPS steps of the library's own training loop."""
    names = [f"x{j}" for j in range(FEATURES)]
    bank = build_bank((100, 50), names, 1, "relu")
    x, y = torch.randn(FEATURES, BATCH * STEPS), torch.randn(BATCH * STEPS, 1)
    weights = torch.ones(BATCH * STEPS)
    # a small alpha, so that every proximal step is computed and no feature is dropped
    problem = Problem(
        bank,
        Gaussian(),
        GroupLasso(),
        1e-6,
        slice(0, bank.size),
        x,
        y,
        weights,
        np.arange(FEATURES),
        FEATURES,
    )
    theta = initial_parameters(bank, names, Streams(0)).float()
    start = Epoch(0, 0.0, 0.0, Parameters.starting_from(theta, torch.zeros(1)))
    plan = TrainingPlan(SOLVERS[solver], SCHEDULES["constant"], RATE, BATCH, 1, 1, 0.0)
    epochs = train(problem, start, plan, Streams(0))
    return lambda: next(epochs)


def loop_steps():
    """Return a function that takes STEPS steps of separate PyTorch networks."""
    networks = [
        torch.nn.Sequential(
            torch.nn.Linear(1, 100), torch.nn.ReLU(), torch.nn.Linear(100, 50), torch.nn.ReLU(),
            torch.nn.Linear(50, 1, bias=False),
        )
        for _ in range(FEATURES)
    ]  # fmt: skip
    intercept = torch.zeros(1, requires_grad=True)
    adam = torch.optim.Adam([*(p for network in networks for p in network.parameters()), intercept], lr=RATE)
    x, y = torch.randn(BATCH * STEPS, FEATURES), torch.randn(BATCH * STEPS, 1)

    def steps():
        for rows in torch.randperm(len(x)).split(BATCH):
            adam.zero_grad()
            batch = x[rows]
            scores = intercept + sum(network(batch[:, j : j + 1]) for j, network in enumerate(networks))
            (0.5 * (scores - y[rows]) ** 2).mean().backward()
            adam.step()

    return steps


def main() -> None:
    """Interleave the contestants and print medians and ratios."""
    torch.manual_seed(0)
    contestants = {
        "loop": loop_steps(),
        "bank": bank_steps("adam"),
        "bank, proximal": bank_steps("prox_adam"),
    }
    clocks = {"time": time.perf_counter, "CPU time": time.process_time}
    seconds = {clock: {name: list[float]() for name in contestants} for clock in clocks}
    for repeat in range(REPEATS + 1):
        for name, steps in contestants.items():
            started = {clock: read() for clock, read in clocks.items()}
            steps()
            if repeat > 0:  # the first round warms up
                for clock, read in clocks.items():
                    seconds[clock][name].append((read() - started[clock]) / STEPS)
    report = {}
    for clock, times in seconds.items():
        milliseconds = {name: round(1e3 * statistics.median(each), 3) for name, each in times.items()}
        ratios = {name: round(milliseconds["loop"] / each, 2) for name, each in milliseconds.items()}
        report |= {f"milliseconds a step ({clock})": milliseconds, f"times faster than the loop ({clock})": ratios}
    print(json.dumps({**report, "threads": torch.get_num_threads(), "torch": torch.__version__,
                      "machine": platform.machine()}, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
