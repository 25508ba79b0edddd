"""The fitted model: pruned, immutable, exactly additive; and how trained sub-networks become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.errors import InputError, RowError, describe
from sparsenam.families import Family, best_intercept
from sparsenam.model.few import PlainModel
from sparsenam.model.pairs import PairFunction
from sparsenam.model.shapes import ShapeBank, ShapeFunction, kinks_of, rising, shape_through
from sparsenam.networks import MLPBank, SubnetBank
from sparsenam.tables import PreparedSample, Scaling

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Rows evaluated at once. The number is the same for every model: products of another size round differently, and
# leaving out a term must not change the others by a bit.
ROWS_AT_ONCE = 256


def outputs_of(bank: SubnetBank, theta: Tensor, x: Matrix) -> NDArray[np.float64]:
    """Return every sub-network's output, shape (terms, rows, outputs), some rows at a time.

    Where x (terms, rows) is NaN the output is that at 0, the mean of a standardised term.
    """
    n_terms, rows = x.shape
    outputs = np.zeros((n_terms, rows, bank.outputs))
    absent = np.isnan(x)
    filled = torch.as_tensor(np.ascontiguousarray(np.where(absent, 0.0, x) if absent.any() else x))
    with torch.no_grad():
        for start in range(0, rows if n_terms else 0, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            outputs[:, part] = bank.effects(theta, filled[:, part]).numpy()
    return outputs


def outputs_on(bank: SubnetBank, theta: Tensor, x: Matrix) -> NDArray[np.float64]:
    """Return the same on many rows; ramps are read from their knots, however wide the widest sub-network is."""
    if isinstance(bank, ShapeBank):
        shapes = [bank.shape(theta, index, np.zeros(bank.outputs)) for index in range(len(x))]
    elif isinstance(bank, MLPBank) and bank.piecewise_linear and len(bank.hidden) == 1:
        shapes = [_ramps(bank, theta, index) for index in range(len(x))]
    else:
        return outputs_of(bank, theta, x)
    outputs = np.zeros((*x.shape, bank.outputs))
    for index, (shape, cells) in enumerate(zip(shapes, x, strict=True)):
        shape.add_to(outputs[index], np.nan_to_num(cells, nan=0.0))
    return outputs


def _ramps(bank: MLPBank, theta: Tensor, index: int) -> ShapeFunction:
    """Return one piecewise linear sub-network as a function of its scaled term."""
    bank, theta = bank.take(np.array([index], dtype=np.intp)), theta[index : index + 1]
    return shape_through(
        kinks_of(bank, theta), 0.0, 1.0, lambda points: outputs_of(bank, theta, points[None])[0], np.zeros(bank.outputs)
    )


def fill_absent(outputs: NDArray[np.float64], x: Matrix, values: Matrix) -> None:
    """Put values (terms, outputs) into outputs (terms, rows, outputs) where x (terms, rows) is NaN."""
    for output, cells, value in zip(outputs, x, values, strict=True):
        output[np.isnan(cells)] = value


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel:
    """h(x) = β + Σⱼ hⱼ(xⱼ) over the kept terms; where xⱼ is NaN, term j adds ``absent``.

    Piecewise linear sub-networks (``exact_shapes``) are evaluated from their knots (`shapes`), others by the bank
    itself. The methods read terms of shape (rows, n_terms), as an encoder gives them.

    Parameters
    ----------
    family
        The family whose scores this model gives.
    bank, theta
        Sub-networks of the kept terms and their parameters, shape (kept, size), float64.
    terms
        Indices of the kept terms, shape (kept,).
    n_terms
        Number of terms that the encoder gives.
    scaling
        Scaling of the kept terms.
    offsets
        Mean output of each sub-network over the training rows in which its term is present, shape
        (kept, outputs); subtracted, so that effects are centred.
    intercept, target_scale
        β and the unit of y, shape (outputs,).
    absent
        What a term adds where it is absent, shape (kept, outputs), in units of ``target_scale``: 0 unless the
        training filled such cells.
    pairs
        Joint effects of two kept terms, in the units of the linear predictor.
    """

    family: Family
    bank: SubnetBank
    theta: Tensor
    terms: NDArray[np.intp]
    n_terms: int
    scaling: Scaling
    offsets: Matrix
    intercept: Vector
    target_scale: Vector
    absent: Matrix
    pairs: tuple[PairFunction, ...] = ()
    _shapes: list[tuple[ShapeFunction, ...]] = field(
        default_factory=list[tuple[ShapeFunction, ...]], init=False, repr=False
    )
    _plain: list[PlainModel] = field(default_factory=list[PlainModel], init=False, repr=False)

    @property
    def n_parameters(self) -> int:
        """Parameters of the kept sub-networks and the intercept.

        A sub-network of a single ramp leads from one value to another: its knots are given, so it counts as one.
        """
        padding = self.bank.padding()
        total = self.theta.numel() - (0 if padding is None else int(padding.sum())) + self.intercept.size
        total += sum(pair.n_parameters for pair in self.pairs)
        bank = self.bank
        if isinstance(bank, MLPBank) and bank.activation == "clipped_relu" and bank.widths is not None:
            total -= 2 * int(np.sum(bank.widths.sum(axis=1) == 1))
        return total

    @property
    def exact_shapes(self) -> bool:
        """Whether every effect is piecewise linear, hence known exactly by its knots."""
        return isinstance(self.bank, ShapeBank) or (isinstance(self.bank, MLPBank) and self.bank.piecewise_linear)

    def shapes(self) -> tuple[ShapeFunction, ...]:
        """Return the kept terms' effects as functions of the term, found at the first call.

        Raises
        ------
        InputError
            When the sub-networks are smooth, so that no knots describe them.
        """
        if not self.exact_shapes:
            got = getattr(self.bank, "activation", type(self.bank).__name__)
            remedy = "use effects, which asks the network"
            raise InputError(describe("shapes", "piecewise linear sub-networks", f"{got}", remedy))
        if not self._shapes:
            self._shapes.append(tuple(self._shape(index) for index in range(self.terms.size)))
        return self._shapes[0]

    def network_effects(self, terms: Matrix) -> NDArray[np.float64]:
        """Return the centred effects of the kept terms by the network itself, shape (rows, kept, outputs)."""
        x = self.scaling.apply(terms[:, self.terms]).T
        outputs = outputs_of(self.bank, self.theta, x)
        outputs -= self.offsets[:, None]
        fill_absent(outputs, x, self.absent)
        return outputs.swapaxes(0, 1) * self.target_scale

    def kept_effects(self, terms: Matrix) -> NDArray[np.float64]:
        """Return the centred effects of the kept terms, shape (rows, kept, outputs)."""
        if not self.exact_shapes:
            return self.network_effects(terms)
        effects = np.zeros((self.terms.size, terms.shape[0], self.intercept.size))
        for effect, shape, term in zip(effects, self.shapes(), self.terms, strict=True):
            shape.add_to(effect, np.ascontiguousarray(terms[:, term]))
        return effects.swapaxes(0, 1)

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
        """Return the linear predictor β + Σⱼ hⱼ(xⱼ) + Σ hⱼₖ(xⱼ, xₖ), shape (rows, outputs).

        Effects are added one after the other, so that a term whose effect is zero changes no bit.
        """
        total = np.zeros((terms.shape[0], self.intercept.size))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.exact_shapes:
                for shape, term in zip(self.shapes(), self.terms, strict=True):
                    shape.add_to(total, np.ascontiguousarray(terms[:, term]))
            else:
                for effect in self.network_effects(terms).swapaxes(0, 1):
                    total += effect
            for pair in self.pairs:
                pair.add_to(total, terms)
            return _finite_rows("scores", total + self.intercept)

    def scores_of_few(self, rows: Sequence[Sequence[float]]) -> Matrix:
        """Return the same as `scores` for a few rows of finite terms as lists, to the bit; shapes must be exact."""
        if not self._plain:
            self._plain.append(PlainModel.of(self.shapes(), self.terms, self.pairs, self.intercept))
        return _finite_rows("scores", self._plain[0].scores(rows))

    def _shape(self, index: int) -> ShapeFunction:
        """Return the shape of one kept term, from its parameters alone: it is the same beside any others."""
        bank, theta = self.bank.take(np.array([index], dtype=np.intp)), self.theta[index : index + 1]
        center, scale = float(self.scaling.center[index]), float(self.scaling.scale[index])
        offset, unit = self.offsets[index], self.target_scale
        absent = self.absent[index] * unit
        if isinstance(bank, ShapeBank):
            plain = bank.shape(theta, 0, absent)
            left, right = (slope * unit / scale for slope in (plain.left_slope, plain.right_slope))
            return ShapeFunction(
                rising(center + scale * plain.knots), (plain.values - offset) * unit, left, right, absent
            )

        def effect(x: Vector) -> Matrix:
            scaled = (x - center) / scale
            return (outputs_of(bank, theta, scaled[None])[0] - offset) * unit

        assert isinstance(bank, MLPBank)
        return shape_through(kinks_of(bank, theta), center, scale, effect, absent)


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

    ``root_mean_square`` is the norm ‖hⱼ‖ₙ, ``mean_absolute`` the measure of the subgradient solvers' threshold.
    """

    model: AdditiveModel
    root_mean_square: Vector
    mean_absolute: Vector

    def keep(self, kept: NDArray[np.bool_]) -> Finished:
        """Return the model of some of its terms."""
        return Finished(keep_terms(self.model, kept), self.root_mean_square[kept], self.mean_absolute[kept])

    def norms(self) -> Vector:
        """Return ‖hⱼ‖ₙ of every term, 0 where dropped, shape (n_terms,)."""
        norms = np.zeros(self.model.n_terms)
        norms[self.model.terms] = self.root_mean_square
        return norms


