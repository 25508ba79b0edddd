"""Survival: the likelihood of Cox's model, its baseline hazard, and targets of censored times."""

from sparsenam.survival.concordance import concordance
from sparsenam.survival.cox import TIES, Baseline, RiskSets, StepFunction, Ties
from sparsenam.survival.target import read_survival, survival_target

__all__ = [
    "TIES",
    "Baseline",
    "RiskSets",
    "StepFunction",
    "Ties",
    "concordance",
    "read_survival",
    "survival_target",
]
