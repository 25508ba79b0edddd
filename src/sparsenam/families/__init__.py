"""Families: what a prediction costs, and how scores become predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sparsenam.errors import InputError, describe
from sparsenam.families.amounts import Gamma, Tweedie
from sparsenam.families.base import Dispersion, Family, TargetRange
from sparsenam.families.classes import Binomial, Multilabel, Multinomial
from sparsenam.families.counts import NegativeBinomial, Poisson, estimated_overdispersion
from sparsenam.families.custom import CustomFamily, CustomLoss, custom_family
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


# given by name, these estimate a parameter from a first fit
ESTIMATING: dict[str, Callable[[], Family]] = {
    "negative_binomial": lambda: NegativeBinomial(overdispersion="auto"),
    "huber": lambda: Huber(scale="auto"),
}


METHODS = ("loss", "gradient", "hessian_diagonal", "conjugate", "mean", "best_constant")
ATTRIBUTES = (*Family.__annotations__, "first_family", "estimated")


def as_family(family: str | Family | CustomLoss, allowed: tuple[str, ...], *, estimates: bool = True) -> Family:
    """Return the family of a name among ``allowed``, the object itself, or the family of a custom loss.

    ``estimates`` is False where there is no first fit to estimate a parameter from.
    """
    if not isinstance(family, str):
        if not all(callable(getattr(family, name, None)) for name in METHODS):
            return custom_family(family, tuple(FAMILIES))
        missing = [name for name in ATTRIBUTES if not hasattr(family, name)]
        if missing:
            where, got = f"family {type(family).__name__}", f"no {' and no '.join(missing)}"
            raise InputError(describe(where, "the attributes of a family", got, "inherit Family or declare them"))
        return cast(Family, family)
    if family not in allowed:
        remedy = "choose a name or an object"
        raise InputError(describe("family", f"one of {sorted(allowed)}", repr(family), remedy))
    return (ESTIMATING if estimates and family in ESTIMATING else FAMILIES)[family]()


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
