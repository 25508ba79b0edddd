"""Families of classes: logistic loss for yes/no answers, softmax for several classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from scipy.special import entr, logit

from sparsenam.families.base import Array, Family, Matrix, TargetRange, Vector, sigmoid, softplus


@dataclass(frozen=True, slots=True)
class Binomial(Family):
    """log(1 + eˢ) - y s for y in {0, 1}."""

    name = "binomial"
    link = "logit"
    range = TargetRange(0.0, 1.0, "0 or 1")
    curvature = 0.25
    response = "binary"
    dispersion = "fixed"

    def loss(self, scores: Array, target: Array) -> Array:
        return (softplus(scores) - target * scores).sum(-1)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        mean = self.mean(scores)
        return mean * (1.0 - mean)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ m log m + (1 - m) log(1 - m), shape (rows,)."""
        return -np.sum(entr(mean) + entr(1.0 - mean), axis=-1)

    def mean(self, scores: Array) -> Array:
        return sigmoid(scores)

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        """Return the log odds, kept finite when one answer never occurs."""
        share = np.average(target, axis=0, weights=weights)
        return logit(np.clip(share, 1e-6, 1.0 - 1e-6))


@dataclass(frozen=True, slots=True)
class Multilabel(Binomial):
    """Independent yes/no answers that share their features: one group over all outputs."""

    name = "multilabel"
    response = "labels"


@dataclass(frozen=True, slots=True)
class Multinomial(Family):
    """log Σₖ e^(sₖ) - Σₖ yₖ sₖ for one-hot y; two classes give the paper's two-output classifier."""

    name = "multinomial"
    link = "log"
    range = TargetRange(0.0, 1.0, "one-hot rows of 0 and 1")
    curvature = 0.5
    couples_outputs = True
    response = "classes"
    dispersion = "fixed"

    def loss(self, scores: Array, target: Array) -> Array:
        xp = array_namespace(scores)
        top = xp.max(scores, axis=-1, keepdims=True)
        return xp.log(xp.exp(scores - top).sum(-1)) + top[..., 0] - (target * scores).sum(-1)

    def hessian_diagonal(self, scores: Array, target: Array) -> Array:
        """Return the same bound on diag(p) - ppᵀ for every class, so that one weighted Gram serves all of them.

        With p₁ the largest share it is p₁ up to ½ and 2p₁(1 - p₁) beyond: by interlacing the top eigenvalue is at
        most p₁, by Gershgorin's circles at most 2 maxₖ pₖ(1 - pₖ). It is sharp for two classes and for equal shares.
        """
        xp, mean = array_namespace(scores), self.mean(scores)
        top = xp.max(mean, axis=-1, keepdims=True)
        return xp.where(top > 0.5, top * (2.0 - 2.0 * top), top) + xp.zeros_like(mean)

    def conjugate(self, mean: Matrix, target: Matrix) -> Matrix:
        """Return Σₖ mₖ log mₖ, shape (rows,)."""
        return -np.sum(entr(mean), axis=-1)

    def mean(self, scores: Array) -> Array:
        xp = array_namespace(scores)
        powers = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return powers / powers.sum(-1)[..., None]

    def best_constant(self, target: Matrix, weights: Vector) -> Vector:
        logs = np.log(np.clip(np.average(target, axis=0, weights=weights), 1e-6, None))
        return logs - logs.mean()
