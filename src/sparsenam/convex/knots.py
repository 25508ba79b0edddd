"""The design of tall tables: columns are functions of the place among knots, and are never written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from sparsenam.convex.design import Array, Floats, GroupedDesign, Indices, WorkingColumns, smooth_basis
from sparsenam.convex.moments import GHOSTS, PlacedRows, kernels_module, slots


@dataclass(frozen=True, slots=True, eq=False)
class TermAtKnots:
    """A term's raw columns as functions of the place: ``values`` (knots, raw columns) at each knot.

    ``places`` (rows,) is the knot left of each row, -1 where the term is absent, ``shares`` (rows,) the share of the
    next one. Levels are knots whose next one has no share.
    """

    places: NDArray[np.signedinteger]
    shares: Array
    values: Array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KnotDesign(GroupedDesign):
    """Columns Qⱼ = Hⱼ Vⱼ with Hⱼ the rows' shares of the knots of group j: ten bytes for each cell of the table.

    ``values`` V (knots, m) are those of each group at its knots, one group after the other; ``terms`` and ``knots``
    have the slices of each group's terms and knots.
    """

    placed: PlacedRows
    values: Array
    terms: tuple[slice[int, int, None], ...]
    knots: tuple[slice[int, int, None], ...]

    @property
    def n_rows(self) -> int:
        return self.placed.n_rows

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """The precision in which columns are written out, where they must be; sums are in double precision."""
        return np.dtype(np.float32)

    def columns(self, groups: Indices) -> Floats:
        return self.exact(groups).astype(self.dtype)

    def exact(self, groups: Indices) -> Array:
        at, result = self._padded(self.values.T), np.zeros((groups.size, self.width, self.n_rows))
        for group, columns in zip(groups.tolist(), result, strict=True):
            terms = self._terms_of(np.array([group]))
            kernels_module().add_effects(self.placed.places, self.placed.shares, terms, at, columns)
        return result.reshape(groups.size * self.width, self.n_rows)

    def combined(self, groups: Indices, theta: Floats) -> Array:
        at = np.zeros((len(theta), len(self.values)))
        parts = theta.reshape(len(theta), groups.size, self.width).astype(np.float64)
        for index, group in enumerate(groups.tolist()):
            at[:, self.knots[group]] = parts[:, index] @ self.values[self.knots[group]].T
        terms, result = self._terms_of(groups), np.zeros((len(theta), self.n_rows))
        kernels_module().add_effects(self.placed.places, self.placed.shares, terms, self._padded(at), result)
        return result

    def products(self, vectors: Array, groups: Indices | None = None) -> Array:
        """Return Qᵀv of all groups or of some, shape (groups, m, r), in double precision."""
        sums = np.zeros((len(vectors), len(self.values) + GHOSTS))
        given = np.ascontiguousarray(vectors, dtype=np.float64)
        groups = np.arange(self.n_groups) if groups is None else groups
        kernels_module().add_sums(self.placed.places, self.placed.shares, self._terms_of(groups), given, sums)
        result = np.empty((groups.size, self.width, len(vectors)))
        for index, group in enumerate(groups.tolist()):
            result[index] = self.values[self.knots[group]].T @ sums[:, self.knots[group]].T
        return result

    def _terms_of(self, groups: Indices) -> Indices:
        """Return the terms of some groups, in the order of the groups."""
        chosen = (self.terms[int(group)] for group in groups)
        return np.concatenate([np.arange(0), *(np.arange(terms.start, terms.stop) for terms in chosen)])

    def working(self, groups: Indices) -> WorkingColumns:
        return ColumnsAtKnots(self, groups)

    def second_moments(self, groups: Indices, others: Indices, weights: Array, rows: Indices | None) -> Array:
        """Return QⱼᵀWQₖ for j in ``groups`` and k in ``others`` and then ``groups``, shape (groups · m, all · m).

        ``weights`` are those of ``rows``, or of all rows where these are None.
        """
        placed = self.placed if rows is None else self.placed.at(rows)
        order = np.concatenate([others, groups])
        result = np.zeros((groups.size, self.width, order.size, self.width))
        weights = np.ascontiguousarray(weights)
        for index, group in enumerate(groups.tolist()):
            right = order[: others.size + index + 1]
            result[index, :, : right.size] = self._crossed(placed, group, right, weights)
        for index in range(groups.size):  # the other half, by symmetry
            block = result[index, :, others.size : others.size + index]
            result[:index, :, others.size + index] = block.transpose(1, 2, 0)
        return result.reshape(groups.size * self.width, order.size * self.width)

    def _crossed(self, placed: PlacedRows, group: int, right: Indices, weights: Array) -> Array:
        """Return QⱼᵀWQₖ of one group with some, shape (m, groups, m)."""
        terms = self._terms_of(right)
        across = np.zeros((self.width, len(self.values)))
        for term in range(self.terms[group].start, self.terms[group].stop):
            knots = placed.knots[term]
            size = knots.stop - knots.start
            local = np.minimum(placed.places[term].astype(np.int64) - knots.start, size)
            local[placed.places[term] >= len(self.values)] = size
            gram = np.zeros((size + GHOSTS, len(self.values) + GHOSTS))
            one = local.astype(np.uint16), placed.shares[term]
            kernels_module().add_crossed(*one, placed.places, placed.shares, terms, weights, gram)
            across += self.values[knots].T @ gram[:size, : len(self.values)]
        parts = [across[:, self.knots[int(g)]] @ self.values[self.knots[int(g)]] for g in right]
        return np.stack(parts, axis=1)

    @staticmethod
    def _padded(at: Array) -> Array:
        """Return values at knots (r, knots) with zeros for absent cells."""
        return np.ascontiguousarray(np.pad(at, ((0, 0), (0, GHOSTS))))


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
        return self.design.combined(self.groups, theta)

    def products(self, vectors: Array) -> Array:
        return self.design.products(vectors, self.groups).reshape(self.count, len(vectors)).T

    def second_moments(self, weights: Array, rows: Indices | None = None) -> Array:
        return self.design.second_moments(self.groups, np.zeros(0, dtype=np.intp), weights, rows)


def knot_design(
    groups: Sequence[Sequence[TermAtKnots]], penalties: Sequence[Array], weights: Array, freedoms: Array
) -> KnotDesign:
    """Build the design in the coordinates of the function norm, as `grouped_design` does from columns.

    ``groups`` has the terms of each, ``penalties`` the roughness (raw columns, raw columns) of each group.
    """
    terms = [term for members in groups for term in members]
    placed = PlacedRows.at_places(
        [term.places for term in terms], [term.shares for term in terms], [len(term.values) for term in terms]
    )
    shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
    at_knots = placed.sums(shares[:, None])[:, 0]
    present = [at_knots[slot] for slot in placed.knots]
    centres = [
        rows @ term.values / max(float(rows.sum()), np.finfo(float).tiny)
        for rows, term in zip(present, terms, strict=True)
    ]
    inside = slots([len(members) for members in groups])
    raw = [block_diag(*(terms[t].values - centres[t] for t in range(part.start, part.stop))) for part in inside]
    widest, count = max(columns.shape[1] for columns in raw), len(groups)
    grams, rough, means = (np.zeros((count, widest, *more)) for more in ((widest,), (widest,), ()))
    for group, (columns, part) in enumerate(zip(raw, inside, strict=True)):
        size = columns.shape[1]
        grams[group, :size, :size] = columns.T @ placed.take(range(part.start, part.stop)).gram(shares) @ columns
        rough[group, :size, :size] = penalties[group]
        means[group, :size] = np.concatenate(centres[part])
    transform, bent = smooth_basis(grams, rough, freedoms)
    values = np.concatenate([columns @ turn[: columns.shape[1]] for columns, turn in zip(raw, transform, strict=True)])
    knots = tuple(slice(placed.knots[part.start].start, placed.knots[part.stop - 1].stop) for part in inside)
    return KnotDesign(
        transform=transform, means=means, roughness=bent, placed=placed, values=values, terms=inside, knots=knots
    )
