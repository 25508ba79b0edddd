"""Held-out scores of smooth fits on given groups: how cross-validation judges what a path point keeps.

The fits are those of restricted likelihood in the design's basis, under the priors of the fit that follows. The prior
precision of a group is Σ λᵢSᵢ, with the roughness matrices of its terms' ramps in the columns of the design; updates of
Fellner and Schall set λ. Where columns are no ramps, S₁ and S₂ are the smooth and the rough part of a function. A fit
starts from the strengths that the same fold found before. All folds are fitted at once, on the union of their groups,
with θ = 0 in those that a fold does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sparsenam.convex.design import Array, GroupedDesign, Indices, Ramps, WorkingColumns
from sparsenam.convex.problem import ConvexProblem, convex_problem
from sparsenam.convex.squared import GramCache
from sparsenam.families import Family
from sparsenam.families.base import dispersion
from sparsenam.smooth.engine import FIRST_NOISE, LEAST_NOISE, LIGHTEST, OBJECTIVE_ROUNDING
from sparsenam.smooth.prior import FIRST_PRIOR, HIGHEST, JITTER, LOWEST, fellner_schall, pulled, roughness

# updates of the strengths; warm starts do the rest where columns are many
JUDGE_UPDATES, MANY_JUDGED_COLUMNS, JUDGE_UPDATES_OF_MANY = 40, 160, 6  # chosen without a measurement
# change of the degrees of freedom, and of their share, at which the updates end. An early end makes further columns
# look useful, as what follows starts nearer: with 0.002 noise is kept in 2 of 20 tables of counts, with 0.0005 in 1
JUDGE_FREEDOM_TOL = 5e-4
INNER = 2  # updates more on one second-order model, which cost no pass over the rows; chosen without a measurement
# times the data's information, in the prior that a fit starts from: beside a near copy a function may become a line,
# and updates do not lead back from the limit of λ
STRONGEST = 1e3  # chosen without a measurement
STALE_JUDGE_CURVATURE = 0.1  # relative change of the curvature after which a Hessian is summed anew
SMALL_MOVE = 0.01  # of a score, root mean square; chosen without a measurement
FLOOR = 0.06  # of the mean curvature: from a quarter on it is tried where no step is short enough, down to this
JUDGE_HALVINGS = 8
SINGLE_JITTER = 1e-4  # share of the mean diagonal where sums are in single precision and columns nearly agree


@dataclass(frozen=True, slots=True, eq=False)
class PriorForms:
    """The matrices Sᵢ of each group's prior, shape (groups, matrices, m, m), in the columns of a design.

    ``holds_size`` (groups, matrices) marks those that hold the size of a function, the S₁ of `roughness`.
    """

    matrices: Array
    holds_size: NDArray[np.bool_]

    @property
    def width(self) -> int:
        """The number m of columns of a group."""
        return self.matrices.shape[3]

    @property
    def traces(self) -> Array:
        """The trace of each matrix, 0 where a group has fewer than others, shape (groups, matrices)."""
        return np.einsum("giaa->gi", self.matrices)

    @property
    def is_used(self) -> NDArray[np.bool_]:
        """Which matrices there are, shape (groups, matrices)."""
        return self.traces > 0.0

    def products(self, matrices: Array) -> Array:
        """Return tr(MSᵢ) for M of shape (batches, groups, m, m): (batches, groups, matrices)."""
        flat = matrices.reshape(*matrices.shape[:2], -1).transpose(1, 2, 0)
        return np.matmul(self.matrices.reshape(*self.holds_size.shape, -1), flat).transpose(2, 0, 1)

    def take(self, groups: Indices) -> PriorForms:
        """Return those of some groups."""
        return PriorForms(self.matrices[groups], self.holds_size[groups])

    @classmethod
    def of_design(cls, roughness: Array) -> PriorForms:
        """Return the smooth and the rough part of each group, for columns of these roughnesses e (groups, m)."""
        smooth = 1.0 / (1.0 + roughness)
        parts = np.stack([smooth, 1.0 - smooth], axis=1)
        return cls(parts[..., None] * np.eye(roughness.shape[1]), np.tile([True, False], (len(roughness), 1)))

    @classmethod
    def of_ramps(cls, design: GroupedDesign, ramps: Sequence[Sequence[Ramps | int]]) -> PriorForms:
        """Return the priors of the fit that follows: `roughness` of each term's ramps, a sum of squares for levels.

        ``ramps`` has for each group those of its terms, or the number of columns of a term of levels.
        """
        groups = [_forms_of(turn, members) for turn, members in zip(design.transform, ramps, strict=True)]
        most, width = max((len(forms) for forms, _ in groups), default=1), design.width
        matrices, holds_size = np.zeros((len(groups), most, width, width)), np.zeros((len(groups), most), np.bool_)
        for index, (forms, firsts) in enumerate(groups):
            matrices[index, : len(forms)], holds_size[index, firsts] = forms, True
        return cls(matrices, holds_size)


def _forms_of(turn: Array, members: Sequence[Ramps | int]) -> tuple[Array, list[int]]:
    """Return the matrices of one group (matrices, m, m) for T (raw columns, m), and which hold a size."""
    forms, firsts, start = list[Array](), list[int](), 0
    for member in members:
        found = (np.eye(member),) if isinstance(member, int) else roughness(member)
        part = turn[start : start + len(found[0])]
        firsts.append(len(forms))
        forms += [part.T @ each @ part for each in found]
        start += len(found[0])
    forms[0] = forms[0] + np.diag((~turn.any(axis=0)).astype(np.float64))  # of columns that pad the group
    return np.stack(forms), firsts


class SmoothJudge:
    """Held-out scores of smooth fits, remembered by batch and support.

    Give the same ``gram`` to ``convex_path``: squared loss is then judged by sums already made.

    Attributes
    ----------
    held_out
        For each batch, the rows to score; all rows for batch 0.
    """

    def __init__(
        self,
        design: GroupedDesign,
        target: Array,
        family: Family,
        batch_weights: Array,
        *,
        count: float,
        held_out: Sequence[Indices],
        gram: GramCache | None = None,
        forms: PriorForms | None = None,
    ) -> None:
        """``count`` is the number of observations that batch 0 stands for; ``forms`` are the groups' priors."""
        self.forms = PriorForms.of_design(design.roughness) if forms is None else forms
        self.problem = convex_problem(design, target, family, batch_weights)
        self.held_out: tuple[Indices, ...] = (np.arange(design.n_rows), *held_out)
        self.counts = count * batch_weights.sum(axis=1) / batch_weights[0].sum()
        self._gram = GramCache(design, target, batch_weights) if gram is None and family.is_quadratic else gram
        self._constants = self.problem.constants()
        self._strengths = np.full((len(self._constants), *self.forms.holds_size.shape), np.nan)
        self._noise = np.full(len(self._constants), FIRST_NOISE)
        self._theta: dict[int, Array] = {}  # of the groups met, shape (batches, m, outputs)
        self._intercepts = self._constants.copy()
        self._found: dict[tuple[int, bytes], Array] = {}

    def scores(self, supports: Sequence[Indices], batches: Sequence[int]) -> list[Array]:
        """Return the scores of the held-out rows of some batches, shape (rows, outputs), under their fits.

        ``supports`` are the groups that each of the batches keeps.
        """
        keys = [(batch, support.tobytes()) for batch, support in zip(batches, supports, strict=True)]
        for batch, key, support in zip(batches, keys, supports, strict=True):
            if not support.size:
                self._found[key] = np.tile(self._constants[batch], (self.held_out[batch].size, 1))
        new = [index for index, key in enumerate(keys) if key not in self._found]
        if new:
            of = np.array([batches[index] for index in new])
            fit = self._squared if self.problem.family.is_quadratic else self._newton
            for index, scores in zip(new, fit(of, [supports[index] for index in new]), strict=True):
                self._found[keys[index]] = scores
        return [self._found[key] for key in keys]

    def _prior(self, batches: Indices, supports: Sequence[Indices], groups: Indices, information: Array) -> Prior:
        """Return the prior with the strengths known so far; others get a share of the information (batches, groups)."""
        known, forms = self._strengths[np.ix_(batches, groups)], self.forms.take(groups)
        traces = np.where(forms.is_used, forms.traces, 1.0)
        shares = information[:, :, None] / traces
        first = np.clip(FIRST_PRIOR * shares, LOWEST, HIGHEST)
        kept = np.stack([np.isin(groups, support) for support in supports])
        jitter = SINGLE_JITTER if self.problem.design.dtype == np.float32 else JITTER
        start = np.where(np.isnan(known), first, np.minimum(known, np.maximum(STRONGEST * shares, LOWEST)))
        return Prior(forms, start, kept, jitter)

    def _remember(self, batches: Indices, groups: Indices, prior: Prior) -> None:
        known = self._strengths[np.ix_(batches, groups)]
        self._strengths[np.ix_(batches, groups)] = np.where(prior.kept[:, :, None], prior.strengths, known)

    def _squared(self, batches: Indices, supports: list[Indices]) -> list[Array]:
        gram, counts = self._gram, self.counts[batches]
        assert gram is not None
        groups = np.unique(np.concatenate(supports))
        gram.add(groups)
        columns = gram.rows_of(gram.index[groups])
        hessian = counts[:, None, None] * gram.hessian[np.ix_(batches, columns, columns)]
        pull = counts[:, None, None] * gram.linear[np.ix_(batches, np.arange(gram.linear.shape[1]), columns)]
        pull = pull.transpose(0, 2, 1)
        squares = counts * np.einsum("fn,fon->f", self.problem.weights[batches], gram.centred[batches] ** 2)
        noise = self._noise[batches]
        information = np.einsum("fkk->fk", hessian).reshape(batches.size, groups.size, -1).sum(axis=2)
        prior = self._prior(batches, supports, groups, information / noise[:, None])
        theta, freedom, going = np.zeros_like(pull), np.zeros(batches.size), np.arange(batches.size)
        for _ in range(_steps(columns.size)):
            sums, slopes, part, before = hessian[going], pull[going], prior.of(going), freedom[going]
            over = 1.0 / noise[going][:, None, None]
            found, covariances = part.posterior(sums * over, slopes * over)
            used = part.update(found, covariances[:, None], found.shape[2])
            left = squares[going] - np.sum(found * (2.0 * slopes - np.matmul(sums, found)), axis=(1, 2))
            left /= found.shape[2] * np.maximum(counts[going] - used - 1.0, 1.0)
            theta[going], freedom[going], noise[going] = found, used, np.maximum(left, LEAST_NOISE)
            prior.strengths[going] = part.strengths
            going = going[np.abs(used - before) >= JUDGE_FREEDOM_TOL * (1.0 + used)]
            if not going.size:
                break
        self._noise[batches] = noise
        self._remember(batches, groups, prior)
        intercepts = gram.target_means[batches] - np.einsum("fk,fko->fo", gram.means[np.ix_(batches, columns)], theta)
        outputs = theta.shape[2]
        flat = theta.transpose(0, 2, 1).reshape(-1, columns.size)
        sums = gram.times(gram.index[groups], flat).reshape(batches.size, outputs, -1)
        scores = [base + each.T for base, each in zip(intercepts, sums, strict=True)]
        return [each[self.held_out[batch]] for batch, each in zip(batches.tolist(), scores, strict=True)]

    def _newton(self, batches: Indices, supports: list[Indices]) -> list[Array]:
        problem, family = self.problem, self.problem.family
        groups = np.unique(np.concatenate(supports))
        columns = problem.design.working(groups)
        working = WorkingProblem(problem, self.counts[batches, None] * problem.weights[batches], columns)
        kept = np.stack([np.isin(groups, support) for support in supports])
        theta = self._start(batches, groups) * np.repeat(kept, problem.design.width, axis=1)[:, :, None]
        intercepts = self._intercepts[batches]  # a copy
        scores = intercepts[:, None, :] + _times(columns, theta)
        freedom, free = np.zeros(batches.size), problem.n_outputs - family.couples_outputs
        working.move(theta, scores, intercepts)
        information = working.information.reshape(batches.size, groups.size, -1).sum(axis=2)
        prior = self._prior(batches, supports, groups, information / working.noise(scores, freedom + 1.0)[:, None])
        going = np.arange(batches.size)  # whose strengths are not yet at rest
        for _ in range(_steps(min(columns.count, problem.design.n_rows))):
            point, middle, before = theta[going], scores[going], freedom[going]
            part = prior.of(going)
            noise = working.noise(middle, before + 1.0)
            working.move(point, middle, intercepts[going])
            goal, base, variances = working.solve(part, noise)
            for _ in range(0 if family.couples_outputs else INNER):  # a bound's minimum is too far from the loss's
                part.update(goal, variances, free)
                goal, base, variances = working.solve(part, noise)
            turn = base[:, None, :] + _times(columns, goal) - middle
            step = working.length(part, noise, (point, middle), (goal - point, turn))
            working.adapt(step)
            theta[going] += step[:, None, None] * (goal - point)
            scores[going] += step[:, None, None] * turn
            intercepts[going] += step[:, None] * (base - intercepts[going])
            freedom[going] = part.update(theta[going], variances, free)
            prior.strengths[going] = part.strengths
            moved = step * np.sqrt(np.average(turn**2, axis=(1, 2)))  # classes may move while freedom rests
            changed = np.abs(freedom[going] - before) >= JUDGE_FREEDOM_TOL * (1.0 + freedom[going])
            moves = (step < 1.0) | changed | (moved > SMALL_MOVE)
            if not moves.all():
                going = going[moves]
                working.keep(moves)
            if not going.size:
                break
        self._remember(batches, groups, prior)
        self._intercepts[batches] = intercepts
        for number, group in enumerate(groups.tolist()):
            part = theta.reshape(batches.size, groups.size, -1, theta.shape[2])[:, number]
            self._theta[group][batches[kept[:, number]]] = part[kept[:, number]]
        return [each[self.held_out[batch]] for batch, each in zip(batches.tolist(), scores, strict=True)]

    def _start(self, batches: Indices, groups: Indices) -> Array:
        """Return the θ found before, 0 for groups that are new, shape (batches, columns, outputs)."""
        shape = (self.counts.size, self.problem.design.width, self.problem.n_outputs)
        for group in groups.tolist():
            self._theta.setdefault(group, np.zeros(shape))
        return np.concatenate([self._theta[group][batches] for group in groups.tolist()], axis=1)


