"""A prepared sample as the convex problem of the paper's section 3.3: solutions, paths and substitutes, in columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsenam.codec import Indices, Size, Vector
from sparsenam.convex.design import (
    FREEDOM,
    FrozenFeatures,
    GroupedDesign,
    GroupedFeatures,
    RampFeatures,
    RandomFeatures,
    grouped_design,
)
from sparsenam.convex.knots import knot_design
from sparsenam.convex.path import TOLERANCE, solve_and_certify
from sparsenam.convex.problem import Certificate, ConvexPoint, ConvexProblem, convex_problem
from sparsenam.errors import InputError, describe
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.model.additive import effects_of, in_units
from sparsenam.model.networks import n_weights
from sparsenam.penalties import Penalty, WeightedLasso, restrict, spread, weighted
from sparsenam.tables.encoder import TableEncoder
from sparsenam.tables.sample import PreparedSample


@dataclass(frozen=True, slots=True, eq=False)
class PathPoint:
    """One alpha: the columns kept, the norms of all columns (columns,), the model, and the gap reached.

    ``features`` are indices of columns. ``gap`` is the duality gap relative to the loss of the empty model, None for
    a fit without one.
    """

    alpha: float
    features: NDArray[np.intp]
    norms: NDArray[np.float64]
    model: AdditiveModel
    gap: float | None = None


@dataclass(frozen=True, slots=True)
class PathSummary:
    """Norms along the convex path, ``norms`` (points, names) at ``alphas`` (points,).

    ``names`` are the columns that entered, in the order of their entry.
    """

    alphas: tuple[Size, ...]
    names: tuple[str, ...]
    norms: tuple[tuple[Size, ...], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RegularizationPath(Sequence[PathPoint]):
    """Points with falling alpha; ``names`` are the names of the table's columns."""

    points: tuple[PathPoint, ...]
    names: tuple[str, ...]

    @overload
    def __getitem__(self, index: int) -> PathPoint: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PathPoint, ...]: ...
    def __getitem__(self, index: int | slice) -> PathPoint | tuple[PathPoint, ...]:
        return self.points[index]

    def __len__(self) -> int:
        return len(self.points)

    @property
    def alphas(self) -> NDArray[np.float64]:
        """The alphas, shape (points,)."""
        return np.array([point.alpha for point in self.points])

    @property
    def norms(self) -> NDArray[np.float64]:
        """Norm of every column at every point, shape (points, columns)."""
        return np.stack([point.norms for point in self.points])

    def at_most(self, n_features: int) -> PathPoint:
        """Return the point with the smallest alpha before more than ``n_features`` columns are kept."""
        if n_features < 0:
            raise InputError(describe("at_most", "a number of at least 0", f"{n_features}", "choose another"))
        chosen = None
        for point in self.points:
            if point.features.size > n_features:
                break
            chosen = point
        if chosen is None:
            got = f"{self.points[0].features.size} columns at the largest alpha"
            raise InputError(describe("at_most", f"a point with {n_features} columns", got, "start higher"))
        return chosen

    def entry_order(self) -> list[str]:
        """Return the names of the columns in the order in which they enter, the stronger first among equals."""
        entered: list[int] = []
        for point in self.points:
            new = [int(feature) for feature in point.features if int(feature) not in entered]
            entered += sorted(new, key=lambda feature: -point.norms[feature])
        return [self.names[feature] for feature in entered]

    def table(self) -> list[dict[str, float | int | str | None]]:
        """Return one row for each point: alpha, number of columns, gap, and their names."""
        return [
            {
                "alpha": point.alpha,
                "features": int(point.features.size),
                "gap": point.gap,
                "kept": ", ".join(self.names[int(feature)] for feature in sorted(point.features.tolist())),
            }
            for point in self.points
        ]


Norm = Literal["function", "parameters"]

WIDE = 10_000_000  # numbers above which the design is kept in single precision
TALL_ROWS = 5000  # rows from which a large design is not written out: sums at knots need few rows a knot to pay


