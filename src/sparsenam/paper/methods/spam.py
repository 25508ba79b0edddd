"""Sparse additive models by backfitting (SPAM), for regression."""

from __future__ import annotations

from collections.abc import Mapping

from sparsenam.baselines import SPAMRegressor
from sparsenam.errors import InputError, describe
from sparsenam.paper.methods.fitted import FittedMethod, as_arguments, places
from sparsenam.paper.tasks import Split


def fit_spam(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit SPAM, its penalty chosen by the estimator."""
    if split.kind != "regression":
        raise InputError(describe("spam", "a regression", "a classification", "leave it out"))
    model = SPAMRegressor(**as_arguments({"random_state": seed, **settings})).fit(split.train.X, split.train.y)
    return FittedMethod(
        predict=model.predict,
        effects=model.effects,
        support=places(model.get_support()),
        n_parameters=None,
        chosen={"alpha": float(model.alpha_)},
    )
