"""The solvers by name: an update rule, a way to meet the penalty, and how many rows a step sees."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparsenam.errors import InputError, describe
from sparsenam.penalties import Penalty, WeightedLasso
from sparsenam.training.rules import Adagrad, Adam, GradientDescent, Momentum, Rule


@dataclass(frozen=True, slots=True)
class Solver:
    """How a fit moves.

    Proximal solvers reach exact zeros. Subgradient ones never do: their support is decided by a stated
    threshold. Full-batch solvers run in double precision to a tolerance; proximal full-batch solvers find
    their step by backtracking.
    """

    name: str
    rule: Rule
    proximal: bool
    full_batch: bool = False
    accelerated: bool = False
    learning_rate: float = 0.01

    @property
    def searches_step(self) -> bool:
        """Whether the step is found by backtracking."""
        return self.proximal and self.full_batch

    def suited_to(self, penalty: Penalty) -> Solver:
        """Return the solver with one second moment a group where an entry's own metric has no exact step."""
        if self.proximal and isinstance(self.rule, Adam) and not isinstance(penalty, WeightedLasso):
            return replace(self, rule=replace(self.rule, by_row=True))
        return self


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Solver("gd", GradientDescent(), proximal=False, full_batch=True, learning_rate=0.1),
        Solver("sgd", GradientDescent(), proximal=False, learning_rate=0.1),
        Solver("momentum", Momentum(), proximal=False, learning_rate=0.1),
        Solver("adagrad", Adagrad(), proximal=False),
        Solver("adam", Adam(), proximal=False, learning_rate=0.005),
        Solver("prox_gd", GradientDescent(), proximal=True, full_batch=True),
        Solver("fista", GradientDescent(), proximal=True, full_batch=True, accelerated=True),
        Solver("prox_sgd", Momentum(), proximal=True, learning_rate=0.1),
        Solver("prox_adam", Adam(), proximal=True, learning_rate=0.005),
    )
}


def as_solver(name: str) -> Solver:
    """Return the solver of a name."""
    if name not in SOLVERS:
        raise InputError(describe("solver", f"one of {sorted(SOLVERS)}", repr(name), "choose a name"))
    return SOLVERS[name]
