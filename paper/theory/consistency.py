"""Theorems 5.1 and 5.2: where h is far from f, and where each hⱼ is far from fⱼ and a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from paper.theory.problem import Matrix, Vector
from sparsenam.errors import InputError, describe


def exceedance(truth: ArrayLike, fitted: ArrayLike, epsilon: float) -> float:
    """Return the share of rows with |f(x) - h(x)| ≥ ε; both of shape (rows,).

    On rows that h was not fitted to it estimates Theorem 5.1's ρ{x : |f(x) - h(x)| ≥ ε}.
    """
    away = _finite(truth, "truth", 1) - _finite(fitted, "fitted", 1)
    return float(np.mean(np.abs(away) >= _positive(epsilon)))


def consistency_bound(
    error: float,
    epsilon: float,
    *,
    n: int,
    mu: float,
    second_moments: ArrayLike,
    widths: ArrayLike,
    intercept: float = 0.0,
    delta: float = 0.05,
    corrected: bool = False,
) -> float:
    """Return the bound of Theorem 5.1 on ρ{x : |f(x) - h(x)| ≥ ε}, from the error ‖f - h‖²/n on the training rows.

    As printed: error/ε².
    Corrected: error/ε² + (4/ε√n) (μ √(Σⱼ mⱼ E gⱼ²) + |β|) + √(log(1/δ)/2n), with probability 1 - δ.

    Remarks on the printed proof:

    * error/ε² bounds the share of the *training* rows in S = {x : |f(x) - h(x)| ≥ ε}: that is Markov's inequality.
      The proof then takes the share to ρ(S) by a law of large numbers for triangular arrays. S depends on h and so on
      all rows: the indicators of xᵢ in S are not independent, and the law does not apply. A function that meets f at
      the training rows and nowhere else has error 0 and ρ(S) = 1.
    * What is needed is a law that holds for all h the fit may give. min(1, u²/ε²) lies between 1{|u| ≥ ε} and u²/ε²
      and changes by at most 2/ε a unit; the mean of it over the rows is close to its expectation for all
      h = β + Σ gⱼᵀθⱼ with Σ‖θⱼ‖ ≤ μ at once, by Rademacher averages, Talagrand's contraction and McDiarmid's
      inequality, which gives the corrected bound. The features must be drawn without the rows, and μ and the bound on
      |β| chosen before they are seen.
    * So the theorem is true for features and μ that stay as they are while n grows, and says nothing where they grow:
      μ² Σ mⱼ E gⱼ² must fall behind n. And its assumption 4.1 fails at large n unless f lies in the features' span (see
      `overfits`), so that the error need not vanish at all.
    * The corrected bound is above 1 and says nothing until √n exceeds about 4μ√(Σ mⱼ E gⱼ²)/ε.

    Parameters
    ----------
    error
        ‖f - h‖²/n on the training rows, or a bound on it such as `slow_rate_bound`.
    n, mu
        Training rows, and μ ≥ Σⱼ‖θⱼ‖.
    second_moments, widths
        E gⱼ², the mean square of a unit over X, and mⱼ; shape (features,).
    intercept
        A bound on |β|, 0 in the paper, which leaves β out.
    """
    level = _positive(epsilon)
    moments, units = _finite(second_moments, "second_moments", 1), _finite(widths, "widths", 1)
    if moments.shape != units.shape or moments.size == 0:
        got = f"shapes {moments.shape} and {units.shape}"
        expected = "second_moments and widths of shape (features,)"
        raise InputError(describe("consistency", expected, got, "give one number for each feature"))
    numbers = {"error": (error, 0.0), "n": (n, 1.0), "mu": (mu, 0.0), "intercept": (intercept, 0.0)}
    lists = {"second_moments": (float(moments.min()), 0.0), "widths": (float(units.min()), 1.0)}
    for name, (value, least) in {**numbers, **lists}.items():
        if not value >= least:
            raise InputError(describe(name, f"at least {least:g}", f"{value:g}", "correct it"))
    if not 0 < delta < 1:
        raise InputError(describe("delta", "a probability between 0 and 1", f"{delta:g}", "correct it"))
    share = error / level**2
    if not corrected:
        return float(share)
    size = mu * np.sqrt(np.sum(units * moments)) + intercept
    return float(share + 4 * size / (level * np.sqrt(n)) + np.sqrt(np.log(1 / delta) / (2 * n)))


def least_exceedance(values: ArrayLike, epsilon: float) -> float:
    """Return min over c of the share of rows with |v - c| ≥ ε, v of shape (rows,).

    The best c is the middle of the open interval of width 2ε that holds most values.
    """
    ordered = np.sort(_finite(values, "values", 1))
    reach = np.searchsorted(ordered, ordered + 2 * _positive(epsilon), side="left")
    return float(1.0 - np.max(reach - np.arange(ordered.size)) / ordered.size)


@dataclass(frozen=True, slots=True)
class Identification:
    """Shares of rows where h is off by ε or more.

    Attributes
    ----------
    whole
        ρ{|f - h| ≥ ε}, least over constants added to h.
    effects
        ρ{|fⱼ - hⱼ - cⱼ| ≥ ε} for each column, least over cⱼ.
    """

    whole: float
    effects: tuple[float, ...]

    @property
    def identified(self) -> bool:
        """Whether no effect is off more often than the sum, which independent columns guarantee."""
        return max(self.effects) <= self.whole


def identification(truth: ArrayLike, fitted: ArrayLike, epsilon: float) -> Identification:
    """Return Theorem 5.2's shares for effects at the same rows, both of shape (rows, columns).

    As printed: if h → f in probability and Xⱼ is independent of the other columns, then hⱼ → fⱼ in probability, up to
    a constant.
    As it can be proved, for every h and ε: min over c of ρ{|fⱼ - hⱼ - c| ≥ ε} ≤ ρ{|f - h| ≥ ε}. A = fⱼ - hⱼ and
    B = f - h - A are independent, so ρ{|A + B| ≥ ε} is the mean over B of ρ{|A + b| ≥ ε}, and some b of B gives no more
    than the mean: c = -b. Nothing is lost, no moment is needed, and the printed theorem follows. In squares:
    Var(fⱼ - hⱼ) ≤ Var(f - h).

    Remarks on the printed proof:

    * The set over which it integrates, {x₋ⱼ : |f(x) - h(x)| < ε}, depends on xⱼ. So do its "constants" cⱼ,₁ and cⱼ,₂.
    * ∫ fⱼ(Xⱼ) p₋ⱼ(u) du over that set is fⱼ(Xⱼ) times the set's probability; the factor stands on h's side only.
    * A set of probability near 1 does not carry nearly the whole integral of an unbounded f.
    * The constant depends on n: hₙ,ⱼ - fⱼ need not converge, hₙ,ⱼ - fⱼ - cₙ,ⱼ does.
    * It is used with Theorem 5.1, whose printed proof fails (see `consistency_bound`).
    * Without independence it is false: f₁ = x, f₂ = -x on two equal columns and h = 0 has f - h = 0 in every row.
    """
    away = _finite(truth, "truth", 2) - _finite(fitted, "fitted", 2)
    if away.shape[1] == 0:
        raise InputError(describe("truth", "at least one column", "none", "give the effects of every column"))
    effects = tuple(least_exceedance(column, epsilon) for column in away.T)
    return Identification(least_exceedance(away.sum(axis=1), epsilon), effects)


def _finite(values: ArrayLike, name: str, dimensions: int) -> Vector | Matrix:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != dimensions or array.shape[0] == 0 or not np.isfinite(array).all():
        expected = f"finite numbers in {dimensions} dimension{'s' * (dimensions > 1)}"
        raise InputError(describe(name, expected, f"shape {array.shape}", "correct it"))
    return array


def _positive(epsilon: float) -> float:
    if not epsilon > 0:
        raise InputError(describe("epsilon", "a number above 0", f"{epsilon:g}", "correct it"))
    return float(epsilon)
