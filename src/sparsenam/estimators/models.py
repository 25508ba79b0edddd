"""Functions of fitted estimators that are no methods: comparing two, and reading one from a file."""

from __future__ import annotations

from os import PathLike
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sparsenam.audit import compare as comparing
from sparsenam.audit.compare import Comparison
from sparsenam.errors import InputError, describe
from sparsenam.estimators.base import AdditiveEstimator
from sparsenam.estimators.classification import RandomFeatureSNAMClassifier, SNAMClassifier
from sparsenam.estimators.regression import RandomFeatureSNAMRegressor, SNAMRegressor
from sparsenam.estimators.survival import SNAMSurvival
from sparsenam.export import load_fit
from sparsenam.export.model_file import refused
from sparsenam.text import Task

TASKS: dict[type[AdditiveEstimator], Task] = {
    SNAMRegressor: "regression",
    RandomFeatureSNAMRegressor: "regression",
    SNAMClassifier: "classification",
    RandomFeatureSNAMClassifier: "classification",
    SNAMSurvival: "survival",
}


def compare(
    model_a: AdditiveEstimator,
    model_b: AdditiveEstimator,
    X: ArrayLike,
    y: ArrayLike | None = None,
    groups: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    exposure: ArrayLike | None = None,
) -> Comparison:
    """Return what changed from one fitted model to another: columns, curves, and predictions by subgroup.

    The models may be of different classes, and of tables with columns in another order or with other levels; they must
    predict the same thing. Differences are those of ``model_b`` less ``model_a``.

    Parameters
    ----------
    model_a, model_b : fitted estimators
        The earlier and the later model.
    X : table of shape (rows, features)
        Rows with the columns that either model keeps; others are used where ``groups`` names them.
    y : array-like of shape (rows,) or (rows, outputs), optional
        Their target; with it, the losses of both are compared row by row, by the loss of ``model_a``.
    groups : list of names, array-like of shape (rows,), mapping or table, optional
        What the rows are divided by, as for ``audit``; by default the columns that either model keeps.
    sample_weight, exposure : array-like of shape (rows,), optional
        As for ``fit``; an exposure only with y.

    Returns
    -------
    Comparison
        Printed, it is a summary; ``explanation.report(path, beside=[comparison])`` shows it in the report.
    """
    for model in (model_a, model_b):
        if not isinstance(model, AdditiveEstimator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(describe("compare", "fitted models of sparsenam", type(model).__name__, "give two models"))
        check_is_fitted(model)
    fits = (model_a.fit_, model_b.fit_)
    return comparing.compare(fits, X, y, groups, sample_weight=sample_weight, exposure=exposure)


def load(path: str | PathLike[str]) -> AdditiveEstimator:
    """Return the fitted estimator that its ``save`` wrote into a file; it predicts the same to the bit.

    A file holds data only, so that loading runs none of its content. What is not in it: ``path_``, the losses of
    single rows in ``cv_curve_``, and settings that are code.

    Raises
    ------
    sparsenam.export.ModelFileError
        When the file is damaged, changed or of an unknown version.
    """
    kinds = {kind.__name__: kind for kind in TASKS}
    fit = load_fit(path, {kind.__name__: task for kind, task in TASKS.items()})
    try:
        estimator = kinds[fit.estimator](**fit.settings)
    except TypeError as error:
        raise refused(path, f"a setting that cannot be ({str(error)[:80]})") from error
    estimator.fit_ = fit
    return estimator
