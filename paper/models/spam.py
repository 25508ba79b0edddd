"""Sparse additive models (Ravikumar et al., 2009): backfitting with a soft threshold on each smoothed function."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from paper.models.backfitting import (
    Limits,
    alpha_max,
    backfit,
    centred,
    empty_state,
    fold_shares,
    validated_path,
)
from paper.models.smoothers import FixedSmoother, Smoother, SplineCurve, chosen_degrees, equal_degrees
from sparsenam.context import Streams
from sparsenam.errors import InputError, check_number, check_whole, describe
from sparsenam.estimators.base import require_target
from sparsenam.fit.response import check_target
from sparsenam.selection.curve import CrossValidator, CVCurve, Rule, RuleName, Splits, as_rule, splits_of
from sparsenam.tables.sample import PreparedSample, Sample, mean_and_deviation, prepare

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Generator[None]:
    """Undo every change to the estimator when the block fails, so that a failed fit leaves nothing behind."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


class SPAMRegressor(SelectorMixin, RegressorMixin, BaseEstimator):
    """Sparse additive model by backfitting: fⱼ ← [1 - α/sⱼ]₊ Sⱼ(y - β - Σₖ≠ⱼ fₖ) until nothing changes.

    Sⱼ is a penalised cubic spline of column j with 80 inner knots, a fixed linear operator during a fit, and sⱼ the
    root mean square of what it returns. Memory is about 50 bytes a cell of X and 60 kB a feature, six times
    that while alpha is chosen by five folds. Beyond the values seen, a curve runs on as a straight line for a tenth
    of their range and is constant from there; far outliers (further from the middle 99 % of the rows than half its
    width) count as out of range too.

    Parameters
    ----------
    alpha : float or "auto", default "auto"
        λ of the soft threshold, in standard deviations of y. 0 is classical backfitting; "auto" chooses by
        cross-validation along a path.
    degrees : float or "auto", default "auto"
        Degrees of freedom of every smoother, the constant not counted: 1 is a straight line, and a column of few
        distinct values has no more than these less one. "auto" chooses for each feature by generalised
        cross-validation, before the fit and within every fold.
    refit : bool, default False
        Whether the kept features are fitted once more without the threshold, which takes its shrinkage away.
        False is the published algorithm.
    tol : float, default 1e-4
        Change of the effects in a sweep, relative to the effects, at which the fit ends.
    max_sweeps : int, default 1000
        Most sweeps of a backfitting; reaching it is a ``ConvergenceWarning``.
    n_alphas : int, default 30
        Points of the path, from the smallest alpha that keeps nothing down to a thousandth of it.
    cv : int or cross-validator, default 5
        Folds.
    rule : {"one_se", "best"}, default "one_se"
        How the cross-validation curve of the fits without threshold decides on the features. Of the alphas
        that keep these, the one with the lowest held-out loss under the threshold is taken.
    verbose : bool, optional
        Progress bars for what lasts more than two seconds; by default only on a terminal.
    random_state : int, RandomState or None
        Seed of the folds.

    Attributes
    ----------
    alpha_ : float
        The alpha used.
    alpha_max_ : float
        The smallest alpha that keeps nothing.
    intercept_ : float
        Mean of y; the effects are centred over the training rows.
    norms_ : ndarray of shape (features_in,)
        Root mean square of each effect over the training rows, in standard deviations of y; 0 where dropped.
    degrees_ : ndarray of shape (features_in,)
        Degrees of freedom of each smoother; 0 for constant columns.
    n_sweeps_ : int
        Sweeps of the last backfitting.
    cv_curve_ : CVCurve or None
        Held-out losses of the fits without threshold when alpha is "auto".
    """

    alpha_: float
    alpha_max_: float
    intercept_: float
    norms_: Vector
    degrees_: Vector
    n_sweeps_: int
    cv_curve_: CVCurve | None
    _shapes: tuple[_Shape, ...]

    def __init__(
        self,
        alpha: float | Literal["auto"] = "auto",
        *,
        degrees: float | Literal["auto"] = "auto",
        refit: bool = False,
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        n_alphas: int = 30,
        cv: CrossValidator = 5,
        rule: RuleName | Rule = "one_se",
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.alpha = alpha
        self.degrees = degrees
        self.refit = refit
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.n_alphas = n_alphas
        self.cv = cv
        self.rule: RuleName | Rule = rule
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (rows, features)
            Finite numbers. Constant columns are left out, with a warning.
        y : array-like of shape (rows,)
            Finite numbers.
        """
        with all_or_nothing(self):
            self._check_settings()
            y = require_target(self, y)
            columns = check_numbers(self, X, reset=True)
            target = column_or_1d(check_target(y), warn=True)
            check_consistent_length(columns, target)
            names = column_names(self, columns.shape[1])
            sample = prepare(
                Sample(columns, target[:, None], np.ones(target.size), names),
                standardize=True,
                measure_target=mean_and_deviation,
            )
            for name, value in self._solve(sample).items():
                setattr(self, name, value)
        return self

    def effects(self, X: ArrayLike) -> Matrix:
        """Return each feature's centred share of the prediction, 0 for dropped features, shape (rows, features)."""
        check_is_fitted(self)
        columns = check_numbers(self, X, reset=False)
        effects = np.zeros(columns.shape)
        for shape in self._shapes:
            effects[:, shape.feature] = shape(columns[:, shape.feature])
        return effects

    def predict(self, X: ArrayLike) -> Vector:
        """Return the expected y, shape (rows,)."""
        effects = self.effects(X)
        return self.intercept_ + effects.sum(axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_shapes")

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.norms_ > 0

    def _check_settings(self) -> None:
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0.0)
        if self.degrees != "auto":
            check_number("degrees", self.degrees, 1.0)
        check_number("tol", self.tol, 0.0, open_below=True)
        check_whole("max_sweeps", self.max_sweeps)
        check_whole("n_alphas", self.n_alphas)
        as_rule(self.rule)
        if self.refit not in (True, False):
            raise InputError(describe("refit", "True or False", repr(self.refit), "choose one"))

    def _solve(self, sample: PreparedSample) -> dict[str, object]:
        """Return the fitted attributes."""
        target = sample.target[:, 0]
        splits: Splits = self._splits(sample) if self.alpha == "auto" else []
        shares = fold_shares(target.size, splits)
        fixed = self._smoothers(sample.x, centred(target, shares), shares)
        curve, alpha = None, 0.0 if self.alpha == "auto" else float(self.alpha)
        if self.alpha == "auto" and fixed:
            path = validated_path(
                fixed,
                sample.x,
                target,
                splits,
                n_alphas=self.n_alphas,
                max_sweeps=self.max_sweeps,
                verbose=self.verbose,
            )
            curve, alpha = path.relaxed, path.choose(self.rule)
            self._warn(path.n_stopped == 0, f"{path.n_stopped} backfittings of the path")
        fixed = [each.of_first_batch() for each in fixed]
        return {
            "alpha_": alpha,
            "cv_curve_": curve,
            "intercept_": float(sample.target_scaling.center[0]),
            **self._finish(fixed, sample, alpha),
        }

    def _smoothers(self, columns: Matrix, target: Matrix, shares: Matrix) -> list[FixedSmoother]:
        smoothers = [Smoother.of(column, shares) for column in columns]
        if self.degrees == "auto":
            return chosen_degrees(smoothers, target)
        return equal_degrees(smoothers, float(self.degrees))

    def _finish(self, fixed: list[FixedSmoother], sample: PreparedSample, alpha: float) -> dict[str, object]:
        """Backfit on all rows at the alpha chosen."""
        target = centred(sample.target[:, 0], np.full((sample.target.shape[0], 1), 1 / sample.target.shape[0]))
        state = empty_state(fixed, target)
        limits = Limits(self.tol, self.max_sweeps, self.verbose)
        ended = backfit(fixed, state, alpha, limits)
        self._warn(ended.is_converged, f"the backfitting with relative change {ended.change:.2g}")
        if self.refit:
            ended = backfit(fixed, ended.state, np.where(ended.state.norms > 0, 0.0, np.inf), limits)
            self._warn(ended.is_converged, f"the refit with relative change {ended.change:.2g}")
        norms, degrees = np.zeros(sample.n_terms), np.zeros(sample.n_terms)
        norms[sample.terms] = ended.state.norms[:, 0]
        degrees[sample.terms] = [each.degrees[0] for each in fixed]
        scale = float(sample.target_scaling.scale[0])
        shapes = [
            _Shape(int(feature), center, width, smoother.smoother.curve(effect[0]), scale)
            for feature, center, width, smoother, effect in zip(
                sample.terms,
                sample.scaling.center,
                sample.scaling.scale,
                fixed,
                ended.state.coordinates,
                strict=True,
            )
            if effect.any()
        ]
        return {
            "alpha_max_": alpha_max(fixed, target),
            "norms_": norms,
            "degrees_": degrees,
            "n_sweeps_": ended.n_sweeps,
            "_shapes": tuple(shapes),
        }

    def _splits(self, sample: PreparedSample) -> Splits:
        every = np.ones(sample.target.shape[0], dtype=bool)
        generator = Streams.from_random_state(self.random_state).generator("folds")
        return splits_of(self.cv, sample.target, every, None, generator, sample.target[:, 0])

    def _warn(self, is_converged: bool, what: str) -> None:
        if not is_converged:
            message = (
                f"SPAMRegressor: {what} stopped at max_sweeps={self.max_sweeps} "
                f"before tol={self.tol:g} was reached; raise max_sweeps or tol."
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=5)


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """One kept feature: a curve of its scaled column, in units of y."""

    feature: int
    center: float
    width: float
    curve: SplineCurve
    scale: float

    def __call__(self, column: Vector) -> Vector:
        return self.scale * self.curve((column - self.center) / self.width)


def check_numbers(estimator: BaseEstimator, X: ArrayLike, *, reset: bool) -> Matrix:
    """Return X as a finite float64 matrix, for estimators of numbers alone; ``reset`` records width and names."""
    try:
        columns: Matrix = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
    except ValueError as error:
        found = _text_column(X) if "could not convert" in str(error) else None
        if found is None:
            raise
        name, text = found
        message = describe(f"column {name!r}", "numbers", f"the text {text!r}", "encode it as numbers first")
        raise InputError(message) from error
    bad = ~np.isfinite(columns)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        value = "NaN" if np.isnan(columns[row, column]) else "infinity (inf)"
        got = f"{value} in row {row} ({int(bad.sum())} such cells in X)"
        name = column_names(estimator, columns.shape[1])[column]
        raise InputError(describe(f"column {name!r}", "finite numbers", got, "fill or drop these cells"))
    return columns


def column_names(estimator: BaseEstimator, n_columns: int) -> list[str]:
    """Return the table's column names, or x0, x1, … for an array."""
    named = getattr(estimator, "feature_names_in_", None)
    return [f"x{index}" for index in range(n_columns)] if named is None else [str(name) for name in named]


def _text_column(X: Any) -> tuple[object, object] | None:
    columns = [(name, X[name]) for name in X.columns] if hasattr(X, "columns") else enumerate(np.asarray(X).T)
    for name, column in columns:
        for value in np.asarray(column, dtype=object).ravel():
            try:
                float(value)
            except (TypeError, ValueError):
                return name, value
    return None
