"""Shapes that a user asks for: what they mean for the increments between knots, and fits that keep to them exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.convex.ramps import NEAREST_KNOTS, Ramps, distinct, place_ramps, slots
from sparsenam.errors import InputError, describe, nearest
from sparsenam.model import FittedCurve
from sparsenam.smooth.design import Layout, covariances, factorised, prior_traces, solved
from sparsenam.tables.sample import Matrix, Vector

Mask = NDArray[np.bool_]

SIGNS = {"increasing": 1, "decreasing": -1}
BENDS = {"convex": 1, "concave": -1}
FORMS = ("linear", "steps", "smooth")
KINDS = (*SIGNS, *BENDS, *FORMS)


@dataclass(frozen=True, slots=True)
class Shape:
    """What is asked of one term's effect.

    ``sign`` is 1 for rising, -1 for falling and 0 for either; ``bend`` 1 for convex, -1 for concave. ``form`` is
    "linear", "steps", "smooth", or "" where the data decide between a line and a curve.
    """

    sign: int = 0
    bend: int = 0
    form: str = ""

    @property
    def is_free(self) -> bool:
        """Whether nothing is asked of the increments."""
        return self.sign == 0 and self.bend == 0

    @property
    def runs_on(self) -> tuple[bool, bool]:
        """Whether the first and the last slope go on beyond the data; elsewhere the effect is level there.

        A convex function cannot become level where it rises to the right, nor a concave one where it falls.
        """
        if self.form == "linear":
            return True, True
        return (self.bend != 0 and self.sign != self.bend, self.bend != 0 and self.sign != -self.bend)


def read_shape(text: object, where: str) -> Shape:
    """Return the shape of a text such as "increasing+concave"."""
    remedy = "write for example 'increasing' or 'increasing+concave'"
    if not isinstance(text, str):
        raise InputError(describe(where, f"one of {list(KINDS)}", repr(text), remedy))
    words = [word.strip() for word in text.split("+")]
    for word in words:
        if word not in KINDS:
            remedy = nearest(word, KINDS, remedy)
            raise InputError(describe(where, f"one of {list(KINDS)}, or some joined by +", repr(text), remedy))
    signs, bends, forms = ({word for word in words if word in group} for group in (SIGNS, BENDS, FORMS))
    sentence = _contradiction(words, signs, bends, forms)
    if sentence is not None:
        expected, remedy = sentence
        raise InputError(describe(where, expected, repr(text), remedy))
    sign, bend = (sum(values[word] for word in found) for values, found in ((SIGNS, signs), (BENDS, bends)))
    return Shape(sign, bend, next(iter(forms), ""))


def _contradiction(words: list[str], signs: set[str], bends: set[str], forms: set[str]) -> tuple[str, str] | None:
    """Return what was expected and what to do where words do not go together, None where they do."""
    if len(set(words)) < len(words):
        return "each word once", "take one out"
    if len(signs) > 1:
        return "'increasing' or 'decreasing', since only a constant is both", "choose one"
    if len(bends) > 1:
        return "'convex' or 'concave', since only a line is both", "write 'linear'"
    if len(forms) > 1:
        return f"one of {sorted(forms)}, which exclude each other", "choose one"
    if "smooth" in forms and len(words) > 1:
        return "'smooth' by itself, since every constrained curve is smooth too", "leave 'smooth' out"
    if forms and bends:
        return "bends for curves alone, which lines and steps are not", f"leave {min(forms)!r} or the bend out"
    return None


@dataclass(frozen=True, slots=True, eq=False)
class TermCone:
    """The inequalities of one term with increments β (m,), as γ ≥ 0 for coordinates γ (m,) of β.

    Where only a sign is asked for, γ = ±β. For a bend γ₁ is the slope β/h at the end where slopes are least, times
    ``factor``, and the others are its changes from there on; ``flipped`` where that end is the right one. ``bound``
    (m,) marks the coordinates that must not be negative. Increments whose γ is 0 have the slope of their neighbour.
    """

    factor: float
    widths: Vector | None
    flipped: bool
    bound: Mask

    @classmethod
    def of(cls, ramps: Ramps, shape: Shape) -> TermCone:
        """Return the cone of a shape for these ramps; for a shape that asks for nothing, all of the space."""
        bound = np.full(ramps.size, not shape.is_free)
        if shape.bend == 0:
            return cls(float(shape.sign or 1), None, False, bound)
        bound[0] = shape.sign != 0
        flipped = shape.sign == -shape.bend
        return cls(float(-shape.bend if flipped else shape.bend), np.diff(ramps.knots), flipped, bound)

    def _turned(self, values: Matrix) -> Matrix:
        return values[::-1] if self.flipped else values

    def coordinates(self, beta: Vector) -> Vector:
        """Return γ of increments (m,)."""
        if self.widths is None:
            return self.factor * beta
        return self.factor * np.diff(self._turned(beta / self.widths), prepend=0.0)

    def multipliers(self, gradient: Vector) -> Vector:
        """Return the derivatives by γ from those by β, both (m,)."""
        if self.widths is None:
            return self.factor * gradient
        return self.factor * np.cumsum(self._turned(self.widths * gradient)[::-1])[::-1]

    def curvatures(self, hessian: Matrix) -> Vector:
        """Return the second derivatives by each γ (m,) from the Hessian in β (m, m)."""
        if self.widths is None:
            return hessian.diagonal()
        whole = self.widths[:, None] * hessian * self.widths
        whole = whole if self.flipped else whole[::-1, ::-1]
        return np.cumsum(np.cumsum(whole, axis=0), axis=1).diagonal()[::-1]

    def merged(self, zero: Mask) -> Merged:
        """Return the free directions once some γ are 0.

        Neighbours of one slope move as one ramp; with nothing at 0 every increment is a direction.
        """
        if self.widths is None:
            return Merged(np.where(zero, -1, np.cumsum(~zero) - 1), np.ones(zero.size))
        starts = ~zero
        starts[0] |= not self.bound[0]
        places, widths = np.cumsum(starts) - 1, self._turned(self.widths)
        totals = np.bincount(places + 1, widths, int(places[-1]) + 2)
        shares = np.where(places < 0, 0.0, widths / totals[places + 1])
        if self.flipped:
            places, shares = np.where(places < 0, -1, places[-1] - places)[::-1], shares[::-1]
        return Merged(places, shares)

    def inside(self, beta: Matrix) -> Matrix:
        """Return increments (m, r) without what rounding puts on the wrong side of a sign."""
        return self.factor * np.maximum(self.factor * beta, 0.0) if self.bound.all() else beta


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """A basis T of increments: of each the direction it belongs to, rising, or -1 for none, and its share (m,)."""

    places: NDArray[np.intp]
    shares: Vector

    @property
    def size(self) -> int:
        """Number of directions."""
        return int(self.places.max(initial=-1)) + 1

    def within(self, matrix: Matrix) -> Matrix:
        """Return TᵀMT for a symmetric M."""
        return self.reduced(np.ascontiguousarray(self.reduced(matrix).T))

    def spread(self, matrix: Matrix) -> Matrix:
        """Return TMTᵀ for a symmetric M."""
        return self.times(np.ascontiguousarray(self.times(matrix).T))

    def reduced(self, values: Matrix) -> Matrix:
        """Return Tᵀv for v of shape (m, r)."""
        inside = np.flatnonzero(self.places >= 0)
        if not inside.size:
            return np.zeros((0, values.shape[1]))
        starts = np.flatnonzero(np.diff(self.places[inside], prepend=-1))
        return np.add.reduceat(self.shares[inside, None] * values[inside], starts, axis=0)

    def times(self, values: Matrix) -> Matrix:
        """Return Tv for v of shape (directions, r)."""
        inside = self.places >= 0
        found = np.zeros((inside.size, values.shape[1]))
        found[inside] = self.shares[inside, None] * values[self.places[inside]]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Cone:
    """The inequalities of all terms of a layout."""

    layout: Layout
    terms: tuple[TermCone, ...]

    @classmethod
    def of(cls, layout: Layout, shapes: Mapping[int, Shape]) -> Cone | None:
        """Return the cone of the terms' shapes, by index; None where nothing is asked of any increment."""
        if all(shape.is_free for shape in shapes.values()):
            return None
        given = ((ramps, shapes.get(term, Shape())) for term, ramps in enumerate(layout.ramps))
        return cls(layout, tuple(TermCone.of(ramps, shape) for ramps, shape in given))

    @property
    def bound(self) -> Mask:
        """Which coordinates must not be negative, shape (columns,)."""
        return np.concatenate([term.bound for term in self.terms])

    def inside(self, coefficients: Matrix) -> Matrix:
        """Return coefficients (columns, outputs) without what rounding puts outside of a sign."""
        return np.concatenate([term.inside(coefficients[place]) for term, place in self.parts()])

    def coordinates(self, beta: Vector) -> Vector:
        """Return γ of coefficients (columns,)."""
        return np.concatenate([term.coordinates(beta[place]) for term, place in self.parts()])

    def parts(self) -> zip[tuple[TermCone, slice]]:
        """Return the terms and their columns."""
        return zip(self.terms, self.layout.slices, strict=True)


