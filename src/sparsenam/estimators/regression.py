"""Regression faces."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    check_array,
    check_consistent_length,
)

from sparsenam.errors import InputError, describe
from sparsenam.estimators.base import AdditiveEstimator, SupportMixin
from sparsenam.estimators.settings import Penalize
from sparsenam.estimators.validation import all_or_nothing, require_target
from sparsenam.families import CustomLoss, Family, as_family
from sparsenam.networks import Hidden
from sparsenam.penalties import Penalty
from sparsenam.tables import check_target_not_inside
from sparsenam.tables.groups import ColumnName, FeatureGroups, FeatureTypes, PenaltyWeights
from sparsenam.training.solvers import Schedule

REGRESSION_FAMILIES = ("gaussian", "poisson", "gamma", "tweedie", "negative_binomial", "quantile", "huber")


class AdditiveRegressor(RegressorMixin, AdditiveEstimator):
    """Fit and predict for numeric targets, one or several."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (rows, features)
            pandas, polars, pyarrow or numpy: numbers, categories, text, dates and missing cells. What was made of
            each column stands in ``table_``. Constant columns are left out, with a warning.
        y : array-like of shape (rows,) or (rows, outputs)
            Several columns are fitted together; a feature is kept or dropped for all of them.
        sample_weight : array-like of shape (rows,), optional
            Weight of each row; a row of weight 0 counts as absent.
        exposure : array-like of shape (rows,), optional
            Time, area or number of units over which y was counted, for families with a logarithmic link: y has mean
            exposure · e^score. An offset o is the exposure e^o.
        """
        return self._fit_checked(X, y, sample_weight, exposure=exposure)

    def _fit_checked(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        with all_or_nothing(self):
            family = as_family(getattr(self, "family", "gaussian"), REGRESSION_FAMILIES)
            y = require_target(self, y)
            columns = self._read(X)
            target = check_target(y)
            check_consistent_length(columns, target)
            check_target_not_inside(X, y)
            weights = _check_sample_weight(sample_weight, columns, dtype=np.float64, ensure_non_negative=True)
            self._flat_target = target.ndim == 1
            units = None if exposure is None else check_exposure(exposure, target)
            return self._fit(columns, target.reshape(len(target), -1), weights, family, groups, units)

    def predict(self, X: ArrayLike, exposure: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the expected y, or its quantile, shape (rows,) or (rows, outputs) as y was at fit.

        ``exposure`` (rows,) is 1 where it is not given.
        """
        scores = self._scores(X)
        means = self.model_.family.mean(scores)
        if exposure is not None:
            means = means * check_exposure(exposure, np.zeros(len(means)))[:, None]
        return means[:, 0] if self._flat_target else means

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        return tags


