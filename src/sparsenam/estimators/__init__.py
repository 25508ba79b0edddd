"""Estimators: scikit-learn's face of the fits."""

from sparsenam.estimators.base import AdditiveEstimator, fit_with
from sparsenam.estimators.classification import RandomFeatureSNAMClassifier, SNAMClassifier
from sparsenam.estimators.models import compare, load
from sparsenam.estimators.paths import random_feature_path, snam_path
from sparsenam.estimators.regression import RandomFeatureSNAMRegressor, SNAMRegressor
from sparsenam.estimators.selector import FDRSelector
from sparsenam.estimators.survival import SNAMSurvival
from sparsenam.survival import survival_target
from sparsenam.training import Network

__all__ = [
    "AdditiveEstimator",
    "FDRSelector",
    "Network",
    "RandomFeatureSNAMClassifier",
    "RandomFeatureSNAMRegressor",
    "SNAMClassifier",
    "SNAMRegressor",
    "SNAMSurvival",
    "compare",
    "fit_with",
    "load",
    "random_feature_path",
    "snam_path",
    "survival_target",
]
