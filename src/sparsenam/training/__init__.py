"""Training: optimizers as pure functions, the loop as a generator."""

from sparsenam.training.network import Network
from sparsenam.training.problem import Problem, Regularizers
from sparsenam.training.run import Outcome, TrainingPlan, measure_stationarity, run
from sparsenam.training.solvers import SCHEDULES, SOLVERS, Solver, as_schedule, as_solver
from sparsenam.training.state import Diverged, Parameters
from sparsenam.training.train import Objective, TrainedNetwork, train_network

__all__ = [
    "SCHEDULES",
    "SOLVERS",
    "Diverged",
    "Network",
    "Objective",
    "Outcome",
    "Parameters",
    "Problem",
    "Regularizers",
    "Solver",
    "TrainedNetwork",
    "TrainingPlan",
    "as_schedule",
    "as_solver",
    "measure_stationarity",
    "run",
    "train_network",
]
