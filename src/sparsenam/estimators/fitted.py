"""What a fitted estimator offers: each method hands its fit to one function, and each attribute is read from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from sparsenam.audit.audit import Audit, audit
from sparsenam.discover.alternatives import Alternatives, find_alternatives
from sparsenam.discover.question import question_of
from sparsenam.discover.stability import Stability, measure_stability
from sparsenam.errors import InputError, check_whole, describe
from sparsenam.estimators.attributes import ELSEWHERE, FromFit, kept_table, known_history, names_in
from sparsenam.explain import Explanation, LocalExplanation, explain, explain_rows
from sparsenam.export import ModelFileError, save_fit
from sparsenam.export.exporting import export_difference, portable, write_export
from sparsenam.export.portable import PortableModel
from sparsenam.fit.editing import Editor, EditSession, NewCurves, edit_session, undone
from sparsenam.fit.pipeline import Fit
from sparsenam.model.editing import Direction, EditKind, Knots, Place
from sparsenam.tables.encoder import ColumnName
from sparsenam.uncertainty.effects import BandScale, EffectBands, effect_bands
from sparsenam.uncertainty.intervals import calibrate, uncertainty
from sparsenam.uncertainty.results import Uncertainty


class FittedModel(SelectorMixin, BaseEstimator):
    """An estimator whose fitted state is one value, ``fit_``."""

    _doc_link_module = "sparsenam"  # whose page scikit-learn's HTML view links to
    _doc_link_template = "https://sparsenam.readthedocs.io/en/stable/api/estimators.html#sparsenam.{estimator_name}"
    fit_: Fit
    _session: EditSession | None = None
    _instead: ClassVar[Mapping[str, str]] = {}  # what to use for attributes that there are not

    model_ = FromFit(lambda fit: fit.model)
    encoder_ = FromFit(lambda fit: fit.encoder)
    summary_ = FromFit(lambda fit: fit.summary)
    alpha_ = FromFit(lambda fit: fit.alpha)
    intercept_ = FromFit(lambda fit: fit.intercept)
    n_parameters_ = FromFit(lambda fit: fit.n_parameters)
    norms_ = FromFit(lambda fit: fit.norms)
    substitutes_ = FromFit(lambda fit: fit.substitutes)
    certificate_ = FromFit(lambda fit: fit.certificate)
    cv_curve_ = FromFit(lambda fit: fit.curve)
    path_ = FromFit(lambda fit: fit.path)
    evidence_ = FromFit(lambda fit: fit.evidence)
    interactions_ = FromFit(lambda fit: fit.interactions)
    fdr_ = FromFit(lambda fit: fit.discoveries)
    bands_ = FromFit(lambda fit: fit.bands)
    residuals_ = FromFit(lambda fit: fit.residuals)
    stability_ = FromFit(lambda fit: fit.stability)
    edits_ = FromFit(lambda fit: fit.edits)
    history_ = FromFit(known_history)
    stationarity_ = FromFit(lambda fit: fit.stationarity)
    n_features_in_ = FromFit(lambda fit: len(fit.encoder.columns))  # pyright: ignore[reportAssignmentType]
    feature_names_in_ = FromFit(names_in)  # pyright: ignore[reportAssignmentType]

    if not TYPE_CHECKING:  # types know what there is

        def __getattr__(self, name: str) -> NoReturn:
            message, known = f"{type(self).__name__!r} object has no attribute {name!r}", ELSEWHERE | self._instead
            message += f"; use {known[name]}" if name in known else ""
            raise AttributeError(message, name=name, obj=self)

    def effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return each column's centred share of the linear predictor, 0 for dropped columns.

        Returns
        -------
        ndarray of shape (rows, features_in) or, for several outputs, (rows, features_in, outputs)
            With ``intercept_`` and the `interaction_effects` of pairs, if there are any, they add up to the linear
            predictor: the prediction itself for regression, log odds for classification.
        """
        return self._fitted().effects(X)

    def interaction_effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return each pair's share of the linear predictor, in the order of ``interactions_``.

        Returns
        -------
        ndarray of shape (rows, pairs) or, for several outputs, (rows, pairs, outputs)
            With ``intercept_`` and `effects` they add up to the linear predictor. A pair holds what its columns do
            together beyond what either does alone: it has mean 0 along each of its axes, over the training rows
            shared among the nodes of its grid.
        """
        return self._fitted().pair_effects(X)

    def missing_effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the part of `effects` that is due to cells being missing or not, in the same shape.

        It is centred like every effect: what a missing cell adds beyond a present one is the difference.
        """
        return self._fitted().missing_effects(X)

    def explain(self, X: ArrayLike | None = None) -> Explanation:
        """Return what the model does with each column, as data for pictures, pages and files.

        Parameters
        ----------
        X : table of shape (rows, features), optional
            Rows whose densities and importances are shown; by default those of the training data.
        """
        return explain(self._fitted(), X)

    def explain_local(self, X: ArrayLike) -> LocalExplanation:
        """Return what each column adds to the score of each row of a table, in numbers and in words."""
        return explain_rows(self._fitted(), X)

    def effect_bands(
        self, X: ArrayLike, level: float = 0.95, simultaneous: bool = False, scale: BandScale = "link"
    ) -> EffectBands:
        """Return the effect of each column in each row, with limits about it.

        A limit is of the curve, not of y: see ``predict_interval`` for that. The bands take the fit's posterior, add
        what is not known of the smoothness, and hold for the range of the training data.

        Parameters
        ----------
        X : table of shape (rows, features)
        level : float
            The share of curves, in repetitions of the study, that lie within the limits.
        simultaneous : bool
            False for limits of single points, True for limits of whole curves: then a curve leaves them nowhere, at the
            given level. For pairs they are of single points in any case.
        scale : {"link", "response"}
            What a column adds to the score, or the prediction with all other columns at their average: a probability
            or a rate.

        Raises
        ------
        BandsRefusedError
            When no band would hold: with too few rows for what was fitted, and for models that are no smooth fit.
        """
        return effect_bands(self._fitted(), X, level, simultaneous, scale)

    def uncertainty(self) -> Uncertainty:
        """Return how far off predictions typically are, for printing and for the report.

        ``model.explain().report(path, beside=[model.uncertainty()])`` shows it as a section.
        """
        return uncertainty(self._fitted())

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ColumnName | None = None,
        cv: int | None = None,
    ) -> Self:
        """Return a copy of the fitted estimator that knows its errors from given rows; predictions stay the same.

        Parameters
        ----------
        X : table of shape (rows, features)
            New rows, which the fit has not seen; with ``cv`` the rows of the fit. All columns of the fit are needed,
            since errors may depend on those that the model dropped.
        y, sample_weight, exposure
            Of these rows, as for ``fit``.
        groups : str or int, optional
            A column of 2 to 20 levels by which intervals will be asked for. Columns with the fewest levels, 32 in all,
            are kept without being named.
        cv : int, optional
            Number of folds: the rows are those of the fit, and each fold is predicted by a refit on the others, which
            chooses its columns anew. It takes as many fits.

        Returns
        -------
        estimator
            Its intervals and sets hold with a probability of at least their level for rows drawn like the new ones,
            whatever the model; with ``cv`` the probability is at least 1 - 2 (1 - level) in theory, and about the level
            in practice.
        """
        return self._with(calibrate(self._fitted(), X, y, self._refit, sample_weight, exposure, groups, cv))

    def edit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        *,
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Return a copy of the fitted estimator that can be changed; this one stays as it is.

        The copy has the methods `set_shape`, `flatten`, `make_monotone`, `drop`, `merge_levels`, `shift_intercept`
        and `undo`. It predicts, explains, saves and loads like any other model; ``edits_`` is the log, the report shows
        it, and the model file holds it. The certificate, the losses held out and the folds remain those of the fit.

        Parameters
        ----------
        X : table of shape (rows, features), optional
            Rows on which the loss before and after each edit is measured, best ones that the fit has not seen.
        y, sample_weight, exposure : optional
            Of these rows, as for ``fit``.
        clock : callable, optional
            What tells the time of an edit; by default the clock of the computer, in universal time.
        """
        fit = self._fitted()
        session = edit_session(fit, X, y, sample_weight, exposure, clock)
        copy = self._with(fit)
        copy._session = session
        return copy

    def set_shape(
        self, column: ColumnName, knots: Knots, values: ArrayLike | None = None, *, reason: str, who: str | None = None
    ) -> Self:
        """Give a column another shape: straight lines through values at knots, flat beyond the ends.

        Parameters
        ----------
        column : str or int
            Name of the column; its position where the table had no names.
        knots : sequence or mapping
            Rising numbers or dates, or levels of a category; or a mapping from them to values. Levels that are not
            named keep their values.
        values : array-like of shape (knots,) or (knots, outputs), optional
            The effects there, as `effects` and `explain` give them; left out where ``knots`` is a mapping or pairs.
        reason : str
            Why, for the log.
        who : str, optional
            Who wants it, for the log.
        """
        return self._change("set_shape", column, reason, who, lambda edited: edited.with_knots(knots, values))

    def flatten(
        self,
        column: ColumnName,
        start: Place,
        end: Place,
        *,
        reason: str,
        who: str | None = None,
        value: ArrayLike | None = None,
    ) -> Self:
        """Make a column's effect constant from start to end; elsewhere it stays, with a jump where it must.

        Either end may be infinite. ``value`` (outputs,) is the effect there, by default its mean over the training rows
        between the ends, with which effects stay centred. Other parameters as for `set_shape`.
        """
        return self._change("flatten", column, reason, who, lambda edited: edited.flat(start, end, value))

    def make_monotone(self, column: ColumnName, direction: Direction, *, reason: str, who: str | None = None) -> Self:
        """Make a column's effect rise or fall everywhere, exactly: the nearest such shape, in squares over the rows.

        ``direction`` is "increasing" or "decreasing"; of several outputs each becomes so. Other parameters as for
        `set_shape`.
        """
        return self._change("make_monotone", column, reason, who, lambda edited: edited.one_way(direction))

    def merge_levels(
        self, column: ColumnName, levels: Sequence[object], *, reason: str, who: str | None = None
    ) -> Self:
        """Give some levels of a category one effect, the mean over their training rows.

        Other parameters as for `set_shape`.
        """
        return self._change("merge_levels", column, reason, who, lambda edited: edited.merged(levels))

    def drop(self, column: ColumnName, *, reason: str, who: str | None = None) -> Self:
        """Take a column out of the model, with its missing cells and pairs; the intercept stays, effects being centred.

        Parameters as for `set_shape`.
        """
        return self._change("drop", column, reason, who, lambda edited: ((), "dropped"))

    def shift_intercept(self, by: ArrayLike, *, reason: str, who: str | None = None) -> Self:
        """Add ``by`` (outputs,) to the intercept, hence to every score. Other parameters as for `set_shape`."""
        return self._become(self._editor("shift_intercept", reason, who).shift_intercept(by))

    def undo(self) -> Self:
        """Take the last edit back, exactly: every prediction is again what it was, to the bit."""
        self._require_session("undo")
        return self._become(undone(self._fitted()))

    def stability(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n_pairs: int = 25,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Stability:
        """Return how often half of the rows would choose each column, and remember it as ``stability_``.

        The rows are cut into two random halves, ``n_pairs`` times, and each half is asked which columns it keeps at the
        model's alpha. `explain`, the report and the model file have the frequencies from then on. Predictions stay as
        they are. A column that held-out rows took back, and pairs of columns, are not chosen anew.

        Parameters
        ----------
        X, y, sample_weight, exposure
            The rows of the fit, or rows like them, as for ``fit``.
        n_pairs : int, default 25
            Pairs of complementary halves.
        groups : array-like of shape (rows,), optional
            Groups of rows that depend on each other, such as those of one patient: no half tears one apart.
        """
        check_whole("n_pairs", n_pairs)
        fit = self._asked()
        found = measure_stability(fit, question_of(fit, "stability", X, y, sample_weight, exposure, groups), n_pairs)
        self.fit_ = replace(self.fit_, stability=found)
        return found

    def alternatives(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tolerance: float | Literal["auto"] = "auto",
        most: int = 20,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Alternatives:
        """Return other sets of columns that predict about as well as those of the model.

        Columns are dropped, swapped for others and added, and each set is judged as the choice was: by smooth fits on
        the folds of ``cv``, and the losses of the rows held out. Pairs of columns take no part.

        Parameters
        ----------
        X, y, sample_weight, exposure, groups
            The rows of the fit, or rows like them, as for ``fit``.
        tolerance : float or "auto", default "auto"
            How much of what the model explains in rows held out another may lose. "auto" is what is not
            certain, two standard errors, and at most the share that `Compact` may give up, 3 % unless it is set.
        most : int, default 20
            Most models to return.
        """
        check_whole("most", most)
        fit = self._asked()
        question = question_of(fit, "alternatives", X, y, sample_weight, exposure, groups)
        return find_alternatives(fit, question, tolerance, most)

    def audit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        verbose: bool | None = None,
    ) -> Audit:
        """Return what dropping each column cost subgroups of rows, and how right the model is in them.

        For each dropped column and each subgroup a small curve is fitted to what the model leaves unexplained, and
        judged on rows held out from it. Whether the column says anything there is tested, with a correction for all
        columns and subgroups.

        Parameters
        ----------
        X : table of shape (rows, features)
            Rows with the columns of the fit, dropped ones included: those of the fit, or better new ones.
        y, sample_weight, exposure
            Of these rows, as for ``fit``.
        groups : list of names, array-like of shape (rows,), mapping or table, optional
            What the rows are divided by: columns of X by their names, or labels, one for each row and of one or several
            columns. Categories have a subgroup for each level, numbers one for each fifth of the rows, missing cells
            one too. By default every column of X; of more than 60 columns, those that the model keeps.
        verbose : bool, optional
            Progress bar for audits of more than two seconds; by default only on a terminal.
        """
        fit = self._fitted()
        return audit(fit, X, y, groups, sample_weight=sample_weight, exposure=exposure, verbose=verbose)

    def portable(self) -> PortableModel:
        """Return the model as plain data, from which every export is written; `to_json` makes strict JSON of it."""
        return portable(self._fitted())

    def export(self, path: str | PathLike[str], *, to: str | None = None, **options: Any) -> list[Path]:
        """Write the model for a place where predictions run; return the files.

        Parameters
        ----------
        path : path
            Its suffix says the target: ``.json`` (the portable form), ``.py``, ``.mjs``, ``.h`` (C), ``.sql``,
            ``.onnx``, ``.pmml``, ``.xlsx`` (a scorecard).
        to : str, optional
            The target's name, where the suffix does not say it.
        **options
            Of the target, such as ``dialect="duckdb"``; see the page on exporting.
        """
        return write_export(self.portable(), path, to, options)

    def export_difference(
        self, path: str | PathLike[str], X: ArrayLike, *, to: str | None = None, **options: Any
    ) -> float:
        """Return the largest difference between the scores of exported files and those of the model, over their scale.

        Parameters
        ----------
        path, to, options
            As they were exported.
        X : table of shape (rows, features)
            The rows to compare on.
        """
        return export_difference(self._fitted(), path, X, to, options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into a file that `sparsenam.load` reads, usually named ``….snam``.

        The file is a safetensors file and holds data only: no pickle, no code. It appears whole or not at all.
        """
        if type(self).__module__.partition(".")[0] != "sparsenam":
            expected, got = "an estimator of this library", f"the custom class {type(self).__name__}"
            raise ModelFileError(describe("model to save", expected, got, "keep the estimator with pickle"))
        save_fit(self._fitted(), path)

    def transform(self, X: Any) -> Any:
        """Return the kept columns of a table (rows, features): an array, or a table where ``set_output`` asks for one.

        A table of polars or pyarrow keeps the types of its columns when a table is asked for. The array holds objects
        where a table has text or dates beside numbers, which have no dtype in common.
        """
        self._fitted()
        return kept_table(self, X, super().transform)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """What notebooks show: scikit-learn's view of the settings, and below it what a fitted model kept."""
        from sparsenam.explain.report.notebook import at_a_glance  # a page, which few who predict ever show

        drawn = cast("Callable[[], str]", super()._repr_html_)  # pyright: ignore
        return lambda: drawn() + (at_a_glance(self.explain()) if self.__sklearn_is_fitted__() else "")

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        """Return what notebooks show, as text and as HTML."""
        shown = cast("dict[str, str]", super()._repr_mimebundle_(**kwargs))  # pyright: ignore
        if not self.__sklearn_is_fitted__():
            return shown
        from sparsenam.explain.report.notebook import at_a_glance, kept_in_words

        made = self.explain()
        shown["text/plain"] += f"\n{kept_in_words(made)}"
        if "text/html" in shown:
            shown["text/html"] += at_a_glance(made)
        return shown

    def __sklearn_is_fitted__(self) -> bool:
        return "fit_" in vars(self)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        return self._fitted().support

    def _fitted(self) -> Fit:
        """Return the fit; raise scikit-learn's error where there is none."""
        check_is_fitted(self)
        return self.fit_

    @abstractmethod
    def _refit(self, X: ArrayLike, y: ArrayLike, **given: ArrayLike) -> Fit:
        """Return the fit of other rows by the same parameters."""

    def _asked(self) -> Fit:
        """Return the fit with the parameters as they are now: time and seed may have been set since."""
        fit = self._fitted()
        return replace(fit, settings={**fit.settings, **self.get_params(deep=False)})

    def _with(self, fit: Fit) -> Self:
        copy = clone(self)
        copy.fit_ = fit
        return copy

    def _become(self, fit: Fit) -> Self:
        self.fit_ = fit
        return self

    def _require_session(self, where: str) -> EditSession:
        """Return the session of an editable copy; raise where this is none."""
        self._fitted()
        if self._session is None:
            got = f"this {type(self).__name__}, which stays as it was fitted"
            raise InputError(describe(where, "a copy made by edit()", got, f"call edit().{where}(…)"))
        return self._session

    def _change(self, kind: EditKind, column: ColumnName, reason: str, who: str | None, new: NewCurves) -> Self:
        return self._become(self._editor(kind, reason, who).change(column, new))

    def _editor(self, kind: EditKind, reason: str, who: str | None) -> Editor:
        return Editor(self._fitted(), self._require_session(kind), kind, reason, who)
