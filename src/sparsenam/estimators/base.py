"""What the estimators share: the fit by the pipeline, and answers read from the fitted model."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    check_is_fitted,
)

from sparsenam.context import Clock, Context, Progress, ProgressBar, ResumeFile, Streams
from sparsenam.convex.problem import Certificate
from sparsenam.errors import (
    LARGEST,
    LEAST,
    ChoiceWarning,
    InputError,
    check_number,
    check_word,
    describe,
    rows_named_by,
)
from sparsenam.estimators.auditing import AuditingMixin
from sparsenam.estimators.bands import BandsMixin
from sparsenam.estimators.editing import EditingMixin
from sparsenam.estimators.exporting import ExportMixin
from sparsenam.estimators.selecting import KeptColumnsMixin
from sparsenam.estimators.support import ChoiceMixin
from sparsenam.explain import (
    Discoveries,
    Explanation,
    FitRecord,
    LocalExplanation,
    Task,
    TrainingSummary,
    discoveries_of,
    explain_model,
    explain_rows,
    interactions_of,
    output_names,
    read_cells,
    reader_of,
    row_labels,
    score_units,
    summarize_data,
    summarize_training,
)
from sparsenam.explain.edits import data_after_edits
from sparsenam.explain.performance import kept_performance
from sparsenam.explain.report.notebook import at_a_glance, kept_in_words
from sparsenam.explain.summary import cut_short_sentence
from sparsenam.export import save_estimator
from sparsenam.families import Family
from sparsenam.fitting import family_problem
from sparsenam.fitting.all_rows import LargeTable
from sparsenam.fitting.pipeline import (
    Alpha,
    ChoosingParameters,
    FitResult,
    PairParameters,
    Plan,
    Pose,
    WeightMeaning,
    fit,
    read,
    require_default,
    resolve_random_features,
    resolve_snam,
)
from sparsenam.fitting.strategies import FeatureKind, Strategy
from sparsenam.model import AdditiveModel
from sparsenam.model.residuals import Residuals
from sparsenam.penalties import Penalty, as_penalty
from sparsenam.selection import CVCurve, Evidence, RegularizationPath, as_rule
from sparsenam.selection.task import TOLERANCE, Norm
from sparsenam.tables import Sample, TableEncoder
from sparsenam.tables.encoder import ColumnName
from sparsenam.threads import one_thread, thread_count
from sparsenam.training import History, Network

Matrix = NDArray[np.float64]
RandomState = int | np.random.RandomState | None


class AdditiveEstimator(AuditingMixin, BandsMixin, EditingMixin, ExportMixin, ChoiceMixin, BaseEstimator, ABC):
    """An estimator whose fitted state is an `AdditiveModel`."""

    _doc_link_module = "sparsenam"  # whose page scikit-learn's HTML view links to
    _doc_link_template = "https://sparsenam.readthedocs.io/en/stable/api/estimators.html#sparsenam.{estimator_name}"
    model_: AdditiveModel
    alpha_: float
    intercept_: float | NDArray[np.float64]
    n_parameters_: int
    history_: History
    stationarity_: float | None
    norms_: NDArray[np.float64]
    certificate_: Certificate | None
    cv_curve_: CVCurve | None
    path_: RegularizationPath | None
    readmitted_: tuple[str, ...]
    interactions_: tuple[tuple[str, str], ...]
    pair_certificate_: Certificate | None
    evidence_: Evidence | None
    fdr_: Discoveries | None
    residuals_: Residuals | None
    substitutes_: dict[str, dict[str, float]]
    encoder_: TableEncoder
    summary_: TrainingSummary
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _taken: int | None

    def effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return each column's centred share of the linear predictor, 0 for dropped columns.

        Returns
        -------
        ndarray of shape (rows, features_in) or, for several outputs, (rows, features_in, outputs)
            With ``intercept_`` and the `interaction_effects` of pairs, if there are any, they add up to the linear
            predictor: the prediction itself for regression, log odds for classification.
        """
        check_is_fitted(self)
        return self._by_column(self.model_.effects(self._reader().encode(X)))

    def interaction_effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return each pair's share of the linear predictor, in the order of ``interactions_``.

        Returns
        -------
        ndarray of shape (rows, pairs) or, for several outputs, (rows, pairs, outputs)
            With ``intercept_`` and `effects` they add up to the linear predictor. A pair holds what its columns do
            together beyond what either does alone: it has mean 0 along each of its axes, over the training rows
            shared among the nodes of its grid.
        """
        check_is_fitted(self)
        effects = self.model_.pair_effects(self._reader().encode(X))
        return effects[:, :, 0] if effects.shape[2] == 1 else effects

    def missing_effects(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the part of `effects` that is due to cells being missing or not, in the same shape.

        It is centred like every effect: what a missing cell adds beyond a present one is the difference.
        """
        check_is_fitted(self)
        encoded = self._reader().encode(X)
        is_value = np.array([term.kind != "missing" for term in self.encoder_.terms], dtype=np.bool_)
        present = ~np.isnan(encoded)[:, :, None] & is_value[:, None]
        return self._by_column(np.where(present, 0.0, self.model_.effects(encoded)))

    def explain(self, X: ArrayLike | None = None) -> Explanation:
        """Return what the model does with each column, as data for pictures, pages and files.

        Parameters
        ----------
        X : table of shape (rows, features), optional
            Rows whose densities and importances are shown; by default those of the training data.
        """
        check_is_fitted(self)
        if X is None:
            data = self.summary_.data
            if self.edits_:
                data = data_after_edits(self.encoder_, self.model_, data, self.edits_)
            made = explain_model(self._record(), data)
            return replace(made, card={**made.card, **self._card_facts()})
        reader = self._reader()
        encoded, cells = reader.encode(X), read_cells(reader, X)
        missing = [column.missing for column in cells]
        return explain_model(self._record(), summarize_data(self.encoder_, self.model_, encoded, missing=missing))

    def _card_facts(self) -> dict[str, Any]:
        """Return what the card of an explanation says beside the course of the fit: what its errors were."""
        known = getattr(self, "residuals_", None)
        if known is None or known.edits != len(self.edits_):
            return {}
        found = kept_performance(known, self._record().outputs)
        return {} if found is None else {"performance": found}

    def explain_local(self, X: ArrayLike) -> LocalExplanation:
        """Return what each column adds to the score of each row, in numbers and in words.

        Parameters
        ----------
        X : table of shape (rows, features)
            The rows to explain.
        """
        check_is_fitted(self)
        reader = self._reader()
        encoded = reader.encode(X)
        return explain_rows(self._record(), encoded, read_cells(reader, X), row_labels(X, len(encoded)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into a file that `sparsenam.load` reads, usually named ``….snam``.

        The file is a safetensors file and holds data only: no pickle, no code. It appears whole or not at all.
        """
        check_is_fitted(self)
        save_estimator(self, path)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """What notebooks show: scikit-learn's view of the settings, and below it what a fitted model kept."""
        drawn = cast("Callable[[], str]", cast(Any, super())._repr_html_)
        return lambda: drawn() + (at_a_glance(self.explain()) if self.__sklearn_is_fitted__() else "")

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        """Return what notebooks show, as text and as HTML."""
        shown = cast("dict[str, str]", cast(Any, super())._repr_mimebundle_(**kwargs))
        if not self.__sklearn_is_fitted__():
            return shown
        made = self.explain()
        shown["text/plain"] += f"\n{kept_in_words(made)}"
        if "text/html" in shown:
            shown["text/html"] += at_a_glance(made)
        return shown

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _scores(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        reader = self._reader()
        few = reader.few_terms(X) if self.model_.exact_shapes else None
        if few is not None:
            return self.model_.scores_of_few(few)
        parts, rows = list[Matrix](), 0
        for terms in reader.encode_in_parts(X):
            with rows_named_by(range(rows, rows + len(terms))):
                parts.append(self.model_.scores(terms))
            rows += len(terms)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _reader(self) -> TableEncoder:
        """Return the encoder that reads the kept columns alone."""
        return reader_of(self.encoder_, self.model_)

    def _by_column(self, effects: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return effects of terms (rows, terms, outputs) added up by column, without the axis of a single output."""
        columns = np.array([term.column for term in self.encoder_.terms], dtype=np.intp)
        if not np.array_equal(columns, np.arange(self.n_features_in_)):
            totals = np.zeros((effects.shape[0], self.n_features_in_, effects.shape[2]))
            np.add.at(totals.swapaxes(0, 1), columns, effects.swapaxes(0, 1))
            effects = totals
        return effects[:, :, 0] if effects.shape[2] == 1 else effects

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
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
        y : array-like of shape (rows,) or (rows, labels), or str
            For a classifier, classes of any type or a 0/1 matrix of labels; for survival, a structured array with one
            boolean field, whether the row ended with the event, and one of numbers above 0, when it ended, as
            `survival_target` makes one. A table that is not in memory holds its target: y is then the name of its
            column, and so are the weights. Survival needs a table in memory.
        sample_weight : array-like of shape (rows,) or str, optional
            Weight of each row; a row of weight 0 counts as absent. Weights are relative unless the parameter
            ``weights`` says otherwise.
        groups : array-like of shape (rows,), optional
            Groups of rows for a splitter ``cv`` that needs them.
        """
        return self._fit_in(Surroundings(), X, y, sample_weight=sample_weight, groups=groups)

    @abstractmethod
    def _resolve(self) -> tuple[Strategy, Penalty]:
        """Check the parameters and return the strategy and the penalty that they ask for."""

    @abstractmethod
    def _fit_in(self, surroundings: Surroundings, X: ArrayLike, y: ArrayLike, **fit_params: Any) -> Self:
        """Fit as ``fit`` does, with the caller's own progress display and resume file."""

    def _read(self, X: ArrayLike, strategy: Strategy, among: str = "") -> tuple[TableEncoder, Matrix]:
        """Decide what each column is, and return the table in terms, shape (rows, terms)."""
        return read(X, strategy, getattr(self, "feature_types", None), type(self).__name__, among)

    def _plan(self, pose: Pose, strategy: Strategy, penalty: Penalty) -> Plan:
        choosing = self._choosing()
        pairs = self if isinstance(self, PairParameters) else PairParameters()
        return Plan(strategy, pose, penalty, as_rule(choosing.rule), choosing, self._settings(), pairs)

    def _pose(self, strategy: Strategy, family: Family) -> Pose:
        """Return how a sample becomes a problem."""
        return partial(family_problem, family=family, standardize=strategy.standardize, limits=strategy.limits)

    def _choosing(self) -> ChoosingParameters:
        """Return the parameters of how columns are chosen."""
        assert isinstance(self, ChoosingParameters)
        return self

    def _settings(self) -> dict[str, Any]:
        """Return the parameters, those of the network as ``network``."""
        return self.get_params(deep=False)

    def _fit_by(
        self,
        plan: Plan,
        surroundings: Surroundings,
        encoder: TableEncoder,
        sample: Sample,
        groups: ArrayLike | None = None,
        answer: NDArray[np.generic] | None = None,
        table: LargeTable | None = None,
        target: str | None = None,
    ) -> FitResult:
        """Run the pipeline on a sample and set the fitted attributes, last and together; ``target`` is y's name."""
        if groups is not None and plan.alpha != "auto":
            remedy = "leave groups out"
            raise InputError(describe("groups", "alpha='auto', which cross-validates", f"{plan.alpha}", remedy))
        parameters = self._settings()
        thread_count(parameters.get("n_jobs"))  # which raises for what is no number, also where all rows are at hand
        started = time.perf_counter()
        context = surroundings.context(parameters)
        try:
            with one_thread():
                result = fit(encoder, sample, plan, context, groups, answer, table)
        finally:
            context.progress.close()
        seconds = time.perf_counter() - started
        summary = _summary(result, encoder, sample, seconds, context.clock.cut_short)
        fitted = _attributes(result, encoder) | {"summary_": replace(summary, target=target)}
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("__")]:
            delattr(self, name)  # nothing of an earlier fit stays
        for name, value in fitted.items():
            setattr(self, name, value)
        doubts = [] if result.evidence is None else result.evidence.doubts()
        if doubts:  # the level is that of whoever calls fit
            warnings.warn(" ".join([*doubts, "evidence_ has the figures."]), ChoiceWarning, stacklevel=4)
        return result

    def _record(self) -> FitRecord:
        """Return what explaining needs to know of this fit."""
        family, encoder, settings = self.model_.family, self.encoder_, self._settings()
        task: Task = "classification" if hasattr(self, "classes_") else "regression"
        if hasattr(self, "event_times_"):
            task = "survival"
        outputs = output_names(task, family.response, getattr(self, "classes_", ()), self.model_.intercept.size)
        network, kept = settings.get("network"), self._choosing().always_keep or ()
        threshold = None
        if isinstance(network, Network) and not network.solver_for(as_penalty(settings["penalty"])).proximal:
            threshold = network.threshold
        return FitRecord(
            task=task,
            outputs=outputs,
            units=score_units(task, family.response, family.link, outputs, self.summary_.target),
            model=self.model_,
            encoder=encoder,
            summary=self.summary_,
            norms=self.norms_,
            alpha=self.alpha_,
            certificate=self.certificate_,
            curve=self.cv_curve_,
            taken=self._taken,
            readmitted=frozenset(self.readmitted_),
            substitutes=self.substitutes_,
            history=getattr(self, "history_", None) or (),
            always_keep=frozenset(name if isinstance(name, str) else encoder.names[name] for name in kept),
            threshold=threshold,
            estimator=type(self).__name__,
            settings=self.get_params(deep=False),
            edits=self.edits_,
            pair_certificate=self.pair_certificate_,
            bands=self.bands_,
            stability=self.stability_,
            discoveries=self.fdr_,
        )


class SupportMixin(KeptColumnsMixin):
    """scikit-learn's selector interface, read from the fitted model: a column is kept for any of its terms."""

    model_: AdditiveModel
    encoder_: TableEncoder

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(len(self.encoder_.columns), dtype=bool)
        mask[[self.encoder_.terms[int(term)].column for term in self.model_.terms]] = True
        return mask


def require_one_thread(n_jobs: int | None, whose: str) -> None:
    """Raise where more threads are asked for than could act."""
    if thread_count(n_jobs) > 1:
        require_default("n_jobs", n_jobs, None, f"{whose} has all its rows in one block")


@dataclass(kw_only=True, eq=False, repr=False)
class SNAMParameters(PairParameters, ChoosingParameters):
    """The constructor of the SNAM estimators; see `SNAMRegressor` for the meaning."""

    alpha: Alpha = field(default="auto", kw_only=False)
    refit: bool | Literal["auto"] = "auto"
    network: Network | None = None
    shapes: Mapping[ColumnName, str] | None = None
    weights: WeightMeaning = "relative"
    max_seconds: float | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: RandomState = None

    def _resolve(self) -> tuple[Strategy, Penalty]:
        check_word("weights", self.weights, get_args(WeightMeaning))
        if self.network is not None or self.refit is False:
            reason = "only the smooth fit depends on how many rows there are"
            require_default("weights", self.weights, "relative", reason)
        return resolve_snam(self, self.network, self.refit, self, self.shapes)


@dataclass(kw_only=True, eq=False, repr=False)
class RandomFeatureParameters(ChoosingParameters):
    """The constructor of the random-feature estimators; see `RandomFeatureSNAMRegressor` for the meaning."""

    alpha: Alpha = field(default="auto", kw_only=False)
    features: FeatureKind = "ramps"
    norm: Norm = "function"
    width: int = 32
    hidden: tuple[int, ...] = (100, 50)
    activation: str = "relu"
    tol: float = TOLERANCE
    max_seconds: float | None = None
    n_jobs: int | None = None
    verbose: bool | None = None
    random_state: RandomState = None

    def _resolve(self) -> tuple[Strategy, Penalty]:
        require_one_thread(self.n_jobs, "a random-feature model")
        return resolve_random_features(
            self, self.features, self.norm, self.width, self.hidden, self.activation, self.tol
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a fit reports progress and what it resumes from, where the caller gives them."""

    progress: Progress | None = None
    resume: ResumeFile | None = None

    def context(self, parameters: dict[str, Any]) -> Context:
        """Return the context of a fit with an estimator's parameters."""
        network, random_state = parameters.get("network"), parameters.get("random_state")
        max_seconds, resume = parameters.get("max_seconds"), self.resume
        if max_seconds is not None:
            check_number("max_seconds", max_seconds, 0.0, open_below=True)
        if isinstance(network, Network) and network.checkpoint is not None:
            if random_state is None:
                expected = "a random_state, without which no other run is the same fit"
                raise InputError(describe("checkpoint", expected, "None", "set random_state"))
            resume = resume or ResumeFile(Path(network.checkpoint))
        progress = self.shown(parameters)
        return Context(Streams.from_random_state(random_state), Clock(max_seconds), progress, resume)

    def shown(self, parameters: dict[str, Any]) -> Progress:
        """Return where progress is reported."""
        return self.progress or ProgressBar(parameters.get("verbose"))


Estimator = TypeVar("Estimator", bound=AdditiveEstimator)


def fit_with(
    estimator: Estimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    progress: Progress | None = None,
    resume: ResumeFile | None = None,
    **fit_params: Any,
) -> Estimator:
    """Fit an estimator as its ``fit`` does, with the caller's own progress display and resume file.

    A fit that was stopped and is started again with the same file, data and settings goes on where it was.
    """
    return estimator._fit_in(Surroundings(progress, resume), X, y, **fit_params)  # pyright: ignore[reportPrivateUsage]


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


def require_target(estimator: BaseEstimator, y: ArrayLike | None) -> ArrayLike:
    """Return y; raise when it is None."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    return y


def check_weights(sample_weight: ArrayLike | None, X: object) -> NDArray[np.float64]:
    """Return the weights of the rows, shape (rows,), in a unit in which their sum is a number.

    Weights are relative: those that are all huge or all tiny are multiplied by a power of two, which is exact.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    largest = float(weights.max(initial=0.0))
    if largest > 0 and not LEAST <= largest <= LARGEST:
        return np.ldexp(weights, -math.frexp(largest)[1])
    return weights


def _attributes(result: FitResult, encoder: TableEncoder) -> dict[str, object]:
    intercept = result.model.intercept
    attributes: dict[str, object] = {
        "n_features_in_": len(encoder.columns),
        "encoder_": encoder,
        "alpha_": result.alpha,
        "intercept_": float(intercept[0]) if intercept.size == 1 else intercept.copy(),
        "n_parameters_": result.model.n_parameters,
        "norms_": result.norms,
        "stationarity_": result.stationarity,
        "substitutes_": result.substitutes,
        "certificate_": result.certificate,
        "cv_curve_": result.curve,
        "path_": result.path,
        "readmitted_": result.readmitted,
        "interactions_": interactions_of(encoder, result.model),
        "pair_certificate_": None if result.pairs is None else result.pairs.certificate,
        "evidence_": result.evidence,
        "bands_": result.bands,
        "fdr_": None if result.tested is None else discoveries_of(result.tested, encoder.names),
        "residuals_": result.residuals,
        "_taken": result.taken,
        "edits_": (),
        "stability_": None,
        "_session": None,
        "model_": result.model,
    }
    if encoder.named:
        attributes["feature_names_in_"] = np.array(encoder.names, dtype=object)
    if result.history is not None:
        attributes["history_"] = result.history
    return attributes


def _summary(
    result: FitResult, encoder: TableEncoder, sample: Sample, seconds: float, cut_short: Sequence[str]
) -> TrainingSummary:
    weights = sample.weights if sample.exposure is None else sample.weights * (sample.exposure > 0)
    prepared, path, evidence = result.problem.prepared, result.path, result.evidence
    summary = summarize_training(encoder, prepared, result.model, sample.terms, weights, path, evidence, seconds)
    return replace(summary, cut_short=cut_short_sentence(cut_short), strays=result.strays)
