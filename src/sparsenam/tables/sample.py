"""Training data in numbers, brought to the scale of the fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import ConstantColumnWarning, InputError, describe
from sparsenam.tables.groups import Grouping
from sparsenam.tables.scaling import Matrix, Scaling, Vector

SAME = 1e-6  # less than this from a correlation of 1: a thousandth of a standard deviation apart
PROJECTIONS, NEAR = 3, 0.01  # equal columns have equal products with random vectors; few others have


def equal_columns(columns: Matrix) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, of equal columns (rows, k) of mean 0 and variance 1, sorted.

    Cells that are NaN must be NaN in both. All pairs of 10,000 columns would be too many to compare: only those are
    whose products with three random vectors agree.
    """
    absent = np.isnan(columns)
    filled = np.where(absent, 0.0, columns)
    counts = np.maximum((~absent).sum(axis=0), 1)
    random = np.random.default_rng(0).normal(size=(columns.shape[0], PROJECTIONS))
    products = filled.T @ random / np.sqrt(counts)[:, None]
    products *= np.where(products[:, :1] < 0, -1.0, 1.0)  # a column and its negative are one
    order = np.argsort(products[:, 0], kind="stable")
    ranked, pairs = products[order], list[tuple[int, int]]()
    for apart in range(1, len(order)):
        gaps = ranked[apart:] - ranked[:-apart]
        if gaps[:, 0].min() > NEAR:
            break
        for rank in np.flatnonzero(np.abs(gaps).max(axis=1) <= NEAR):
            one, other = sorted((int(order[rank]), int(order[rank + apart])))
            together = abs(float(filled[:, one] @ filled[:, other])) / counts[one]
            if together >= 1.0 - SAME and np.array_equal(absent[:, one], absent[:, other]):
                pairs.append((one, other))
    return sorted(pairs)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Terms (rows, terms), target (rows, outputs), weights (rows,) and the terms' names.

    A term is what one sub-network reads: a column of numbers, the codes of a category, or whether a cell is
    missing. NaN marks a cell in which its term contributes nothing. ``levels`` says which terms are codes of
    unordered levels; ``grouping`` has the terms that enter together and their penalty weights, None for each term
    by itself. ``exposure`` (rows,) is the time or size over which a row was observed, for families of rates.
    """

    terms: Matrix
    target: Matrix
    weights: Vector
    names: Sequence[str]
    levels: NDArray[np.bool_] | None = None
    grouping: Grouping | None = None
    exposure: Vector | None = None

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which rows count: of weight, and of exposure if there is one, above 0; shape (rows,)."""
        weighted = self.weights > 0
        return weighted if self.exposure is None else weighted & (self.exposure > 0)

    def without_absent_rows(self) -> Sample:
        """Return the rows that count, weights scaled to mean 1."""
        present = self.present
        if not present.any():
            remedy = "give at least one row weight"
            raise InputError(describe("sample_weight", "some weight above 0", "none", remedy))
        weights = self.weights[present]
        return replace(
            self,
            terms=self.terms[present],
            target=self.target[present],
            weights=weights / weights.mean(),
            exposure=None if self.exposure is None else self.exposure[present],
        )


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSample:
    """A sample on the scale of the fit: the terms that vary, x (terms, rows), and target (rows, outputs).

    ``terms`` are their indices among the ``n_terms`` of the sample, sorted by name: then every sum, draw and tie is
    the same whatever the order of the table's columns. ``levels`` (terms,) marks codes of unordered levels.
    ``grouping`` has the groups, by index into ``terms``. ``twins`` names the terms left out because they equal a
    kept one in every row. ``exposure_unit`` (outputs,) is what e^score counts in.
    """

    terms: NDArray[np.intp]
    names: list[str]
    n_terms: int
    scaling: Scaling
    target_scaling: Scaling
    x: Matrix
    target: Matrix
    weights: Vector
    levels: NDArray[np.bool_]
    grouping: Grouping
    twins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exposure_unit: Vector = field(default_factory=lambda: np.ones(1))

    @property
    def is_plain(self) -> bool:
        """Whether every term is a number in every row."""
        return not (self.levels.any() or np.isnan(self.x).any())

    def take(self, indices: NDArray[np.intp]) -> PreparedSample:
        """Return the sample with some of its terms alone, given by their indices into ``terms``."""
        return replace(
            self,
            terms=self.terms[indices],
            names=[self.names[index] for index in indices],
            scaling=self.scaling.take(indices),
            x=self.x[indices],
            levels=self.levels[indices],
            grouping=self.grouping.take(indices),
        )


