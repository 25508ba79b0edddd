"""Networks: one sub-network for each term, stacked on axis 0."""

from sparsenam.networks.bank import Dropout, SubnetBank, UnitFunctions
from sparsenam.networks.build import Hidden, build_bank, initial_parameters
from sparsenam.networks.mlp import ACTIVATION_NAMES, ACTIVATIONS, MLPBank

__all__ = [
    "ACTIVATIONS",
    "ACTIVATION_NAMES",
    "Dropout",
    "Hidden",
    "MLPBank",
    "SubnetBank",
    "UnitFunctions",
    "build_bank",
    "initial_parameters",
]
