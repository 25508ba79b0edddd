"""Data sets of the paper, and a survival task like them."""

from sparsenam.datasets.published import (
    Dataset,
    load_california,
    load_compas,
    load_compas_recidivism,
    load_superconductivity,
)
from sparsenam.datasets.synthetic import (
    SyntheticTask,
    make_classification,
    make_regression,
    make_survival,
    true_effects,
)

__all__ = [
    "Dataset",
    "SyntheticTask",
    "load_california",
    "load_compas",
    "load_compas_recidivism",
    "load_superconductivity",
    "make_classification",
    "make_regression",
    "make_survival",
    "true_effects",
]
