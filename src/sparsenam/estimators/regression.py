"""Regression: the faces of models of numbers, counts, amounts and quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from sparsenam.errors import rows_named_by
from sparsenam.estimators.base import (
    AdditiveEstimator,
    FitData,
    RandomFeatureParameters,
    SNAMParameters,
    name_of,
    require_target,
)
from sparsenam.families import FAMILIES, CustomLoss, Family
from sparsenam.fit.all_rows import LargeTable
from sparsenam.fit.plan import FitInput
from sparsenam.fit.response import NumberResponse, check_exposure, check_target, check_weights, require_rates
from sparsenam.tables.blocks import MemoryBlocks
from sparsenam.tables.encoder import ColumnName
from sparsenam.uncertainty.intervals import predict_interval
from sparsenam.uncertainty.residuals import Scale
from sparsenam.uncertainty.results import PredictionIntervals

REGRESSION_FAMILIES = tuple(name for name, kind in FAMILIES.items() if kind.response in ("number", "count", "amount"))


def number_target(family: Family, y: NDArray[np.generic]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numbers in the range of a family as (rows, outputs), and factors of 1."""
    numbers = check_target(y)
    target = numbers.reshape(len(numbers), -1)
    family.range.check(target, f"the {family.name} family")
    return target, np.ones(len(target))


