"""Networks: one sub-network for each term, stacked on axis 0. PyTorch is loaded where they are trained."""

from sparsenam.networks.bank import (
    ACTIVATION_NAMES,
    Dropout,
    Hidden,
    MLPBank,
    SubnetBank,
    build_bank,
    check_hidden,
    initial_parameters,
    outputs_of,
)

__all__ = [
    "ACTIVATION_NAMES",
    "Dropout",
    "Hidden",
    "MLPBank",
    "SubnetBank",
    "build_bank",
    "check_hidden",
    "initial_parameters",
    "outputs_of",
]
