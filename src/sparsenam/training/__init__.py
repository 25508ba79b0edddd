"""Training: optimizers as pure functions, the loop as a generator."""

from sparsenam.training.fit import Outcome, Plan, measure_stationarity, run
from sparsenam.training.problem import Problem, Regularizers
from sparsenam.training.schedules import SCHEDULES, as_schedule
from sparsenam.training.solvers import SOLVERS, Solver, as_solver
from sparsenam.training.state import Diverged, Parameters
from sparsenam.training.stopping import Deadline

__all__ = [
    "SCHEDULES",
    "SOLVERS",
    "Deadline",
    "Diverged",
    "Outcome",
    "Parameters",
    "Plan",
    "Problem",
    "Regularizers",
    "Solver",
    "as_schedule",
    "as_solver",
    "measure_stationarity",
    "run",
]
