"""Data sets of the paper."""

from sparsenam.datasets.synthetic import SyntheticTask, make_classification, make_regression, true_effects

__all__ = ["SyntheticTask", "make_classification", "make_regression", "true_effects"]
