"""Training: how networks are trained, as settings here; the loop and its optimizers, in PyTorch, load on first use."""

from sparsenam.training.network import History, Network, Regularizers, TrainingPlan
from sparsenam.training.solvers import SCHEDULES, SOLVERS, Solver, as_schedule, as_solver

__all__ = [
    "SCHEDULES",
    "SOLVERS",
    "History",
    "Network",
    "Regularizers",
    "Solver",
    "TrainingPlan",
    "as_schedule",
    "as_solver",
]
