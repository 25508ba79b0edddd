"""One fit is one value: the pipeline of every fit, and the `Fit` that it returns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from sparsenam.codec import Bounds, Count, Matrix, Tags, Vector, Via
from sparsenam.context import Context
from sparsenam.convex.problem import Certificate
from sparsenam.discover.fdr import Discoveries, discover
from sparsenam.discover.stability import Stability
from sparsenam.errors import rows_named_by
from sparsenam.fit.all_rows import on_all_rows, trained_on
from sparsenam.fit.pairs import add_pairs, asked_pairs
from sparsenam.fit.plan import FitInput, Plan, choose, fit_terms, identity_of, splitter
from sparsenam.fit.problem import FamilyProblem, Fitted, check_shapes
from sparsenam.fit.response import ClassResponse, GivenRows, NumberResponse, Response, SurvivalResponse, given_weights
from sparsenam.fit.summary import TrainingSummary, kept_columns, summarize_training
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Edit
from sparsenam.model.pairs import PairFunction
from sparsenam.selection import FDR, CVCurve, Evidence, RegularizationPath
from sparsenam.selection.choose import Choice
from sparsenam.selection.curve import StoredCurve
from sparsenam.selection.task import PathSummary, by_column, substitutes_of, twins_of
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.prediction import encode_in_parts, few_terms
from sparsenam.text import Task, output_names, score_units
from sparsenam.training import History
from sparsenam.uncertainty.bands import Bands, bands_of, posterior_of
from sparsenam.uncertainty.residuals import Residuals, residuals_of

Part = TypeVar("Part")
Respond = Response | Callable[[FamilyProblem, AdditiveModel], Response]
StoredResponse = Annotated[
    Response,
    Via(Annotated[NumberResponse | ClassResponse | SurvivalResponse, Tags(("numbers", "classes", "survival"))]),
]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted model and how it came about; predictions, explanations, edits, audits, exports and files read it.

    Attributes
    ----------
    estimator, settings
        Name and parameters of the estimator that was fitted.
    encoder
        What was made of each column of the table.
    response
        What the model answers with: numbers, classes, or censored times with their baseline hazard.
    model
        Family, intercept, effects of the kept terms, and pairs.
    n_parameters
        Parameters of the kept terms and the intercept.
    norms
        Group norm of every column, shape (columns,); 0 where dropped.
    alpha
        Weight of the penalty.
    summary
        The training data in brief, and the course of the fit.
    substitutes
        For a kept column, those that could replace it, with the share of its effect that they express.
    certificate
        Optimality of the convex choice of columns; None where there was none.
    curve, taken, path
        Held-out losses along the convex path, the index of the point that the rule took (None where the model is no
        point of it), and the path itself; None where alpha was given.
    discoveries
        What an `FDR` rule found; None for other rules.
    bands, residuals
        How uncertain the effects are, and the errors of rows left out; None where they are unknown.
    history, stationarity
        The course of a network's training, and the proximal gradient at its end; None where none was trained.
    stability
        How often half of the rows choose each column; None until that is measured.
    edits
        The changes made after the fit, the first one first.
    """

    estimator: Annotated[str, Bounds(0, 100)]
    settings: Mapping[str, Any]
    encoder: TableEncoder
    response: StoredResponse
    model: AdditiveModel
    n_parameters: Count
    norms: Vector
    alpha: Annotated[float, Bounds(0.0, math.inf)]
    summary: TrainingSummary
    substitutes: dict[str, dict[str, Annotated[float, Bounds(0.0, 2.0)]]]
    certificate: Certificate | None = None
    curve: Annotated[CVCurve | StoredCurve, Via(StoredCurve)] | None = None
    taken: Count | None = None
    path: RegularizationPath | None = field(default=None, metadata={"stored": False})
    discoveries: Discoveries | None = None
    bands: Bands | None = None
    residuals: Residuals | None = None
    history: History | None = None
    stationarity: Annotated[float, Bounds(0.0, math.inf)] | None = None
    stability: Stability | None = None
    edits: tuple[Edit, ...] = ()

    @property
    def task(self) -> Task:
        """The kind of answer."""
        return self.response.task

    @property
    def classes(self) -> Sequence[object]:
        """The classes; none where numbers or times are predicted."""
        return self.response.classes.tolist() if isinstance(self.response, ClassResponse) else ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of each output."""
        return output_names(self.task, self.model.family.response, self.classes, self.model.intercept.size)

    @property
    def units(self) -> str:
        """The units of scores and effects."""
        family = self.model.family
        return score_units(self.task, family.response, family.link, self.outputs, self.summary.target)

    @property
    def intercept(self) -> float | Vector:
        """β: a number, or (outputs,) for several outputs."""
        found = self.model.intercept
        return float(found[0]) if found.size == 1 else found.copy()

    @property
    def evidence(self) -> Evidence | None:
        """What held-out rows say about the choice, with the figures of the model itself, pairs included."""
        evidence, known = self.summary.evidence, self.summary.explained
        if evidence is None or known is None:
            return evidence
        behind = None if evidence.behind_all is None else evidence.behind_all - (known.by_pairs or 0.0)
        return replace(evidence, gain=known.share, gain_error=known.error, behind_all=behind)

    @property
    def kept(self) -> list[int]:
        """Indices of the columns of which the model keeps a term."""
        return kept_columns(self.encoder, self.model)

    @property
    def kept_names(self) -> list[str]:
        """Names of the columns of which the model keeps a term."""
        return [self.encoder.names[column] for column in self.kept]

    @property
    def support(self) -> NDArray[np.bool_]:
        """Whether each column is kept, shape (columns,)."""
        mask = np.zeros(len(self.encoder.columns), dtype=np.bool_)
        mask[self.kept] = True
        return mask

    @property
    def interactions(self) -> tuple[tuple[str, str], ...]:
        """The names of the two columns of each pair."""
        columns = [self.encoder.names[term.column] for term in self.encoder.terms]
        return tuple((columns[pair.terms[0]], columns[pair.terms[1]]) for pair in self.model.pairs)

    def of_pairs(self, parts: Sequence[Part]) -> list[Part]:
        """Return those of some parts, one for each pair that was fitted, whose pairs no edit took away."""
        left = {pair.terms for pair in self.model.pairs}
        return [part for pair, part in zip(self.fitted_pairs, parts, strict=True) if pair.terms in left]

    @property
    def fitted_pairs(self) -> tuple[PairFunction, ...]:
        """The pairs before any edit."""
        return next((edit.pairs for edit in self.edits if edit.pairs), self.model.pairs)

    def reader(self, also: Iterable[int] = ()) -> TableEncoder:
        """Return the encoder that reads the kept columns alone, and others by their indices."""
        return self.encoder.reading([*self.kept, *also])

    def rows(
        self,
        X: object,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None,
        reader: TableEncoder | None = None,
    ) -> GivenRows:
        """Return rows on which losses are measured; a ``reader`` reads some of the columns."""
        terms, target = (reader or self.encoder).encode(X), self.response.target(y, self.model)
        check_consistent_length(terms, target)
        weights = given_weights(sample_weight, len(terms))
        return self.response.with_exposure(GivenRows(terms, target, weights), exposure, self.model.family)

    def scores(self, X: object) -> Matrix:
        """Return the linear predictor of a table's rows, shape (rows, outputs)."""
        reader = self.reader()
        few = few_terms(reader, X) if self.model.exact_shapes and not self.model.pairs else None
        if few is not None:
            return self.model.scores_of_few(few)
        parts, rows = list[Matrix](), 0
        for terms in encode_in_parts(reader, X):
            with rows_named_by(range(rows, rows + len(terms))):
                parts.append(self.model.scores(terms))
            rows += len(terms)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def probabilities(self, X: object) -> Matrix:
        """Return probabilities of the classes, or of each label, shape (rows, classes)."""
        means = self.model.family.mean(self.scores(X))
        return np.column_stack([1.0 - means, means]) if self.model.family.response == "binary" else means

    def effects(self, X: object) -> Matrix:
        """Return each column's centred share of the linear predictor, (rows, columns) or (rows, columns, outputs)."""
        return self.by_column(self.model.effects(self.reader().encode(X)))

    def pair_effects(self, X: object) -> Matrix:
        """Return each pair's share of the linear predictor, (rows, pairs) or (rows, pairs, outputs)."""
        effects = self.model.pair_effects(self.reader().encode(X))
        return effects[:, :, 0] if effects.shape[2] == 1 else effects

    def missing_effects(self, X: object) -> Matrix:
        """Return the part of `effects` that is due to cells being missing or not, in the same shape."""
        encoded = self.reader().encode(X)
        is_value = np.array([term.kind != "missing" for term in self.encoder.terms], dtype=np.bool_)
        present = ~np.isnan(encoded)[:, :, None] & is_value[:, None]
        return self.by_column(np.where(present, 0.0, self.model.effects(encoded)))

    def by_column(self, effects: Matrix) -> Matrix:
        """Return effects of terms (rows, terms, outputs) added up by column, without the axis of a single output."""
        columns = np.array([term.column for term in self.encoder.terms], dtype=np.intp)
        if not np.array_equal(columns, np.arange(len(self.encoder.columns))):
            totals = np.zeros((effects.shape[0], len(self.encoder.columns), effects.shape[2]))
            np.add.at(totals.swapaxes(0, 1), columns, effects.swapaxes(0, 1))
            effects = totals
        return effects[:, :, 0] if effects.shape[2] == 1 else effects


