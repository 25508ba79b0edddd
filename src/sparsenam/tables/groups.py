"""Which terms enter or leave a model together, and at what price."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """``members`` has the places of each group's terms; ``prices`` (groups,) multiplies its penalty, 0 is free."""

    members: tuple[NDArray[np.intp], ...]
    prices: NDArray[np.float64]

    @classmethod
    def alone(cls, n_terms: int) -> Grouping:
        """Return every term in a group of its own, at price 1."""
        return cls(tuple(np.array([place], dtype=np.intp) for place in range(n_terms)), np.ones(n_terms))

    @property
    def is_trivial(self) -> bool:
        """Whether group j is term j alone."""
        return all(own.size == 1 and own[0] == place for place, own in enumerate(self.members))

    def size_of(self, term: int) -> int:
        """Return the number of terms in a term's group."""
        if term < len(self.members) and self.members[term].size == 1 and self.members[term][0] == term:
            return 1  # the common case, without a search
        return next(own.size for own in self.members if term in own)

    def terms_of(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the terms of some groups, in rising order."""
        if self.is_trivial:
            return groups
        chosen = [self.members[int(group)] for group in groups]
        return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.intp)

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each term's value from those of the groups, shape (terms,)."""
        result = np.zeros(sum(own.size for own in self.members))
        for own, value in zip(self.members, values, strict=True):
            result[own] = value
        return result

    def take(self, places: NDArray[np.intp]) -> Grouping:
        """Return the groups of some terms, numbered anew in the order given; groups without a term vanish."""
        new = {int(place): number for number, place in enumerate(places)}
        kept: list[tuple[NDArray[np.intp], float]] = []
        for own, price in zip(self.members, self.prices, strict=True):
            inside = sorted(new[int(place)] for place in own if int(place) in new)
            if inside:
                kept.append((np.array(inside, dtype=np.intp), float(price)))
        kept.sort(key=lambda group: int(group[0][0]))
        return Grouping(tuple(own for own, _ in kept), np.array([price for _, price in kept]))
