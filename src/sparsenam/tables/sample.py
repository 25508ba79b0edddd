"""Training data in numbers: terms scaled, grouped and without twins, on the scale of the fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Indices, Matrix, Vector
from sparsenam.errors import (
    LARGEST_VALUE,
    LEAST_DIVISOR,
    ConstantColumnWarning,
    ConstantTargetWarning,
    InputError,
    describe,
)
from sparsenam.tables.columns import SPREAD_ROUNDING
from sparsenam.tables.frame import limited

ULPS = 8.0  # of a value: what a sum or a product that should be constant may be off by


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """x ↦ (x - center)/scale for each column; shapes (columns,)."""

    center: Vector
    scale: Vector

    @classmethod
    def of(cls, columns: Matrix, weights: Vector) -> Self:
        """Return the weighted means and standard deviations; a constant column gets scale 0."""
        absent = np.isnan(columns)
        if absent.any():
            return cls._of_present(columns, weights, absent)
        center = np.average(columns, axis=0, weights=weights)
        deviations = columns - center
        # dividing by the largest deviation first keeps the squares of huge values finite
        largest = np.abs(deviations).max(axis=0, initial=0.0)
        constant = largest <= SPREAD_ROUNDING * np.abs(columns).max(axis=0, initial=0.0)
        safe = np.where(constant, 1.0, largest)
        spread = safe * np.sqrt(np.average((deviations / safe) ** 2, axis=0, weights=weights))
        return cls(center, np.where(constant, 0.0, spread))

    @classmethod
    def _of_present(cls, columns: Matrix, weights: Vector, absent: NDArray[np.bool_]) -> Self:
        """Measure each column on the rows where it is present; one without any gets scale 0."""
        center, scale = np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
        for column, gone in enumerate(absent.T):
            rows = ~gone & (weights > 0)
            if rows.any():
                measured = cls.of(columns[rows, column : column + 1], weights[rows])
                center[column], scale[column] = measured.center[0], measured.scale[0]
        return cls(center, scale)

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, columns: Matrix) -> Matrix:
        return (columns - self.center) / self.scale

    def take(self, columns: NDArray[np.intp]) -> Self:
        return type(self)(self.center[columns], self.scale[columns])


def mean_and_deviation(columns: Matrix, weights: Vector) -> tuple[Vector, Vector]:
    """Return the weighted means and standard deviations of columns (rows, k), 0 for a constant one."""
    measured = Scaling.of(columns, weights)
    return measured.center, measured.scale


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of terms, and the penalty weight of each.

    ``members`` has the indices of each group's terms; ``weights`` (groups,) multiply the penalty, 0 is free.
    """

    members: tuple[Indices, ...]
    weights: Vector

    @cached_property
    def group_of(self) -> Indices:
        """The group of each term, shape (terms,)."""
        groups = np.empty(sum(terms.size for terms in self.members), dtype=np.intp)
        for group, terms in enumerate(self.members):
            groups[terms] = group
        return groups

    @classmethod
    def separate(cls, n_terms: int) -> Grouping:
        """Return one group of weight 1 for each term."""
        return cls(tuple(np.array([term], dtype=np.intp) for term in range(n_terms)), np.ones(n_terms))

    def take(self, terms: Indices) -> Grouping:
        """Return the groups of some terms, numbered anew in the order given; groups without a term vanish."""
        members: dict[int, list[int]] = {}
        for number, group in enumerate(self.group_of[terms].tolist()):
            members.setdefault(group, []).append(number)
        inside = tuple(np.array(numbers, dtype=np.intp) for numbers in members.values())
        return Grouping(inside, self.weights[np.array(list(members), dtype=np.intp)])


# chosen without a measurement
SAME_CORRELATION = 1e-6  # less than this from a correlation of 1: a thousandth of a standard deviation apart
PROJECTIONS, PROJECTION_DISTANCE = 3, 0.01  # equal columns have equal products with random vectors; few others have
# distances of quartiles: of a column that few cells dominate, and of rounding
DOMINATED_SPREAD, QUARTILE_ROUNDING = 1e-3, 1e-9  # chosen without a measurement


