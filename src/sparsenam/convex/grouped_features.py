"""Several terms in one block: columns that enter or leave a model together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sparsenam.convex.random_features import RandomFeatures
from sparsenam.networks import MLPBank
from sparsenam.tables.groups import Grouping
from sparsenam.tables.scaling import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class GroupedFeatures:
    """The random features of each group's terms, side by side; ``widths`` (terms,) are their numbers of columns."""

    features: RandomFeatures
    grouping: Grouping
    widths: NDArray[np.intp]

    @classmethod
    def of(cls, features: RandomFeatures, grouping: Grouping) -> GroupedFeatures:
        """Measure the widths, which groups of several terms need."""
        n_terms = sum(own.size for own in grouping.members)
        if grouping.is_trivial:
            return cls(features, grouping, np.zeros(n_terms, dtype=np.intp))
        return cls(features, grouping, np.array([features.columns(term).shape[1] for term in range(n_terms)]))

    def columns(self, group: int) -> Matrix:
        """Return the columns of a group's terms, shape (rows, Σ m)."""
        members = self.grouping.members[group]
        if members.size == 1:
            return self.features.columns(int(members[0]))
        return np.hstack([self.features.columns(int(term)) for term in members])

    def is_ordered(self, group: int) -> bool:
        """Return whether the block is one ordered term."""
        members = self.grouping.members[group]
        return members.size == 1 and self.features.is_ordered(int(members[0]))

    def split(self, groups: NDArray[np.intp], values: Matrix) -> Matrix:
        """Return values (groups, m, …) of blocks by their terms in rising order, shape (terms, m, …)."""
        if self.grouping.is_trivial:
            return values
        terms = self.grouping.terms_of(groups)
        place = {int(term): row for row, term in enumerate(terms)}
        result = np.zeros((terms.size, *values.shape[1:]))
        for own, group in zip(values, groups, strict=True):
            start = 0
            for term in self.grouping.members[int(group)]:
                stop = start + int(self.widths[term])
                result[place[int(term)], : stop - start] = own[start:stop]
                start = stop
        return result

    def network(self, groups: NDArray[np.intp], coefficients: Matrix) -> tuple[MLPBank, Tensor, Matrix]:
        """Return bank, θ and base of the groups' terms, from coefficients (groups, m, outputs)."""
        return self.features.network(self.grouping.terms_of(groups), self.split(groups, coefficients))
