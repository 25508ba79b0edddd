"""Training: optimizers as pure functions, the loop as a generator."""

from sparsenam.training.problem import Problem, Regularizers
from sparsenam.training.run import Deadline, Outcome, TrainingPlan, measure_stationarity, run
from sparsenam.training.solvers import SCHEDULES, SOLVERS, Solver, as_schedule, as_solver
from sparsenam.training.state import Diverged, Parameters

__all__ = [
    "SCHEDULES",
    "SOLVERS",
    "Deadline",
    "Diverged",
    "Outcome",
    "Parameters",
    "Problem",
    "Regularizers",
    "Solver",
    "TrainingPlan",
    "as_schedule",
    "as_solver",
    "measure_stationarity",
    "run",
]
