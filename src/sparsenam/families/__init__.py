"""Families: what a prediction costs, and how scores become predictions."""

from sparsenam.families.base import (
    FAMILIES,
    Dispersion,
    Family,
    Response,
    TargetRange,
    as_family,
    best_intercept,
    dispersion,
    numeric_conjugate,
    robust_center_and_scale,
)
from sparsenam.families.classes import Binomial, Multilabel, Multinomial
from sparsenam.families.custom import CustomFamily, CustomLoss, custom_family
from sparsenam.families.positive import Gamma, NegativeBinomial, Poisson, Tweedie, estimated_overdispersion
from sparsenam.families.real import Gaussian, Huber, Quantile

__all__ = [
    "FAMILIES",
    "Binomial",
    "CustomFamily",
    "CustomLoss",
    "Dispersion",
    "Family",
    "Gamma",
    "Gaussian",
    "Huber",
    "Multilabel",
    "Multinomial",
    "NegativeBinomial",
    "Poisson",
    "Quantile",
    "Response",
    "TargetRange",
    "Tweedie",
    "as_family",
    "best_intercept",
    "custom_family",
    "dispersion",
    "estimated_overdispersion",
    "numeric_conjugate",
    "robust_center_and_scale",
]