class AdditiveRegressor(RegressorMixin, AdditiveEstimator):
    """Fit and predict for numeric targets, one or several."""

    family: str | Family | CustomLoss = "gaussian"
    _instead: ClassVar = dict.fromkeys(("predict_set", "calibrated_proba"), "predict_interval(X), which is for numbers")

    def fit(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (rows, features)
            pandas, polars, pyarrow or numpy: numbers, categories, text, dates and missing cells. What was made of
            each column stands in ``encoder_``. Constant columns are left out, with a warning.
            Or a table that is not in memory: Parquet files, a folder of them or a pattern of their names, a dataset of
            pyarrow, a table of Dask or Spark. Of more than 200,000 rows a sample chooses, and all are fitted.
        y : array-like of shape (rows,) or (rows, outputs), or str
            Several columns are fitted together; a column of X is kept or dropped for all of them. A table that is not
            in memory holds its target: y is then the name of its column, and so are weights and exposure.
        sample_weight : array-like of shape (rows,) or str, optional
            Weight of each row; a row of weight 0 counts as absent.
        exposure : array-like of shape (rows,) or str, optional
            Time, area or number of units over which y was counted, for families with a logarithmic link: y has mean
            exposure · e^score. An offset o is the exposure e^o.
        groups : array-like of shape (rows,), optional
            Groups of rows for a splitter ``cv`` that needs them.
        """
        return self._fit_rows(FitData(X, y, sample_weight, exposure, groups))

    def _fit_rows(self, data: FitData) -> Self:
        plan = self._plan(self.family, REGRESSION_FAMILIES)
        require_target(self, data.y)
        if data.exposure is not None:
            require_rates(plan.family)
        given, read_target = data.sampled(plan), partial(number_target, plan.family)
        among = given.among
        if isinstance(given.blocks, MemoryBlocks):  # all at once, so that an error names the row of the table
            check_target(given.blocks.y)
        with rows_named_by(given.places):
            target = check_target(given.y)
            units = None if given.exposure is None else check_exposure(given.exposure, target)
            if given.places is not None:
                read_target(target)
            weights, outputs = check_weights(given.sample_weight, target), target.reshape(len(target), -1)
            encoder, sample = plan.read(given.X, given.y, outputs, weights, units, among)
        table = None if given.blocks is None else LargeTable(given.blocks, read_target)
        rows = FitInput(encoder, sample, name_of(data.y, encoder.names), data.groups, None, table)
        return self._fit_by(plan, rows, NumberResponse(target.ndim == 1), data)

    def predict(self, X: ArrayLike, exposure: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the expected y, or its quantile, shape (rows,) or (rows, outputs) as y was at fit.

        ``exposure`` (rows,) is 1 where it is not given.
        """
        fit = self._fitted()
        means = fit.model.family.mean(fit.scores(X))
        if exposure is not None:
            require_rates(fit.model.family)
            means = means * check_exposure(exposure, np.zeros(len(means)))[:, None]
        return means[:, 0] if isinstance(fit.response, NumberResponse) and fit.response.flat else means

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.9,
        scale: Scale = "auto",
        groups: ColumnName | None = None,
        exposure: ArrayLike | None = None,
    ) -> PredictionIntervals:
        """Return intervals that hold a new row's y with a probability of ``level``.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows to predict.
        level : float, default 0.9
            The probability.
        scale : {"auto", "constant", "x"}, default "auto"
            Whether the width depends on the row: where the data say so, never, or always, which raises where they do
            not. The width may depend on columns that the prediction does not use; where X lacks one of them, "auto" is
            "constant", with a warning, unless there are groups.
        groups : str or int, optional
            A column of 2 to 20 levels: the probability holds within each level on its own. Levels with too few rows get
            what all rows get, with a warning.
        exposure : array-like of shape (rows,), optional
            As for ``predict``.

        Returns
        -------
        PredictionIntervals
            ``lower`` and ``upper``, the method, and what it guarantees; ``np.asarray`` makes it (rows, 2).
        """
        return predict_interval(self._fitted(), X, level, scale, groups, exposure)

    def score(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> float:
        """Return R² of the predictions: 1 is perfect, 0 as good as the mean of y, on average over several outputs.

        ``exposure`` (rows,) is that over which y was counted, as for ``predict``.
        """
        return float(r2_score(y, self.predict(X, exposure), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMRegressor(SNAMParameters, AdditiveRegressor):
    """Sparse Neural Additive Model for regression: h(x) = β + Σⱼ hⱼ(xⱼ), whole columns switched off.

    With nothing set, a convex problem in random features chooses alpha and the columns by cross-validation, and the
    kept columns are fitted with smoothness chosen by the data. ``SNAMRegressor(alpha=0.1, network=Network())`` is the
    paper's model: the mean of ½(y - h(x))² over the rows plus α φ(‖Θ₁‖, …, ‖Θₚ‖), trained from random parameters.
    Columns and target have mean 0 and variance 1, so that ``alpha`` does not depend on units.

    Every parameter acts, or ``fit`` raises.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        The paper's λ. 0 is NAM, a large one keeps nothing; "auto" chooses by cross-validation over a warm-started
        convex path: every point is judged by smooth fits on what it keeps, all folds solved together.
    penalty : str or object, default "group_lasso"
        A name of `sparsenam.penalties.PENALTIES` or an object with ``value``, ``shrink`` and ``slope``. Weights in it
        are for the columns of the table.
    family : str or object, default "gaussian"
        Loss, link and range of y: "gaussian", "huber" (outliers), "quantile" (the median), "poisson",
        "negative_binomial" (counts), "gamma" (amounts above 0) or "tweedie" (amounts with zeros). Objects take
        parameters, such as `sparsenam.families.Quantile(level=0.9)`; a custom loss is any object with
        ``loss(scores, target)`` and ``gradient(scores, target)``, see `sparsenam.families.CustomLoss`.
    cv : int, scikit-learn splitter or pairs of row indices, default 5
        Number of folds, each of which sees the whole range of y; a splitter (groups, time series, …); or the
        folds themselves. Only for alpha="auto", as are ``rule``, ``n_alphas`` and ``max_features``.
    rule : {"compact", "one_se", "best"} or object, default "compact"
        Which point of the cross-validation curve to take: the smallest model whose loss cannot be told from the
        best one, at most 3 % of what that explains (`sparsenam.selection.Compact`, whose share can be set), the
        smallest within one standard error, or the best. `sparsenam.selection.FDR` keeps, instead of a point's
        columns, those that a test finds, with false discoveries under control.
    n_alphas : int, default 30
        Points of the path.
    max_features : int, optional
        Most columns to keep: the rule chooses among the points of the path with at most so many.
    refit : bool or "auto", default "auto"
        Whether the kept columns are fitted without the penalty, which takes its shrinkage away. "auto" does so when
        the convex problem chose them. Without a network, False keeps the penalised convex solution itself.
    network : Network, optional
        An architecture and how to train it; None is the smooth fit, which needs no such setting.
    shapes : mapping, optional
        What is asked of the effects of columns, by name or position: "increasing", "decreasing", "convex", "concave",
        such as "increasing+concave" too; "linear", one slope that goes on beyond the data; "steps", constant between
        jumps; "smooth", a curve, as without any shape. They hold exactly, for every output, and for the whole model:
        pairs rise or fall too, and columns of other shapes are in none. Only for the smooth fit; several classes share
        no direction.
    weights : {"relative", "counts"}, default "relative"
        What ``sample_weight`` says. "relative": how much a row matters beside the others, in any unit; the rows are as
        many as the table has. "counts": how many equal rows a row stands for; at a given alpha the fit is then that of
        the table with its rows repeated. Only for the smooth fit: all else is the same either way.
    feature_types : mapping, optional
        "number", "category", "ordered" or "date" for columns, by name, whose type in the table says something else.
    feature_groups : list of lists of columns, optional
        Columns that enter or leave together.
    penalty_weights : mapping, optional
        Factor of a column's penalty, such as the cost of its measurement.
    always_keep : list of columns, optional
        Columns that are never penalised, hence never dropped.
    pairs : int, "auto" or list of pairs of columns, default "auto"
        Joint effects of two columns beside their single ones: none with 0, at most so many, as many as held-out rows
        want, or those named. All pairs are tested on what the single effects leave, dropped columns included; those
        that pass are added one by one, the strongest first, as long as held-out rows gain by them and ``rule`` says.
    heredity : {"none", "weak", "strong"}, default "none"
        Whether a pair may be of any two columns, must hold a kept one, or two of them.
    max_seconds : float, optional
        Time budget; the fit ends with what it has. Reading the table is not in it, and the choice of columns gets at
        least as long as its preparation took. ``summary_.cut_short`` says what was ended early.
    n_jobs : int, optional
        Threads for tables of more than 200,000 rows, whose blocks are then worked on side by side; -1 for all cores,
        None is 1. All else has one thread, which is the fastest there. No bit of the result depends on it. Refused
        where all rows are one block: survival times and random-feature models.
    verbose : bool, optional
        Progress bar for fits of more than two seconds; by default only on a terminal.
    random_state : int, RandomState or None
        Seed; two fits with one seed are identical.

    Attributes
    ----------
    fit_ : Fit
        All that is known of the fit, as one value; every attribute below is read from it.
    model_ : AdditiveModel
        The fitted, pruned model.
    summary_ : TrainingSummary
        The training data in brief, and the course of the fit.
    alpha_ : float
        The alpha used.
    intercept_ : float or ndarray of shape (outputs,)
        β, with effects centred over the training rows.
    norms_ : ndarray of shape (features_in,)
        Group norm of every column; 0 where dropped.
    n_parameters_ : int
        Parameters of the kept curves or sub-networks, and the intercept.
    certificate_ : Certificate or None
        Duality gap of the convex choice, and how near each dropped column is to entering.
    cv_curve_ : CVCurve or None
        Held-out losses along the path when alpha is "auto".
    path_ : RegularizationPath or None
        The convex path, with entry order and a model at each point, when alpha is "auto".
    interactions_ : tuple of pairs of str
        The columns of each pair; `interaction_effects` has what they add.
    evidence_ : Evidence or None
        What held-out rows know of the choice: the share of the loss that it explains, how far it is behind all
        columns, the share of the folds that keep each kept column; None where alpha was given. Where the choice may
        be chance, ``fit`` says so in a `sparsenam.errors.ChoiceWarning`. None too where an `FDR` rule chose.
    fdr_ : Discoveries or None
        What an `FDR` rule found and how: the test and why, statistics, threshold, p-values.
    bands_ : Bands or None
        How uncertain each curve is, from which `effect_bands` reads; None where the model is no smooth fit.
    residuals_ : Residuals or None
        Errors of the rows, each left out in closed form, from which `predict_interval` reads; None where there is no
        closed form, until `calibrate` makes a copy that has them.
    substitutes_ : dict of dict
        For a kept column, the others that express at least 0.9 of its effect, with the share that they express: the
        model would be about as good with one of them instead.
    encoder_ : TableEncoder
        What was made of each column; printing it says so.
    stability_ : Stability or None
        How often half of the rows would choose each column; None until `stability` is called.
    edits_ : tuple of Edit
        The log of changes made after the fit, the first one first; empty until `edit` makes a copy to change.
    history_ : list of dict
        Loss, penalty, active terms and seconds after each epoch; only where a network was trained.
    stationarity_ : float or None
        Largest entry of the proximal gradient map where the training of a network ended; 0 at a stationary point.
    """

    family: str | Family | CustomLoss = "gaussian"


@dataclass(kw_only=True, eq=False, repr=False)
class RandomFeatureSNAMRegressor(RandomFeatureParameters, AdditiveRegressor):
    """Random-feature SNAM for regression, solved exactly (the paper's section 3.3).

    Hidden layers are frozen, and the output layers are the solution of a convex problem, with a certificate.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        Weight of the penalty, on columns and target of mean 0 and variance 1; "auto" by cross-validation.
    penalty : str or object, default "group_lasso"
        A convex penalty: "group_lasso", "adaptive", "elastic_net", "group_slope", "two_level_slope".
    features : {"ramps", "hinges", "random"}, default "ramps"
        Hidden units placed by the data, clipped ReLU ("ramps") or ReLU ("hinges") with kinks at quantile-like
        knots, or the last hidden layer of random sub-networks with ``hidden`` widths and ``activation``, as in the
        paper.
    norm : {"function", "parameters"}, default "function"
        Group norm: of the function over the training rows, ‖Gⱼθⱼ‖ₙ with a little roughness, or ‖θⱼ‖ (the paper).
    width : int, default 32
        Most ramps or hinges of a term.
    hidden, activation
        Of random sub-networks, as for `Network`; only for features="random".
    tol : float, default 1e-4
        Duality gap to reach, relative to the loss of the empty model.
    family, cv, rule, n_alphas, max_features, feature_types, feature_groups, penalty_weights, always_keep, \
max_seconds, n_jobs, verbose, random_state
        As for `SNAMRegressor`.

    Attributes
    ----------
    certificate_ : Certificate
        The gap reached and how near each dropped column is to entering.
    model_, alpha_, intercept_, norms_, n_parameters_, cv_curve_, path_, evidence_, substitutes_, encoder_
        As for `SNAMRegressor`.
    """

    family: str | Family | CustomLoss = "gaussian"
