"""Sparse Neural Additive Models: one small network for each feature, and whole features switched off."""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsenam.estimators import (
        RandomFeatureSNAMClassifier,
        RandomFeatureSNAMClassifierCV,
        RandomFeatureSNAMRegressor,
        RandomFeatureSNAMRegressorCV,
        SNAMClassifier,
        SNAMClassifierCV,
        SNAMRegressor,
        SNAMRegressorCV,
        SNAMSurvival,
        random_feature_path,
        snam_path,
        survival_target,
    )

__version__ = version("sparsenam")
__all__ = [
    "RandomFeatureSNAMClassifier",
    "RandomFeatureSNAMClassifierCV",
    "RandomFeatureSNAMRegressor",
    "RandomFeatureSNAMRegressorCV",
    "SNAMClassifier",
    "SNAMClassifierCV",
    "SNAMRegressor",
    "SNAMRegressorCV",
    "SNAMSurvival",
    "__version__",
    "random_feature_path",
    "snam_path",
    "survival_target",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    """Load the estimators, and with them PyTorch, on first use."""
    if name in __all__:
        return getattr(import_module("sparsenam.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
