"""How sure effects are: standard deviations of each term's function, as a fit found them, and when not to show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsenam.codec import Array, Count, Matrix, MaybeNaN, Vector
from sparsenam.model.pairs import PairFunction

Verdict = Literal["shown", "approximate", "refused"]

# of the largest standardised deviation over a whole curve; quantiles at these levels are kept
LEVELS = 1.0 - np.geomspace(0.5, 0.002, 25)


def between(x: Vector, knots: Vector, values: Matrix) -> Matrix:
    """Return functions with values (knots, k) at knots (knots,), linear in between, at x (rows,): shape (rows, k)."""
    found = np.empty((x.size, values.shape[1]))
    for column in range(values.shape[1]):
        found[:, column] = np.interp(x, knots, values[:, column])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class TermBand:
    """The standard deviations (knots, outputs) of one term's centred effect at knots (knots,), linear in between.

    ``maxima`` (levels, outputs) are the quantiles, at `LEVELS`, of the largest deviation over the whole curve in
    standard deviations: a band of so many covers the whole curve at that level.
    """

    term: Count
    knots: Vector
    deviations: Annotated[Matrix, Array(2, 0.0)]
    maxima: Annotated[Matrix, Array(2, 0.0)]

    def at(self, x: Vector) -> Matrix:
        """Return the standard deviations at x (rows,), shape (rows, outputs); 0 where x is NaN, level beyond the ends.

        A term adds nothing for certain where it is absent.
        """
        present = ~np.isnan(x)
        found = np.zeros((x.size, self.deviations.shape[1]))
        found[present] = between(x[present], self.knots, self.deviations)
        return found

    def critical(self, level: float) -> Vector:
        """Return how many standard deviations cover the whole curve at a level, shape (outputs,)."""
        if level <= LEVELS[0]:  # below, only the pointwise ones bound it
            return np.maximum(self.maxima[0] * level / LEVELS[0], ndtri(0.5 + 0.5 * level))
        scale = -np.log1p(-LEVELS)
        return between(np.array([-np.log1p(-level)]), scale, self.maxima)[0]


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """What a fit knows of the uncertainty of its effects.

    ``information`` are the rows' working weights for each degree of freedom of the bands; ``verdict`` says whether
    bands are shown, shown as approximate, or refused, and ``reason`` why. ``without`` has the reason of terms that
    have none. ``pairs`` are the standard deviations (rows, columns, outputs) at the nodes of each pair of the model.
    """

    verdict: Verdict
    reason: str
    information: MaybeNaN
    terms: tuple[TermBand, ...] = ()
    without: Mapping[int, str] = field(default_factory=dict[int, str])
    pairs: tuple[Annotated[NDArray[np.float64], Array(3, 0.0)], ...] = ()

    @classmethod
    def refused(cls, reason: str, information: float = float("nan")) -> Bands:
        """Return the bands of a fit that has none."""
        return cls("refused", reason, information)

    def deviations(self, terms: Matrix, n_outputs: int) -> NDArray[np.float64]:
        """Return the standard deviations of all terms' effects (rows, n_terms, outputs), NaN of those without."""
        found = np.zeros((*terms.shape, n_outputs))
        found[:, list(self.without)] = np.nan
        for band in self.terms:
            found[:, band.term] = band.at(terms[:, band.term])
        return found

    def pair_deviations(self, pairs: tuple[PairFunction, ...], terms: Matrix) -> NDArray[np.float64]:
        """Return those of the pairs of a model, shape (rows, pairs, outputs)."""
        outputs = pairs[0].values.shape[2] if pairs else 1
        found = np.zeros((len(pairs), len(terms), outputs))
        for effect, pair, deviations in zip(found, pairs, self.pairs, strict=True):
            PairFunction(pair.terms, pair.knots, deviations, pair.weights).add_to(effect, terms)
        return found.swapaxes(0, 1)
