"""Networks: one sub-network for each term, stacked on axis 0. PyTorch is loaded where they are trained."""

from sparsenam.networks.bank import Dropout, Hidden, SubnetBank, build_bank, initial_parameters, outputs_of
from sparsenam.networks.mlp import ACTIVATION_NAMES, MLPBank

__all__ = [
    "ACTIVATION_NAMES",
    "Dropout",
    "Hidden",
    "MLPBank",
    "SubnetBank",
    "build_bank",
    "initial_parameters",
    "outputs_of",
]