JUMP_WIDTH = 1e-6  # width of a jump, as a share of the gap between the two values beside it
FUSED = 0.1  # degrees of freedom below which a jump is none


@dataclass(frozen=True, slots=True, eq=False)
class StepBins:
    """Bins of neighbouring values, in each of which an effect of steps is constant.

    ``values`` (bins,) is the lowest value in each bin, ``rows`` (bins,) its weight. The effect jumps halfway between
    bins, at ``cuts`` (bins - 1,), over ``widths`` so narrow that no value of the data is inside.
    """

    values: Vector
    rows: Vector
    cuts: Vector
    widths: Vector

    @classmethod
    def of(cls, cells: Vector, weights: Vector, count: int) -> StepBins:
        """Return about ``count + 1`` bins of the cells (rows,): of each value, or where there are more, of many."""
        present = ~np.isnan(cells)
        values, rows = distinct(cells[present], weights[present])
        apart = np.flatnonzero(np.diff(values) > NEAREST_KNOTS * (values[-1] - values[0])) + 1
        starts = apart
        if apart.size > count:
            ends = place_ramps(cells[present], weights[present], count + 1).knots[1:-1]
            starts = np.intersect1d(apart, np.searchsorted(values, ends, side="right"))
        gaps, firsts = values[starts] - values[starts - 1], np.append(0, starts)
        return cls(values[firsts], np.add.reduceat(rows, firsts), values[starts - 1] + 0.5 * gaps, JUMP_WIDTH * gaps)

    def rounded(self, cells: Vector) -> Vector:
        """Return the value of each cell's bin, shape (rows,); NaN stays NaN."""
        return np.where(np.isnan(cells), np.nan, self.values[np.searchsorted(self.cuts, cells, side="right")])

    def jumps(self, increments: Matrix, spread: Vector, sign: int) -> tuple[Ramps, Matrix]:
        """Return ramps that are narrow at the jumps and flat between, and their increments (ramps, outputs).

        Increments (bins - 1, outputs) are those from bin to bin. Where they have hardly any degrees of freedom,
        ``spread`` (bins - 1,) being those of each, bins become one, at the mean over their rows.
        """
        real = np.flatnonzero(spread >= FUSED)
        real = real if real.size else np.array([int(np.argmax(spread))])
        starts = np.append(0, real + 1)
        levels = np.concatenate([np.zeros((1, increments.shape[1])), np.cumsum(increments, axis=0)])
        totals = np.add.reduceat(self.rows[:, None] * levels, starts) / np.add.reduceat(self.rows, starts)[:, None]
        rises = np.diff(totals, axis=0)
        if sign:
            rises = sign * np.maximum(sign * rises, 0.0)
        cuts, half = self.cuts[real], 0.5 * self.widths[real]
        knots = np.stack([cuts - half, cuts + half], axis=1).ravel()
        between = np.zeros((knots.size - 1, increments.shape[1]))
        between[::2] = rises
        return Ramps(knots), between