def fit(rows: FitInput, plan: Plan, respond: Respond, context: Context) -> Fit:
    """Return the fit that the plan gives for some rows; ``respond`` says what the fitted model answers with."""
    started, encoder, clock = time.perf_counter(), rows.encoder, context.clock
    splits = splitter(plan, rows, context)
    problem = _posed(rows, plan, context)
    if plan.first_family is not None:  # numbers of the family are estimated by a first fit
        within, first, clock.part = context.within("first"), replace(problem, family=plan.first_family), "the first fit"
        scores = first.scores(fit_terms(first, choose(first, plan, splits, within), plan, within).model)
        family = problem.family.estimated(scores, problem.prepared.target, problem.prepared.weights)
        problem = replace(problem, family=family)
    clock.part = "the choice of columns"
    choice = choose(problem, plan, splits, context)
    clock.part = "the fit of the chosen columns"
    discoveries = None
    if isinstance(plan.rule, FDR):
        choice, discoveries = discover(plan.rule, problem, choice, plan.strategy, encoder.names, context)
    mains = chosen = fit_terms(problem, choice, plan, context)
    if choice is not None and plan.finds_pairs:
        clock.part = "the choice of pairs"
        chosen = add_pairs(encoder, problem, choice, mains, plan, splits, context)
    fitted = chosen if rows.table is None else on_all_rows(rows.table, encoder, rows.sample, chosen, context)
    posterior = posterior_of(fitted.smooth)
    residuals, explained = residuals_of(encoder, rows.sample, problem, choice, mains, fitted, posterior, context)
    bands = bands_of(fitted, posterior, context)
    finished = problem.finish(fitted)
    response = respond if isinstance(respond, Response) else respond(problem, finished.model)
    made = _fit_value(rows, plan, problem, choice, finished, response, discoveries)
    seconds, late = time.perf_counter() - started, tuple(clock.cut_short)
    summary = replace(made.summary, explained=explained, seconds=seconds, out_of_time=late)
    return replace(made, summary=summary, bands=bands, residuals=residuals)


