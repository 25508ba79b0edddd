"""The network methods: SNAM as this package, the paper and its notebook have it, random features, and NAM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from sparsenam.baselines import NAMClassifier, NAMRegressor
from sparsenam.estimators import (
    RandomFeatureSNAMClassifierCV,
    RandomFeatureSNAMRegressorCV,
    SNAMClassifier,
    SNAMRegressor,
)
from sparsenam.estimators.base import AdditiveEstimator, SupportMixin
from sparsenam.estimators.classification import AdditiveClassifier
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.paper.methods.fitted import ALL_KEPT, BY_THRESHOLD, EXACT_ZEROS, FittedMethod, as_arguments, places
from sparsenam.paper.methods.tuning import choose
from sparsenam.paper.tasks import Kind, Rows, Split

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def fit_snam(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit this package's SNAM with the given constructor words and nothing else."""
    make = SNAMRegressor if split.kind == "regression" else SNAMClassifier
    return additive_method(_estimator(make, settings, seed), split.train)


def fit_random_features(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit random-feature SNAM, alpha by cross-validation."""
    make = RandomFeatureSNAMRegressorCV if split.kind == "regression" else RandomFeatureSNAMClassifierCV
    return additive_method(_estimator(make, settings, seed), split.train)


def fit_nam(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit NAM; the learning rate is the one of ``learning_rates`` with the lowest loss on held-out rows."""
    make = NAMRegressor if split.kind == "regression" else NAMClassifier
    rest = {key: value for key, value in settings.items() if key != "learning_rates"}

    def fit(rate: float, rows: Rows) -> FittedMethod:
        return additive_method(_estimator(make, {**rest, "learning_rate": rate}, seed), rows)

    best = choose(_numbers(settings, "learning_rates"), fit, split.train, split.kind, seed)
    everything = tuple(range(len(split.names)))
    chosen = {"learning_rate": best}
    return replace(fit(best, split.train), support=everything, support_rule=ALL_KEPT, chosen=chosen)


def fit_paper_snam(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit the paper's model: Adam's subgradient steps from random parameters, on the raw scale of y.

    ``lambdas`` are the paper's λ; of several the one with the lowest loss on held-out rows is taken. ``columns``
    is "raw" or "standardised". The loss here is half the mean squared error, so that the paper's λ is alpha = λ/2
    for regression; for classification it is alpha = λ, with two outputs as in the paper.
    """
    rest = {key: value for key, value in settings.items() if key not in ("lambdas", "columns")}
    scaler = StandardScaler().fit(split.train.X)
    scaled = settings.get("columns", "raw") == "standardised"
    rows = Rows(scaler.transform(split.train.X), split.train.y) if scaled else split.train

    def fit(penalty: float, own: Rows) -> FittedMethod:
        fitted = additive_method(_paper_estimator(split.kind, penalty, rest, seed), own)
        return replace(fitted, support_rule=BY_THRESHOLD)

    best = choose(_numbers(settings, "lambdas"), fit, rows, split.kind, seed)
    fitted = fit(best, rows).having_chosen(**{"lambda": best})
    return fitted.after(scaler.transform) if scaled else fitted


def _paper_estimator(kind: Kind, penalty: float, settings: Mapping[str, object], seed: int) -> AdditiveEstimator:
    epochs = cast(int, settings["max_epochs"])
    words = {"solver": "adam", "standardize": False, "patience": epochs, **settings}
    if kind == "regression":
        return _estimator(SNAMRegressor, {**words, "alpha": penalty / 2}, seed)
    return _estimator(SNAMClassifier, {**words, "alpha": penalty, "family": "multinomial"}, seed)


def _estimator(make: type[AdditiveEstimator], settings: Mapping[str, object], seed: int) -> AdditiveEstimator:
    return make(**as_arguments({**settings, "verbose": False, "random_state": seed}))


def _numbers(settings: Mapping[str, object], key: str) -> list[float]:
    return [float(value) for value in cast("Sequence[float]", settings[key])]


def additive_method(estimator: AdditiveEstimator, rows: Rows) -> FittedMethod:
    """Fit an estimator of this package; two outputs for two classes count by their difference, the log odds."""
    if isinstance(estimator, AdditiveClassifier):
        model = estimator.fit(rows.X, rows.y)

        def predict(X: Matrix) -> Vector:
            return model.predict_proba(X)[:, 1]
    else:
        assert isinstance(estimator, AdditiveRegressor)
        model = estimator.fit(rows.X, rows.y)
        predict = model.predict

    def effects(X: Matrix) -> Matrix:
        shares = model.effects(X)
        return shares if shares.ndim == 2 else shares[:, :, 1] - shares[:, :, 0]

    everything = np.ones(rows.X.shape[1], dtype=bool)
    return FittedMethod(
        predict=predict,
        effects=effects,
        support=places(model.get_support() if isinstance(model, SupportMixin) else everything),
        n_parameters=model.n_parameters_,
        support_rule=EXACT_ZEROS,
        chosen={"alpha": float(model.alpha_)},
    )
