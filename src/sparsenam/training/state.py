"""Where a fit stands: parameters of the active features, and those of the dormant ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.training.problem import Problem, proximal_step
from sparsenam.training.solvers import Memory


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """θ of the active features, shape (active, size), and the intercept, shape (outputs,).

    ``everyone`` holds all features' parameters, shape (features, size), as they were when each fell dormant;
    a dormant feature's group is zero there.
    """

    theta: Tensor
    intercept: Tensor
    active: NDArray[np.intp]
    everyone: Tensor

    @classmethod
    def starting_from(cls, theta: Tensor, intercept: Tensor) -> Self:
        """Return a start with every feature active."""
        return cls(theta, intercept, np.arange(theta.shape[0]), theta.clone())

    def complete(self) -> Tensor:
        """Return the parameters of all features, shape (features, size)."""
        complete = self.everyone.clone()
        complete[torch.as_tensor(self.active)] = self.theta
        return complete


@dataclass(frozen=True, slots=True, eq=False)
class Epoch:
    """A report after one pass over the rows (one iteration of a full-batch solver)."""

    number: int
    loss: float
    penalty: float
    parameters: Parameters
    memories: tuple[Memory, Memory] = field(default_factory=lambda: (Memory(), Memory()))
    rate: float = 0.0
    stationarity: float | None = None
    validation: float | None = None
    seconds: float = 0.0
    whole: bool = True  # False when the time ran out within the epoch: such a state is no place to resume from

    @property
    def objective(self) -> float:
        """Smooth part and penalty."""
        return self.loss + self.penalty

    @property
    def n_active(self) -> int:
        """How many features are active."""
        return int(self.parameters.active.size)


class Diverged(Exception):  # noqa: N818 - carries numbers to where the feature's name is known
    """Training left the finite numbers at this epoch, rate and (place of a) feature."""

    def __init__(self, epoch: int, rate: float, feature: int | None) -> None:
        super().__init__(f"epoch {epoch}, rate {rate:g}, feature {feature}")
        self.epoch, self.rate, self.feature = epoch, rate, feature


def require_finite(problem: Problem, loss: float, theta: Tensor, epoch: int, rate: float) -> None:
    """Raise `Diverged` when the loss or the norm of θ (or of its gradient) is not finite."""
    flat = theta.flatten()
    if np.isfinite(loss) and bool(torch.isfinite(flat.dot(flat))):
        return
    bad = ~torch.isfinite(theta.square().sum(1))
    feature = int(problem.features[int(bad.int().argmax())]) if bool(bad.any()) else None
    raise Diverged(epoch, rate, feature)


def silent(problem: Problem, parameters: Parameters) -> NDArray[np.bool_]:
    """Return which active features have a group of exactly zero, shape (active,)."""
    return ~parameters.theta[:, problem.group].any(dim=1).cpu().numpy()


def put_to_sleep(parameters: Parameters, asleep: NDArray[np.bool_]) -> Parameters:
    """Return the parameters with these active features dormant."""
    rows = torch.as_tensor(~asleep)
    return replace(
        parameters,
        theta=parameters.theta[rows],
        active=parameters.active[~asleep],
        everyone=parameters.complete(),
    )


def awaken(problem: Problem, parameters: Parameters, step: float) -> Parameters | None:
    """Return the parameters with those dormant features awake that a proximal step would move, or None.

    A dormant feature satisfies its optimality condition when a proximal step from zero stays at zero. A
    sub-network with hidden layers whose parameters are all zero has no gradient, so it never wakes.
    """
    complete = parameters.complete()
    if parameters.active.size == complete.shape[0]:
        return None
    smooth = problem.gradient(complete, parameters.intercept)
    moved = proximal_step(problem, complete - step * smooth.theta, step)
    wakes = moved[:, problem.group].any(dim=1).cpu().numpy()
    wakes[parameters.active] = True
    if wakes.sum() == parameters.active.size:
        return None
    active = np.flatnonzero(wakes)
    return replace(parameters, theta=complete[torch.as_tensor(active)], active=active)
