"""Named streams of random numbers, so that what is drawn for one column never depends on another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils import check_random_state


@dataclass(frozen=True, slots=True)
class Streams:
    """Independent generators, one for each name, all grown from one seed."""

    seed: int

    @classmethod
    def from_random_state(cls, random_state: int | np.random.RandomState | None) -> Self:
        """Take scikit-learn's ``random_state``: a seed, a generator to draw one from, or None."""
        if isinstance(random_state, int | np.integer):
            return cls(int(random_state))
        return cls(int(check_random_state(random_state).randint(2**31 - 1)))

    def generator(self, name: str) -> np.random.Generator:
        """Return a fresh generator for ``name``; the same name always gives the same numbers."""
        digest = hashlib.sha256(name.encode()).digest()
        key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def integer(self, name: str) -> int:
        """Return a seed for a generator of another library."""
        return int(self.generator(name).integers(2**63 - 1))