def step_bins(shapes: Mapping[int, Shape], x: Matrix, weights: Vector, counts: NDArray[np.intp]) -> dict[int, StepBins]:
    """Return the bins of each term of x (terms, rows) that is asked to be steps and has two values or more."""
    jumping = [term for term, shape in shapes.items() if shape.form == "steps"]
    found = {term: StepBins.of(x[term], weights, int(counts[term])) for term in jumping}
    return {term: bins for term, bins in found.items() if bins.cuts.size}


def rounded(x: Matrix, bins: Mapping[int, StepBins]) -> Matrix:
    """Return x (terms, rows) with the cells of some terms at the values of their bins."""
    return np.stack([bins[term].rounded(cells) if term in bins else cells for term, cells in enumerate(x)])


def shape_function(ramps: Ramps, increments: Matrix, shape: Shape) -> FittedCurve:
    """Return the function that rises by increments (m, outputs) between the knots, with the ends that the shape has."""
    first, last = (increments[end] / (ramps.knots[end + (end == 0)] - ramps.knots[end - (end != 0)]) for end in (0, -1))
    goes_left, goes_right = shape.runs_on
    curve, level = ramps.curve(increments), np.zeros(increments.shape[1])
    return replace(curve, left_slope=first if goes_left else level, right_slope=last if goes_right else level)


