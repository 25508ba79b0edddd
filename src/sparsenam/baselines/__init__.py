"""Baselines: models of others to compare with."""

from sparsenam.baselines.nam import NAMClassifier, NAMRegressor
from sparsenam.baselines.spam import SPAMRegressor

__all__ = ["NAMClassifier", "NAMRegressor", "SPAMRegressor"]
