"""Regularisation paths as functions of X and y."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.context import Clock, Context, Streams
from sparsenam.convex.path import TOLERANCE, convex_path, until
from sparsenam.convex.problem import ConvexPoint
from sparsenam.errors import InputError, check_whole, check_word, describe
from sparsenam.families import FAMILIES, CustomLoss, Family, as_family
from sparsenam.fit.plan import Plan, convex_task, plan_of, require_default
from sparsenam.fit.problem import FamilyProblem, Fitted, Strategy
from sparsenam.fit.response import check_target, check_weights
from sparsenam.penalties import NeedsFirstFit, Penalty, as_penalty
from sparsenam.selection import PathPoint, RegularizationPath
from sparsenam.selection.task import ConvexTask, Norm, by_column
from sparsenam.training import Network

ROUGH_GAP = 1e-2  # of a path that only gives a grid of alphas


class ProblemSettings(TypedDict, total=False):
    """Of every path: loss, penalty and weights of the rows, as for `SNAMRegressor`."""

    family: str | Family | CustomLoss
    penalty: str | Penalty
    sample_weight: ArrayLike | None


class FitSettings(ProblemSettings, total=False):
    """Of a path of full models, as for `SNAMRegressor`."""

    max_seconds: float | None
    random_state: int | np.random.RandomState | None


def random_feature_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    alphas: ArrayLike | None = None,
    n_alphas: int = 30,
    width: int = 32,
    norm: Norm = "function",
    tol: float = TOLERANCE,
    **settings: Unpack[ProblemSettings],
) -> RegularizationPath:
    """Return the path of random-feature SNAM, solved at each alpha to a duality gap of ``tol``.

    Parameters
    ----------
    X, y
        Columns (rows, features) and the target: numbers, 0/1 for ``family="binomial"``, or a one-hot matrix for
        ``"multinomial"``.
    alphas
        A falling grid; by default ``n_alphas`` values from the one that keeps nothing.
    width, norm
        As for `RandomFeatureSNAMRegressor`.
    **settings
        ``family``, by default "gaussian"; ``penalty``, by default "group_lasso", and not "adaptive", which needs a
        first fit; ``sample_weight``, of shape (rows,).
    """
    grid = _falling(alphas, n_alphas)
    _check_names("random_feature_path", settings, ProblemSettings)
    hidden = {"hidden": (100, 50), "activation": "relu", "n_jobs": None}  # which ramps do not read
    plan = _plan(settings, features="ramps", norm=norm, width=width, tol=tol, **hidden)
    problem = _problem(X, y, plan, settings)
    task = convex_task(problem, plan, Context(Streams(0)))
    path = convex_path(task.problem(), task.penalty, alphas=grid, n_alphas=n_alphas, tol=tol)
    return task.path(tuple(path), problem.column_names)


def snam_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    order: Literal["convex", "dense"] = "convex",
    alphas: ArrayLike | None = None,
    n_alphas: int = 30,
    network: Network | None = None,
    **settings: Unpack[FitSettings],
) -> RegularizationPath:
    """Return a path of full models, from sparse to dense.

    Parameters
    ----------
    X, y
        As for `random_feature_path`.
    order
        "convex" walks down the convex path and fits without penalty at each new support. "dense" trains networks on
        all columns and raises alpha, each fit starting from the one before: in a network with hidden layers zero is
        absorbing, so such a path can only go from dense to sparse.
    alphas
        A grid; by default ``n_alphas`` values from the one that keeps nothing.
    network
        As for `SNAMRegressor`; without one "convex" fits smoothly and "dense" trains the paper's 100-50.
    **settings
        ``family``, by default "gaussian"; ``penalty``, by default "group_lasso"; ``sample_weight``, of shape (rows,);
        ``max_seconds`` and ``random_state``, as for `SNAMRegressor`.
    """
    check_word("order", order, ("convex", "dense"))
    _check_names("snam_path", settings, FitSettings)
    if network is not None:
        require_default("checkpoint of Network", network.checkpoint, None, "a path is many fits")
    grid = _falling(alphas, n_alphas)
    context = Context(Streams.from_random_state(settings.get("random_state")), Clock(settings.get("max_seconds")))
    if order == "convex":
        plan = _plan(settings, network=network, refit=True)
        problem = _problem(X, y, plan, settings)
        task = convex_task(problem, plan, context)
        path = convex_path(task.problem(), task.penalty, alphas=grid, n_alphas=n_alphas)
        points = tuple(_fitted_points(problem, task, path, plan.strategy, context))
        return RegularizationPath(points, problem.column_names)
    trained = Network() if network is None else network
    penalty = settings.get("penalty", "group_lasso")
    if trained.init != "random" or isinstance(as_penalty(penalty), NeedsFirstFit):
        expected = "init='random' and a penalty that needs no first fit"
        got = f"init={trained.init!r} and the penalty {penalty!r}"
        raise InputError(describe("snam_path with order='dense'", expected, got, "leave the other out"))
    plan = _plan(settings, alpha=0.0, network=trained, refit=False)
    problem = _problem(X, y, plan, settings)
    if grid is None:
        task = convex_task(problem, plan, context)
        path = convex_path(task.problem(), task.penalty, n_alphas=n_alphas, tol=ROUGH_GAP)
        grid = np.array([point.alpha for point in path])
    from sparsenam.fit.networks import train_path  # and PyTorch, which only networks need

    rising = train_path(problem, trained, plan.penalty, grid[::-1], context)
    points = tuple(_point(problem, alpha, fitted) for alpha, fitted in rising)
    return RegularizationPath(points[::-1], problem.column_names)


def _fitted_points(
    problem: FamilyProblem, task: ConvexTask, path: Iterator[ConvexPoint], strategy: Strategy, context: Context
) -> Iterator[PathPoint]:
    """Yield a fit without penalty for each new support on the convex path."""
    known: dict[tuple[int, ...], Fitted] = {}
    for point in until(path, context.clock.passed):
        indices = task.terms(point.supports[0])
        support = tuple(int(index) for index in indices)
        if support not in known:
            known[support] = strategy.fitter(None).fit(problem.take(indices), context)
        yield _point(problem, point.alpha, known[support], float(point.gaps[0]))


def _point(problem: FamilyProblem, alpha: float, fitted: Fitted, gap: float | None = None) -> PathPoint:
    columns = np.unique(problem.column_of[fitted.model.terms])
    norms = by_column(fitted.norms, problem.column_of, len(problem.column_names))
    return PathPoint(alpha, columns, norms, fitted.model, gap)


def _plan(settings: ProblemSettings, **parameters: object) -> Plan:
    family = as_family(settings.get("family", "gaussian"), tuple(FAMILIES), estimates=False)
    return plan_of("a path", {"penalty": settings.get("penalty", "group_lasso"), **parameters}, family)


def _problem(X: ArrayLike, y: ArrayLike, plan: Plan, settings: ProblemSettings) -> FamilyProblem:
    target = check_target(y)
    weights = check_weights(settings.get("sample_weight"), target)
    encoder, sample = plan.read(X, None, target.reshape(len(target), -1), weights)
    problem = plan.pose(sample, encoder)
    if not problem.prepared.terms.size:
        raise InputError(describe("X", "a column that varies", "constant ones", "give other columns"))
    return problem


def _check_names(where: str, settings: ProblemSettings, known: type[ProblemSettings]) -> None:
    """Raise for a setting that there is not, as Python does."""
    for name in settings.keys() - known.__annotations__.keys():
        raise TypeError(f"{where}() got an unexpected keyword argument {name!r}")


def _falling(alphas: ArrayLike | None, n_alphas: int) -> NDArray[np.float64] | None:
    check_whole("n_alphas", n_alphas)
    if alphas is None:
        return None
    require_default("n_alphas", n_alphas, 30, "alphas are given")
    grid = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
    if grid.size == 0 or not np.isfinite(grid).all() or grid[-1] < 0:
        raise InputError(describe("alphas", "finite numbers of at least 0", f"{alphas!r}", "correct them"))
    return grid