def equal_columns(columns: Matrix, chosen: Sequence[int], scaling: Scaling) -> list[tuple[int, int]]:
    """Return places (i, j) for each chosen column j that equals an earlier one, i the first such that equals none.

    Columns (rows, k) are compared on the scale of ``scaling``; cells that are NaN must be NaN in both. All pairs of
    10,000 columns would be too many to compare: only those are whose products with three random vectors agree, and of
    equal columns the first.
    """
    products = _projections(columns, chosen, scaling)
    order = np.argsort(products[:, 0], kind="stable")
    rising, equals_none, pairs = products[order, 0], np.zeros(len(chosen), dtype=np.bool_), list[tuple[int, int]]()
    for place, product in enumerate(products):
        start, stop = np.searchsorted(
            rising, (product[0] - PROJECTION_DISTANCE, np.nextafter(product[0] + PROJECTION_DISTANCE, np.inf))
        )
        near = order[start:stop]
        near = near[equals_none[near]]  # columns before this one
        near = np.sort(near[np.abs(products[near] - product).max(axis=1, initial=0.0) <= PROJECTION_DISTANCE])
        if near.size:
            across = _scaled(columns, np.array([chosen[index] for index in (place, *near)]), scaling)
            near = near[_equal_to_first(across)]
        equals_none[place] = not near.size
        if near.size:
            pairs.append((int(near[0]), place))
    return sorted(pairs)


def _projections(columns: Matrix, chosen: Sequence[int], scaling: Scaling) -> Matrix:
    """Return the products of scaled columns with random vectors, the first not below 0, shape (chosen, vectors)."""
    random = np.random.default_rng(0).normal(size=(columns.shape[0], PROJECTIONS))
    products = np.zeros((len(chosen), PROJECTIONS))
    for product, column in zip(products, chosen, strict=True):
        values = (columns[:, column] - scaling.center[column]) / scaling.scale[column]
        present = ~np.isnan(values)
        product[:] = np.where(present, values, 0.0) @ random / np.sqrt(max(np.count_nonzero(present), 1))
    return products * np.where(products[:, :1] < 0, -1.0, 1.0)  # a column and its negative are one


def _scaled(columns: Matrix, chosen: Indices, scaling: Scaling) -> Matrix:
    """Return some columns of a matrix (rows, k) on a scale, each a row, without further copies of all cells."""
    across = np.empty((chosen.size, columns.shape[0]))
    for row, column in zip(across, chosen.tolist(), strict=True):
        np.subtract(columns[:, column], scaling.center[column], out=row)
        row /= scaling.scale[column]
    return across


def _equal_to_first(across: Matrix) -> NDArray[np.bool_]:
    """Return which of the later rows (k, n) equal the first: up to sign, and absent in the same cells."""
    absent = np.isnan(across)
    across = np.where(absent, 0.0, across)
    first, others, present = across[0], across[1:], ~absent[0]
    together = others @ first / max(int(present.sum()), 1)
    same = (np.abs(together) >= 1.0 - SAME_CORRELATION) & (absent[1:] == absent[0]).all(axis=1)
    spread = _quartile_distance(first[present]) if same.any() else 1.0
    if spread < DOMINATED_SPREAD:  # a few far cells alone correlate: the others must agree too
        for index in np.flatnonzero(same):
            apart = first[present] - np.sign(together[index]) * others[index, present]
            same[index] = _quartile_distance(apart) <= max(0.01 * spread, QUARTILE_ROUNDING)
    return same


