"""The paper's theorems as functions one can evaluate, as printed and as they can be proved."""

from sparsenam.theory.blocks import Blocks, centred, random_feature_blocks
from sparsenam.theory.descents import DescentTrace, proximal_descent, subgradient_descent
from sparsenam.theory.incoherence import Incoherence, mutual_incoherence
from sparsenam.theory.kkt import kkt_violation
from sparsenam.theory.problem import PaperSolution, lambda_max, objective, paper_path, solve_paper_problem
from sparsenam.theory.recovery import (
    RecoveryConditions,
    largest_dense_lambda,
    recovery_conditions,
    recovery_lambda,
)
from sparsenam.theory.slow_rate import overfits, slow_rate_bound, slow_rate_bound_any_noise

__all__ = [
    "Blocks",
    "DescentTrace",
    "Incoherence",
    "PaperSolution",
    "RecoveryConditions",
    "centred",
    "kkt_violation",
    "lambda_max",
    "largest_dense_lambda",
    "mutual_incoherence",
    "objective",
    "overfits",
    "paper_path",
    "proximal_descent",
    "random_feature_blocks",
    "recovery_conditions",
    "recovery_lambda",
    "slow_rate_bound",
    "slow_rate_bound_any_noise",
    "solve_paper_problem",
    "subgradient_descent",
]
