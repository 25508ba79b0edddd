"""The pipeline of every fit: prepare, choose, fit, and return one value."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sparsenam.context import Context
from sparsenam.convex.problem import Certificate
from sparsenam.discover.fdr import Discoveries, discover
from sparsenam.fit.response import Response
from sparsenam.fit.summary import summarize_training
from sparsenam.fit.value import Fit
from sparsenam.fitting.all_rows import on_all_rows, trained_on
from sparsenam.fitting.pairs import add_pairs, asked_pairs
from sparsenam.fitting.plan import FitInput, Plan, choose, fit_terms, splitter
from sparsenam.fitting.problem import FamilyProblem, FitProblem, Fitted, check_shapes, shaped_terms
from sparsenam.fitting.settings import identity_of
from sparsenam.model import AdditiveModel
from sparsenam.selection import FDR
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.task import by_column, substitutes_of, twins_of
from sparsenam.uncertainty.bands import bands_of
from sparsenam.uncertainty.residuals import residuals_of

Respond = Response | Callable[[FitProblem, AdditiveModel], Response]


def fit(rows: FitInput, plan: Plan, respond: Respond, context: Context) -> Fit:
    """Return the fit that the plan gives for some rows; ``respond`` says what the fitted model answers with."""
    started, encoder, settings = time.perf_counter(), rows.encoder, plan.settings
    problem = plan.pose(rows.sample, encoder)
    if plan.strategy.shapes:
        check_shapes(plan.strategy.shapes, encoder, problem)
    if settings.asks_for_pairs:
        asked_pairs(settings.pairs, encoder, problem.prepared)  # refuses what cannot be met before anything is fitted
    if context.resume is not None:
        context.resume.claim(identity_of(problem.prepared, context.streams.seed, plan.parameters))
    splits = splitter(plan, rows, context)
    problem = _with_estimated_family(problem, plan, splits, context)
    if rows.table is not None and isinstance(problem, FamilyProblem) and not plan.strategy.fits_all_rows:
        problem = replace(problem, all_rows=partial(trained_on, rows.table, encoder, rows.sample))
    choice = choose(problem, plan, splits, context)
    context.clock.end_part("the choice of columns")
    discoveries = None
    if isinstance(plan.rule, FDR):
        choice, discoveries = discover(plan.rule, problem, choice, plan.strategy, encoder.names, context)
    fitted, scores = fit_terms(problem, choice, plan, context)
    if rows.table is not None:
        fitted = on_all_rows(rows.table, encoder, rows.sample, fitted, context)
    context.clock.end_part("the fit of the chosen columns")
    found = None
    if choice is not None and settings.asks_for_pairs:
        shaped = shaped_terms(plan.strategy.shapes, problem)
        fitted, found = add_pairs(
            encoder, problem, choice, fitted, scores, settings.pairs, settings.heredity, shaped, splits, context
        )
        context.clock.end_part("the choice of pairs")
    bands, residuals = bands_of(fitted, context), residuals_of(encoder, rows.sample, problem, choice, fitted, context)
    finished = problem.finish(fitted)
    response = respond if isinstance(respond, Response) else respond(problem, finished.model)
    made = _fit_value(rows, plan, problem, choice, finished, response, discoveries)
    seconds = time.perf_counter() - started
    summary = replace(made.summary, seconds=seconds, out_of_time=tuple(context.clock.cut_short))
    certificate = None if found is None else found.certificate
    return replace(made, summary=summary, bands=bands, residuals=residuals, pair_certificate=certificate)


def _with_estimated_family(
    problem: FitProblem, plan: Plan, splits: Callable[[FitProblem], CrossValidation], context: Context
) -> FitProblem:
    """Return the problem with the numbers of its family estimated by a first fit, where the family has any."""
    first_family = problem.family.first_family
    if first_family is None:
        return problem
    within, first = context.within("first"), problem.with_family(first_family)
    _, scores = fit_terms(first, choose(first, plan, splits, within), plan, within)
    context.clock.end_part("the first fit")
    prepared = problem.prepared
    return problem.with_family(problem.family.estimated(scores, prepared.target, prepared.weights))


def _fit_value(
    rows: FitInput,
    plan: Plan,
    problem: FitProblem,
    choice: Choice | None,
    fitted: Fitted,
    response: Response,
    discoveries: Discoveries | None,
) -> Fit:
    """Return the fit in columns of the table."""
    encoder, sample, model, prepared = rows.encoder, rows.sample, fitted.model, problem.prepared
    names, validated = encoder.names, None if choice is None else choice.validated
    path = None if validated is None else validated.task.path(validated.points, names)
    # what an FDR rule keeps is no point of the path, and the evidence is that of the default rule's choice
    on_path = validated if discoveries is None else None
    weights = sample.weights if sample.exposure is None else sample.weights * (sample.exposure > 0)
    evidence = None if on_path is None else on_path.evidence
    summary = summarize_training(encoder, prepared, model, sample.terms, weights, path, evidence)
    alpha = 0.0 if plan.settings.alpha == "auto" else float(plan.settings.alpha)
    return Fit(
        estimator=plan.estimator,
        settings=plan.parameters,
        encoder=encoder,
        response=response,
        model=model,
        n_parameters=model.n_parameters,
        norms=by_column(fitted.norms, problem.column_of, len(names)),
        alpha=alpha if choice is None else choice.alpha,
        summary=replace(summary, target=rows.target),
        substitutes=twins_of(prepared, model, encoder)
        if choice is None
        else substitutes_of(choice.task, model, encoder),
        certificate=None if choice is None else _certificate_by_column(choice, names),
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