def _quartile_distance(values: Vector) -> float:
    places = (values.size // 4, (3 * values.size) // 4)
    first, third = np.partition(values, places)[list(places)]
    return float(third - first)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Terms (rows, terms), target (rows, outputs), weights (rows,) and the terms' names.

    A term is what one sub-network reads: a column of numbers, the codes of a category, or whether a cell is
    missing. NaN marks a cell in which its term contributes nothing. ``levels`` says which terms are codes of
    unordered levels; ``grouping`` has the terms that enter together and their penalty weights, None for each term
    on its own. ``exposure`` (rows,) is the time or size over which a row was observed, for families of rates.
    ``counted`` says that weights are numbers of equal rows; otherwise they are relative, and their unit is none.
    """

    terms: Matrix
    target: Matrix
    weights: Vector
    names: Sequence[str]
    levels: NDArray[np.bool_] | None = None
    grouping: Grouping | None = None
    exposure: Vector | None = None
    counted: bool = False

    @property
    def weight_unit(self) -> float:
        """What weights are divided by: 1 for counts, else their mean over the rows that count."""
        return 1.0 if self.counted else float(self.weights[self.present].mean())

    @property
    def present(self) -> NDArray[np.bool_]:
        """Which rows count: of weight, and of exposure if there is one, above 0; shape (rows,)."""
        weighted = self.weights > 0
        return weighted if self.exposure is None else weighted & (self.exposure > 0)

    def without_absent_rows(self) -> Sample:
        """Return the rows that count, weights scaled to mean 1 unless they are counts."""
        present = self.present
        if not present.any():
            remedy = "give at least one row weight"
            raise InputError(describe("sample_weight", "some weight above 0", "none", remedy))
        weights = self.weights[present]
        return replace(
            self,
            terms=self.terms[present],
            target=self.target[present],
            weights=weights / self.weight_unit,
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

    def at_rows(self, rows: NDArray[np.intp]) -> PreparedSample:
        if rows.size == len(self.target):
            return self
        return replace(self, x=self.x[:, rows], target=self.target[rows], weights=self.weights[rows])

    def with_term(self, name: str, cells: Vector) -> PreparedSample:
        """Return the sample with one more term of numbers (rows,), scaled, and each term a group of its own."""
        (center,), (scale,) = mean_and_deviation(cells[:, None], self.weights)
        scale = scale if scale > 0.0 else 1.0
        return replace(
            self,
            terms=np.append(self.terms, self.n_terms),
            names=[*self.names, name],
            n_terms=self.n_terms + 1,
            scaling=Scaling(np.append(self.scaling.center, center), np.append(self.scaling.scale, scale)),
            x=np.vstack([self.x, (cells - center) / scale]),
            levels=np.append(self.levels, False),
            grouping=Grouping.separate(self.terms.size + 1),
        )


def prepare(
    sample: Sample,
    *,
    standardize: bool,
    limits: bool = False,
    measure_target: Callable[[Matrix, Vector], tuple[Vector, Vector]] | None = None,
    exposure_power: float | None = None,
    counts_events: bool = False,
) -> PreparedSample:
    """Return the sample without constant terms (with a warning), twins and rows of weight 0, and scaled.

    With ``limits`` cells too far from all others are moved to where their column can still be told apart.
    ``measure_target`` gives center and scale (outputs,) of a target (rows, outputs) with weights (rows,); without
    it the target stays as it is. With an exposure E a family of ``exposure_power`` q sees y/E with weight E^q: the
    same likelihood. With ``counts_events`` these weights add up to the events, otherwise to what they did before.
    """
    present = sample.without_absent_rows()
    if limits:
        present = replace(present, terms=limited(present.terms, present.weights, present.levels))
    names, n_terms = [str(name) for name in present.names], present.terms.shape[1]
    _require_size(present.terms, names)
    scaling = Scaling.of(present.terms, present.weights)
    constant = [names[term] for term in np.flatnonzero(scaling.scale == 0)]
    if constant:
        shown = ", ".join(constant[:5]) + (" …" if len(constant) > 5 else "")
        message = f"{len(constant)} constant column(s) left out of the model: {shown}."
        warnings.warn(message, ConstantColumnWarning, stacklevel=6)
    for term in np.flatnonzero((scaling.scale > 0) & (scaling.scale < LEAST_DIVISOR)):
        raise _too_close(f"column {names[term]!r}", "column", float(scaling.scale[term]))
    varying = sorted(np.flatnonzero(scaling.scale).tolist(), key=lambda term: names[term])
    grouping = Grouping.separate(n_terms) if present.grouping is None else present.grouping
    terms, twins = _without_twins(present, scaling, varying, grouping)
    scaling = scaling if standardize else Scaling.none(n_terms)
    x, scaling = _scaled(present.terms, terms, scaling), scaling.take(terms)
    target, weights, unit = _by_exposure(present, exposure_power, counts_events)
    _warn_of_a_constant(present.target)
    target_scaling = Scaling.none(target.shape[1])
    if measure_target is not None:
        center, scale = measure_target(target, weights)
        if ((scale > 0) & (scale < LEAST_DIVISOR)).any():
            raise _too_close("y", "target", float(scale[scale > 0].min()))
        target_scaling = Scaling(center, np.where(scale == 0, 1.0, scale))
        target = np.where(scale == 0, center, target)  # what rounding leaves of a constant is no signal
    levels = np.zeros(n_terms, dtype=np.bool_) if present.levels is None else present.levels
    return PreparedSample(
        terms=terms,
        names=[names[term] for term in terms],
        n_terms=n_terms,
        scaling=scaling,
        target_scaling=target_scaling,
        x=x,
        target=target_scaling.apply(target),
        weights=weights,
        levels=levels[terms],
        grouping=grouping.take(terms),
        twins=twins,
        exposure_unit=unit,
    )


def _warn_of_a_constant(target: Matrix) -> None:
    """Say that a target (rows, outputs) differs by next to nothing, which a computed constant does not even do."""
    sizes, ranges = np.abs(target).max(axis=0), np.ptp(target, axis=0)
    taken = (ranges <= SPREAD_ROUNDING * sizes) & (ranges > ULPS * float(np.finfo(np.float64).eps) * sizes)
    if taken.any():
        size, spread = float(sizes[taken].max()), float(ranges[taken].max())
        message = (
            f"y differs by {spread:.2g} at most, less than {SPREAD_ROUNDING:g} of its size of {size:.2g}: hardly more "
            "than the rounding of one value in float64, and squared loss takes it as that; subtract the offset from y "
            "before the fit if such differences matter."
        )
        warnings.warn(message, ConstantTargetWarning, stacklevel=7)


def _require_size(terms: Matrix, names: list[str]) -> None:
    """Raise for a term (rows, terms) whose numbers times others would leave the range of float64."""
    sizes = np.maximum(np.fmax.reduce(terms, axis=0, initial=0.0), -np.fmin.reduce(terms, axis=0, initial=0.0))
    for term in np.flatnonzero(sizes > LARGEST_VALUE):
        expected, remedy = f"numbers of at most {LARGEST_VALUE:g} in size", "divide the column by a power of ten"
        raise InputError(describe(f"column {names[term]!r}", expected, f"{sizes[term]:g}", remedy))


def _too_close(where: str, what: str, scale: float) -> InputError:
    """Return the error of numbers that differ by so little that their inverse is no number to work with."""
    expected = f"numbers that are equal or differ by {LEAST_DIVISOR:g} or more"
    remedy = f"multiply the {what} by a power of ten"
    return InputError(describe(where, expected, f"a standard deviation of {scale:g}", remedy))


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
    twins: dict[int, list[int]] = {}
    gone: set[int] = set()
    for first, second in equal_columns(sample.terms, single, scaling):  # the first comes first by weight and name
        twins.setdefault(single[first], []).append(single[second])
        gone.add(single[second])
    names = {
        str(sample.names[kept]): tuple(sorted(str(sample.names[twin]) for twin in others))
        for kept, others in twins.items()
    }
    return np.array([term for term in varying if term not in gone], dtype=np.intp), names


def _by_exposure(sample: Sample, power: float | None, counts_events: bool) -> tuple[Matrix, Vector, Vector]:
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
    if not counts_events:  # a scale of the noise is estimated for as many rows as there are
        weights = weights * (sample.weights.sum() / weights.sum())
    return sample.target / exposure[:, None], weights, np.full_like(sample.target[0], unit)
