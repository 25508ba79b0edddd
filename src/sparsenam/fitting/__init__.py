"""Fitting: the one pipeline, from a table to a fitted model."""

from sparsenam.fit.pipeline import FitResult, Plan, fit, read
from sparsenam.fitting.problem import FamilyProblem, Fitted, family_problem

__all__ = ["FamilyProblem", "FitResult", "Fitted", "Plan", "family_problem", "fit", "read"]
