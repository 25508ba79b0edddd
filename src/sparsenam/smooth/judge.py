"""Held-out scores of smooth fits on given groups: how cross-validation judges what a path point keeps.

The fits are those of restricted likelihood in the design's basis, under the priors of the fit that follows. The prior
precision of a group is Σ λᵢSᵢ, with the roughness matrices of its terms' ramps in the columns of the design; updates of
Fellner and Schall set λ. Where columns are no ramps, S₁ and S₂ are the smooth and the rough part of a function. A fit
starts from the strengths that the same fold found before. All folds are fitted at once, on the union of their groups,
with θ = 0 in those that a fold does not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from sparsenam.convex.design import Array, Indices
from sparsenam.convex.problem import ConvexProblem, step_lengths
from sparsenam.convex.ramps import Ramps
from sparsenam.convex.squared import BatchSums, GramCache
from sparsenam.families.base import SMALLEST_FLOAT, dispersion
from sparsenam.smooth.design import HIGHEST, JITTER, LOWEST, fellner_schall, pulled, roughness
from sparsenam.smooth.engine import FIRST_NOISE, OBJECTIVE_ROUNDING, SmoothProblem, residual_variance

# updates of the strengths; warm starts do the rest where columns are many
# make constants: JUDGE_UPDATES halved +0.17 %, doubled +0 % loss
JUDGE_UPDATES, MANY_JUDGED_COLUMNS, JUDGE_UPDATES_OF_MANY = 40, 160, 6
# change of the degrees of freedom, and of their share, at which the updates end. An early end makes further columns
# look useful, as what follows starts nearer: with 0.002 noise is kept in 2 of 20 tables of counts, with 0.0005 in 1
JUDGE_FREEDOM_TOL = 5e-4
INNER = 2  # updates more on one second-order model, which cost no pass over the rows
# times the data's information, in the prior that a fit starts from: beside a near copy a function may become a line,
# and updates do not lead back from the limit of λ
STRONGEST = 1e3
STALE_JUDGE_CURVATURE = 0.1  # relative change of the curvature after which a Hessian is summed anew
# such a change from fold to fold up to which one Hessian serves all: at 0.1 scores move by up to 3 % (test_judge.py)
LIKE_CURVATURE = 0.05
SMALL_MOVE = 0.01  # of a score, root mean square
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
    def of_ramps(cls, transform: Array, ramps: Sequence[Sequence[Ramps | int]]) -> PriorForms:
        """Return the priors of the fit that follows: `roughness` of each term's ramps, a sum of squares for levels.

        ``transform`` T (groups, raw columns, m) is that of a design. ``ramps`` has for each group those of its terms,
        or the number of columns of a term of levels.
        """
        groups = [_forms_of(turn, members) for turn, members in zip(transform, ramps, strict=True)]
        most, width = max((len(forms) for forms, _ in groups), default=1), transform.shape[2]
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

    ``problem`` has the batches, of which each stands for ``counts`` (batches,) observations; ``held_out`` are the rows
    to score in all but the first, which scores all rows. Give the same ``gram`` to ``convex_path``: squared loss is
    then judged by sums already made. ``ramps`` of each group's terms (`PriorForms.of_ramps`) are for the priors of the
    smooth fit that follows; without any, priors are those of the design's roughness.
    """

    def __init__(
        self,
        problem: ConvexProblem,
        counts: Array,
        held_out: Sequence[Indices],
        gram: GramCache | None = None,
        ramps: Sequence[Sequence[Ramps | int]] | None = None,
    ) -> None:
        self.problem, self.counts, design = problem, counts, problem.design
        of_ramps = PriorForms.of_ramps(design.transform, ramps) if ramps else None
        self.forms = of_ramps or PriorForms.of_design(design.roughness)
        self.held_out: tuple[Indices, ...] = (np.arange(design.n_rows), *held_out)
        if gram is None and problem.family.is_quadratic:
            gram = GramCache(design, problem.target.T, problem.weights)
        self.gram, self.constants, self.sums = gram, problem.constants(), BatchSums(problem.weights)
        self.strengths = np.full((len(counts), *self.forms.holds_size.shape), np.nan)
        self.noise = np.full(len(counts), FIRST_NOISE)
        self.theta: dict[int, Array] = {}  # of the groups met, shape (batches, m, outputs)
        self.intercepts = self.constants.copy()
        self._found: dict[tuple[int, bytes], Array] = {}

    def scores(self, supports: Sequence[Indices], batches: Sequence[int]) -> list[Array]:
        """Return the scores of the held-out rows of some batches, shape (rows, outputs), under their fits.

        ``supports`` are the groups that each of the batches keeps.
        """
        keys = [(batch, support.tobytes()) for batch, support in zip(batches, supports, strict=True)]
        for batch, key, support in zip(batches, keys, supports, strict=True):
            if not support.size:
                self._found[key] = np.tile(self.constants[batch], (self.held_out[batch].size, 1))
        new = [index for index, key in enumerate(keys) if key not in self._found]
        if new:
            scores = self._fitted(np.array([batches[index] for index in new]), [supports[index] for index in new])
            for index, found in zip(new, scores, strict=True):
                self._found[keys[index]] = found[self.held_out[batches[index]]]
        return [self._found[key] for key in keys]

    def _fitted(self, batches: Indices, supports: list[Indices]) -> list[Array]:
        """Return the scores of all rows, shape (rows, outputs), under the fit of each batch on its groups."""
        groups = np.unique(np.concatenate(supports))
        kept = np.stack([np.isin(groups, support) for support in supports])
        fits = (SquaredFits if self.problem.family.is_quadratic else WorkingProblem)(self, batches, groups, kept)
        prior = self.prior(batches, groups, kept, fits.information.reshape(*kept.shape, -1).sum(axis=2))
        freedom, going = np.zeros(batches.size), np.arange(batches.size)  # whose strengths are not yet at rest
        for _ in range(JUDGE_UPDATES if fits.size <= MANY_JUDGED_COLUMNS else JUDGE_UPDATES_OF_MANY):
            part, before = prior.of(going), freedom[going]
            freedom[going], moves = fits.step(part, going, before)
            prior.strengths[going] = part.strengths
            moves |= np.abs(freedom[going] - before) >= JUDGE_FREEDOM_TOL * (1.0 + freedom[going])
            going = going[moves]
            if not going.size:
                break
            fits.keep(moves)
        known = self.strengths[np.ix_(batches, groups)]
        self.strengths[np.ix_(batches, groups)] = np.where(kept[:, :, None], prior.strengths, known)
        return fits.finish()

    def prior(self, batches: Indices, groups: Indices, kept: NDArray[np.bool_], information: Array) -> Prior:
        """Return the prior with the strengths known so far; others get the information (batches, groups)."""
        known, forms = self.strengths[np.ix_(batches, groups)], self.forms.take(groups)
        shares = information[:, :, None] / np.where(forms.is_used, forms.traces, 1.0)
        first = np.clip(shares, LOWEST, HIGHEST)
        start = np.where(np.isnan(known), first, np.minimum(known, np.maximum(STRONGEST * shares, LOWEST)))
        return Prior(forms, start, kept, SINGLE_JITTER if self.problem.design.dtype == np.float32 else JITTER)


