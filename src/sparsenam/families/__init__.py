"""Families: what a prediction costs, and how scores become predictions."""

from typing import Annotated, get_args

from sparsenam.codec import Via
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

Known = Binomial | Gamma | Gaussian | Huber | Multilabel | Multinomial | NegativeBinomial | Poisson | Quantile | Tweedie
StoredFamily = Annotated[Family, Via(Known)]  # in a file, by its class and the fields that it is made with
FAMILIES.update({kind.name: kind for kind in get_args(Known)})

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
