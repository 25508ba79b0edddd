"""Data sets of the paper, and a survival task like them."""

from sparsenam.datasets.california import load_california
from sparsenam.datasets.compas import load_compas, load_compas_recidivism
from sparsenam.datasets.dataset import Dataset
from sparsenam.datasets.superconductivity import load_superconductivity
from sparsenam.datasets.survival import make_survival
from sparsenam.datasets.synthetic import SyntheticTask, make_classification, make_regression, true_effects

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
