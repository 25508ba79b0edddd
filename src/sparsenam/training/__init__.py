"""Training: how networks are trained, as settings here; the loop and its optimizers, in PyTorch, load on first use."""

from sparsenam.training.network import History, Network, Regularizers, TrainingPlan
from sparsenam.training.solvers import SCHEDULES, SOLVERS

__all__ = ["SCHEDULES", "SOLVERS", "History", "Network", "Regularizers", "TrainingPlan"]
