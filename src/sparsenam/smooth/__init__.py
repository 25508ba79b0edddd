"""Additive fits on given terms, with knots and smoothness chosen by restricted likelihood."""
