"""The fitted model: pruned, immutable, exactly additive; and how fitted functions become one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Count, Indices, Matrix, Vector
from sparsenam.errors import InputError, RowError, describe
from sparsenam.families import Family, StoredFamily, best_intercept
from sparsenam.families.base import SMALLEST_FLOAT
from sparsenam.model.curve import FittedCurve
from sparsenam.model.networks import SubNetworks, n_weights
from sparsenam.model.pairs import PairFunction
from sparsenam.tables.sample import PreparedSample, Scaling

Functions = tuple[FittedCurve, ...] | SubNetworks
Numbers = list[float]
PlainCurve = tuple[int, Numbers, Numbers, list[tuple[Numbers, Numbers]]]  # term, knots, anchors; bases and slopes


def in_units(functions: Functions, scaling: Scaling, offsets: Matrix, unit: Vector, absent: Matrix) -> Functions:
    """Return functions of scaled terms as effects of the terms themselves; see `SubNetworks` for the parameters."""
    if isinstance(functions, SubNetworks):
        return replace(functions, scaling=scaling, offsets=offsets, unit=unit, absent=absent)
    parts = zip(functions, scaling.center.tolist(), scaling.scale.tolist(), offsets, absent, strict=True)
    return tuple(curve.in_units(center, scale, offset, unit, gone) for curve, center, scale, offset, gone in parts)


def lowered(functions: Functions, by: Matrix) -> Functions:
    """Return functions less constants (terms, outputs); where absent cells add nothing to any, they still do not."""
    if isinstance(functions, SubNetworks):
        shift = by / functions.unit
        absent = functions.absent - shift if functions.absent.any() else functions.absent
        return replace(functions, offsets=functions.offsets + shift, absent=absent)
    share = float(any(curve.absent.any() for curve in functions))
    parts = zip(functions, by, strict=True)
    return tuple(replace(each, values=each.values - less, absent=each.absent - share * less) for each, less in parts)


def effects_of(functions: Functions, x: Matrix, outputs: int) -> NDArray[np.float64]:
    """Return functions at x (terms, rows), shape (terms, rows, outputs)."""
    if isinstance(functions, SubNetworks):
        return functions.effects(x)
    effects = np.zeros((x.shape[0], x.shape[1], outputs))
    for effect, curve, cells in zip(effects, functions, x, strict=True):
        curve.add_to(effect, np.ascontiguousarray(cells))
    return effects


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """h(x) = β + Σⱼ hⱼ(xⱼ) + Σ hⱼₖ(xⱼ, xₖ) over the kept terms and pairs of them, on the scale of a family's scores.

    The methods read terms of shape (rows, n_terms), as an encoder gives them. ``terms`` (kept,) are the indices of the
    kept ones, ``functions`` their effects, centred over the training rows: curves, or sub-networks that are none.
    ``intercept`` (outputs,) is β, ``pairs`` are joint effects of two kept terms. ``weights`` (kept,) are the numbers of
    parameters that the terms' sub-networks were trained with, None where the curves themselves are counted.
    """

    family: StoredFamily
    terms: Indices
    n_terms: Count
    functions: Functions
    intercept: Vector
    pairs: tuple[PairFunction, ...] = ()
    weights: Indices | None = field(default=None, metadata={"stored": False})

    @property
    def n_parameters(self) -> int:
        """Parameters of the kept terms and pairs, and the intercept."""
        counted = self.weights
        if counted is None and isinstance(self.functions, SubNetworks):
            counted = n_weights(self.functions.bank, np.arange(self.terms.size))
        effects = sum(curve.n_parameters for curve in self.curves) if counted is None else int(counted.sum())
        return effects + sum(pair.n_parameters for pair in self.pairs) + self.intercept.size

    @property
    def exact_shapes(self) -> bool:
        """Whether every effect is piecewise linear, hence known exactly by its knots."""
        return not isinstance(self.functions, SubNetworks)

    @property
    def curves(self) -> tuple[FittedCurve, ...]:
        """The kept terms' effects.

        Raises
        ------
        InputError
            When the sub-networks are smooth, so that no knots describe them.
        """
        if isinstance(self.functions, SubNetworks):
            got, remedy = self.functions.name, "use effects, which evaluates the network"
            raise InputError(describe("curves", "piecewise linear sub-networks", got, remedy))
        return self.functions

    def kept_effects(self, terms: Matrix) -> NDArray[np.float64]:
        """Return the effects of the kept terms, shape (rows, kept, outputs)."""
        return effects_of(self.functions, terms.T[self.terms], self.intercept.size).swapaxes(0, 1)

    def effects(self, terms: Matrix) -> NDArray[np.float64]:
        """Return every term's effect, 0 for dropped ones, shape (rows, n_terms, outputs)."""
        effects = np.zeros((terms.shape[0], self.n_terms, self.intercept.size))
        with np.errstate(over="ignore", invalid="ignore"):
            effects[:, self.terms] = self.kept_effects(terms)
        return _finite_rows("effects", effects)

    def pair_effects(self, terms: Matrix) -> NDArray[np.float64]:
        """Return the joint effects of the pairs, shape (rows, pairs, outputs)."""
        effects = np.zeros((len(self.pairs), terms.shape[0], self.intercept.size))
        with np.errstate(over="ignore", invalid="ignore"):
            for effect, pair in zip(effects, self.pairs, strict=True):
                pair.add_to(effect, terms)
        return _finite_rows("effects", effects.swapaxes(0, 1))

    def scores(self, terms: Matrix) -> Matrix:
        """Return the linear predictor, shape (rows, outputs).

        Effects are added one after the other, so that a term whose effect is zero changes no bit.
        """
        total = np.zeros((terms.shape[0], self.intercept.size))
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(self.functions, SubNetworks):
                for effect in self.functions.effects(terms.T[self.terms]):
                    total += effect
            else:
                for curve, term in zip(self.functions, self.terms, strict=True):
                    curve.add_to(total, np.ascontiguousarray(terms[:, term]))
            for pair in self.pairs:
                pair.add_to(total, terms)
            return _finite_rows("scores", total + self.intercept)

    def scores_of_few(self, rows: Sequence[Sequence[float]]) -> Matrix:
        """Return the same as `scores` for a few rows of finite terms as lists, to the bit, of a model of curves alone.

        There a NumPy call takes longer than the sum that it is for. The sums are those of the arrays in the same order,
        and both round every product and every sum to the nearest double.
        """
        return _finite_rows("scores", np.array([self._score(row) for row in rows]))

    @cached_property
    def _plain(self) -> tuple[list[PlainCurve], Numbers]:
        """Curves and intercept as lists of numbers."""
        curves = list[PlainCurve]()
        for curve, term in zip(self.curves, self.terms.tolist(), strict=True):
            anchors, bases, slopes = (part.tolist() for part in curve.lines)
            curves.append((term, curve.knots.tolist(), anchors, list(zip(bases, slopes, strict=True))))
        return curves, self.intercept.tolist()

    def _score(self, row: Sequence[float]) -> Numbers:
        curves, intercept = self._plain
        total = [0.0] * len(intercept)
        for term, knots, anchors, lines in curves:
            piece = bisect_right(knots, row[term])
            across = row[term] - anchors[piece]
            for output, (bases, slopes) in enumerate(lines):
                total[output] += slopes[piece] * across + bases[piece]
        return [score + base for score, base in zip(total, intercept, strict=True)]