def _posed(rows: FitInput, plan: Plan, context: Context) -> FamilyProblem:
    """Return the problem of the rows; raise for what cannot be met before anything is fitted."""
    encoder, settings = rows.encoder, plan.settings
    problem = plan.pose(rows.sample, encoder)
    if plan.strategy.shapes:
        check_shapes(plan.strategy.shapes, encoder, problem)
    if plan.finds_pairs:
        asked_pairs(settings.pairs, encoder, problem.prepared)
    if context.resume is not None:
        context.resume.claim(identity_of(problem.prepared, context.streams.seed, plan.parameters))
    if rows.table is not None and not plan.strategy.fits_all_rows:
        problem = replace(problem, all_rows=partial(trained_on, rows.table, encoder, rows.sample))
    return problem


def _fit_value(
    rows: FitInput,
    plan: Plan,
    problem: FamilyProblem,
    choice: Choice | None,
    fitted: Fitted,
    response: Response,
    discoveries: Discoveries | None,
) -> Fit:
    """Return the fit in columns of the table."""
    encoder, sample, model, prepared = rows.encoder, rows.sample, fitted.model, problem.prepared
    names, validated = encoder.names, None if choice is None else choice.validated
    path = None if validated is None else validated.task.path(validated.points, names)
    entries = None
    if path is not None and path.points:  # norms of the columns that entered
        order, place_of = path.entry_order(), {name: place for place, name in enumerate(path.names)}
        norms = path.norms[:, [place_of[name] for name in order]]
        entries = PathSummary(tuple(path.alphas.tolist()), tuple(order), tuple(map(tuple, norms.tolist())))
    # what an FDR rule keeps is no point of the path, and the evidence is that of the default rule's choice
    on_path = validated if discoveries is None else None
    twins = twins_of(prepared, model, encoder) if choice is None else substitutes_of(choice.task, model, encoder)
    norms = by_column(fitted.norms, problem.column_of, len(names))
    weights = sample.weights if sample.exposure is None else sample.weights * (sample.exposure > 0)
    evidence = None if on_path is None else on_path.evidence
    summary = summarize_training(encoder, prepared, model, sample.terms, weights, entries, evidence)
    certificate = None if choice is None else _certificate_by_column(choice, names)
    alpha = 0.0 if plan.settings.alpha == "auto" else float(plan.settings.alpha)
    return Fit(
        estimator=plan.estimator,
        settings=plan.parameters,
        encoder=encoder,
        response=response,
        model=model,
        n_parameters=model.n_parameters,
        norms=norms,
        alpha=alpha if choice is None else choice.alpha,
        summary=replace(summary, target=rows.target),
        substitutes=twins,
        certificate=certificate,
        curve=None if validated is None else validated.curve,
        taken=None if on_path is None else on_path.taken,
        path=path,
        discoveries=discoveries,
        history=fitted.history,
        stationarity=fitted.stationarity,
    )


def _certificate_by_column(choice: Choice, names: tuple[str, ...]) -> Certificate | None:
    """Return the certificate in columns: one is kept for any of its terms, else its nearest term speaks for it."""
    certificate, task = choice.certificate, choice.task
    if certificate is None:
        return None
    kept = tuple(names[int(column)] for column in task.columns(choice.point.supports[0]))
    prepared, inside, slack = task.prepared, set(kept), dict[str, float]()
    for members, group in zip(prepared.grouping.members, task.group_names, strict=True):
        for column in {names[int(task.column_of[term])] for term in prepared.terms[members]} - inside:
            if group in certificate.slack:
                slack[column] = max(certificate.slack[group], slack.get(column, 0.0))
    return replace(certificate, slack=slack, kept=kept)