class Prior:
    """The precisions of all batches' groups, P = Σ λᵢSᵢ, and their strengths λ (batches, groups, matrices).

    ``kept`` (batches, groups) says which groups a batch keeps; in the others θ is 0.
    """

    def __init__(self, forms: PriorForms, strengths: Array, kept: NDArray[np.bool_], jitter: float = JITTER) -> None:
        self.forms, self.strengths, self.kept, self._jitter = forms, strengths, kept, jitter
        self.is_in = np.repeat(kept, forms.width, axis=1)  # (batches, columns)

    def of(self, batches: Indices) -> Prior:
        """Return the prior of some batches."""
        return Prior(self.forms, self.strengths[batches], self.kept[batches], self._jitter)

    @property
    def precisions(self) -> Array:
        """P of every group, shape (batches, groups, m, m)."""
        groups, count, width, _ = self.forms.matrices.shape
        flat = np.matmul(self.strengths.transpose(1, 0, 2), self.forms.matrices.reshape(groups, count, -1))
        return flat.transpose(1, 0, 2).reshape(-1, groups, width, width)

    def cost(self, theta: Array) -> Array:
        """Return ½ Σ θᵀPθ of each batch, for θ of shape (batches, columns, outputs)."""
        parts = theta.reshape(*self.kept.shape, self.forms.width, -1)
        return 0.5 * np.sum(parts * np.matmul(self.precisions, parts), axis=(1, 2, 3))

    def posterior(self, hessian: Array, pull: Array) -> tuple[Array, Array]:
        """Return the means (batches, columns, outputs) and each group's covariances (batches, groups, m, m) for H + P.

        A column that is not kept has a mean of 0 and the covariance of its prior. H is used up.
        """
        groups, width = self.kept.shape[1], self.forms.width
        if not self.is_in.all():
            hessian *= self.is_in[:, :, None] & self.is_in[:, None, :]
            pull = np.where(self.is_in[:, :, None], pull, 0.0)
        diagonal = np.einsum("fkk->fk", hessian)  # a view
        diagonal += self._jitter * diagonal.mean(axis=1, keepdims=True)
        blocks = np.einsum("fgagb->fgab", hessian.reshape(-1, groups, width, groups, width))  # a view
        blocks += self.precisions
        means, covariances = np.empty_like(pull), np.empty((len(hessian), groups, width, width))
        is_lower = np.tri(width, dtype=np.bool_)
        for batch, matrix in enumerate(hessian):
            factor, failed = lapack.dpotrf(matrix.T, lower=1)  # symmetric: its transpose has LAPACK's order
            if failed:
                raise np.linalg.LinAlgError("the curvature of a fold is not positive definite")
            means[batch] = lapack.dpotrs(factor, pull[batch], lower=1)[0]
            inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)[0].reshape(groups, width, groups, width)
            found = np.einsum("gagb->gab", inverse)
            covariances[batch] = np.where(is_lower, found, found.transpose(0, 2, 1))
        return means, covariances

    def posterior_of_rows(self, rows: Array, scale: Array, pull: Array) -> tuple[Array, Array]:
        """Return the same for H = scale · SᵀS with fewer rows S (batches, n, columns) than columns, and Sᵀ pull.

        (P + cSᵀS)⁻¹Sᵀ = P⁻¹Sᵀ(I + cSP⁻¹Sᵀ)⁻¹ needs the inverse of n × n numbers only.
        """
        rows = rows * self.is_in[:, None, :] if not self.is_in.all() else rows
        batches, n, _ = rows.shape
        groups, width = self.kept.shape[1], self.forms.width
        diagonal = scale[:, None] * np.einsum("fnk,fnk->fk", rows, rows)
        jitter = self._jitter * diagonal.mean(axis=1)[:, None, None, None] * np.eye(width)
        prior = np.asarray(np.linalg.inv(self.precisions + jitter), dtype=np.float64)
        apart = rows.reshape(batches, n, groups, width).transpose(0, 2, 1, 3)
        over = np.matmul(apart, prior).transpose(0, 2, 1, 3).reshape(rows.shape)
        inner = scale[:, None, None] * np.matmul(over, rows.transpose(0, 2, 1))
        np.einsum("fnn->fn", inner)[...] += 1.0
        inverse = np.asarray(np.linalg.inv(inner), dtype=np.float64)
        one, other = (
            each.reshape(batches, n, groups, width).transpose(0, 2, 3, 1) for each in (over, np.matmul(inverse, over))
        )
        gained = scale[:, None, None, None] * np.matmul(one, other.transpose(0, 1, 3, 2))
        return np.matmul(over.transpose(0, 2, 1), np.matmul(inverse, pull)), prior - gained

    def update(self, theta: Array, covariances: Array, free: int) -> Array:
        """Take a step of Fellner and Schall from θ (batches, columns, outputs); return degrees of freedom (batches,).

        ``covariances`` (batches, parts, groups, m, m) are posterior ones, one part for all outputs or one for each;
        ``free`` is the number of outputs that are free to vary. The degrees of freedom are those of one output.
        """
        forms, precisions = self.forms, self.precisions
        covariance = covariances.mean(axis=1)
        shared = np.einsum("fgab,fgab->fg", covariance, precisions)
        freedom = np.sum(np.where(self.kept, forms.width - shared, 0.0), axis=1)
        parts = theta.reshape(*self.kept.shape, forms.width, -1)
        prior = np.asarray(np.linalg.inv(precisions), dtype=np.float64)
        gained = forms.products(prior - covariance)
        squares = forms.products(np.matmul(parts, parts.transpose(0, 1, 3, 2))) / free
        squares += np.where(forms.holds_size, pulled(self.strengths, gained), 0.0)
        updated = fellner_schall(self.strengths, gained, squares)
        self.strengths = np.where(self.kept[:, :, None] & forms.is_used, updated, self.strengths)
        return freedom


