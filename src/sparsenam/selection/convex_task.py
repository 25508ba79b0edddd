"""A prepared sample as the convex problem of the paper's section 3.3, and its solutions in terms and columns."""

from __future__ import annotations

import warnings
from collections import deque
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.convex.certificate import Certificate, certify
from sparsenam.convex.design import GroupedDesign, orthonormal_design
from sparsenam.convex.features import GroupedFeatures, RandomFeatures
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import ConvexPoint, convex_problem
from sparsenam.errors import CertificateError, InputError
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.penalties import Penalty, WeightedLasso, restrict, weighted
from sparsenam.selection.path import PathPoint, RegularizationPath
from sparsenam.tables import PreparedSample

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]
Norm = Literal["function", "parameters"]

WIDE = 10_000_000  # numbers above which the design is kept in single precision
STEPS_DOWN = 12  # warm starts on the way from alpha_max to an alpha that the user gives
TOLERANCE = 1e-4  # duality gap of a solution, relative to the loss of the empty model


@dataclass(frozen=True, slots=True, eq=False)
class ConvexTask:
    """A prepared sample in frozen hidden units; its blocks are the groups of ``prepared.grouping``.

    ``column_of`` gives the column of the table that each of the encoder's terms belongs to, shape (n_terms,).
    """

    prepared: PreparedSample
    family: Family
    features: GroupedFeatures
    design: GroupedDesign
    penalty: Penalty
    column_of: Indices

    @classmethod
    def of(
        cls,
        prepared: PreparedSample,
        family: Family,
        features: RandomFeatures,
        penalty: Penalty,
        column_of: Indices,
        norm: Norm = "function",
    ) -> ConvexTask:
        """Build the design; the penalty is the one on all of the encoder's terms."""
        grouping = prepared.grouping
        grouped = GroupedFeatures.of(features, grouping)
        n_groups = len(grouping.members)
        width = grouped.columns(0).shape[1] if n_groups else 1
        single = n_groups * prepared.weights.size * width > WIDE
        design = orthonormal_design(
            grouped.columns,
            n_groups,
            prepared.weights,
            norm=norm,
            is_ordered=grouped.is_ordered,
            dtype=np.float32 if single else np.float64,
        )
        leading = np.array([members[0] for members in grouping.members], dtype=np.intp)
        restricted = restrict(penalty, prepared.terms[leading], prepared.n_terms)
        return cls(prepared, family, grouped, design, weighted(restricted, grouping.weights), column_of)

    @property
    def group_names(self) -> list[str]:
        """The names of the terms in each group."""
        names = self.prepared.names
        return [" + ".join(names[int(term)] for term in members) for members in self.prepared.grouping.members]

    def terms(self, groups: Indices) -> Indices:
        """Return the indices of the terms in some groups, among the prepared ones."""
        return self.prepared.grouping.terms_of(groups)

    def columns(self, groups: Indices) -> Indices:
        """Return the indices of the table's columns that have a term in some groups, ascending."""
        return np.unique(self.column_of[self.prepared.terms[self.terms(groups)]])

    def model(self, point: ConvexPoint) -> AdditiveModel:
        """Return the penalised fit of a path point as a model."""
        groups = point.supports[0]
        coefficients = self.design.original(point.theta[0])[groups]
        bank, theta, base = self.features.network(groups, coefficients)
        kept, unit = self.prepared.take(self.terms(groups)), self.prepared.target_scaling.scale
        means = self.features.split(groups, self.design.means[groups][:, :, None])[:, :, 0]
        by_term = self.features.split(groups, coefficients)
        center = self.prepared.target_scaling.center + unit * point.intercepts[0]
        return AdditiveModel(
            family=self.family,
            bank=bank,
            theta=theta,
            terms=kept.terms,
            n_terms=kept.n_terms,
            scaling=kept.scaling,
            offsets=np.einsum("jm,jmk->jk", means, by_term) - base,
            intercept=center + np.log(self.prepared.exposure_unit),
            target_scale=unit,
            absent=np.zeros_like(base),
        )

    def norms(self, point: ConvexPoint) -> Vector:
        """Return the penalised norm of every encoded term, that of its group, shape (n_terms,)."""
        lengths = np.zeros(len(self.prepared.grouping.members))
        lengths[point.active] = np.sqrt((point.values[0] ** 2).sum(axis=(1, 2)))
        norms = np.zeros(self.prepared.n_terms)
        norms[self.prepared.terms] = self.prepared.grouping.spread(lengths)
        return norms

    def path(self, points: tuple[ConvexPoint, ...], names: tuple[str, ...]) -> RegularizationPath:
        """Return the points as a path of models; ``names`` are those of the table's columns."""
        return RegularizationPath(
            tuple(
                PathPoint(
                    point.alpha,
                    self.columns(point.supports[0]),
                    by_column(self.norms(point), self.column_of, len(names)),
                    self.model(point),
                    float(point.gaps[0]),
                )
                for point in points
            ),
            names,
        )

    def walk(self, alphas: Vector | None, n_alphas: int, tol: float) -> list[ConvexPoint]:
        """Return the points of a path for the fit on all rows, by default from alpha_max down."""
        path = convex_path(
            self.design,
            self.prepared.target,
            self.family,
            self.prepared.weights[None],
            penalty=self.penalty,
            alphas=alphas,
            n_alphas=n_alphas,
            tol=tol,
        )
        return list(path)

    def solve(self, alpha: float, tol: float = TOLERANCE) -> tuple[ConvexPoint, Certificate | None]:
        """Solve at one alpha, on the way down from alpha_max, and certify; warn where there is no certificate."""
        target, weights = self.prepared.target, self.prepared.weights
        try:
            top = alpha_max(self.design, target, self.family, weights[None], penalty=self.penalty)
        except InputError:  # a penalty that no alpha makes empty: solve at the alpha itself
            top = 0.0
        alphas = np.geomspace(top, alpha, STEPS_DOWN) if 0 < alpha < top else np.array([alpha])
        certificate, names = None, self.group_names
        for inner in (0.5 * tol, 0.01 * tol):
            (point,) = deque(self.walk(alphas, alphas.size, inner), maxlen=1)
            theta, intercept = point.theta[0], point.intercepts[0]
            try:
                certificate = certify(
                    self.design, target, self.family, weights, theta, intercept, alpha, self.penalty, names, tol
                )
                break
            except CertificateError as error:
                refusal = error
        else:
            warnings.warn(f"The convex solution has no certificate. {refusal}", ConvergenceWarning, stacklevel=2)
        return point, certificate

    def slack_at(self, alpha: float, scores: Vector) -> Vector:
        """Return each term's ‖gradient‖ over the one at which it enters, for scores (rows, outputs), shape (terms,).

        A term left out of any fit is re-examined by this condition: above 1 it would enter. The gradient of a group
        is that of its terms.
        """
        prepared = self.prepared
        if not isinstance(self.penalty, WeightedLasso):  # sorted weights bind groups together, none alone
            return np.zeros(prepared.terms.size)
        problem = convex_problem(self.design, prepared.target, self.family, prepared.weights[None])
        norms = problem.gradient_norms(problem.residuals(scores.T[None]))[0]
        bounds, _ = self.penalty.lasso_and_ridge(norms.size, alpha)
        slack = np.divide(norms, bounds, out=np.zeros_like(norms), where=np.isfinite(bounds) & (bounds > 0))
        return prepared.grouping.spread(slack)

    def with_penalty(self, penalty: Penalty) -> ConvexTask:
        """Return the same problem under another penalty."""
        return replace(self, penalty=penalty)

    def with_sample(self, prepared: PreparedSample) -> ConvexTask:
        """Return the same columns for another target or other weights of the rows."""
        return replace(self, prepared=prepared)


def by_column(norms: Vector, column_of: Indices, n_columns: int) -> Vector:
    """Return √Σ r² over the terms of each column, shape (columns,), for norms r of shape (n_terms,)."""
    return np.sqrt(np.bincount(column_of, norms**2, minlength=n_columns))
