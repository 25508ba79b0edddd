"""The posterior of a finished smooth fit: how its coefficients vary, on the ramps that it ended with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.smooth.design import RampDesign, WeightedGram
from sparsenam.smooth.engine import SmoothProblem
from sparsenam.smooth.fit import SmoothFit
from sparsenam.smooth.prior import Layout, Posterior, posterior
from sparsenam.tables.sample import Matrix, Vector


@dataclass(frozen=True, slots=True, eq=False)
class FitPosterior:
    """A fit's ramps, its scores on the training rows and the posterior of its coefficients there.

    ``scores`` are (rows, outputs), ``coefficients`` (columns, outputs). ``grams`` and ``posteriors`` are one for each
    output, or one for all where outputs share them; ``weights`` has the working weights (rows,) of each. Rows of
    weight 0 are left out of ``task``.
    """

    task: SmoothProblem
    layout: Layout
    design: RampDesign
    coefficients: Matrix
    scores: Matrix
    precisions: tuple[Matrix, ...]
    strengths: tuple[Vector, ...]
    noise: float
    weights: tuple[Vector, ...]
    grams: tuple[WeightedGram, ...]
    posteriors: tuple[Posterior, ...]

    @classmethod
    def of(
        cls, task: SmoothProblem, fit: SmoothFit, levels: NDArray[np.bool_], offset: Matrix | None = None
    ) -> FitPosterior:
        """Return the posterior of a fit without shapes.

        ``levels`` (terms,) marks codes of unordered levels; ``offset`` (rows, outputs) is what other parts of the model
        add to the scores, and is taken as known.
        """
        layout = Layout.of(fit.ramps, levels.tolist())
        design = RampDesign(layout, task.x, task.weights)
        coefficients = np.concatenate(fit.coefficients)
        scores = fit.intercept + design.means @ coefficients + design.times(coefficients)
        if offset is not None:
            scores = scores + offset
        return cls.at(task, layout, design, coefficients, scores, fit.precision, fit.strengths, fit.noise)

    @classmethod
    def at(
        cls,
        task: SmoothProblem,
        layout: Layout,
        design: RampDesign,
        coefficients: Matrix,
        scores: Matrix,
        precisions: Sequence[Matrix],
        strengths: Sequence[Vector],
        noise: float,
    ) -> FitPosterior:
        """Return the posterior about given coefficients and scores."""
        if task.family.is_quadratic:
            weights, grams = (task.weights,), (design.weighted_gram(task.weights),)
        else:
            weights = tuple(task.weights * bend for bend in task.curvatures(scores))
            grams = tuple(design.weighted_gram(each) for each in weights)
        found = tuple(posterior(layout, gram.matrix, precisions, noise) for gram in grams)
        return cls(
            task,
            layout,
            design,
            coefficients,
            scores,
            tuple(precisions),
            tuple(strengths),
            noise,
            weights,
            grams,
            found,
        )

    @property
    def degrees_of_freedom(self) -> Vector:
        """Those of each term, the mean over outputs, shape (terms,)."""
        return np.mean([each.degrees_of_freedom for each in self.posteriors], axis=0)
