"""The paper's theorems as functions one can evaluate, as printed and as they can be proved."""

from paper.theory.consistency import (
    Identification,
    consistency_bound,
    exceedance,
    identification,
    least_exceedance,
)
from paper.theory.descents import DescentTrace, proximal_descent, subgradient_descent
from paper.theory.problem import (
    Blocks,
    PaperSolution,
    centred,
    kkt_violation,
    lambda_max,
    objective,
    paper_path,
    random_feature_blocks,
    solve_paper_problem,
)
from paper.theory.recovery import (
    Incoherence,
    RecoveryConditions,
    largest_dense_lambda,
    mutual_incoherence,
    recovery_conditions,
    recovery_lambda,
)
from paper.theory.slow_rate import overfits, slow_rate_bound, slow_rate_bound_any_noise

__all__ = [
    "Blocks",
    "DescentTrace",
    "Identification",
    "Incoherence",
    "PaperSolution",
    "RecoveryConditions",
    "centred",
    "consistency_bound",
    "exceedance",
    "identification",
    "kkt_violation",
    "lambda_max",
    "largest_dense_lambda",
    "least_exceedance",
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
