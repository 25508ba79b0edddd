"""The paper's synthetic tasks with their true effects, and a survival task like them."""

from sparsenam.datasets.synthetic import (
    SyntheticTask,
    make_classification,
    make_regression,
    make_survival,
    true_effects,
)

__all__ = ["SyntheticTask", "make_classification", "make_regression", "make_survival", "true_effects"]
