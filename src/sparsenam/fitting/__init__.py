"""Fitting: problems of every kind of target, the strategies that fit them, and the plan of a fit."""

from sparsenam.fitting.problem import FamilyProblem, Fitted, family_problem

__all__ = ["FamilyProblem", "Fitted", "family_problem"]