EXCHANGE_TOLERANCE = 1e-9  # of a coordinate and its multiplier, in units in which the objective and curvatures are 1
EXCHANGES = 100  # most in one solution; a handful is usual
EXCHANGE_PATIENCE = 3  # exchanges of all coordinates at once that may fail to help before one at a time is exchanged


@dataclass(frozen=True, slots=True, eq=False)
class ConeSolution:
    """The best β (columns,) in a cone, and the covariances V (m_j, m_j) of what is free there.

    ``zero`` (columns,) marks the coordinates at 0. Degrees of freedom (terms,), ``traces``, tr(Pⱼ⁻¹Sᵢ) of each term,
    and ``dimensions`` (terms,) are those of the space in which these coordinates stay at 0.
    """

    beta: Vector
    zero: Mask
    covariances: tuple[Matrix, ...]
    degrees_of_freedom: Vector
    traces: tuple[Vector, ...]
    dimensions: Vector


class Face:
    """H = gram/noise + P on the coefficients of which some coordinates are 0; its basis T are ramps, some merged."""

    def __init__(self, cone: Cone, zero: Mask, gram: Matrix, precisions: Sequence[Matrix], noise: float) -> None:
        self.parts = [term.merged(zero[place]) for term, place in cone.parts()]
        slices = slots([part.size for part in self.parts])
        places = [
            np.where(part.places < 0, -1, part.places + place.start)
            for part, place in zip(self.parts, slices, strict=True)
        ]
        self.basis = Merged(np.concatenate(places), np.concatenate([part.shares for part in self.parts]))
        self.layout = Layout((), slices, (), cone.layout.jumping)
        self.precisions = [part.within(each) for part, each in zip(self.parts, precisions, strict=True)]
        self.factors = factorised(self.layout, self.basis.within(gram), self.precisions, noise)

    def minimum(self, moment: Vector) -> Vector:
        """Return the best β on the face, shape (columns,)."""
        return self.basis.times(solved(self.factors, self.basis.reduced(moment[:, None])))[:, 0]