class Prior:
    """The precisions of all batches' groups, P = Σ λᵢSᵢ, and their strengths λ (batches, groups, matrices).

    ``kept`` (batches, groups) says which groups a batch keeps; in the others θ is 0.
    """

    def __init__(self, forms: PriorForms, strengths: Array, kept: NDArray[np.bool_], jitter: float = JITTER) -> None:
        self.forms, self.strengths, self.kept, self._jitter = forms, strengths, kept, jitter
        self.is_in = np.repeat(kept, forms.width, axis=1)  # (batches, columns)
        self._known = strengths[:0], strengths  # strengths and their precisions

    def of(self, batches: Indices) -> Prior:
        """Return the prior of some batches."""
        return Prior(self.forms, self.strengths[batches], self.kept[batches], self._jitter)

    @property
    def precisions(self) -> Array:
        """P of every group, shape (batches, groups, m, m)."""
        if self._known[0] is not self.strengths:
            groups, count, width, _ = self.forms.matrices.shape
            flat = np.matmul(self.strengths.transpose(1, 0, 2), self.forms.matrices.reshape(groups, count, -1))
            self._known = self.strengths, flat.transpose(1, 0, 2).reshape(-1, groups, width, width)
        return self._known[1]

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
        for batch, matrix in enumerate(hessian):
            factor, failed = lapack.dpotrf(matrix.T, lower=1)  # symmetric: its transpose has LAPACK's order
            if failed:
                raise np.linalg.LinAlgError("the curvature of a fold is not positive definite")
            means[batch] = lapack.dpotrs(factor, pull[batch], lower=1)[0]
            roots = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0].reshape(-1, groups, width).transpose(1, 2, 0)
            covariances[batch] = np.matmul(roots, roots.transpose(0, 2, 1))
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