@dataclass(frozen=True, slots=True, eq=False)
class ConvexTask:
    """A prepared sample in frozen hidden units; its blocks are the groups of ``prepared.grouping``.

    ``column_of`` gives the column of the table that each of the encoder's terms belongs to, shape (n_terms,), out of
    ``column_names``. ``adapted`` says that the penalty's weights come from a first fit.
    """

    prepared: PreparedSample
    family: Family
    features: GroupedFeatures
    design: GroupedDesign
    penalty: Penalty
    column_of: Indices
    column_names: tuple[str, ...]
    adapted: bool = False

    @classmethod
    def of(
        cls,
        prepared: PreparedSample,
        family: Family,
        features: RandomFeatures,
        penalty: Penalty,
        column_of: Indices,
        column_names: tuple[str, ...],
        norm: Norm = "function",
    ) -> ConvexTask:
        """Build the design; the penalty is the one on the columns of the table."""
        grouping, rows = prepared.grouping, prepared.weights.size
        grouped = GroupedFeatures.of(features, grouping)
        n_groups = len(grouping.members)
        single = n_groups * rows * (grouped.columns(0).shape[1] if n_groups else 1) > WIDE
        freedoms = np.array([grouped.freedom(group) for group in range(n_groups)])
        ramps = features if isinstance(features, RampFeatures) and not features.hinges else None
        if single and rows >= TALL_ROWS and norm == "function" and ramps is not None:
            design = knot_design(grouped, ramps, prepared.weights, freedoms)
        else:
            design = grouped_design(
                grouped.columns,
                n_groups,
                prepared.weights,
                norm=norm,
                roughness_of=grouped.roughness,
                freedoms=freedoms,
                dtype=np.float32 if single else np.float64,
            )
        leading = np.array([members[0] for members in grouping.members], dtype=np.intp)
        on_terms = spread(penalty, column_of, len(column_names))
        on_groups, weights = restrict(on_terms, prepared.terms[leading], prepared.n_terms), grouping.weights
        if norm == "function":  # noise has the same chance in a group of several terms as in one
            weights = weights * np.sqrt(np.maximum(freedoms / FREEDOM, 1.0))
        return cls(prepared, family, grouped, design, weighted(on_groups, weights), column_of, column_names)

    @property
    def group_names(self) -> list[str]:
        """The names of the terms in each group."""
        names = self.prepared.names
        return [" + ".join(names[int(term)] for term in members) for members in self.prepared.grouping.members]

    @property
    def free_groups(self) -> Indices:
        """The groups that are never penalised."""
        return np.flatnonzero(self.prepared.grouping.weights == 0.0)

    def terms(self, groups: Indices) -> Indices:
        """Return the indices of the terms in some groups, among the prepared ones, ascending."""
        return np.flatnonzero(np.isin(self.prepared.grouping.group_of, groups))

    def columns(self, groups: Indices) -> Indices:
        """Return the indices of the table's columns that have a term in some groups, ascending."""
        return np.unique(self.column_of[self.prepared.terms[self.terms(groups)]])

    def model(self, point: ConvexPoint) -> AdditiveModel:
        """Return the penalised fit of a path point as a model."""
        groups, sample, features = point.supports[0], self.prepared, self.features
        terms = self.terms(groups)
        kept, unit = sample.take(terms), sample.target_scaling.scale
        active = point.values[0][np.searchsorted(point.active, groups)]
        coefficients = features.split(groups, terms, np.matmul(self.design.transform[groups], active))
        means = features.split(groups, terms, self.design.means[groups][:, :, None])[:, :, 0]
        offsets = np.einsum("jm,jmk->jk", means, coefficients)
        center, frozen = sample.target_scaling.center + unit * point.intercepts[0], features.features
        return AdditiveModel(
            family=self.family,
            terms=kept.terms,
            n_terms=kept.n_terms,
            functions=in_units(
                frozen.functions(terms, coefficients), kept.scaling, offsets, unit, np.zeros_like(offsets)
            ),
            intercept=center + np.log(sample.exposure_unit),
            weights=n_weights(frozen.bank, terms) if isinstance(frozen, FrozenFeatures) else None,
        )

    def norms(self, point: ConvexPoint) -> Vector:
        """Return the penalised norm of every encoded term, that of its group, shape (n_terms,)."""
        lengths = np.zeros(len(self.prepared.grouping.members))
        lengths[point.active] = np.sqrt((point.values[0] ** 2).sum(axis=(1, 2)))
        norms = np.zeros(self.prepared.n_terms)
        norms[self.prepared.terms] = lengths[self.prepared.grouping.group_of]
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

    def problem(self, batches: Vector | None = None) -> ConvexProblem:
        """Return the convex problem for weights of the rows (batches, rows), by default those of the sample."""
        prepared = self.prepared
        weights = prepared.weights[None] if batches is None else batches
        return convex_problem(self.design, prepared.target, self.family, weights)

    def solve(
        self, alpha: float, tol: float = TOLERANCE, out_of_time: Callable[[], bool] = lambda: False
    ) -> tuple[ConvexPoint, Certificate | None]:
        """Solve at one alpha and certify, as `solve_and_certify` does; warn where there is no certificate."""
        solution = solve_and_certify(self.problem(), self.penalty, alpha, self.group_names, tol, out_of_time)
        if solution.failure:
            warnings.warn(solution.failure, ConvergenceWarning, stacklevel=2)
        return solution.point, solution.certificate

    def slack_at(self, alpha: float, scores: Vector) -> Vector:
        """Return each group's ‖gradient‖ over the one at which it enters, for scores (rows, outputs), shape (groups,).

        A group left out of any fit is re-examined by this condition: above 1 it would enter.
        """
        if not isinstance(self.penalty, WeightedLasso):  # sorted weights bind groups together, none alone
            return np.zeros(self.design.n_groups)
        problem = self.problem()
        norms = problem.gradient_norms(problem.residuals(scores.T[None]))[0]
        bounds, _ = self.penalty.lasso_and_ridge(norms.size, alpha)
        return np.divide(norms, bounds, out=np.zeros_like(norms), where=np.isfinite(bounds) & (bounds > 0))

    def with_penalty(self, penalty: Penalty) -> ConvexTask:
        """Return the same problem under another penalty."""
        return replace(self, penalty=penalty)

    def with_sample(self, prepared: PreparedSample) -> ConvexTask:
        """Return the same columns for another target or other weights of the rows."""
        return replace(self, prepared=prepared)


