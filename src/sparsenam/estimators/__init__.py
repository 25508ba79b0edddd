"""Estimators: scikit-learn faces of the rooms below."""

from sparsenam.estimators.classification import SNAMClassifier
from sparsenam.estimators.cross_validated import (
    RandomFeatureSNAMClassifierCV,
    RandomFeatureSNAMRegressorCV,
    SNAMClassifierCV,
    SNAMRegressorCV,
)
from sparsenam.estimators.fit_with import fit_with
from sparsenam.estimators.paths import random_feature_path, snam_path
from sparsenam.estimators.random_feature import RandomFeatureSNAMClassifier, RandomFeatureSNAMRegressor
from sparsenam.estimators.regression import SNAMRegressor
from sparsenam.estimators.survival import SNAMSurvival
from sparsenam.survival.target import survival_target

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
    "fit_with",
    "random_feature_path",
    "snam_path",
    "survival_target",
]
