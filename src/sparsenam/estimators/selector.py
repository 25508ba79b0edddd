"""A scikit-learn selector that keeps columns with false discoveries under control."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenam.errors import InputError, check_word, describe
from sparsenam.estimators.attributes import kept_table
from sparsenam.estimators.base import AdditiveEstimator, RandomState, require_target
from sparsenam.estimators.classification import CLASSIFICATION_FAMILIES, SNAMClassifier
from sparsenam.estimators.regression import REGRESSION_FAMILIES, SNAMRegressor
from sparsenam.estimators.survival import SNAMSurvival
from sparsenam.explain import Discoveries
from sparsenam.selection import FDR
from sparsenam.selection.curve import Method


class FDRSelector(SelectorMixin, BaseEstimator):
    """Keep the columns of which, on average over tables, at most a share q has no effect given the others.

    Parameters
    ----------
    q : float, default 0.1
        The false discovery rate.
    method : {"auto", "knockoffs", "split"}, default "auto"
        The test, see `sparsenam.selection.FDR`; "auto" takes what can reach q.
    family : str, default "auto"
        Loss of the target: a name of `SNAMRegressor` or `SNAMClassifier`, or "cox" for censored times. "auto" takes
        classes for text, truth values and two values, "cox" for a structured y, and "gaussian" for other numbers.
    random_state : int, RandomState or None
        Seed; two fits with one seed are identical.

    Attributes
    ----------
    fdr_ : Discoveries
        What was found: the test and why it was taken, statistics, threshold and p-values. Printing it says so.
    estimator_ : SNAMRegressor, SNAMClassifier or SNAMSurvival
        The additive model of the kept columns.
    n_features_in_, feature_names_in_
        As for every estimator of scikit-learn.
    """

    _doc_link_module = "sparsenam"  # whose page scikit-learn's HTML view links to
    _doc_link_template = "https://sparsenam.readthedocs.io/en/stable/api/estimators.html#sparsenam.{estimator_name}"
    fdr_: Discoveries
    estimator_: AdditiveEstimator
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]

    def __init__(
        self, q: float = 0.1, *, method: Method = "auto", family: str = "auto", random_state: RandomState = None
    ) -> None:
        self.q = q
        self.method: Method = method
        self.family = family
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Test the columns of a table.

        Parameters
        ----------
        X : table of shape (rows, features)
            As for `SNAMRegressor`.
        y : array-like of shape (rows,) or (rows, outputs)
            The target.
        sample_weight : array-like of shape (rows,), optional
            Weight of each row; a row of weight 0 counts as absent.
        """
        values = np.asarray(require_target(self, y))
        # that there is one class or one row, the model says
        if values.dtype.kind in "iuf" and values.ndim and len(values) > 1 and np.ptp(values) == 0:
            got = f"{values.flat[0]} in all {len(values)} rows"
            raise InputError(describe("y", "a target that varies", got, "give other rows, or leave the test out"))
        model = self._model(y, FDR(self.q, self.method)).fit(X, y, sample_weight=sample_weight)
        assert model.fdr_ is not None
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        self.estimator_, self.fdr_ = model, model.fdr_
        return self

    def transform(self, X: Any) -> Any:
        """Return the kept columns of a table, as `SNAMRegressor.transform` does."""
        check_is_fitted(self)
        return kept_table(self, X, super().transform)

    def _model(self, y: ArrayLike, rule: FDR) -> AdditiveEstimator:
        """Return the unfitted model of the target."""
        check_word("family", self.family, ("auto", "cox", *CLASSIFICATION_FAMILIES, *REGRESSION_FAMILIES))
        family = _family_of(y) if self.family == "auto" else self.family
        seed = self.random_state
        if family == "cox":
            return SNAMSurvival(rule=rule, random_state=seed, verbose=False)
        if family in REGRESSION_FAMILIES:
            return SNAMRegressor(family=family, rule=rule, random_state=seed, verbose=False)
        return SNAMClassifier(family=family, rule=rule, random_state=seed, verbose=False)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        kept = set(self.fdr_.kept)
        return np.array([name in kept for name in self.estimator_.encoder_.names], dtype=np.bool_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags


def _family_of(y: ArrayLike) -> str:
    """Return the family that a target asks for; "auto" leaves it to the classifier."""
    values = np.asarray(y)
    if values.dtype.names is not None:
        return "cox"
    if values.dtype.kind not in "iuf" or np.unique(values).size == 2:
        return "auto"
    return "gaussian"
