"""Large tables: columns and knots are chosen on a sample of rows, and the chosen terms are fitted to all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.errors import rows_named_by
from sparsenam.families import Family
from sparsenam.fit.problem import FamilyProblem, Fitted
from sparsenam.fit.response import check_counts, check_exposure
from sparsenam.model import AdditiveModel, FittedCurve
from sparsenam.model.additive import in_units
from sparsenam.smooth.all_rows import AllRows, BlockProblem, NewtonSums, fit_all_rows, newton_sums
from sparsenam.tables.blocks import Block, Blocks, VisitedBlocks
from sparsenam.tables.encoder import News, TableEncoder
from sparsenam.tables.sample import Matrix, Sample, Scaling, Vector
from sparsenam.training.rows import TrainingBlocks

TargetReader = Callable[[NDArray[np.generic]], tuple[Matrix, Vector]]


@dataclass(frozen=True, slots=True, eq=False)
class LargeTable:
    """All rows of a table in blocks, and how targets are read: y to the target (rows, outputs) and factors of weights.

    The factors (rows,) are those of the rows' classes.
    """

    blocks: Blocks
    read_target: TargetReader


@dataclass(frozen=True, slots=True, eq=False)
class RowReader:
    """A block's rows on the scale of a fit; picklable, so that it can be sent where the rows are.

    ``terms`` are the fitted ones, ``unit`` is what weights are divided by, ``held`` is what is not fitted.
    """

    encoder: TableEncoder
    read_target: TargetReader
    family: Family
    terms: NDArray[np.intp]
    scaling: Scaling
    target_scaling: Scaling
    unit: float
    exposure_unit: float
    exposure_mean: float
    held: AdditiveModel | None = None

    def __call__(self, block: Block) -> BlockProblem:
        """Return the terms (terms, rows), target and weights of the rows that count."""
        with rows_named_by(block.in_table):
            return self._read(block)

    def _read(self, block: Block) -> BlockProblem:
        target, weights = self.read_target(block.y)
        if block.weights is not None:
            weights = weights * check_counts(block.weights, "sample_weight")
        present, power = weights > 0.0, self.family.exposure_power
        exposure = None if block.exposure is None else check_exposure(block.exposure, target)
        if exposure is not None:
            present &= exposure > 0.0
        encoded, news = self.encoder.encode_columns(self.encoder.columns_of(block.X))
        x = self.scaling.apply(encoded[:, self.terms]).T
        offset = 0.0 if self.held is None else self.held.scores(encoded[present]) / self.target_scaling.scale
        if not present.all():
            x, target, weights = x[:, present], target[present], weights[present]
        weights = weights / self.unit
        if exposure is not None and power is not None:
            units = self.exposure_unit * exposure[present]
            target, weights = target / units[:, None], weights * units**power / self.exposure_mean
        scaled = self.target_scaling.apply(target)
        return BlockProblem(np.ascontiguousarray(x), scaled, weights, self.family, news, offset)


@dataclass(slots=True, eq=False)
class WarningReader:
    """Reads blocks, and warns once of each column that holds what the sample does not."""

    read: RowReader
    warned: News = field(default_factory=News)

    def __call__(self, block: Block) -> BlockProblem:
        """Return what the reader does."""
        rows = self.read(block)
        pairs = zip(rows.news.unseen, self.warned.unseen or (frozenset[str](),) * len(rows.news.unseen), strict=True)
        missing = zip(rows.news.missing, self.warned.missing or (False,) * len(rows.news.missing), strict=True)
        fresh = News(
            tuple(frozenset[str]() if known else unseen for unseen, known in pairs),
            tuple(now and not known for now, known in missing),
        )
        self.warned += rows.news
        warn_of_others(self.read.encoder, fresh)
        return rows


def warn_of_others(encoder: TableEncoder, news: News) -> None:
    """Warn of what rows outside the sample hold that the sample does not."""
    count = len(news.unseen)
    uncounted = News(news.unseen, news.missing, (0,) * count, (1,) * count)  # blocks differ between engines
    encoder.warn_of(uncounted, "in the sample that chose the columns", "in other rows")


def on_all_rows(table: LargeTable, encoder: TableEncoder, sample: Sample, fitted: Fitted, context: Context) -> Fitted:
    """Return the fit of a sample's smooth fit's terms to all rows, with the pairs that the sample gives.

    What is known of its uncertainty is that of all rows: the sample's stand for them, each for as many as it must.
    """
    evidence = fitted.smooth
    if evidence is None:
        return fitted
    problem, model, offset = evidence.problem.take(evidence.places), fitted.model, 0.0
    prepared, held = problem.prepared, None
    if model.pairs:
        held = _held(model, prepared.terms)
        offset = held.scores(sample.terms[sample.present]) / prepared.target_scaling.scale
    rows = AllRows(table.blocks, _reader(table, encoder, sample, problem, held))
    task = BlockProblem(prepared.x, prepared.target, prepared.weights, problem.family, offset=offset)
    if evidence.fit.ramps:
        fit = fit_all_rows(rows, task, evidence.fit, prepared.levels, context)
        means, unit = fit.mean_effects, prepared.target_scaling.scale
        base = fit.intercept + means.sum(axis=0)
        curves = in_units(tuple(fit.functions()), prepared.scaling, means, unit, np.zeros_like(means))
        found = replace(model, terms=prepared.terms, functions=curves)
        functions = dict(zip(model.terms.tolist(), model.curves, strict=True))
        for term, curve in zip(found.terms.tolist(), found.curves, strict=True):
            functions[term] = replace(curve, absent=functions[term].absent)
        model = replace(model, functions=tuple(functions.values()))
    else:
        base = constant_of(rows, task, evidence.fit.intercept, context)
        fit = replace(evidence.fit, intercept=base)
    for news in rows.news:
        warn_of_others(encoder, news)
    scaling = prepared.target_scaling
    model = replace(model, intercept=scaling.center + scaling.scale * base + np.log(prepared.exposure_unit))
    every = evidence.problem.prepared
    larger = replace(every, weights=every.weights * (table.blocks.n_rows / len(every.target)))
    known = replace(evidence, problem=replace(evidence.problem, prepared=larger), fit=fit, offset=offset)
    freedom = fitted.freedom
    if freedom is not None:
        freedom += float(fit.degrees_of_freedom.sum() - evidence.fit.degrees_of_freedom.sum())
    return replace(fitted, model=model, smooth=known, freedom=freedom)


def _held(model: AdditiveModel, mains: NDArray[np.intp]) -> AdditiveModel:
    """Return what fits of the mains leave as it is: pairs, curves of terms in pairs alone, effects of absent cells."""
    curves = zip(model.terms.tolist(), model.curves, strict=True)
    nothing = np.zeros((1, model.intercept.size))
    functions = tuple(
        FittedCurve.level_beyond(np.zeros(1), nothing, curve.absent) if term in mains else curve
        for term, curve in curves
    )
    return replace(model, functions=functions, intercept=nothing[0])


MOST_PASSES, AT_REST = 25, 1e-8  # for the constant of a loss without a closed solution; its change at the end


def target_sums(rows: BlockProblem, state: None) -> Vector:
    """Return the sums of the weights and of the weighted target over a block's rows, shape (1 + outputs,)."""
    return np.append(rows.weights.sum(), rows.weights @ rows.target)