def prepare(
    sample: Sample,
    *,
    standardize: bool,
    measure_target: Callable[[Matrix, Vector], tuple[Vector, Vector]] | None = None,
    exposure_power: float | None = None,
) -> PreparedSample:
    """Return the sample without constant terms (with a warning), twins and rows of weight 0, and scaled.

    ``measure_target`` gives center and scale (outputs,) of a target (rows, outputs) with weights (rows,); without
    it the target stays as it is. With an exposure E a family of ``exposure_power`` q sees y/E with weight E^q: the
    same likelihood.
    """
    present = sample.without_absent_rows()
    names, n_terms = [str(name) for name in present.names], present.terms.shape[1]
    scaling = Scaling.of(present.terms, present.weights)
    constant = [names[term] for term in np.flatnonzero(scaling.scale == 0)]
    if constant:
        listed = ", ".join(constant[:5]) + (" …" if len(constant) > 5 else "")
        message = f"{len(constant)} constant column(s) left out of the model: {listed}."
        warnings.warn(message, ConstantColumnWarning, stacklevel=6)
    varying = sorted(np.flatnonzero(scaling.scale).tolist(), key=lambda term: names[term])
    grouping = Grouping.separate(n_terms) if present.grouping is None else present.grouping
    terms, twins = _without_twins(present, scaling, varying, grouping)
    scaling = scaling.take(terms) if standardize else Scaling.none(terms.size)
    target, weights, unit = _by_exposure(present, exposure_power)
    target_scaling = Scaling.none(target.shape[1])
    if measure_target is not None:
        center, scale = measure_target(target, weights)
        target_scaling = Scaling(center, np.where(scale == 0, 1.0, scale))
        target = np.where(scale == 0, center, target)  # what rounding leaves of a constant is no signal
    levels = np.zeros(n_terms, dtype=np.bool_) if present.levels is None else present.levels
    return PreparedSample(
        terms=terms,
        names=[names[term] for term in terms],
        n_terms=n_terms,
        scaling=scaling,
        target_scaling=target_scaling,
        x=np.ascontiguousarray(scaling.apply(present.terms[:, terms]).T),
        target=target_scaling.apply(target),
        weights=weights,
        levels=levels[terms],
        grouping=grouping.take(terms),
        twins=twins,
        exposure_unit=unit,
    )


def _without_twins(
    sample: Sample, scaling: Scaling, varying: list[int], grouping: Grouping
) -> tuple[NDArray[np.intp], dict[str, tuple[str, ...]]]:
    """Leave out terms that equal another in every row, up to unit and sign: between them only luck could decide.

    Terms in a group with others, and those that are free, stay. Of equal terms the one with the lowest penalty
    weight is kept, of these the first by name.
    """
    groups = zip(grouping.members, grouping.weights, strict=True)
    weight_of = {int(terms[0]): float(weight) for terms, weight in groups if terms.size == 1 and weight > 0}
    single = [term for term in varying if term in weight_of]
    single.sort(key=lambda term: weight_of[term])  # a stable sort: by name within a weight
    columns = (sample.terms[:, single] - scaling.center[single]) / scaling.scale[single]
    twins: dict[int, list[int]] = {}
    gone: set[int] = set()
    for first, second in equal_columns(columns):  # the first comes before the second in order of weight and name
        kept, twin = single[first], single[second]
        if kept not in gone and twin not in gone:
            twins.setdefault(kept, []).append(twin)
            gone.add(twin)
    names = {
        str(sample.names[kept]): tuple(sorted(str(sample.names[twin]) for twin in others))
        for kept, others in twins.items()
    }
    return np.array([term for term in varying if term not in gone], dtype=np.intp), names


def _by_exposure(sample: Sample, power: float | None) -> tuple[Matrix, Vector, Vector]:
    """Return target, weights and unit, with the exposure in a unit in which the mean rate is 1."""
    if sample.exposure is None:
        return sample.target, sample.weights, np.full_like(sample.target[0], 1.0)
    if power is None:
        expected = "a family of rates, such as 'poisson', 'gamma' or 'tweedie'"
        raise InputError(describe("exposure", expected, "another family", "leave the exposure out"))
    total = float(sample.weights @ sample.target.sum(axis=1))
    unit = total / float(sample.weights @ sample.exposure) if total > 0 else 1.0
    exposure = unit * sample.exposure
    weights = sample.weights * exposure**power
    if power != 1.0:  # weights of counts add up to the events, which is what the data know; others are relative
        weights = weights / weights.mean()
    return sample.target / exposure[:, None], weights, np.full_like(sample.target[0], unit)
