"""Additive fits on given terms, with knots and smoothness chosen by restricted likelihood."""

from sparsenam.smooth.fit import SmoothFit, smooth_fit

__all__ = ["SmoothFit", "smooth_fit"]
