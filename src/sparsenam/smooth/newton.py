"""The penalised loss of a smooth fit and its Newton steps, for families without a closed solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsenam.families import Family
from sparsenam.smooth.constraints import ConeSolution, ConeSolver
from sparsenam.smooth.design import RampDesign, WeightedGram
from sparsenam.smooth.prior import Posterior
from sparsenam.tables.sample import Matrix, Vector

LIGHTEST = 1e-6  # of a row's curvature: keeps the mean score determined where all rows are certain
SAME = 0.01  # relative change of the working weights up to which their Gram matrix serves again
SHORTEST = 0.02  # step of the line search; shorter ones only answer to rounding
INNER_STEPS, INNER_TOL = 30, 0.01  # of the conjugate gradients in one Newton step: most, and the residual's share


@dataclass(frozen=True, slots=True, eq=False)
class SmoothProblem:
    """What a fit is given: x (terms, rows), target (rows, outputs) and weights (rows,)."""

    x: Matrix
    target: Matrix
    weights: Vector
    family: Family

    @property
    def free_outputs(self) -> int:
        """Number of outputs that are free: softmax scores matter up to a common shift."""
        outputs = self.target.shape[1]
        return outputs - 1 if self.family.couples_outputs and outputs > 1 else outputs

    def loss(self, scores: Matrix) -> float:
        """Return Σᵢ wᵢ loss(yᵢ, scoresᵢ)."""
        return float(self.weights @ self.family.loss(scores, self.target))

    def curvatures(self, scores: Matrix) -> Matrix:
        """Return the curvature h of the loss in each score, shape (outputs, rows), or (1, rows) for softmax.

        There it is (1 - Σp²)/(K - 1), the mean of the eigenvalues of diag(p) - ppᵀ in the K - 1 directions that it
        sees: exact for two classes and for equal shares. A bound would make many classes look more informative.
        """
        family, outputs = self.family, scores.shape[1]
        if family.couples_outputs and outputs > 1:
            mean = family.mean(scores)
            return np.maximum(np.sum(mean * (1.0 - mean), axis=1) / (outputs - 1.0), LIGHTEST)[None]
        return np.maximum(family.hessian_diagonal(scores, self.target), LIGHTEST).T


class Curvatures:
    """The Gram matrices of the columns under the working weights w h, one for each output or one for all."""

    def __init__(self, task: SmoothProblem, design: RampDesign) -> None:
        self.task, self.design = task, design
        self._weights, self._grams = np.zeros((0, 0)), list[WeightedGram]()

    def grams(self, scores: Matrix) -> list[WeightedGram]:
        """Return those at scores (rows, outputs), or the last ones where the weights have changed little.

        The gradient is exact, so that an old curvature changes how fast the steps converge, not where to.
        """
        weights = self.task.weights * self.task.curvatures(scores)
        if not self._grams or np.abs(weights - self._weights).sum() > SAME * weights.sum():
            self._weights, self._grams = weights, [self.design.weighted_gram(each) for each in weights]
        return self._grams


@dataclass(frozen=True, slots=True, eq=False)
class NewtonStep:
    """One step of Σ w loss/φ + ½ Σ βᵀPβ: its direction and its length.

    ``grams`` and ``posteriors`` are one for each output, or one for all where the family couples them.
    """

    task: SmoothProblem
    design: RampDesign
    precisions: Sequence[Matrix]
    noise: float
    grams: Sequence[WeightedGram]
    posteriors: Sequence[Posterior]

    def direction(self, coefficients: Matrix, scores: Matrix) -> tuple[Matrix, Vector]:
        """Return the changes of the coefficients (columns, outputs) and of the base score (outputs,)."""
        pull, lift = self.pulls(coefficients, scores)
        if self.task.family.couples_outputs and scores.shape[1] > 1:
            return self._coupled(pull, lift, scores)
        parts = [
            self._solve(output, pull[:, output : output + 1], lift[output : output + 1])
            for output in range(scores.shape[1])
        ]
        return np.hstack([move for move, _ in parts]), np.concatenate([turn for _, turn in parts])

    def direction_in_cone(
        self, solver: ConeSolver, strengths: Sequence[Vector], coefficients: Matrix, scores: Matrix
    ) -> tuple[Matrix, Vector, list[ConeSolution]]:
        """Return the same changes to the best point of a cone, with that point and its covariances for each output."""
        pull, lift = self.pulls(coefficients, scores)
        pull -= np.stack([gram.means for gram in self.grams], axis=1) * lift
        found = solver.minima([gram.matrix for gram in self.grams], strengths, self.noise, pull, coefficients)
        move = np.stack([each.beta for each in found], axis=1) - coefficients
        turns = [
            lift[output] * self.noise / gram.total - gram.means @ move[:, output]
            for output, gram in enumerate(self.grams)
        ]
        return move, np.array(turns), found

    def pulls(self, coefficients: Matrix, scores: Matrix) -> tuple[Matrix, Vector]:
        """Return the negative gradient by the coefficients (columns, outputs) and by the base score (outputs,)."""
        pull, lift = self._products(-self.task.family.gradient(scores, self.task.target))
        return pull - self._prior_times(coefficients), lift

    def _products(self, values: Matrix) -> tuple[Matrix, Vector]:
        """Return ZᵀWv/φ and 1ᵀWv/φ for v of shape (rows, r)."""
        weighted = self.task.weights[:, None] / self.noise * values
        return self.design.transposed_times(weighted), weighted.sum(axis=0)

    def _prior_times(self, coefficients: Matrix) -> Matrix:
        """Return Pβ, shape (columns, outputs)."""
        parts = zip(self.design.layout.slices, self.precisions, strict=True)
        return np.concatenate([precision @ coefficients[columns] for columns, precision in parts])

    def _solve(self, output: int, pull: Matrix, lift: Vector) -> tuple[Matrix, Vector]:
        """Return the solution of [ZᵀWZ/φ + P, ZᵀW1/φ; 1ᵀWZ/φ, 1ᵀW1/φ] with right-hand sides pull and lift."""
        gram = self.grams[output]
        move = self.posteriors[output].solve(pull - np.outer(gram.means, lift))
        return move, lift * self.noise / gram.total - gram.means @ move

    def _coupled(self, pull: Matrix, lift: Vector, scores: Matrix) -> tuple[Matrix, Vector]:
        """Solve with the whole Hessian by conjugate gradients, preconditioned by the curvature that outputs share."""
        mean = self.task.family.mean(scores)
        move, turn = np.zeros_like(pull), np.zeros_like(lift)
        ahead, up = self._solve(0, pull, lift)
        size = first = float(np.sum(pull * ahead) + lift @ up)
        for _ in range(INNER_STEPS):
            if not size > INNER_TOL**2 * first:
                break
            change = self.design.times(ahead) + up
            change = mean * (change - np.sum(mean * change, axis=1, keepdims=True))
            bend, rise = self._products(change)
            bend += self._prior_times(ahead)
            length = size / float(np.sum(ahead * bend) + up @ rise)
            move, turn = move + length * ahead, turn + length * up
            pull, lift = pull - length * bend, lift - length * rise
            next_ahead, next_up = self._solve(0, pull, lift)
            last, size = size, float(np.sum(pull * next_ahead) + lift @ next_up)
            ahead, up = next_ahead + size / last * ahead, next_up + size / last * up
        return move, turn

    def length(self, point: tuple[Matrix, Matrix], direction: tuple[Matrix, Matrix]) -> float:
        """Return the first of 1, ½, ¼, … at which the objective is not above where it was, 0 where none is.

        ``point`` and ``direction`` are pairs of coefficients (columns, outputs) and scores (rows, outputs).
        """

        def objective(step: float) -> float:
            coefficients = point[0] + step * direction[0]
            cost = self.task.loss(point[1] + step * direction[1]) / self.noise
            return cost + 0.5 * float(np.sum(coefficients * self._prior_times(coefficients)))

        start, step = objective(0.0), 1.0
        while step >= SHORTEST and not objective(step) <= start + 1e-8 * abs(start):
            step *= 0.5
        return step if step >= SHORTEST else 0.0