def by_column(norms: Vector, column_of: Indices, n_columns: int) -> Vector:
    """Return √Σ r² over the terms of each column, shape (columns,), for norms r of shape (n_terms,)."""
    return np.sqrt(np.bincount(column_of, norms**2, minlength=n_columns))


ALIKE = 0.9  # share of a kept term's effect that a substitute must be able to express

Substitutes = dict[str, dict[str, float]]


def substitutes_of(task: ConvexTask, model: AdditiveModel, encoder: TableEncoder) -> Substitutes:
    """Return for each kept column the others that express its effect, with the share they express.

    The share is ‖Qₖᵀ W fⱼ‖²/‖fⱼ‖², the part of effect j's variance over the training rows that some function of
    group k has; columns equal to j in every row have 1.
    """
    prepared, column_of, columns = task.prepared, task.column_of, encoder.names
    found = twins_of(prepared, model, encoder)
    if not model.terms.size:
        return found
    indices = indices_of(prepared, model.terms)
    effects = centred_effects(prepared, model)
    shares = prepared.weights / prepared.weights.sum()
    sizes = np.einsum("jik,jik,i->j", effects, effects, shares)
    rows = (effects * shares[:, None]).transpose(1, 0, 2).reshape(shares.size, -1)
    for group, members in enumerate(prepared.grouping.members):
        block = task.design.columns(np.array([group]))
        products = (block @ rows.astype(block.dtype)).reshape(block.shape[0], indices.size, -1)
        variances = 1.0 / (1.0 + task.design.roughness[group])  # of the columns, which are orthogonal
        expressed = np.einsum("mjk,mjk,m->j", products, products, 1.0 / variances)
        expressed /= np.maximum(sizes, np.finfo(np.float64).tiny)
        in_group = np.unique(column_of[prepared.terms[members]])
        name = " + ".join(columns[int(column)] for column in in_group)
        for index in np.flatnonzero(expressed >= ALIKE):
            column = int(column_of[model.terms[index]])
            if indices[index] not in members and column not in in_group:
                share = round(float(min(expressed[index], 1.0)), 4)
                others = found.setdefault(columns[column], {})
                others[name] = max(share, others.get(name, 0.0))
    return found


def twins_of(prepared: PreparedSample, model: AdditiveModel, encoder: TableEncoder) -> Substitutes:
    """Return for each kept column those that were left out because they equal it in every row."""
    column_of = {term.name: encoder.names[term.column] for term in encoder.terms}
    found: Substitutes = {}
    for term in model.terms:
        name = encoder.terms[int(term)].name
        for twin in prepared.twins.get(name, ()):
            if column_of[twin] != column_of[name]:
                found.setdefault(column_of[name], {})[column_of[twin]] = 1.0
    return found


def centred_effects(prepared: PreparedSample, model: AdditiveModel) -> Vector:
    """Return the model's effects on the training rows and the scale of the fit, shape (kept, rows, outputs)."""
    kept = prepared.take(indices_of(prepared, model.terms))
    raw = kept.x * kept.scaling.scale[:, None] + kept.scaling.center[:, None]
    return effects_of(model.functions, raw, model.intercept.size) / prepared.target_scaling.scale


def indices_of(prepared: PreparedSample, terms: Indices) -> Indices:
    """Return the indices, among the prepared terms, of some of the encoder's terms."""
    index = {int(term): index for index, term in enumerate(prepared.terms)}
    return np.array([index[int(term)] for term in terms], dtype=np.intp)