def check_exposure(exposure: ArrayLike, target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the exposure as finite numbers; one that is 0 must have counted nothing."""
    values = np.asarray(exposure, dtype=np.float64)
    if values.shape != (len(target),) or not np.isfinite(values).all() or (values < 0).any():
        expected = f"{len(target)} finite numbers of at least 0"
        got = f"shape {values.shape}" if values.shape != (len(target),) else "others"
        raise InputError(describe("exposure", expected, got, "correct them"))
    counted = target.reshape(len(target), -1).any(axis=1)
    if (counted & (values == 0)).any():
        row = int(np.flatnonzero(counted & (values == 0))[0])
        raise InputError(describe("exposure", "y = 0 where it is 0", f"another y in row {row}", "correct the row"))
    return values


def check_target(y: ArrayLike) -> NDArray[np.float64]:
    """Return a numeric target as finite float64 numbers."""
    target = check_array(y, ensure_2d=False, allow_nd=False, dtype=None, ensure_all_finite=False, input_name="y")
    try:
        numbers = target.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(describe("y", "numbers", f"{error}", "use SNAMClassifier for classes")) from error
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
        value = "NaN" if np.isnan(numbers[row]).any() else "infinity (inf)"
        raise InputError(describe("y", "finite numbers", f"{value} in row {row}", "drop these rows"))
    return numbers


class SNAMRegressor(SupportMixin, AdditiveRegressor):
    """Sparse Neural Additive Model for regression: h(x) = β + Σⱼ hⱼ(xⱼ), whole features switched off.

    With nothing set, a convex problem in random features chooses alpha and the features by cross-validation, the
    kept features are fitted with smoothness chosen by the data, and the network trains all parameters from there.
    With ``alpha`` and ``hidden`` given it is the paper's model: the mean of ½(y - h(x))² over the rows plus
    α φ(‖Θ₁‖, …, ‖Θₚ‖), trained from random parameters. Columns and target have mean 0 and variance 1, so that
    ``alpha`` does not depend on units.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        The paper's λ. 0 is NAM, a large one keeps nothing; "auto" chooses by five-fold cross-validation
        (`SNAMRegressorCV` has the details to set).
    penalty : str or object, default "group_lasso"
        A name of `sparsenam.penalties.PENALTIES` or an object with ``value``, ``shrink`` and ``slope``.
    penalize : {"subnetwork", "output", "function"}, default "subnetwork"
        What forms a group when a network is trained under the penalty: all parameters of a sub-network (the
        paper), its output layer, or the function itself, ‖hⱼ‖ₙ, the root mean square of the effect. The convex
        choice always uses the function.
    family : str or object, default "gaussian"
        Loss, link and range of y: "gaussian", "huber" (outliers), "quantile" (the median), "poisson",
        "negative_binomial" (counts), "gamma" (amounts above 0) or "tweedie" (amounts with zeros). Objects take
        parameters, such as `sparsenam.families.Quantile(level=0.9)`; a loss of one's own is any object with
        ``loss(scores, target)`` and ``gradient(scores, target)``, see `sparsenam.families.CustomLoss`.
    hidden : "auto", tuple, mapping or callable, default "auto"
        Hidden widths; ``()`` is a linear model; a mapping gives widths by feature name; a callable
        ``(names, outputs) -> SubnetBank`` brings sub-networks of one's own. "auto" is one layer of clipped ReLU
        units as wide as the data ask for, whose training needs none of the settings from ``activation`` to
        ``checkpoint`` but ``max_seconds``; with ``init="random"`` it is the paper's (100, 50).
    activation : {"relu", "clipped_relu", "exu", "gelu", "silu", "tanh"}, default "relu"
        Activation of the hidden layers.
    solver : str, default "auto"
        Proximal, with exact zeros: "prox_gd", "fista" (full batch), "prox_sgd" (with momentum), "prox_adam".
        Subgradient, with zeros by ``threshold``: "gd" (full batch), "sgd", "momentum", "adagrad", "adam".
        "auto" is "prox_adam", or "fista" without hidden layers.
    init : {"auto", "convex", "random"}, default "auto"
        Where training starts: at the convex solution, or at random as in the paper. "auto" is "convex" unless
        ``hidden`` asks for an architecture.
    refit : bool or "auto", default "auto"
        Whether the kept features are fitted without the penalty, which takes its shrinkage away. "auto" does so
        when the convex problem chose the features: on the synthetic regression it lowers the error from 8.6 to 1.0.
    learning_rate : float, optional
        Step size; by default the solver's own. Proximal full-batch solvers find theirs by backtracking.
    schedule : {"constant", "cosine", "exponential"} or callable, default "constant"
        Factor of the learning rate as a function of the share of epochs done.
    batch_size : int or None, default 256
        Rows a step; None takes all.
    max_epochs : int, optional
        Most passes over the rows; by default 100, or 10,000 iterations for proximal full-batch solvers.
    max_seconds : float, optional
        Time budget; the fit ends with what it has.
    tol : float, optional
        Relative fall of the objective that counts as progress (default 1e-4); for proximal full-batch solvers
        the stationarity to reach (default 1e-8).
    patience : int, default 10
        Epochs without progress before stopping.
    validation_fraction : float, default 0
        Share of the rows held out; the epoch with the lowest held-out loss wins.
    dropout, feature_dropout, output_penalty, weight_decay : float, default 0
        NAM's regularisers.
    threshold : float, default 0.01
        For subgradient solvers, which never reach zero: a feature is dropped when its mean absolute effect on
        the training rows is at most this, in standard deviations of y (scores for classification).
    standardize : bool, default True
        False keeps the raw scale of columns and target, as the paper does.
    checkpoint : path, optional
        File in which a long fit stores its state every few seconds; if it is there at the start, the fit goes
        on from it.
    device : str, default "auto"
        Where to train.
    feature_types : mapping, optional
        "number", "category", "ordered" or "date" for columns, by name, whose type in the table says something else.
    feature_groups : list of lists of columns, optional
        Columns that enter or leave together.
    penalty_weights : mapping, optional
        Factor of a column's penalty, such as the cost of its measurement.
    keep : list of columns, optional
        Columns that are never penalised, hence never dropped.
    verbose : bool, optional
        Progress bar for fits of more than two seconds; by default only on a terminal.
    random_state : int, RandomState or None
        Seed; two fits with one seed are identical.

    Attributes
    ----------
    model_ : AdditiveModel
        The fitted, pruned model.
    alpha_ : float
        The alpha used.
    intercept_ : float or ndarray of shape (outputs,)
        β, with effects centred over the training rows.
    norms_ : ndarray of shape (features_in,)
        Group norm of every feature; 0 where dropped.
    n_parameters_ : int
        Parameters of the kept sub-networks and the intercept.
    history_ : list of dict
        Loss, penalty, features and seconds after each epoch.
    stationarity_ : float or None
        Largest entry of the proximal gradient map where the training ended; 0 at a stationary point.
    certificate_ : Certificate or None
        Duality gap of the convex choice, and how near each dropped feature is to entering.
    woken_ : tuple of str
        Features that the convex choice dropped, but whose optimality condition the final residuals broke, so that
        they were taken in.
    cv_curve_ : CVCurve or None
        Held-out losses along the path when alpha is "auto".
    stand_ins_ : dict of dict
        For a kept column, the others that express at least 0.9 of its effect, with the share that they
        express: the model would be about as good with one of them instead.
    table_ : TableEncoder
        What was made of each column; printing it says so.
    """

    def __init__(
        self,
        *,
        alpha: float | Literal["auto"] = "auto",
        penalty: str | Penalty = "group_lasso",
        penalize: Penalize = "subnetwork",
        family: str | Family | CustomLoss = "gaussian",
        hidden: Hidden | Literal["auto"] = "auto",
        activation: str = "relu",
        solver: str = "auto",
        init: Literal["auto", "convex", "random"] = "auto",
        refit: bool | Literal["auto"] = "auto",
        learning_rate: float | None = None,
        schedule: str | Schedule = "constant",
        batch_size: int | None = 256,
        max_epochs: int | None = None,
        max_seconds: float | None = None,
        tol: float | None = None,
        patience: int = 10,
        validation_fraction: float = 0.0,
        dropout: float = 0.0,
        feature_dropout: float = 0.0,
        output_penalty: float = 0.0,
        weight_decay: float = 0.0,
        threshold: float = 0.01,
        standardize: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        device: str = "auto",
        feature_types: FeatureTypes | None = None,
        feature_groups: FeatureGroups | None = None,
        penalty_weights: PenaltyWeights | None = None,
        keep: Sequence[ColumnName] | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.penalty = penalty
        self.penalize = penalize
        self.family = family
        self.hidden = hidden
        self.activation = activation
        self.solver = solver
        self.init = init
        self.refit = refit
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.tol = tol
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.dropout = dropout
        self.feature_dropout = feature_dropout
        self.output_penalty = output_penalty
        self.weight_decay = weight_decay
        self.threshold = threshold
        self.standardize = standardize
        self.checkpoint = checkpoint
        self.device = device
        self.feature_types = feature_types
        self.feature_groups = feature_groups
        self.penalty_weights = penalty_weights
        self.keep = keep
        self.verbose = verbose
        self.random_state = random_state