def constant_of(rows: AllRows, sample: BlockProblem, first: Vector, context: Context) -> Vector:
    """Return the score (outputs,) that fits all rows best where no main is kept, from that of the sample.

    Most families need the mean of the target alone, in which Newton's steps, a pass each, then find nothing to gain.
    """
    guess = first
    if not np.any(sample.offset):
        totals = rows.sums(target_sums, None, context)
        guess = sample.family.best_constant(totals[None, 1:] / totals[0], np.ones(1))
        if sample.family.is_quadratic:
            return guess

    def at(constant: Vector) -> NewtonSums:
        return rows.sums(newton_sums, ((), np.zeros((0, first.size)), constant), context)

    best, sums = min(((each, at(each)) for each in (first, guess)), key=lambda each: each[1].loss)
    step = sums.lift / sums.totals
    for _ in range(MOST_PASSES):
        if np.all(np.abs(step) <= AT_REST * (1.0 + np.abs(best))) or context.clock.passed():
            break
        tried = at(best + step)
        if tried.loss < sums.loss:
            best, sums, step = best + step, tried, tried.lift / tried.totals
        else:
            step = 0.25 * step
    return best


def trained_on(table: LargeTable, encoder: TableEncoder, sample: Sample, problem: FamilyProblem) -> TrainingBlocks:
    """Return all rows of a table that is not in memory, for training a network on the problem's terms."""
    assert isinstance(table.blocks, VisitedBlocks)  # others are refused before anything is read
    reader, prepared = WarningReader(_reader(table, encoder, sample, problem)), problem.prepared
    return TrainingBlocks(table.blocks, reader, prepared.terms, float(prepared.weights.mean()))


def _reader(
    table: LargeTable, encoder: TableEncoder, sample: Sample, problem: FamilyProblem, held: AdditiveModel | None = None
) -> RowReader:
    """Return how blocks are read: as the sample was, with its units."""
    prepared, present = problem.prepared, sample.present
    exposure_unit = float(prepared.exposure_unit[0])
    mean, power = 1.0, problem.family.exposure_power
    weights = sample.weights[present] / sample.weight_unit
    if sample.exposure is not None and power is not None and problem.family.dispersion != "fixed":
        raised = weights * (exposure_unit * sample.exposure[present]) ** power
        mean = float(raised.sum() / weights.sum())
    return RowReader(
        encoder,
        table.read_target,
        problem.family,
        prepared.terms,
        prepared.scaling,
        prepared.target_scaling,
        sample.weight_unit,
        exposure_unit,
        mean,
        held,
    )