def _finite_rows(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values (rows, …), or raise where a cell is so far from the training rows that its effect is no number."""
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        got = (("one beyond the range of float64", row),)
        raise RowError(name, "finite numbers", got, "correct the huge cells of this row or leave them empty")
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A model, and how large its effects are over the training rows on the scale of the fit, shape (kept,).

    ``root_mean_square`` is the norm ‖hⱼ‖ₙ, ``mean_absolute`` the measure of the subgradient solvers' threshold;
    ``scores`` (rows, outputs) are the model's on that scale.
    """

    model: AdditiveModel
    root_mean_square: Vector
    mean_absolute: Vector
    scores: Matrix

    def keep(self, kept: NDArray[np.bool_]) -> Finished:
        """Return the model of some of its terms."""
        sizes = self.root_mean_square[kept], self.mean_absolute[kept]
        return Finished(keep_terms(self.model, kept), *sizes, self.scores)

    def norms(self) -> Vector:
        """Return ‖hⱼ‖ₙ of every term, 0 where dropped, shape (n_terms,)."""
        norms = np.zeros(self.model.n_terms)
        norms[self.model.terms] = self.root_mean_square
        return norms


def finish(
    prepared: PreparedSample,
    family: Family,
    functions: Functions,
    intercept: Vector,
    *,
    filled: bool = False,
    pairs: Sequence[PairFunction] = (),
) -> Finished:
    """Return the model with centred effects and the best intercept for them.

    ``functions`` are those of all scaled terms of ``prepared``, ``pairs`` joint effects in the units of the table.
    ``filled`` says that the training put the mean, 0, into absent cells. Otherwise they add nothing, unless there are
    pairs, whose margins say what absent cells add; of cells that were never absent nothing is known.
    """
    x, unit = prepared.x, prepared.target_scaling.scale
    missing = np.isnan(x)
    outputs = effects_of(functions, np.where(missing, 0.0, x) if missing.any() else x, intercept.size)
    shares = prepared.weights / prepared.weights.sum()
    if missing.any():  # means are over the rows in which a term is present, 0 where it is absent in all of a fold
        present = ~missing * shares
        totals = np.maximum(present.sum(axis=1, keepdims=True), SMALLEST_FLOAT)
        offsets = np.einsum("jik,ji->jk", outputs, present / totals)
    else:
        offsets = np.einsum("jik,i->jk", outputs, shares)
    outputs -= offsets[:, None]
    absent = np.zeros_like(offsets)
    if filled and len(x):
        absent = effects_of(functions, np.zeros((len(x), 1)), intercept.size)[:, 0] - offsets
    elif pairs and not isinstance(functions, SubNetworks):
        own = np.stack([curve.absent for curve in functions]) - offsets
        absent = np.where(missing.any(axis=1, keepdims=True), own, 0.0)
    outputs[missing] = np.repeat(absent, missing.sum(axis=1), axis=0)
    squares, total = np.einsum("jik,jik,i->j", outputs, outputs, shares), outputs.sum(axis=0)
    for pair in pairs:
        places = [int(np.flatnonzero(prepared.terms == term)[0]) for term in pair.terms]
        cells = [x[place] * prepared.scaling.scale[place] + prepared.scaling.center[place] for place in places]
        joint = pair.at(cells[0], cells[1]) / unit
        squares[places] += float(np.einsum("ik,ik,i->", joint, joint, shares))
        total += joint
    base = best_intercept(family, total, prepared.target, prepared.weights, intercept + offsets.sum(axis=0))
    model = AdditiveModel(
        family,
        prepared.terms,
        prepared.n_terms,
        in_units(functions, prepared.scaling, offsets, unit, absent),
        intercept=prepared.target_scaling.center + unit * base + np.log(prepared.exposure_unit),
        pairs=tuple(pairs),
    )
    return Finished(model, np.sqrt(squares), np.einsum("jik,i->j", np.abs(outputs), shares), total + base)


def keep_terms(model: AdditiveModel, kept: NDArray[np.bool_]) -> AdditiveModel:
    """Return the model of some of its terms and the pairs of these; effects are centred, so the intercept stays."""
    indices = np.flatnonzero(kept)
    terms, every = set(model.terms[indices].tolist()), model.functions
    functions = every.take(indices) if isinstance(every, SubNetworks) else tuple(every[index] for index in indices)
    return replace(
        model,
        terms=model.terms[indices],
        functions=functions,
        weights=None if model.weights is None else model.weights[indices],
        pairs=tuple(pair for pair in model.pairs if terms.issuperset(pair.terms)),
    )
