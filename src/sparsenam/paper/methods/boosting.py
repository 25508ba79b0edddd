"""Explainable boosting machines, main effects only; the package `interpret` is an extra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sparsenam.paper.methods.fitted import ALL_KEPT, FittedMethod
from sparsenam.paper.tasks import Split

if TYPE_CHECKING:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class MissingPackageError(ImportError):
    """A method needs a package that is not installed."""


def fit_boosting(split: Split, settings: Mapping[str, object], seed: int) -> FittedMethod:
    """Fit an EBM without interactions; its effects are its terms' contributions to y or the log odds."""
    try:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
    except ImportError as error:
        raise MissingPackageError('interpret is not installed; pip install "sparsenam[ebm]"') from error
    words = {"interactions": 0, "random_state": seed, **settings}
    names = list(split.names)
    if split.kind == "regression":
        regressor = ExplainableBoostingRegressor(feature_names=names, **words).fit(split.train.X, split.train.y)
        return _method(regressor, regressor.predict, len(names))
    classifier = ExplainableBoostingClassifier(feature_names=names, **words).fit(split.train.X, split.train.y)

    def chance(X: Matrix) -> Vector:
        return classifier.predict_proba(X)[:, 1]

    return _method(classifier, chance, len(names))


def _method(
    model: ExplainableBoostingRegressor | ExplainableBoostingClassifier,
    predict: Callable[[Matrix], Vector],
    n_features: int,
) -> FittedMethod:
    def effects(X: Matrix) -> Matrix:
        contributions = model.eval_terms(X)
        shares = np.zeros((X.shape[0], n_features))
        for place, (feature,) in enumerate(model.term_features_):
            shares[:, feature] = contributions[:, place]
        return shares

    return FittedMethod(
        predict=predict,
        effects=effects,
        support=tuple(range(n_features)),
        n_parameters=sum(int(np.size(scores)) for scores in model.term_scores_),
        support_rule=ALL_KEPT,
    )