class ConeSolver:
    """Minimises ½βᵀHβ - bᵀβ in a cone, again and again with other H and b, starting from the last coordinates at 0."""

    def __init__(self, cone: Cone, outputs: int) -> None:
        self.cone = cone
        self.zeros = [np.zeros(cone.layout.size, dtype=np.bool_) for _ in range(outputs)]

    def minima(
        self, grams: Sequence[Matrix], strengths: Sequence[Vector], noise: float, pull: Matrix, start: Matrix
    ) -> list[ConeSolution]:
        """Return the minimum of each output, with a Gram matrix each; ``pull`` and ``start`` are (columns, outputs)."""
        return [
            self.minimum(output, gram, strengths, noise, pull[:, output], start[:, output])
            for output, gram in enumerate(grams)
        ]

    def minimum(
        self, output: int, gram: Matrix, strengths: Sequence[Vector], noise: float, pull: Vector, start: Vector
    ) -> ConeSolution:
        """Return the minimum for H = gram/noise + P and b = pull + H start, all (columns,), of one output.

        Coordinates of the wrong sign are put to 0 and those with a multiplier of the wrong sign are set free, all at
        once while their number falls, else the last of them alone: block principal pivoting (Júdice and Pires, 1994),
        which ends at the one solution.
        """
        cone, layout = self.cone, self.cone.layout
        precisions = layout.precisions(strengths)
        hessian = layout.added(gram / noise, precisions)
        moment = pull + hessian @ start
        curvatures = np.concatenate([term.curvatures(hessian[place, place]) for term, place in cone.parts()])
        roots = np.sqrt(np.maximum(curvatures, np.finfo(float).tiny))
        zero, fewest, patience = self.zeros[output], layout.size + 1, EXCHANGE_PATIENCE
        face = Face(cone, zero, gram, precisions, noise)
        beta = face.minimum(moment)
        for _ in range(EXCHANGES):
            wrong = self._wrong(zero, beta, hessian @ beta - moment, float(moment @ beta), roots)
            count = int(wrong.sum())
            if count == 0:
                break
            fewest, patience = (count, EXCHANGE_PATIENCE) if count < fewest else (fewest, patience - 1)
            if patience < 0:
                wrong[: int(np.flatnonzero(wrong)[-1])] = False
            zero = zero ^ wrong
            face = Face(cone, zero, gram, precisions, noise)
            beta = face.minimum(moment)
        self.zeros[output] = zero
        return self._solution(face, beta, zero, strengths)

    def _wrong(self, zero: Mask, beta: Vector, gradient: Vector, explained: float, roots: Vector) -> Mask:
        """Return the coordinates that are negative, and those at 0 that would rather not be, beyond rounding."""
        size = EXCHANGE_TOLERANCE * np.sqrt(max(explained, np.finfo(float).tiny))
        multipliers = np.concatenate([term.multipliers(gradient[place]) for term, place in self.cone.parts()])
        low: Mask = self.cone.coordinates(beta) * roots < -size
        held: Mask = multipliers < -size * roots
        return self.cone.bound & ((zero & held) | (~zero & low))

    def _solution(self, face: Face, beta: Vector, zero: Mask, strengths: Sequence[Vector]) -> ConeSolution:
        blocks, freedom = covariances(face.layout, *face.factors, face.precisions)
        traces: list[Vector] = []
        for term, (precision, strength) in enumerate(zip(face.precisions, strengths, strict=True)):
            if face.layout.jumping[term]:  # a term that jumps has no bend, so that its increments are free or at 0
                traces.append(np.where(zero[self.cone.layout.slices[term]], 0.0, 1.0 / strength))
            elif len(precision):
                matrices = [face.parts[term].within(matrix) for matrix in self.cone.layout.roughness[term]]
                traces.append(prior_traces(precision, strength, matrices))
            else:
                traces.append(np.zeros(len(strength)))
        return ConeSolution(
            beta=self.cone.inside(beta[:, None])[:, 0],
            zero=zero,
            covariances=tuple(part.spread(block) for part, block in zip(face.parts, blocks, strict=True)),
            degrees_of_freedom=freedom,
            traces=tuple(traces),
            dimensions=np.array([part.size for part in face.parts], dtype=np.float64),
        )
