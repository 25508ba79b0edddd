"""The scale φ that turns a loss into a negative log-likelihood."""

from __future__ import annotations

import numpy as np

from sparsenam.families.base import Family, Matrix, Vector, robust_center_and_scale

MOST = 1e200  # of a row's squared error, whose sum is then a number
LEAST = 1e-8  # of φ, and of the mean curvature that it is divided by


def dispersion(family: Family, scores: Matrix, target: Matrix, weights: Vector, freedom: float) -> float:
    """Return φ such that loss/φ is the negative log-likelihood of a row, up to a constant.

    As ``family.dispersion`` declares:

    - "fixed": 1, the loss is a negative log-likelihood.
    - "pearson": Σ w (y - μ)²/μᵖ over the rows less ``freedom``, with p the ``variance_power``.
    - "empirical", for losses that are no likelihoods: Σ w g² / Σ w h, with g and h the loss's derivatives.
      A likelihood has E g² = φ E h. For other losses, coefficients with curvature h vary by E g²/(E h)², so that
      with this φ the curvature φ⁻¹h of loss/φ is the inverse of their variance, as a likelihood's would be: the
      median gets ¼/f(0), Huber's loss the E ψ²/E ψ' of robust regression.

    ``scores`` (rows, outputs) are those of the fit so far, ``weights`` (rows,) the number of times that each row
    counts, ``freedom`` the degrees of freedom used for each output, the intercept's included.
    """
    if family.dispersion == "fixed":
        return 1.0
    rows = float(weights.sum())
    left = max(rows - freedom, 1.0) * target.shape[1]
    if family.dispersion == "pearson":
        means = family.mean(scores)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # means of fits that went astray
            squares = (target - means) ** 2 / np.maximum(means, np.finfo(float).tiny) ** family.variance_power
        squares = np.where(squares <= MOST, squares, MOST)
        return max(float(np.sum(weights @ squares)) / left, LEAST)
    squares = float(np.sum(weights @ family.gradient(scores, target) ** 2)) / left
    bends = float(np.sum(weights @ mean_bends(family, scores, target, weights))) / (rows * target.shape[1])
    return max(squares / max(bends, LEAST), LEAST)


def mean_bends(family: Family, scores: Matrix, target: Matrix, weights: Vector) -> Matrix:
    """Return the second derivatives of the loss, shape (rows, outputs), smoothed for the sake of kinks.

    A loss with a kink has its curvature in few rows. Differences of the gradient over the width that a density
    estimate would take see enough of them; they also do without `hessian_diagonal`, which may be a mere bound.
    """
    if family.link != "identity":
        return family.hessian_diagonal(scores, target)
    _, spread = robust_center_and_scale(target - scores, weights)
    width = np.maximum(spread, LEAST) * float(weights.sum()) ** -0.2
    return (family.gradient(scores + width, target) - family.gradient(scores - width, target)) / (2.0 * width)
