"""Theorem 4.3 and its corollary: how large the estimation error ‖f - h‖²/n can be."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.errors import InputError, describe

Vector = NDArray[np.float64]


def overfits(y: ArrayLike, fitted: ArrayLike, truth: ArrayLike) -> bool:
    """Return whether ‖y - h‖² ≤ ‖y - f‖² (assumption 4.1), all of shape (rows,), each residual centred.

    It asks that the random features can follow the noise. Where they cannot represent f, ‖y - h‖²/n tends to the
    variance of the noise plus the approximation error, and the assumption fails for every large n.
    """
    target = np.asarray(y, dtype=np.float64)
    residual, best = target - np.asarray(fitted, dtype=np.float64), target - np.asarray(truth, dtype=np.float64)
    return bool(np.sum((residual - residual.mean()) ** 2) <= np.sum((best - best.mean()) ** 2))


def slow_rate_bound(
    *,
    n: int,
    sigma: float,
    mu: float,
    bounds: ArrayLike,
    second_moments: ArrayLike,
    widths: ArrayLike,
    delta1: float = 0.05,
    delta2: float = 0.05,
    corrected: bool = False,
) -> float:
    """Return the bound of Theorem 4.3 on ‖Σ(fⱼ - Gⱼθ̂ⱼ)‖²/n, said to hold with probability 1 - δ₁ - δ₂.

    As printed: (2σ/√n) (Σⱼ cⱼ/√δ₂ + μ maxⱼ √(E gⱼ²) √(2 log(mⱼ/δ₁))).
    Corrected: (2σ/√n) (Σⱼ cⱼ/√δ₂ + μ maxⱼ √(mⱼ E gⱼ²) √(2 log(2M/δ₁))) with M = Σⱼ mⱼ.

    Remarks on the printed proof:

    * |εᵀGⱼθⱼ| ≤ ‖Gⱼᵀε‖∞‖θⱼ‖₂ is not Hölder's inequality and is false for mⱼ > 1; ‖Gⱼᵀε‖₂ ≤ √mⱼ‖Gⱼᵀε‖∞ is needed.
      The theorem itself fails for wide blocks: with f = 0, orthogonal columns and μ = ‖Gᵀε‖/n the error is about
      σ²m/n, and the printed bound about 2σ²√(2m log(m/δ₁))/n, which is smaller from m = 50 on (δ₁ = 0.1).
    * The maximum is over |·| and over all units of all features: log(mⱼ/δ₁) must be log(2M/δ₁).
    * The variance given the features is σ² Σᵢ gⱼₖ(xᵢ)², not n E gⱼ²: the corrected bound holds with the means over
      the rows at hand (and over a feature's units) as ``second_moments``.
    * |εᵀfⱼ| ≤ ‖fⱼ‖∞‖ε‖₂ is false; ‖fⱼ‖₂‖ε‖₂ ≤ √n cⱼ‖ε‖₂ is true and gives a term that does not fall with n. The
      printed term Σ cⱼ/√δ₂ is right all the same: Chebyshev's inequality for εᵀf, of variance at most
      σ²n(Σ cⱼ)², gives it, if the noise is independent of X.
    * Bounded effects exclude the paper's synthetic task, where x is normal and f grows like x²; the largest
      values over the rows may serve, given X.

    Parameters
    ----------
    n, sigma, mu
        Rows, standard deviation (sub-Gaussian) of the noise, and μ = Σⱼ‖θ̂ⱼ‖.
    bounds
        cⱼ ≥ |fⱼ|, shape (features,).
    second_moments
        E gⱼ², the mean square of a unit, shape (features,).
    widths
        mⱼ, shape (features,).
    """
    limits, moments, units = _checked(n, sigma, mu, bounds, second_moments, widths, delta1, delta2)
    if corrected:
        noise = np.max(np.sqrt(units * moments)) * np.sqrt(2 * np.log(2 * units.sum() / delta1))
    else:
        noise = np.max(np.sqrt(moments) * np.sqrt(2 * np.log(units / delta1)))
    return float(2 * sigma / np.sqrt(n) * (limits.sum() / np.sqrt(delta2) + mu * noise))


def slow_rate_bound_any_noise(
    *,
    n: int,
    sigma: float,
    mu: float,
    bounds: ArrayLike,
    second_moments: ArrayLike,
    widths: ArrayLike,
    delta1: float = 0.05,
    delta2: float = 0.05,
    corrected: bool = False,
) -> float:
    """Return the bound of Corollary 4.4, for noise of mean 0 and variance σ² of any shape.

    As printed: (2σ/√n) (Σⱼ cⱼ/√δ₂ + μ maxⱼ √(E gⱼ²) √(mⱼ/δ₁)).
    Corrected: (2σ/√n) (Σⱼ cⱼ/√δ₂ + μ √(Σⱼ mⱼ E gⱼ² / δ₁)).

    Kolmogorov's inequality is about partial sums of independent variables and does not apply here, but Markov's
    inequality for ‖Gⱼᵀε‖₂², whose mean is n σ² mⱼ E gⱼ², gives the printed number with the right norm. That is the
    theorem for one feature; for several it must hold for all at once, and Markov's inequality for Σⱼ‖Gⱼᵀε‖₂² gives
    the corrected one. It needs no more than E gⱼ² over X. Parameters are those of `slow_rate_bound`.
    """
    limits, moments, units = _checked(n, sigma, mu, bounds, second_moments, widths, delta1, delta2)
    pieces = units * moments / delta1
    noise = np.sqrt(pieces.sum() if corrected else pieces.max())
    return float(2 * sigma / np.sqrt(n) * (limits.sum() / np.sqrt(delta2) + mu * noise))


def _checked(
    n: int,
    sigma: float,
    mu: float,
    bounds: ArrayLike,
    second_moments: ArrayLike,
    widths: ArrayLike,
    delta1: float,
    delta2: float,
) -> tuple[Vector, Vector, Vector]:
    limits, moments, units = (
        np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (bounds, second_moments, widths)
    )
    if not limits.shape == moments.shape == units.shape or limits.ndim != 1 or limits.size == 0:
        got = f"shapes {limits.shape}, {moments.shape} and {units.shape}"
        expected = "bounds, second_moments and widths of shape (features,)"
        raise InputError(describe("slow rate", expected, got, "give one number for each feature"))
    numbers = {"n": (n, 1.0), "sigma": (sigma, 0.0), "mu": (mu, 0.0)}
    lists = {"bounds": (limits.min(), 0.0), "second_moments": (moments.min(), 0.0), "widths": (units.min(), 1.0)}
    for name, (value, least) in {**numbers, **lists}.items():
        if not value >= least:
            raise InputError(describe(name, f"at least {least:g}", f"{value:g}", "correct it"))
    for name, share in (("delta1", delta1), ("delta2", delta2)):
        if not 0 < share < 1:
            raise InputError(describe(name, "a probability between 0 and 1", f"{share:g}", "correct it"))
    return limits, moments, units