def finish(
    prepared: PreparedSample,
    family: Family,
    bank: SubnetBank,
    theta: Tensor,
    active: NDArray[np.intp],
    intercept: Vector,
    *,
    filled: bool = False,
) -> Finished:
    """Return the model of the active terms, with centred effects and the best intercept for them.

    ``bank`` and ``theta`` are of the active terms alone; ``active`` are their indices in ``prepared``. ``filled``
    says that the training put the mean, 0, into absent cells; otherwise they add nothing.
    """
    theta, x = theta.double().cpu(), prepared.x[active]
    outputs = outputs_on(bank, theta, x)
    shares = prepared.weights / prepared.weights.sum()
    offsets = means_of_present(outputs, x, shares)
    outputs -= offsets[:, None]
    absent = np.zeros_like(offsets)
    if filled and active.size:
        absent = outputs_of(bank, theta, np.zeros((active.size, 1)))[:, 0] - offsets
    fill_absent(outputs, x, absent)
    start = intercept + offsets.sum(axis=0)
    base = best_intercept(family, outputs.sum(axis=0), prepared.target, prepared.weights, start)
    unit = prepared.target_scaling.scale
    model = AdditiveModel(
        family=family,
        bank=bank,
        theta=theta,
        terms=prepared.terms[active],
        n_terms=prepared.n_terms,
        scaling=prepared.scaling.take(active),
        offsets=offsets,
        intercept=prepared.target_scaling.center + unit * base + np.log(prepared.exposure_unit),
        target_scale=unit,
        absent=absent,
    )
    squares = np.einsum("jik,jik,i->j", outputs, outputs, shares)
    return Finished(model, np.sqrt(squares), np.einsum("jik,i->j", np.abs(outputs), shares))


def means_of_present(outputs: NDArray[np.float64], x: Matrix, shares: Vector) -> Matrix:
    """Return the mean of outputs (terms, rows, outputs) over the rows in which x (terms, rows) is not NaN."""
    present = ~np.isnan(x)
    if present.all():
        return np.einsum("jik,i->jk", outputs, shares)
    weights = present * shares
    return np.einsum("jik,ji->jk", outputs, weights / weights.sum(axis=1, keepdims=True))


def keep_terms(model: AdditiveModel, kept: NDArray[np.bool_]) -> AdditiveModel:
    """Return the model of some of its terms and the pairs of these; effects are centred, so the intercept stays."""
    indices = np.flatnonzero(kept)
    terms = set(model.terms[indices].tolist())
    return replace(
        model,
        bank=model.bank.take(indices),
        theta=model.theta[torch.as_tensor(indices)],
        terms=model.terms[indices],
        scaling=model.scaling.take(indices),
        offsets=model.offsets[indices],
        absent=model.absent[indices],
        pairs=tuple(pair for pair in model.pairs if terms.issuperset(pair.terms)),
    )
