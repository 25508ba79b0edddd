"""Pairs of columns in the pipeline: what is asked for, screen, choose, fit, and the model without double counting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.errors import InputError, check_word, describe
from sparsenam.fit.problem import FamilyProblem, Fitted, Fitter, Indices, SmoothEvidence, Vector, shaped_terms
from sparsenam.model import FittedCurve, finish
from sparsenam.model.pairs import PairFunction, with_margin
from sparsenam.selection.choose import Choice, CrossValidation
from sparsenam.selection.curve import FDR, Splits, among
from sparsenam.selection.pairs import PairTask, choose_pairs, screen
from sparsenam.smooth.constraints import Shape
from sparsenam.smooth.engine import LIGHTEST, SmoothFit, SmoothProblem
from sparsenam.smooth.pairs import PairFit, fit_pairs
from sparsenam.tables.encoder import ColumnName, TableEncoder, column_index
from sparsenam.tables.sample import PreparedSample

if TYPE_CHECKING:
    from sparsenam.fit.plan import Plan, Splitter  # which reads the types of settings from here

Pairs = int | Literal["auto"] | Sequence[tuple[ColumnName, ColumnName]]
Heredity = Literal["none", "weak", "strong"]
TermPairs = list[tuple[int, int]]  # indices of terms among the prepared ones

# make constants: SCREEN_LEVEL halved +0 %, doubled -0.06 % bands
SCREEN_LEVEL = 0.05  # of the screen, over all pairs tested
# make constants: CANDIDATES halved +0.11 %, doubled +0 % loss
CANDIDATES = 32  # pairs that the path starts with: those that explain most of the residuals
ALL_PAIRS = 20_000  # up to which all are tested; beyond, those that hold a kept column
MOST_ASKED = 100  # pairs that may be named
# folds, of large tables one, in which pairs must predict no worse than curves: without, savings_of_families loses 34 %
TRIED_FOLDS, MOST_TRIED_CELLS = 3, 30_000


def check_pairs(pairs: Pairs, heredity: Heredity) -> None:
    """Raise for settings that no table could satisfy."""
    check_word("heredity", heredity, ("none", "weak", "strong"))
    if isinstance(pairs, str):
        is_known = pairs == "auto"
    else:
        is_known = isinstance(cast(object, pairs), int | np.integer | Sequence) and not isinstance(pairs, bool)
    if not is_known:
        expected = "0, a number of pairs, 'auto', or a list of pairs of columns"
        raise InputError(describe("pairs", expected, repr(pairs), "choose one of them"))
    useless = "there are no pairs" if pairs == 0 else ""
    if isinstance(pairs, Sequence) and not isinstance(pairs, str):
        useless = "the pairs are given"
        for pair in pairs:
            if isinstance(pair, str) or not isinstance(cast(object, pair), Sequence) or len(pair) != 2:
                raise InputError(describe("pairs", "two columns in each pair", repr(pair), "write (one, other)"))
        if len(pairs) > MOST_ASKED:
            got = f"{len(pairs)} pairs"
            raise InputError(describe("pairs", f"at most {MOST_ASKED} named pairs", got, "name those that matter"))
    elif not isinstance(pairs, str) and pairs < 0:
        raise InputError(describe("pairs", "a number of at least 0", f"{pairs}", "choose another"))
    if useless and heredity != "none":
        got = f"{heredity!r}, which could not act: {useless}"
        raise InputError(describe("heredity", "its default 'none'", got, "leave it out"))


def asked_pairs(pairs: Pairs, encoder: TableEncoder, prepared: PreparedSample) -> TermPairs | None:
    """Return the pairs that are named, by the indices of their terms among the prepared ones; None if none are."""
    if isinstance(pairs, str | int | np.integer):
        possible = len(encoder.names) * (len(encoder.names) - 1) // 2
        if isinstance(pairs, int | np.integer) and pairs > possible:
            expected = f"at most the {possible} pairs that the table has"
            raise InputError(describe("pairs", expected, f"{pairs}", "ask for fewer"))
        return None
    terms, found = value_terms(encoder, prepared), TermPairs()
    for pair in pairs:
        columns = [column_index(encoder, column, "pairs") for column in pair]
        one, other = (encoder.names[column] for column in columns)
        if one == other:
            raise InputError(describe("pairs", "two different columns", f"{one!r} twice", "name another"))
        for column in columns:
            if column not in terms:
                got = f"{encoder.names[column]!r}, which was left out"
                raise InputError(describe("pairs", "columns that vary", got, "name another column"))
        first, second = (terms[column] for column in columns)
        if (first, second) in found or (second, first) in found:
            raise InputError(describe("pairs", "each pair once", f"{[one, other]} twice", "name it once"))
        found.append((first, second))
    return found


def value_terms(encoder: TableEncoder, prepared: PreparedSample) -> dict[int, int]:
    """Return for each column the index, among the prepared terms, of the term with its values."""
    every = [(place, encoder.terms[int(number)]) for place, number in enumerate(prepared.terms)]
    return {term.column: place for place, term in every if term.kind != "missing"}


def add_pairs(
    encoder: TableEncoder,
    problem: FamilyProblem,
    choice: Choice,
    fitted: Fitted,
    plan: Plan,
    splits: Splitter,
    context: Context,
) -> Fitted:
    """Return the fit with the pairs that are asked for or found, or as it was where there are none.

    Terms that must bend, jump or be lines are in no pair, nor are, where discoveries are tested, terms that are none.
    """
    prepared, pairs, scores = problem.prepared, plan.settings.pairs, problem.scores(fitted.model)
    tested, shapes = isinstance(plan.rule, FDR), shaped_terms(plan.strategy.shapes, problem)
    shaped = {term for term, shape in shapes.items() if shape.bend or shape.form in ("linear", "steps")}
    assert fitted.smooth is not None
    found = asked_pairs(pairs, encoder, prepared)
    if found is None:
        at, on_scale = problem.at(scores)
        most = int(pairs) if isinstance(pairs, int | np.integer) else None
        terms = [term for term in value_terms(encoder, prepared).values() if term not in shaped]
        heredity: Heredity = "strong" if tested else plan.settings.heredity
        found = find_pairs(at, on_scale, choice, terms, most, heredity, splits(problem), context)
    else:
        both = [term for pair in found for term in shaped.intersection(pair)]
        if both:  # a shape could not be promised for the whole model
            got = f"{prepared.names[both[0]]!r}, of which shapes asks more"
            remedy = "leave it out of pairs, or out of shapes"
            raise InputError(describe("pairs", "columns that are free, 'increasing' or 'decreasing'", got, remedy))
        found = [pair for pair in found if not tested or np.isin(pair, choice.support).all()]
    if not found:
        return fitted
    mains = frozenset(int(term) for term in fitted.model.terms)
    kept = [place for place, index in enumerate(choice.support) if int(prepared.terms[index]) in mains]
    chosen = tuple((int(prepared.terms[one]), int(prepared.terms[other])) for one, other in found)
    indices = np.union1d(choice.support[kept], np.array(found, dtype=np.intp).ravel())
    fitter = pair_fitter(mains, chosen, fitted.smooth.fit.take(kept), plan.strategy.shapes)
    if not plan.settings.names_pairs and problem.solves_in_batches:
        count = TRIED_FOLDS if len(scores) * max(indices.size, 1) <= MOST_TRIED_CELLS else 1
        folds, alone = splits(problem).splits[:count], (plan.strategy.fitter(choice), choice.support)
        both, without = (_held_out(problem, choice, each, folds, context) for each in ((fitter, indices), alone))
        if both > without:
            return fitted
    return problem.fit(fitter, indices, scores[:, 0] if choice.start is not None else None, context)


def _held_out(
    problem: FamilyProblem, choice: Choice, given: tuple[Fitter, Indices], folds: Splits, context: Context
) -> float:
    """Return the loss of the rows of some folds under the fit of some terms to their training rows."""
    (fitter, indices), prepared, total = given, problem.prepared, 0.0
    _, loss = problem.judged_by(choice.task, folds, prepared.target)
    refit = problem.refit(fitter, context)
    for fold, (train, test) in enumerate(folds):
        weights = np.zeros_like(prepared.weights)
        weights[train] = prepared.weights[train]
        total += float(prepared.weights[test] @ loss.of_fold(fold, test, refit(weights, indices)[test]))
    return total


def find_pairs(
    problem: FamilyProblem,
    scores: Vector,
    choice: Choice,
    terms: Sequence[int],
    most: int | None,
    heredity: Heredity,
    plan: CrossValidation,
    context: Context,
) -> TermPairs:
    """Screen the pairs of some prepared terms on what the mains leave, and choose among those that pass.

    ``scores`` (rows, outputs) are those of the mains.
    """
    rows, family, prepared = np.flatnonzero(problem.prepared.weights), problem.family, problem.prepared
    if rows.size < len(scores):
        prepared, scores = prepared.at_rows(rows), scores[rows]
    kept = set[int](choice.support.tolist())
    tested = _pairs_to_test(terms, kept, heredity)
    if not len(tested) or len(kept) >= rows.size:  # curves of as many columns as rows leave nothing to test
        return []
    task = SmoothProblem(prepared.x, prepared.target, prepared.weights, family)
    slopes = -prepared.weights[:, None] * family.gradient(scores, prepared.target)
    # the curvature of amounts grows with y: a few of them would decide about the cells that they fall into
    expected = family.mean(scores) if family.link == "log" else prepared.target
    bends = family.mean(scores) if family.couples_outputs else family.hessian_diagonal(scores, expected)
    screened = screen(
        prepared.x,
        prepared.levels,
        slopes,
        prepared.weights[:, None] * np.maximum(bends, LIGHTEST),
        tested,
        freedom=float(len(kept)),
        outputs=float(task.free_outputs),
        dispersion=1.0 if family.dispersion == "fixed" else None,
    )
    candidates = screened.passing(SCREEN_LEVEL)[:CANDIDATES]
    if not len(candidates):
        return []
    weights = prepared.weights * np.mean(replace(task, target=expected).curvatures(scores), axis=0)
    response = slopes / weights[:, None]
    explained = task.loss(task.constant_scores) - task.loss(scores)
    squares = float(np.sum(weights[:, None] * response**2))
    null_loss = (0.5 * squares + max(explained, 0.0)) / float(weights.sum())
    least = 1.0 if family.dispersion == "fixed" else 0.0
    pairs = PairTask(prepared.x, prepared.levels, candidates, response, weights, null_loss, least, len(tested))
    taken = choose_pairs(pairs, among(plan.splits, rows), plan.rule, most, context)
    return [(int(candidates[index, 0]), int(candidates[index, 1])) for index in taken]


def _pairs_to_test(terms: Sequence[int], kept: set[int], heredity: Heredity) -> NDArray[np.intp]:
    """Return the pairs of terms that heredity allows, shape (pairs, 2); of very many, those with a kept term."""
    others = kept.intersection(terms) if heredity == "strong" else set(terms)
    many = len(others) * (len(others) - 1) // 2 > ALL_PAIRS
    first = kept & others if many or heredity == "weak" else others
    found = {(min(one, other), max(one, other)) for one in first for other in others if one != other}
    return np.array(sorted(found), dtype=np.intp).reshape(-1, 2)


def pair_fitter(
    mains: frozenset[int], pairs: Sequence[tuple[int, int]], start: SmoothFit, shapes: Mapping[ColumnName, Shape]
) -> Fitter:
    """Return the fit of mains and pairs together, with smoothness and resolution chosen by the data.

    ``mains`` and ``pairs`` are encoded terms, ``start`` is the fit of the mains alone, in their order.
    """

    def fit(problem: FamilyProblem, context: Context) -> Fitted:
        prepared, family = problem.prepared, problem.family
        index = {int(term): place for place, term in enumerate(prepared.terms)}
        places = np.array([place for term, place in index.items() if term in mains], dtype=np.intp)
        present = prepared.weights > 0
        x, target, weights = prepared.x[:, present], prepared.target[present], prepared.weights[present]
        placed = [(index[one], index[other]) for one, other in pairs]
        task = SmoothProblem(x, target, weights, family)
        signs = {term: shape.sign for term, shape in shaped_terms(shapes, problem).items() if shape.sign}
        return _assembled(problem, fit_pairs(task, start, places, placed, prepared.levels, signs, context), placed)

    return Fitter(fit, counts_rows=True)


def _assembled(problem: FamilyProblem, fit: PairFit, pairs: Sequence[tuple[int, int]]) -> Fitted:
    """Return the fit as a model in which a pair holds nothing that either of its terms explains alone."""
    prepared = problem.prepared
    center, scale, unit = prepared.scaling.center, prepared.scaling.scale, prepared.target_scaling.scale
    intercept, shapes = fit.intercept.copy(), dict(fit.held)
    for place, curve, mean in zip(fit.places, fit.mains.functions(), fit.mains.mean_effects, strict=True):
        shapes[int(place)] = replace(curve, values=curve.values - mean)
    pure: list[PairFunction] = []
    for places, split in zip(pairs, fit.pairs, strict=True):
        pair = split.pair
        intercept += split.constant
        for place, knots, margin in zip(places, pair.knots, (split.rows, split.columns), strict=True):
            known = shapes.get(place)
            alone = FittedCurve.level_beyond(knots, margin[:-1], margin[-1])
            shapes[place] = alone if known is None else with_margin(known, knots, margin)
        first, second = (center[place] + scale[place] * each for place, each in zip(places, pair.knots, strict=True))
        terms = int(prepared.terms[places[0]]), int(prepared.terms[places[1]])  # from scaled terms to encoded ones
        pure.append(PairFunction(terms, (first, second), pair.values * unit, pair.weights))
    ordered = tuple(shapes[place] for place in range(prepared.terms.size))
    finished = finish(prepared, problem.family, ordered, intercept, pairs=pure)
    offset = np.zeros((prepared.weights.size, intercept.size))
    offset[prepared.weights > 0] = fit.offset
    evidence = SmoothEvidence(problem, fit.mains, fit.places, offset, fit.spreads)
    return Fitted(finished.model, finished.norms(), smooth=evidence, freedom=fit.freedom)
