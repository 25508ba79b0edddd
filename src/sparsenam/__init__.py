"""Sparse Neural Additive Models: one small network for each column, and whole columns switched off."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as in typing, which is not loaded: the command must hear Ctrl-C at once
if TYPE_CHECKING:
    from sparsenam.estimators import (
        FDRSelector,
        Network,
        RandomFeatureSNAMClassifier,
        RandomFeatureSNAMRegressor,
        SNAMClassifier,
        SNAMRegressor,
        SNAMSurvival,
        compare,
        load,
        random_feature_path,
        snam_path,
        survival_target,
    )
    from sparsenam.interop.out_of_core import predict_table
    from sparsenam.selection import FDR

    __version__: str
__all__ = [
    "FDR",
    "FDRSelector",
    "Network",
    "RandomFeatureSNAMClassifier",
    "RandomFeatureSNAMRegressor",
    "SNAMClassifier",
    "SNAMRegressor",
    "SNAMSurvival",
    "__version__",
    "compare",
    "load",
    "predict_table",
    "random_feature_path",
    "snam_path",
    "survival_target",
]


def __getattr__(name: str) -> object:
    """Load the estimators on first use."""
    if name == "__version__":
        return import_module("importlib.metadata").version("sparsenam")
    if name in __all__:
        package = {"FDR": "selection", "predict_table": "interop.out_of_core"}.get(name, "estimators")
        return getattr(import_module(f"sparsenam.{package}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
