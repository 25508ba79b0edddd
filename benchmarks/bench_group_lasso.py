"""Group lasso on splines, an additive model that chooses columns: by skglm's solvers, and by adelie's cross-validation.

`bench_peers.py` calls it in the interpreters of these libraries.
"""

from itertools import islice

import numpy as np
from bench_inputs import Numbers

FOLDS, SMALLEST = 5, 1e-2  # folds, and the smallest alpha over the largest


class Splines:
    """Cubic splines of each column, orthonormal over the training rows: one group a column, as group lasso asks for.

    Knots are the sextiles, without repetition; a column with fewer than four values, and each level of a category, is
    a line. ``groups`` has the group's first column and ``sizes`` its number of columns; ``source`` the table's column.
    """

    def __init__(self, X, pieces=6):
        self.numbers = Numbers(X)
        matrix = self.numbers(X)
        self.source, order = np.unique(self.numbers.source, return_inverse=True)
        self.members = [np.flatnonzero(order == group) for group in range(self.source.size)]
        self.knots = [knots_of(column, pieces) for column in matrix.T]
        self.steps = [self.fitted_step(matrix, member) for member in self.members]
        self.sizes = np.array([step[1].shape[1] for step in self.steps])
        self.groups = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(int)

    def fitted_step(self, matrix, member):
        """Return the means of a group's functions and the matrix that makes them orthonormal."""
        functions = self.functions(matrix, member)
        means = functions.mean(axis=0)
        values, vectors = np.linalg.eigh(np.cov(functions.T, bias=True).reshape(means.size, means.size))
        held = values > 1e-8 * max(values.max(), 1e-12)
        return means, vectors[:, held] / np.sqrt(values[held])

    def functions(self, matrix, member):
        return np.hstack([basis_of(matrix[:, column], self.knots[column]) for column in member])

    def __call__(self, X):
        matrix = self.numbers(X)
        out = np.empty((len(matrix), int(self.sizes.sum())), order="F")
        for member, start, size, (means, turn) in zip(self.members, self.groups, self.sizes, self.steps, strict=True):
            out[:, start : start + size] = (self.functions(matrix, member) - means) @ turn
        return out

    def scores(self, X, coefficients, intercept):
        """Return the sum of the effects; groups with coefficients of zero are not computed."""
        matrix, total = self.numbers(X), np.full(len(X), float(intercept))
        for member, start, size, (means, turn) in zip(self.members, self.groups, self.sizes, self.steps, strict=True):
            weights = coefficients[start : start + size]
            if weights.any():
                total += (self.functions(matrix, member) - means) @ (turn @ weights)
        return total

    def kept(self, coefficients):
        """Return the table's columns whose coefficients are not all zero."""
        largest = np.maximum.reduceat(np.abs(coefficients), self.groups)
        return self.source[largest > 0].tolist()


def knots_of(column, pieces):
    """Return the distinct quantiles, or ``None`` for a column that is fitted by a line."""
    inner = np.unique(np.quantile(column, np.linspace(0, 1, pieces + 1)))
    return inner if np.unique(column[:1000]).size > 3 and inner.size > 2 else None


def basis_of(column, knots):
    """Return cubic B-splines, constant beyond the outermost knots; the column itself where there are no knots."""
    if knots is None:
        return column[:, None]
    from scipy.interpolate import BSpline

    padded = np.concatenate([[knots[0]] * 3, knots, [knots[-1]] * 3])
    return BSpline.design_matrix(np.clip(column, knots[0], knots[-1]), padded, 3).toarray()


def solve_by_skglm(splines, design, y, is_regression, seed, cores):
    """Return coefficients and intercept at the smallest loss over five folds: 30 alphas, each started from the last."""
    folds = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    weights = np.sqrt(splines.sizes)
    norms = np.sqrt(np.add.reduceat((design.T @ (y - y.mean()) / len(y)) ** 2, splines.groups))
    alphas = (norms / weights).max() * np.geomspace(1, SMALLEST, 30)
    parts = skglm_parts(splines, weights, is_regression)
    losses = np.zeros(alphas.size)
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        walk = skglm_path(*parts, design[train], y[train], alphas)
        for place, (coefficients, intercept) in enumerate(walk):
            losses[place] += loss_of(is_regression, intercept + design[test] @ coefficients, y[test])
    return next(islice(skglm_path(*parts, design, y, alphas), int(losses.argmin()), None))


def skglm_parts(splines, weights, is_regression):
    """Return solver, loss and penalty, compiled once for all folds."""
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton
    from skglm.utils.jit_compilation import compiled_clone

    size = int(splines.sizes.sum())
    indices, starts = np.arange(size, dtype=np.int32), np.append(splines.groups, size).astype(np.int32)
    solver, datafit = (GroupBCD, QuadraticGroup) if is_regression else (GroupProxNewton, LogisticGroup)
    penalty = WeightedGroupL2(1.0, weights, starts, indices)
    solver = solver(tol=1e-4, fit_intercept=True, warm_start=True)
    return solver, compiled_clone(datafit(starts, indices)), compiled_clone(penalty)


def skglm_path(solver, datafit, penalty, design, y, alphas):
    """Yield coefficients and intercept for each alpha, each from those before."""
    design = np.asfortranarray(design)
    target = y if type(solver).__name__ == "GroupBCD" else 2.0 * y - 1.0
    solution = np.zeros(design.shape[1] + 1)
    for alpha in alphas:
        penalty.alpha = alpha
        scores = design @ solution[:-1] + solution[-1]
        solution = solver.solve(design, target, datafit, penalty, w_init=solution, Xw_init=scores)[0]
        yield solution[:-1], solution[-1]


def loss_of(is_regression, scores, y):
    return np.sum((scores - y) ** 2) if is_regression else np.sum(np.logaddexp(0, scores) - y * scores)


def solve_by_adelie(splines, design, y, is_regression, seed, cores):
    """Return coefficients and intercept at the alpha of its cross-validation."""
    import adelie

    family = (adelie.glm.gaussian if is_regression else adelie.glm.binomial)(y)
    settings = {"groups": splines.groups, "n_threads": cores, "progress_bar": False}
    matrix = adelie.matrix.dense(np.asfortranarray(design), method="naive", n_threads=cores)
    chosen = adelie.cv.cv_grpnet(matrix, family, n_folds=FOLDS, seed=seed, min_ratio=SMALLEST, **settings)
    state = chosen.fit(matrix, family, **settings)
    return state.betas[-1].toarray()[0], state.intercepts[-1]
