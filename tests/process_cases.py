"""Trainings that one process does alone, or several together that torchrun started: run as a script by these."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from sparsenam import Network, SNAMRegressor
from sparsenam.context import Context, Streams
from sparsenam.errors import InputError
from sparsenam.families import Gaussian
from sparsenam.networks.bank import build_bank, initial_parameters
from sparsenam.penalties import GroupLasso
from sparsenam.training import SCHEDULES, SOLVERS, TrainingPlan
from sparsenam.training.problem import Problem
from sparsenam.training.processes import joined_processes
from sparsenam.training.run import run
from sparsenam.training.state import Parameters

NAMES = ["a", "b", "c"]


def table(rows=301, seed=0):
    """Three columns, of which the last has no effect, and the target y."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(generator.normal(size=(rows, 3)), columns=NAMES)
    return frame.assign(y=np.sin(2 * frame["a"]) + 0.5 * frame["b"] ** 2 + 0.3 * generator.normal(size=rows))


def small_problem(alpha=0.0, rows=90):
    """A tanh network with four hidden units for each of three terms, and where its training starts."""
    frame, bank = table(rows), build_bank((4,), NAMES, 1, "tanh")
    weights = torch.as_tensor(np.random.default_rng(1).uniform(0.5, 1.5, rows))
    problem = Problem(
        bank=bank, family=Gaussian(), penalty=GroupLasso(), alpha=alpha, group=slice(0, bank.size),
        x=torch.as_tensor(frame[NAMES].to_numpy().T.copy()), target=torch.tensor(frame[["y"]].to_numpy()),
        weights=weights / weights.mean(), terms=np.arange(3), n_terms=3,
    )  # fmt: skip
    theta = torch.as_tensor(initial_parameters(bank, NAMES, Streams(0)))
    return problem, Parameters.starting_from(theta, torch.zeros(1, dtype=torch.float64))


def numbers_of(model):
    """The predictions of a fit, and its epochs' losses."""
    losses = [[entry["loss"], entry["penalty"], entry["validation"] or 0.0] for entry in model.history_]
    return np.concatenate([model.predict(table(50, seed=1)[NAMES]), np.ravel(losses)])


def in_double_precision(alpha):
    """Mini-batches of 16 rows, the last of 10, in double precision: only the order of sums differs."""
    problem, start = small_problem(alpha)
    plan = TrainingPlan(SOLVERS["prox_adam"], SCHEDULES["cosine"], 0.02, 16, 15, 1000, 1e-4)
    with joined_processes() as processes:
        outcome = run(replace(problem, processes=processes), start, plan, Context(Streams(0)))
    found = outcome.parameters
    return np.concatenate([found.theta.numpy().ravel(), found.intercept.numpy(), found.active])


def fitted(frame=None, y="y", alpha=0.02, random_state=0, max_seconds=None, **network):
    settings = {"hidden": (8,), "max_epochs": 6, "batch_size": 32, **network}
    model = SNAMRegressor(alpha=alpha, network=Network(**settings), random_state=random_state, max_seconds=max_seconds)
    return numbers_of(model.fit(table() if frame is None else frame, y))


def refused(**settings):
    """The sentence with which a fit is refused, as the codes of its letters."""
    try:
        fitted(**settings)
    except InputError as error:
        return np.frombuffer(str(error).encode(), dtype=np.uint8)
    return np.zeros(0, dtype=np.uint8)


def resumed(folder):
    """A fit that goes on from its checkpoint."""
    settings = {"checkpoint": str(folder / "fit.checkpoint"), "batch_size": None}
    fitted(**settings, max_epochs=3)
    return fitted(**settings, max_epochs=6)


def results(folder):
    """What all trainings give; ``folder`` holds the table in Parquet."""
    place = int(os.environ.get("RANK", "0"))
    return {
        "double": in_double_precision(0.0),
        "double with penalty": in_double_precision(0.1),
        "all rows a step": fitted(batch_size=None),
        "resumed": resumed(folder),
        "mini-batches": fitted(validation_fraction=0.2, weight_decay=0.01, schedule="cosine"),
        "functions": fitted(penalize="function"),
        "dropout": fitted(dropout=0.2),
        "files": fitted(str(folder / "table.parquet")),
        "other rows": refused(frame=table(seed=place)),
        "other seeds": refused(random_state=place),
        "line search": refused(solver="fista", batch_size=256, tol=1.0),
        "time budget": refused(max_seconds=1000.0),
    }


if __name__ == "__main__":
    place = Path(sys.argv[1])
    np.savez(place / f"{os.environ['RANK']}.npz", **results(place))
