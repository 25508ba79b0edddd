"""Baselines: models of others to compare with."""

from sparsenam.baselines.nam import NAMClassifier, NAMRegressor

__all__ = ["NAMClassifier", "NAMRegressor"]
