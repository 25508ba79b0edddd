"""The methods of the tables: each takes a split, settings and a seed, and hands over a `FittedMethod`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from sparsenam.paper.methods.fitted import FittedMethod
from sparsenam.paper.recipe import check_known
from sparsenam.paper.tasks import Split

FitMethod = Callable[[Split, Mapping[str, object], int], FittedMethod]

# by module, so that one method's missing package is no other method's trouble
KINDS: dict[str, tuple[str, str]] = {
    "snam": ("networks", "fit_snam"),
    "paper-snam": ("networks", "fit_paper_snam"),
    "random-feature": ("networks", "fit_random_features"),
    "nam": ("networks", "fit_nam"),
    "spam": ("spam", "fit_spam"),
    "lasso": ("linear", "fit_lasso"),
    "l1-logistic": ("linear", "fit_logistic"),
    "l1-svm": ("support_vectors", "fit_support_vectors"),
    "ebm": ("boosting", "fit_boosting"),
}


def method_of(kind: str) -> FitMethod:
    """Return the function that fits a kind of method."""
    check_known([kind], list(KINDS), "kind of a method")
    module, function = KINDS[kind]
    return getattr(import_module(f"sparsenam.paper.methods.{module}"), function)


__all__ = ["KINDS", "FitMethod", "FittedMethod", "method_of"]
