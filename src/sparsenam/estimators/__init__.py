"""Estimators: scikit-learn faces of the rooms below."""

from sparsenam.estimators.classification import SNAMClassifier
from sparsenam.estimators.regression import SNAMRegressor

__all__ = ["SNAMClassifier", "SNAMRegressor"]
