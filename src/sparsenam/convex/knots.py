"""The design of tall tables: columns are functions of the place among knots, and are never written out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from sparsenam.convex.design import (
    Array,
    Floats,
    GroupedDesign,
    GroupedFeatures,
    RampFeatures,
    WorkingColumns,
    smooth_basis,
)
from sparsenam.convex.ramps import Indices, PlacedRows, slots
from sparsenam.families.base import SMALLEST_FLOAT


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KnotDesign(GroupedDesign):
    """Columns Qⱼ = Hⱼ Vⱼ with Hⱼ the rows' shares of the knots of group j: ten bytes for each cell of the table.

    ``values`` V (knots, m) are those of each group at its knots, one group after the other; ``terms`` and ``knots``
    have the slices of each group's terms and knots. Columns are written out in single precision, where they must be;
    sums are in double precision.
    """

    placed: PlacedRows
    values: Array
    terms: tuple[slice[int, int, None], ...]
    knots: tuple[slice[int, int, None], ...]

    @property
    def n_rows(self) -> int:
        return self.placed.n_rows

    @property
    def dtype(self) -> np.dtype[np.floating]:
        return np.dtype(np.float32)

    def columns(self, groups: Indices) -> Floats:
        return self.exact(groups).astype(self.dtype)

    def exact(self, groups: Indices) -> Array:
        blocks = [self.placed.times(self.values, self.terms_of(groups[[index]])).T for index in range(groups.size)]
        return np.concatenate([np.zeros((0, self.n_rows)), *blocks])

    def working(self, groups: Indices) -> WorkingColumns:
        return ColumnsAtKnots(self, groups)

    def products(self, vectors: Array) -> Array:
        flat = self.working(np.arange(self.n_groups)).products(vectors)
        return flat.T.reshape(self.n_groups, self.width, len(vectors))

    def terms_of(self, groups: Indices) -> Indices:
        """Return the terms of some groups, in the order of the groups."""
        chosen = (self.terms[int(group)] for group in groups)
        return np.concatenate([np.arange(0), *(np.arange(terms.start, terms.stop) for terms in chosen)])


class ColumnsAtKnots(WorkingColumns):
    """The columns of some groups of a `KnotDesign`; sums are exact, and nothing is written out but on request."""

    def __init__(self, design: KnotDesign, groups: Indices) -> None:
        self.design, self.groups = design, groups

    @property
    def count(self) -> int:
        return self.groups.size * self.design.width

    @property
    def columns(self) -> Floats:
        return self.design.columns(self.groups)

    def times(self, theta: Array) -> Array:
        design = self.design
        parts = theta.reshape(math.prod(theta.shape[:-1]), self.groups.size, design.width)
        at = np.zeros((len(design.values), len(parts)))
        for index, group in enumerate(self.groups.tolist()):
            at[design.knots[group]] = design.values[design.knots[group]] @ parts[:, index].T
        effects = design.placed.times(at, design.terms_of(self.groups))
        return np.ascontiguousarray(effects.T).reshape(*theta.shape[:-1], -1)

    def products(self, vectors: Array) -> Array:
        design, flat = self.design, vectors.reshape(-1, vectors.shape[-1])
        sums = design.placed.sums(flat.T, design.terms_of(self.groups))
        blocks = [sums[design.knots[group]].T @ design.values[design.knots[group]] for group in self.groups.tolist()]
        return np.concatenate([np.zeros((len(flat), 0)), *blocks], axis=1).reshape(*vectors.shape[:-1], -1)

    def second_moments(self, weights: Array, rows: Indices | None = None, first: int = 0) -> Array:
        design, width = self.design, self.design.width
        placed, before = design.placed if rows is None else design.placed.at(rows), first // width
        result = np.zeros((self.groups.size - before, width, self.groups.size, width))
        for index, group in enumerate(map(int, self.groups[before:])):
            right = self.groups[: before + index + 1]
            terms, across = design.terms_of(right), np.zeros((width, len(design.values)))  # QⱼᵀWH
            for term in range(design.terms[group].start, design.terms[group].stop):
                across += design.values[placed.knots[term]].T @ placed.crossed(term, terms, weights)
            slots_of = [design.knots[int(each)] for each in right]
            result[index, :, : right.size] = np.stack([across[:, s] @ design.values[s] for s in slots_of], axis=1)
            # the other half, by symmetry
            result[:index, :, before + index] = result[index, :, before : before + index].transpose(1, 2, 0)
        return result.reshape(len(result) * width, self.count)


def knot_design(grouped: GroupedFeatures, ramps: RampFeatures, weights: Array, freedoms: Array) -> KnotDesign:
    """Build the design of ramps in the coordinates of the function norm, as `grouped_design` does from columns."""
    shares, members = np.asarray(weights, dtype=np.float64) / np.sum(weights), grouped.grouping.members
    groups = [[ramps.units(term).at_knots(ramps.prepared.x[term]) for term in terms.tolist()] for terms in members]
    rough = [grouped.roughness(group) for group in range(len(groups))]
    raw, widest = list[Array](), max(map(len, rough))
    grams, penalties = (np.zeros((len(groups), widest, widest)) for _ in range(2))
    means = np.zeros((len(groups), widest))
    for group, terms in enumerate(groups):
        placed, size = PlacedRows.joined([part for part, _ in terms]), len(rough[group])
        sums = placed.sums(shares[:, None])[:, 0]
        centres, centred = list[Array](), list[Array]()
        for slot, (_, values) in zip(placed.knots, terms, strict=True):
            centres.append(sums[slot] @ values / max(float(sums[slot].sum()), SMALLEST_FLOAT))
            centred.append(values - centres[-1])
        raw.append(block_diag(*centred))
        grams[group, :size, :size] = raw[group].T @ placed.gram(shares) @ raw[group]
        penalties[group, :size, :size], means[group, :size] = rough[group], np.concatenate(centres)
    transform, bent = smooth_basis(grams, penalties, freedoms)
    return KnotDesign(
        transform=transform,
        means=means,
        roughness=bent,
        placed=PlacedRows.joined([part for terms in groups for part, _ in terms]),
        values=np.concatenate([block @ turn[: block.shape[1]] for block, turn in zip(raw, transform, strict=True)]),
        terms=slots([len(terms) for terms in groups]),
        knots=slots([len(block) for block in raw]),
    )
