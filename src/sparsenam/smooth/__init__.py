"""Additive fits on given terms, with knots and smoothness chosen by restricted likelihood."""

from sparsenam.smooth.engine import SmoothFit
from sparsenam.smooth.fit import smooth_fit

__all__ = ["SmoothFit", "smooth_fit"]
