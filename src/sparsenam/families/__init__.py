"""Families: what a prediction costs, and how scores become predictions."""

from __future__ import annotations

from collections.abc import Callable

from sparsenam.errors import InputError, describe
from sparsenam.families.base import Family, TargetRange
from sparsenam.families.binomial import Binomial, Multilabel
from sparsenam.families.checks import checked, completed
from sparsenam.families.completed import CompletedFamily, OwnLoss
from sparsenam.families.conjugate import numeric_conjugate
from sparsenam.families.dispersion import dispersion
from sparsenam.families.gamma import Gamma
from sparsenam.families.gaussian import Gaussian
from sparsenam.families.huber import Huber
from sparsenam.families.intercept import best_intercept
from sparsenam.families.multinomial import Multinomial
from sparsenam.families.negative_binomial import NegativeBinomial, estimated_dispersion
from sparsenam.families.optional import Settles, exposure_power, uses_robust_scale
from sparsenam.families.poisson import Poisson
from sparsenam.families.quantile import Quantile
from sparsenam.families.robust import robust_center_and_scale
from sparsenam.families.tweedie import Tweedie

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
