"""Families: what a prediction costs, and how scores become predictions."""

from __future__ import annotations

from collections.abc import Callable

from sparsenam.errors import InputError, describe
from sparsenam.families.base import Family, TargetRange
from sparsenam.families.binomial import Binomial, Multilabel
from sparsenam.families.gaussian import Gaussian
from sparsenam.families.intercept import best_intercept
from sparsenam.families.multinomial import Multinomial
from sparsenam.families.poisson import Poisson

FAMILIES: dict[str, Callable[[], Family]] = {
    "gaussian": Gaussian,
    "binomial": Binomial,
    "multinomial": Multinomial,
    "multilabel": Multilabel,
    "poisson": Poisson,
}


def as_family(family: str | Family, allowed: tuple[str, ...]) -> Family:
    """Return the family of a name among ``allowed``, or the object itself."""
    if not isinstance(family, str):
        return family
    if family not in allowed:
        raise InputError(
            describe("family", f"one of {sorted(allowed)}", repr(family), "choose a name or an object")
        )
    return FAMILIES[family]()


__all__ = [
    "FAMILIES",
    "Binomial",
    "Family",
    "Gaussian",
    "Multilabel",
    "Multinomial",
    "Poisson",
    "TargetRange",
    "as_family",
    "best_intercept",
]
