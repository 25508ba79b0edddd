"""Families: what a prediction costs, and how scores become predictions."""

from __future__ import annotations

from collections.abc import Callable

from sparsenam.errors import InputError, describe
from sparsenam.families.amounts import Gamma, Tweedie
from sparsenam.families.base import Family, Settles, TargetRange, exposure_power, uses_robust_scale
from sparsenam.families.classes import Binomial, Multilabel, Multinomial
from sparsenam.families.counts import NegativeBinomial, Poisson, estimated_dispersion
from sparsenam.families.custom import CompletedFamily, OwnLoss, checked, completed
from sparsenam.families.dispersion import dispersion
from sparsenam.families.numerics import best_intercept, numeric_conjugate, robust_center_and_scale
from sparsenam.families.real import Gaussian, Huber, Quantile

FAMILIES: dict[str, Callable[[], Family]] = {
    "gaussian": Gaussian,
    "binomial": Binomial,
    "multinomial": Multinomial,
    "multilabel": Multilabel,
    "poisson": Poisson,
    "gamma": Gamma,
    "tweedie": Tweedie,
    "negative_binomial": NegativeBinomial,
    "quantile": Quantile,
    "huber": Huber,
}


# under their names these learn a number of theirs from a first fit
LEARNING: dict[str, Callable[[], Family]] = {
    "negative_binomial": lambda: NegativeBinomial(dispersion="auto"),
    "huber": lambda: Huber(scale="auto"),
}


def as_family(family: str | Family | OwnLoss, allowed: tuple[str, ...], *, learns: bool = True) -> Family:
    """Return the family of a name among ``allowed``, the object itself, or an own loss completed to a family.

    ``learns`` is False where there is no first fit to learn from.
    """
    if not isinstance(family, str):
        return checked(family, tuple(FAMILIES))
    if family not in allowed:
        raise InputError(
            describe("family", f"one of {sorted(allowed)}", repr(family), "choose a name or an object")
        )
    return (LEARNING if learns and family in LEARNING else FAMILIES)[family]()


__all__ = [
    "FAMILIES",
    "Binomial",
    "CompletedFamily",
    "Family",
    "Gamma",
    "Gaussian",
    "Huber",
    "Multilabel",
    "Multinomial",
    "NegativeBinomial",
    "OwnLoss",
    "Poisson",
    "Quantile",
    "Settles",
    "TargetRange",
    "Tweedie",
    "as_family",
    "best_intercept",
    "completed",
    "dispersion",
    "estimated_dispersion",
    "exposure_power",
    "numeric_conjugate",
    "robust_center_and_scale",
    "uses_robust_scale",
]
