"""Fit: one value that holds a fitted model and how it came about, and what can be read from it."""

from sparsenam.fit.response import ClassResponse, NumberResponse, Response, SurvivalResponse
from sparsenam.fit.value import Fit

__all__ = ["ClassResponse", "Fit", "NumberResponse", "Response", "SurvivalResponse"]