class SquaredFits:
    """The fits of some batches under squared loss, by the sums of the path."""

    def __init__(self, judge: SmoothJudge, batches: Indices, groups: Indices, kept: NDArray[np.bool_]) -> None:
        assert judge.gram is not None
        self._judge, self._batches, gram = judge, batches, judge.gram
        gram.add(groups)
        self._groups, self._columns = groups, gram.rows_of(gram.index[groups])
        self._counts, self.size = judge.counts[batches], self._columns.size
        counts = self._counts[:, None, None]
        self._hessian = counts * gram.hessian[np.ix_(batches, self._columns, self._columns)]
        outputs = np.arange(gram.linear.shape[1])
        self._pull = (counts * gram.linear[np.ix_(batches, outputs, self._columns)]).transpose(0, 2, 1)
        weights = judge.problem.weights[batches]
        self._squares = self._counts * np.einsum("fn,fon->f", weights, gram.centred[batches] ** 2)
        self._noise, self._theta = judge.noise[batches], np.zeros_like(self._pull)
        self.information = np.einsum("fkk->fk", self._hessian) / self._noise[:, None]

    def step(self, prior: Prior, going: Indices, freedom: Array) -> tuple[Array, NDArray[np.bool_]]:
        sums, pull, over = self._hessian[going], self._pull[going], 1.0 / self._noise[going][:, None, None]
        theta, covariances = prior.posterior(sums * over, pull * over)
        outputs = theta.shape[2]
        used = prior.update(theta, covariances[:, None], outputs)
        left = self._squares[going] - np.sum(theta * (2.0 * pull - np.matmul(sums, theta)), axis=(1, 2))
        self._theta[going], self._noise[going] = theta, residual_variance(left, self._counts[going], used, outputs)
        return used, np.zeros(going.size, dtype=np.bool_)

    def keep(self, moves: NDArray[np.bool_]) -> None:
        return

    def finish(self) -> list[Array]:
        gram, batches, theta = self._judge.gram, self._batches, self._theta
        assert gram is not None
        self._judge.noise[batches] = self._noise
        means = np.einsum("fk,fko->fo", gram.means[np.ix_(batches, self._columns)], theta)
        flat = theta.transpose(0, 2, 1).reshape(-1, self.size)
        sums = gram.design.combined(self._groups, flat).reshape(batches.size, theta.shape[2], -1)
        return [base + each.T for base, each in zip(gram.target_means[batches] - means, sums, strict=True)]