class WorkingProblem:
    """The loss's second-order model of all batches about a point, the intercepts eliminated.

    Outputs that share a bound on their curvature share one Hessian. A Hessian is summed anew only when its curvature
    has moved by more than `STALE_JUDGE_CURVATURE`; the gradient is always that of the point. ``weights`` (batches,
    rows) count observations. Where columns outnumber rows, a Hessian SᵀS is kept as S, its centred rows times
    √curvature.
    """

    def __init__(self, problem: ConvexProblem, weights: Array, columns: WorkingColumns) -> None:
        self._family, self._target = problem.family, problem.target.T
        self._weights, self._columns = weights, columns
        outputs = problem.n_outputs
        couples = problem.family.couples_outputs
        self._parts = [slice(0, outputs)] if couples else [slice(k, k + 1) for k in range(outputs)]
        size = (len(weights), len(self._parts), columns.count)
        self._bends = np.zeros((*size[:2], weights.shape[1]))
        self._by_rows = weights.shape[1] < columns.count
        # Hessians, or their rows S
        self._sums = np.zeros((*size[:2], min(weights.shape[1], columns.count), columns.count))
        self._means = np.zeros(size)
        self._losses: Array | None = None  # where the last step ended
        self._stretch = np.ones(len(weights))  # of the Hessians: softmax's is a bound, and longer steps are tried
        self._floor = np.zeros(len(weights))  # of a row's curvature, as a share of the mean

    def keep(self, batches: NDArray[np.bool_]) -> None:
        """Leave out the batches that are at rest."""
        self._weights, self._bends = self._weights[batches], self._bends[batches]
        self._stretch, self._floor = self._stretch[batches], self._floor[batches]
        self._sums, self._means = self._sums[batches], self._means[batches]
        self._losses = None if self._losses is None else self._losses[batches]

    @property
    def information(self) -> Array:
        """The diagonals of the Hessians, the mean over outputs, shape (batches, columns)."""
        if self._by_rows:
            return np.einsum("fpnk,fpnk->fpk", self._sums, self._sums).mean(axis=1)
        return np.einsum("fpkk->fpk", self._sums).mean(axis=1)

    def noise(self, scores: Array, freedom: Array) -> Array:
        """Return the dispersion of each batch, shape (batches,)."""
        if self._family.dispersion == "fixed":
            return np.ones(len(scores))
        given = zip(scores, self._weights, freedom.tolist(), strict=True)
        return np.array([dispersion(self._family, each, self._target, weights, used) for each, weights, used in given])

    def move(self, theta: Array, scores: Array, intercepts: Array) -> None:
        """Make the model about θ (batches, columns, outputs), its scores (batches, rows, outputs) and intercepts."""
        starts = [part.start for part in self._parts]
        bends = np.maximum(self._family.hessian_diagonal(scores, self._target)[:, :, starts], LIGHTEST)
        if self._floor.any():
            bends = np.maximum(bends, self._floor[:, None, None] * bends.mean(axis=1, keepdims=True))
        bends = self._weights[:, None, :] * bends.transpose(0, 2, 1)
        moved = np.abs(bends - self._bends).sum(axis=(1, 2)) > STALE_JUDGE_CURVATURE * self._bends.sum(axis=(1, 2))
        for batch in np.flatnonzero(moved).tolist():
            self._sum_hessians(batch, bends[batch])
        self._theta, self._scores = theta, scores
        self._intercepts = intercepts
        self._gradient = self._weights[:, :, None] * self._family.gradient(scores, self._target)
        if not self._by_rows:
            self._slopes = _times_transposed(self._columns, self._gradient)

    def solve(self, prior: Prior, noise: Array) -> tuple[Array, Array, Array]:
        """Return the minimiser θ under a prior, its intercepts (batches, outputs), and the posterior variances."""
        goals, bases, variances = list[Array](), list[Array](), list[Array]()
        for index, part in enumerate(self._parts):
            means, theta = self._means[:, index], self._theta[:, :, part]
            rest = self._gradient[:, :, part].sum(axis=1)
            goal, spread = self._posterior(index, part, prior, self._stretch / noise, noise)
            if self._family.couples_outputs:  # softmax does not see what all outputs share
                goal -= goal.mean(axis=2, keepdims=True)
                # the bound that classes share makes many of them look too sure: variances are at the mean curvature
                spread = self._posterior(index, part, prior, self._mean_curvatures() / noise, noise)[1]
            goals.append(goal)
            total = (self._stretch * self._bends[:, index].sum(axis=1))[:, None]
            total = np.where(total > 0.0, total, 1.0)  # a fold without any exposure pulls nowhere
            bases.append(self._intercepts[:, part] - rest / total - np.einsum("fk,fko->fo", means, goal - theta))
            variances.append(spread)
        return np.concatenate(goals, axis=2), np.concatenate(bases, axis=1), np.stack(variances, axis=1)

    def _posterior(self, index: int, part: slice, prior: Prior, scale: Array, noise: Array) -> tuple[Array, Array]:
        """Return the means and variances of some outputs under their Hessian times ``scale`` (batches,)."""
        sums, theta, gradient = self._sums[:, index], self._theta[:, :, part], self._gradient[:, :, part]
        scale, over = scale[:, None, None], 1.0 / noise[:, None, None]
        if self._by_rows:
            roots = np.sqrt(self._bends[:, index])[:, :, None]
            residual = np.divide(gradient, roots, out=np.zeros_like(gradient), where=roots > 0.0)
            return prior.posterior_of_rows(sums, scale[:, 0, 0], scale * np.matmul(sums, theta) - over * residual)
        slopes = self._slopes[:, :, part] - self._means[:, index, :, None] * gradient.sum(axis=1)[:, None, :]
        hessian = scale * sums
        return prior.posterior(hessian, np.matmul(hessian, theta) - over * slopes)

    def length(self, prior: Prior, noise: Array, point: tuple[Array, Array], direction: tuple[Array, Array]) -> Array:
        """Return the first of 1, ½, ¼, … that does not raise Σ w loss/φ + ½ Σ θᵀPθ, or 0, shape (batches,)."""

        def losses(steps: Array) -> Array:
            found = self._family.loss(point[1] + steps[:, None, None] * direction[1], self._target)
            return np.sum(self._weights * found, axis=1)

        def cost(steps: Array) -> Array:
            return prior.cost(point[0] + steps[:, None, None] * direction[0])

        steps, worse, found = np.ones(len(noise)), np.ones(len(noise), dtype=np.bool_), self._losses
        if found is None:
            found = losses(np.zeros_like(steps))
        start = found / noise + cost(np.zeros_like(steps))
        for _ in range(JUDGE_HALVINGS):
            self._losses = losses(steps)
            worse = ~(self._losses / noise + cost(steps) <= start + OBJECTIVE_ROUNDING * np.abs(start))
            if not worse.any():
                return steps
            steps[worse] *= 0.5
        self._losses = None
        return np.where(worse, 0.0, steps)

    def adapt(self, steps: Array) -> None:
        """Shorten the next steps of batches whose last one (batches,) had to be shortened, lengthen the others'.

        Far from a fit a few rows may have all the curvature, as the largest y of a Gamma beside a constant mean: steps
        along the other rows then lead nowhere at any length, and take a share of the mean curvature for theirs.
        """
        if self._family.couples_outputs:
            least = np.minimum(self._mean_curvatures(), 1.0)
            self._stretch = np.clip(self._stretch * np.where(steps < 1.0, 4.0, 0.5), least, 1.0)
        else:
            floor = np.where(steps == 0.0, 4.0 * np.maximum(self._floor, FLOOR), 0.25 * self._floor)
            self._floor = np.where(floor < FLOOR, 0.0, np.minimum(floor, 1.0))

    def _mean_curvatures(self) -> Array:
        """Return the mean curvature over the free directions of softmax, relative to the bound, shape (batches,)."""
        free = (1.0 - np.sum(self._family.mean(self._scores) ** 2, axis=2)) / (self._target.shape[1] - 1.0)
        return np.sum(self._weights * free, axis=1) / self._bends[:, 0].sum(axis=1)

    def _sum_hessians(self, batch: int, bends: Array) -> None:
        self._bends[batch] = bends
        few = np.count_nonzero(self._weights[batch]) < 0.7 * bends.shape[1]
        rows = np.flatnonzero(self._weights[batch]) if few and not self._by_rows else None
        for part, bend in enumerate(bends):
            total = float(bend.sum())
            means = self._columns.products(bend[None])[0] / total
            self._means[batch, part] = means
            if self._by_rows:
                columns = self._columns.columns
                self._sums[batch, part] = ((columns - means[:, None]) * np.sqrt(bend).astype(columns.dtype)).T
            else:
                sums = self._columns.second_moments(bend if rows is None else bend[rows], rows)
                self._sums[batch, part] = sums - total * np.outer(means, means)


def _steps(n_columns: int) -> int:
    return JUDGE_UPDATES if n_columns <= MANY_JUDGED_COLUMNS else JUDGE_UPDATES_OF_MANY


def _times(columns: WorkingColumns, theta: Array) -> Array:
    """Return columnsᵀ (rows, k) times θ (batches, k, outputs), shape (batches, rows, outputs)."""
    batches, size, outputs = theta.shape
    flat = columns.times(theta.transpose(0, 2, 1).reshape(batches * outputs, size))
    return flat.reshape(batches, outputs, -1).transpose(0, 2, 1)


def _times_transposed(columns: WorkingColumns, gradient: Array) -> Array:
    """Return columns (k, rows) times gradient (batches, rows, outputs), shape (batches, k, outputs)."""
    batches, rows, outputs = gradient.shape
    flat = columns.products(gradient.transpose(0, 2, 1).reshape(batches * outputs, rows))
    return flat.reshape(batches, outputs, -1).transpose(0, 2, 1)
