"""Estimators: scikit-learn faces of the rooms below."""

from sparsenam.estimators.classification import SNAMClassifier
from sparsenam.estimators.cross_validated import (
    RandomFeatureSNAMClassifierCV,
    RandomFeatureSNAMRegressorCV,
    SNAMClassifierCV,
    SNAMRegressorCV,
)
from sparsenam.estimators.paths import random_feature_path, snam_path
from sparsenam.estimators.random_feature import RandomFeatureSNAMClassifier, RandomFeatureSNAMRegressor
from sparsenam.estimators.regression import SNAMRegressor

__all__ = [
    "RandomFeatureSNAMClassifier",
    "RandomFeatureSNAMClassifierCV",
    "RandomFeatureSNAMRegressor",
    "RandomFeatureSNAMRegressorCV",
    "SNAMClassifier",
    "SNAMClassifierCV",
    "SNAMRegressor",
    "SNAMRegressorCV",
    "random_feature_path",
    "snam_path",
]
