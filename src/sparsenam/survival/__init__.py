"""Survival: Cox's model of censored times, plugged into the pipeline."""

from sparsenam.survival.concordance import concordance
from sparsenam.survival.cox import TIES, Baseline, RiskSets, StepFunction, Ties
from sparsenam.survival.problem import CoxProblem, cox_problem
from sparsenam.survival.target import read_survival, survival_target

__all__ = [
    "TIES",
    "Baseline",
    "CoxProblem",
    "RiskSets",
    "StepFunction",
    "Ties",
    "concordance",
    "cox_problem",
    "read_survival",
    "survival_target",
]