class WorkingProblem:
    """The loss's second-order model of all batches about a point, the intercepts eliminated.

    Outputs that share a bound on their curvature share one Hessian. A Hessian is summed anew only when its curvature
    has moved by more than `STALE_JUDGE_CURVATURE`; the gradient is always that of the point. ``weights`` (batches,
    rows) count observations. Where columns outnumber rows, a Hessian SᵀS is kept as S, its centred rows times
    √curvature.
    """

    def __init__(self, judge: SmoothJudge, batches: Indices, groups: Indices, kept: NDArray[np.bool_]) -> None:
        problem, columns = judge.problem, judge.problem.design.working(groups)
        self._judge, self._batches, self._groups, self._kept = judge, batches, groups, kept
        self._going = batches  # those that are not yet at rest
        self._family, self._target = problem.family, problem.target.T
        self._task = SmoothProblem(np.zeros((0, len(self._target))), self._target, np.zeros(0), problem.family)
        self._weights, self._columns = judge.counts[batches, None] * problem.weights[batches], columns
        outputs, couples = problem.n_outputs, problem.family.couples_outputs
        self._parts = [slice(0, outputs)] if couples else [slice(k, k + 1) for k in range(outputs)]
        rows, shape = problem.design.n_rows, (batches.size, len(self._parts))
        self.size = min(rows, columns.count)
        self._bends, self._means = np.zeros((*shape, rows)), np.zeros((*shape, columns.count))
        self._by_rows = rows < columns.count
        self._sums = np.zeros((*shape, self.size, columns.count))  # Hessians, or their rows S
        self._floor = np.zeros(batches.size)  # of a row's curvature, as a share of the mean
        for group in groups.tolist():
            judge.theta.setdefault(group, np.zeros((judge.counts.size, problem.design.width, outputs)))
        known = np.concatenate([judge.theta[group][batches] for group in groups.tolist()], axis=1)
        self._theta = known * np.repeat(kept, problem.design.width, axis=1)[:, :, None]
        self._intercepts = judge.intercepts[batches]  # a copy
        self._scores = self._intercepts[:, None, :] + _by_batch(columns.times, self._theta)
        self.move(self._theta, self._scores)

    @property
    def information(self) -> Array:
        """The diagonals of the Hessians over the noise, the mean over outputs, shape (batches, columns)."""
        form = "fpnk,fpnk->fpk" if self._by_rows else "fpkk->fpk"
        found = np.einsum(form, *[self._sums] * (1 + self._by_rows)).mean(axis=1)
        return found / self.noise(self._scores, np.ones(len(self._scores)))[:, None]

    def step(self, prior: Prior, going: Indices, freedom: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Take a Newton step and update the strengths; return degrees of freedom, and which batches still move."""
        theta, scores, intercepts = self._theta[going], self._scores[going], self._intercepts[going]
        noise = self.noise(scores, freedom + 1.0)
        self.move(theta, scores)
        goal, base, variances = self.solve(prior, noise, theta, intercepts)
        for _ in range(0 if self._family.couples_outputs else INNER):
            prior.update(goal, variances, self._task.free_outputs)
            goal, base, variances = self.solve(prior, noise, theta, intercepts)
        turn = base[:, None, :] + _by_batch(self._columns.times, goal) - scores
        steps = self.length(prior, noise, (theta, scores), (goal - theta, turn))
        self.adapt(steps)
        self._theta[going] += steps[:, None, None] * (goal - theta)
        self._scores[going] += steps[:, None, None] * turn
        self._intercepts[going] += steps[:, None] * (base - intercepts)
        used = prior.update(self._theta[going], variances, self._task.free_outputs)
        moved = steps * np.sqrt(np.average(turn**2, axis=(1, 2)))  # classes may move while freedom rests
        return used, (steps < 1.0) | (moved > SMALL_MOVE)

    def keep(self, moves: NDArray[np.bool_]) -> None:
        """Leave out the batches that are at rest."""
        if moves.all():
            return
        self._weights, self._bends, self._going = self._weights[moves], self._bends[moves], self._going[moves]
        self._floor = self._floor[moves]
        self._sums, self._means = self._sums[moves], self._means[moves]

    def finish(self) -> list[Array]:
        """Return the scores of each batch, shape (rows, outputs); the judge keeps where the fits stand."""
        judge, batches = self._judge, self._batches
        judge.intercepts[batches] = self._intercepts
        parts = self._theta.reshape(batches.size, self._groups.size, -1, self._theta.shape[2])
        for number, group in enumerate(self._groups.tolist()):
            kept = self._kept[:, number]
            judge.theta[group][batches[kept]] = parts[kept, number]
        return list(self._scores)

    def noise(self, scores: Array, freedom: Array) -> Array:
        """Return the dispersion of each batch, shape (batches,)."""
        if self._family.dispersion == "fixed":
            return np.ones(len(scores))
        given = zip(scores, self._weights, freedom.tolist(), strict=True)
        return np.array([dispersion(self._family, each, self._target, weights, used) for each, weights, used in given])

    def move(self, theta: Array, scores: Array) -> None:
        """Make the model about θ (batches, columns, outputs) and its scores (batches, rows, outputs)."""
        bends = np.stack([self._task.curvatures(each) for each in scores])
        if self._floor.any():
            bends = np.maximum(bends, self._floor[:, None, None] * bends.mean(axis=2, keepdims=True))
        bends = self._weights[:, None, :] * bends
        moved = np.abs(bends - self._bends).sum(axis=(1, 2)) > STALE_JUDGE_CURVATURE * self._bends.sum(axis=(1, 2))
        if np.count_nonzero(moved) < 2 or not self._sum_together(bends):
            for batch in np.flatnonzero(moved).tolist():
                self._sum_hessians(batch, bends[batch])
        self._gradient = self._weights[:, :, None] * self._family.gradient(scores, self._target)
        if not self._by_rows:
            self._slopes = _by_batch(self._columns.products, self._gradient)

    def solve(self, prior: Prior, noise: Array, theta: Array, intercepts: Array) -> tuple[Array, Array, Array]:
        """Return the minimiser θ under a prior, its intercepts (batches, outputs), and the posterior variances."""
        goals, bases, variances = list[Array](), list[Array](), list[Array]()
        for index, part in enumerate(self._parts):
            goal, spread = self._posterior(index, part, prior, theta[:, :, part], noise)
            if self._family.couples_outputs:  # softmax does not see what all outputs share
                goal -= goal.mean(axis=2, keepdims=True)
            goals.append(goal)
            total = self._bends[:, index].sum(axis=1)[:, None]
            total = np.where(total > 0.0, total, 1.0)  # a fold without any exposure pulls nowhere
            moved = np.einsum("fk,fko->fo", self._means[:, index], goal - theta[:, :, part])
            bases.append(intercepts[:, part] - self._gradient[:, :, part].sum(axis=1) / total - moved)
            variances.append(spread)
        return np.concatenate(goals, axis=2), np.concatenate(bases, axis=1), np.stack(variances, axis=1)

    def _posterior(self, index: int, part: slice, prior: Prior, theta: Array, noise: Array) -> tuple[Array, Array]:
        """Return the means and variances of some outputs under their Hessian."""
        sums, gradient, over = self._sums[:, index], self._gradient[:, :, part], 1.0 / noise[:, None, None]
        if self._by_rows:
            roots = np.sqrt(self._bends[:, index])[:, :, None]
            residual = np.divide(gradient, roots, out=np.zeros_like(gradient), where=roots > 0.0)
            return prior.posterior_of_rows(sums, over[:, 0, 0], over * (np.matmul(sums, theta) - residual))
        slopes = self._slopes[:, :, part] - self._means[:, index, :, None] * gradient.sum(axis=1)[:, None, :]
        hessian = over * sums
        return prior.posterior(hessian, np.matmul(hessian, theta) - over * slopes)

    def length(self, prior: Prior, noise: Array, point: tuple[Array, Array], direction: tuple[Array, Array]) -> Array:
        """Return the first of 1, ½, ¼, … that does not raise Σ w loss/φ + ½ Σ θᵀPθ, or 0, shape (batches,)."""

        def objectives(steps: Array) -> Array:
            found = self._family.loss(point[1] + steps[:, None, None] * direction[1], self._target)
            cost = prior.cost(point[0] + steps[:, None, None] * direction[0])
            return np.sum(self._weights * found, axis=1) / noise + cost

        before = objectives(np.zeros(len(noise)))
        highest = before + OBJECTIVE_ROUNDING * np.abs(before)
        return step_lengths(lambda steps: objectives(steps) <= highest, len(noise), JUDGE_HALVINGS)

    def adapt(self, steps: Array) -> None:
        """Raise the least curvature of rows in batches whose last step (batches,) was 0, lower it in the others.

        Far from a fit a few rows may have all the curvature, as the largest y of a Gamma beside a constant mean: steps
        along the other rows then lead nowhere at any length, and take a share of the mean curvature for theirs.
        """
        floor = np.where(steps == 0.0, 4.0 * np.maximum(self._floor, FLOOR), 0.25 * self._floor)
        self._floor = np.where(floor < FLOOR, 0.0, np.minimum(floor, 1.0))

    def _sum_together(self, bends: Array) -> bool:
        """Sum the Hessians of all folds under their mean curvature, in one pass over the rows, if it is near theirs."""
        judge = self._judge
        mean = bends.sum(axis=0) / np.maximum(self._weights.sum(axis=0), SMALLEST_FLOAT)
        shared = self._weights[:, None, :] * mean
        level = bends.sum(axis=2, keepdims=True) / np.maximum(shared.sum(axis=2, keepdims=True), SMALLEST_FLOAT)
        shared *= level
        far = np.abs(bends - shared).sum(axis=(1, 2)) > LIKE_CURVATURE * bends.sum(axis=(1, 2))
        if far.any() or self._by_rows:
            return False
        self._bends, self._means = shared, self._columns.products(shared) / shared.sum(axis=2)[:, :, None]
        for part, bend in enumerate(mean):
            weighted = judge.problem.weights * bend
            means, precision = self._columns.products(weighted), judge.problem.design.dtype
            sums = judge.sums.centred(self._columns, weighted, means, precision)
            self._sums[:, part] = judge.counts[self._going, None, None] * level[:, part, None] * sums[self._going]
        return True

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


def _by_batch(product: Callable[[Array], Array], values: Array) -> Array:
    """Return the product of values (batches, k, outputs) with the columns, of which it takes vectors (r, k)."""
    batches, size, outputs = values.shape
    flat = product(values.transpose(0, 2, 1).reshape(batches * outputs, size))
    return flat.reshape(batches, outputs, -1).transpose(0, 2, 1)
