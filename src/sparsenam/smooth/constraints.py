"""Shapes that a user asks for: what they mean for the increments between knots, and fits that keep to them exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, eye_array

from sparsenam.convex.ramps import NEAREST_KNOTS, Ramps, distinct, place_ramps, slots
from sparsenam.errors import InputError, describe, nearest
from sparsenam.model import FittedCurve
from sparsenam.smooth.design import Layout, Posterior, Spread
from sparsenam.tables.sample import Matrix, Vector

Mask = NDArray[np.bool_]
Sparse = csr_array[np.float64]

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
    refusals = (  # whether words do not go together, what was expected and what to do
        (len(set(words)) < len(words), "each word once", "take one out"),
        (len(signs) > 1, "'increasing' or 'decreasing', since only a constant is both", "choose one"),
        (len(bends) > 1, "'convex' or 'concave', since only a line is both", "write 'linear'"),
        (len(forms) > 1, f"one of {sorted(forms)}, which exclude each other", "choose one"),
        (
            "smooth" in forms and len(words) > 1,
            "'smooth' by itself, since every constrained curve is smooth too",
            "leave 'smooth' out",
        ),
        (bool(forms and bends), "bends for curves alone, which lines and steps are not", "leave one of both out"),
    )
    for applies, expected, remedy in refusals:
        if applies:
            raise InputError(describe(where, expected, repr(text), remedy))
    sign, bend = (sum(values[word] for word in found) for values, found in ((SIGNS, signs), (BENDS, bends)))
    return Shape(sign, bend, next(iter(forms), ""))


@dataclass(frozen=True, slots=True, eq=False)
class TermCone:
    """The inequalities of one term with increments β (m,), as γ ≥ 0 for the coordinates γ (m,) in β = Cγ.

    Where only a sign is asked for, C is ± the identity. For a bend γ₁ is ± the slope at the end where slopes are least,
    and the others are the changes of the slope from there on. ``directions`` is C, (m, m), and ``bound`` (m,) marks the
    coordinates that must not be negative.
    """

    shape: Shape
    directions: Sparse
    bound: Mask

    @classmethod
    def of(cls, ramps: Ramps, shape: Shape) -> TermCone:
        """Return the cone of a shape for these ramps; for a shape that asks for nothing, all of the space."""
        bound = np.full(ramps.size, not shape.is_free)
        if shape.bend == 0:
            return cls(shape, csr_array(float(shape.sign or 1) * eye_array(ramps.size)), bound)
        bound[0] = shape.sign != 0
        beyond = np.tri(ramps.size)
        if shape.sign == -shape.bend:  # slopes are least at the right end
            beyond = -beyond[::-1]
        return cls(shape, csr_array(shape.bend * np.diff(ramps.knots)[:, None] * beyond), bound)

    def face(self, zero: Mask) -> Sparse:
        """Return a basis (m, free) of the increments for which some γ are 0: neighbours of one slope move together."""
        basis = csr_array(self.directions[:, ~zero])
        if self.shape.bend and not zero.all():
            count = basis.shape[1]
            basis = csr_array(basis @ (eye_array(count) - eye_array(count, k=-1)))
            basis.eliminate_zeros()
        return basis

    def coordinates(self, free: Vector) -> Vector:
        """Return the γ that are not 0 from coefficients (free,) of that basis."""
        return np.diff(free, prepend=0.0) if self.shape.bend else free

    def inside(self, beta: Matrix) -> Matrix:
        """Return increments (m, r) without what rounding puts on the wrong side of a sign."""
        sign = self.shape.sign
        return sign * np.maximum(sign * beta, 0.0) if sign else beta


def dense(product: object) -> Matrix:
    """Return a product with sparse matrices as an array."""
    return np.asarray(product, dtype=np.float64)


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


class Face:
    """The part of a cone in which some coordinates are 0, and H = gram/noise + P there.

    ``bases`` (m_j, free_j) span the increments of each term that are left, ``basis`` those of all.
    """

    def __init__(self, cone: Cone, zero: Mask, gram: Matrix, strengths: Sequence[Vector], noise: float) -> None:
        layout, self.cone, self.zero = cone.layout, cone, zero
        self.bases = [term.face(zero[place]) for term, place in cone.parts()]
        self.basis = csr_array(block_diag(self.bases))
        self.layout = Layout(
            (),
            slots([basis.shape[1] for basis in self.bases]),
            tuple(
                tuple(dense(basis.T @ matrix @ basis) for matrix in matrices)
                for basis, matrices in zip(self.bases, layout.roughness, strict=True)
            ),
            layout.jumping,
        )
        parts = zip(strengths, layout.jumping, layout.slices, strict=True)  # where a term jumps, one for each increment
        free = [each[~zero[place]] if jumps else each for each, jumps, place in parts]
        self.posterior = Posterior(self.layout, dense(self.basis.T @ gram @ self.basis), free, noise)

    def minimum(self, moment: Vector) -> tuple[Vector, Vector]:
        """Return the best β on the face and its γ, both (columns,)."""
        free = self.posterior.solve(dense(self.basis.T @ moment)[:, None])[:, 0]
        gamma = np.zeros(self.zero.size)
        parts = zip(self.cone.terms, self.layout.slices, strict=True)
        gamma[~self.zero] = np.concatenate([term.coordinates(free[place]) for term, place in parts])
        return dense(self.basis @ free), gamma

    @property
    def spread(self) -> Spread:
        """How uncertain β is, in the space in which these coordinates stay at 0."""
        known = self.posterior.spread
        traces = list(known.traces)
        for term, place in enumerate(self.cone.layout.slices):
            if self.layout.jumping[term]:
                traces[term] = np.zeros(self.zero[place].size)
                traces[term][~self.zero[place]] = known.traces[term]
        parts = zip(self.bases, known.covariances, strict=True)
        blocks = tuple(dense(basis @ each @ basis.T) for basis, each in parts)
        return replace(known, covariances=blocks, traces=tuple(traces))


class Cone:
    """The inequalities of all terms, whose shapes are given by index, and the minima of ½βᵀHβ - bᵀβ within them.

    ``zeros`` has the coordinates that were at 0 in the last minimum of each output, where the next search starts.
    """

    def __init__(self, layout: Layout, shapes: Mapping[int, Shape]) -> None:
        self.layout = layout
        self.terms = [TermCone.of(ramps, shapes.get(term, Shape())) for term, ramps in enumerate(layout.ramps)]
        self.bound: Mask = np.concatenate([term.bound for term in self.terms])
        self.directions = csr_array(block_diag([term.directions for term in self.terms]))
        self.zeros = dict[int, Mask]()

    @classmethod
    def of(cls, layout: Layout, shapes: Mapping[int, Shape]) -> Cone | None:
        """Return the cone of shapes, None if they ask nothing of increments."""
        return None if all(shape.is_free for shape in shapes.values()) else cls(layout, shapes)

    def parts(self) -> zip[tuple[TermCone, slice]]:
        """Return the terms and their columns."""
        return zip(self.terms, self.layout.slices, strict=True)

    def inside(self, coefficients: Matrix) -> Matrix:
        """Return coefficients (columns, outputs) without what rounding puts outside of a sign."""
        return np.concatenate([term.inside(coefficients[place]) for term, place in self.parts()])

    def minima(
        self, grams: Sequence[Matrix], strengths: Sequence[Vector], noise: float, pulls: Matrix, starts: Matrix
    ) -> tuple[Matrix, list[Face]]:
        """Return `minimum` for each output, a column of ``pulls`` and of ``starts``; grams are one for each or all."""
        given = enumerate(zip(pulls.T, starts.T, strict=True))
        found = [self.minimum(output, grams[output % len(grams)], strengths, noise, *each) for output, each in given]
        return np.stack([beta for beta, _ in found], axis=1), [face for _, face in found]

    def minimum(
        self, output: int, gram: Matrix, strengths: Sequence[Vector], noise: float, pull: Vector, start: Vector
    ) -> tuple[Vector, Face]:
        """Return the best β, and the face that it lies on, for H = gram/noise + P and b = pull + H start of one output.

        Coordinates of the wrong sign are put to 0 and those with a multiplier of the wrong sign are set free, all at
        once while their number falls, else the last of them alone: block principal pivoting (Júdice and Pires, 1994),
        which ends at the one solution.
        """
        layout = self.layout
        hessian = layout.added(gram / noise, layout.precisions(strengths))
        moment = pull + hessian @ start
        parts = ((term.directions, hessian[place, place]) for term, place in self.parts())
        curvatures = [dense(directions.T @ block @ directions).diagonal() for directions, block in parts]
        roots = np.sqrt(np.maximum(np.concatenate(curvatures), np.finfo(float).tiny))
        zero = self.zeros.get(output, np.zeros(layout.size, dtype=np.bool_))
        fewest, patience = layout.size + 1, EXCHANGE_PATIENCE
        face = Face(self, zero, gram, strengths, noise)
        beta, gamma = face.minimum(moment)
        for _ in range(EXCHANGES):
            # negative coordinates, and those at 0 that would rather not be, beyond rounding
            size = EXCHANGE_TOLERANCE * np.sqrt(max(float(moment @ beta), np.finfo(float).tiny))
            multipliers = dense(self.directions.T @ (hessian @ beta - moment))
            wrong: Mask = self.bound & (np.where(zero, multipliers / roots, gamma * roots) < -size)
            count = int(wrong.sum())
            if count == 0:
                break
            fewest, patience = (count, EXCHANGE_PATIENCE) if count < fewest else (fewest, patience - 1)
            if patience < 0:
                wrong[: int(np.flatnonzero(wrong)[-1])] = False
            zero = zero ^ wrong
            face = Face(self, zero, gram, strengths, noise)
            beta, gamma = face.minimum(moment)
        self.zeros[output] = zero
        return beta, face
