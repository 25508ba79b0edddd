"""Large tables: columns and knots are chosen on a sample of rows, and the chosen terms are fitted to all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.context import Context
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.fitting.problem import FamilyProblem, Fitted, SmoothEvidence
from sparsenam.smooth.all_rows import AllRows, fit_all_rows
from sparsenam.smooth.newton import SmoothProblem
from sparsenam.tables import Sample, Scaling, TableEncoder
from sparsenam.tables.blocks import Block, Blocks, VisitedBlocks
from sparsenam.tables.sample import Matrix, Vector
from sparsenam.training.rows import BlockRows

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

    ``terms`` are the fitted ones, ``unit`` is what weights are divided by to have mean 1.
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

    def __call__(self, block: Block) -> SmoothProblem:
        """Return the terms (terms, rows), target and weights of the rows that count."""
        target, weights = self.read_target(block.y)
        if block.weights is not None:
            weights = weights * _checked(block.weights, "sample_weight")
        present, power = weights > 0.0, self.family.exposure_power
        exposure = None if block.exposure is None else _checked(block.exposure, "exposure")
        if exposure is not None:
            if target[exposure == 0.0].any():
                raise InputError(describe("exposure", "y = 0 where it is 0", "another y", "correct the row"))
            present &= exposure > 0.0
        x = self.scaling.apply(self.encoder.encode(block.X)[:, self.terms]).T
        if not present.all():
            x, target, weights = x[:, present], target[present], weights[present]
        weights = weights / self.unit
        if exposure is not None and power is not None:
            units = self.exposure_unit * exposure[present]
            target, weights = target / units[:, None], weights * units**power / self.exposure_mean
        return SmoothProblem(np.ascontiguousarray(x), self.target_scaling.apply(target), weights, self.family)


def _checked(values: NDArray[Any], name: str) -> Vector:
    """Return weights or exposures (rows,) as numbers; raise where one is negative or missing."""
    numbers = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(numbers) & (numbers >= 0.0)).all():
        bad = numbers[~(np.isfinite(numbers) & (numbers >= 0.0))][0]
        raise InputError(describe(name, "finite numbers of at least 0", f"{bad:g}", "correct the row"))
    return numbers


def on_all_rows(table: LargeTable, encoder: TableEncoder, sample: Sample, fitted: Fitted, context: Context) -> Fitted:
    """Return the fit of a sample's smooth fit's terms to all rows.

    What is known of its uncertainty is that of all rows: the sample's stand for them, each for as many as it must.
    """
    evidence = fitted.smooth
    if evidence is None or not evidence.fit.ramps:
        return fitted
    problem = evidence.problem
    prepared = problem.prepared
    reader = _reader(table, encoder, sample, problem)
    task = SmoothProblem(prepared.x, prepared.target, prepared.weights, problem.family)
    found = fit_all_rows(AllRows(table.blocks, reader), task, evidence.fit, prepared.levels, context)
    bank, theta = found.fit.network()
    model, unit = fitted.model, prepared.target_scaling.scale
    base = found.fit.intercept + found.means.sum(axis=0)
    model = replace(
        model,
        bank=bank,
        theta=theta,
        offsets=found.means,
        absent=np.zeros_like(found.means),
        intercept=prepared.target_scaling.center + unit * base + np.log(prepared.exposure_unit),
    )
    larger = replace(prepared, weights=prepared.weights * (table.blocks.n_rows / len(prepared.target)))
    stands_for_all = SmoothEvidence(replace(problem, prepared=larger), found.fit, evidence.places)
    return replace(fitted, model=model, smooth=stands_for_all)


def trained_on(table: LargeTable, encoder: TableEncoder, sample: Sample, problem: FamilyProblem) -> BlockRows:
    """Return all rows of a table that is not in memory, for training a network on the problem's terms."""
    assert isinstance(table.blocks, VisitedBlocks)  # others are refused before anything is read
    reader, prepared = _reader(table, encoder, sample, problem), problem.prepared
    return BlockRows(table.blocks, reader, prepared.terms, float(prepared.weights.mean()))


def _reader(table: LargeTable, encoder: TableEncoder, sample: Sample, problem: FamilyProblem) -> RowReader:
    """Return how blocks are read: as the sample was, with its units."""
    prepared, present = problem.prepared, sample.present
    exposure_unit = float(prepared.exposure_unit[0])
    mean, power = 1.0, problem.family.exposure_power
    weights = sample.weights[present]
    if sample.exposure is not None and power is not None and power != 1.0:
        raised = weights / weights.mean() * (exposure_unit * sample.exposure[present]) ** power
        mean = float(raised.mean())
    return RowReader(
        encoder,
        table.read_target,
        problem.family,
        prepared.terms,
        prepared.scaling,
        prepared.target_scaling,
        float(weights.mean()),
        exposure_unit,
        mean,
    )
