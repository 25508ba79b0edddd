"""Regularisation paths as functions of X and y."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import (
    _check_sample_weight,  # pyright: ignore[reportPrivateUsage]
    check_consistent_length,
)

from sparsenam.convex.features import RampFeatures
from sparsenam.errors import InputError, check_number, check_whole, check_word, describe
from sparsenam.estimators.fitting import RAMPS, Fitted, Task, fit_features, fit_network_path, prepared_for
from sparsenam.estimators.regression import check_target
from sparsenam.estimators.settings import PAPER_HIDDEN, Settings
from sparsenam.families import FAMILIES, CustomLoss, Family, as_family
from sparsenam.networks import Hidden
from sparsenam.penalties import Penalty, as_penalty
from sparsenam.selection import PathPoint, RegularizationPath
from sparsenam.selection.choose import ConvexTask, Norm, walk_path
from sparsenam.streams import Streams
from sparsenam.tables import PreparedSample, Sample, TableEncoder
from sparsenam.tables.groups import grouping_of
from sparsenam.training import Deadline


def random_feature_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    family: str | Family | CustomLoss = "gaussian",
    penalty: str | Penalty = "group_lasso",
    alphas: ArrayLike | None = None,
    n_alphas: int = 30,
    width: int = 32,
    norm: Norm = "function",
    tol: float = 1e-4,
    sample_weight: ArrayLike | None = None,
) -> RegularizationPath:
    """Return the path of random-feature SNAM, solved at each alpha to a duality gap of ``tol``.

    Parameters
    ----------
    X, y
        Columns (rows, features) and the target: numbers, 0/1 for ``family="binomial"``, or a one-hot matrix for
        ``"multinomial"``.
    alphas
        A falling grid; by default ``n_alphas`` values from the one that keeps nothing.
    width, norm, penalty
        As for `RandomFeatureSNAMRegressor`, but for "adaptive", which needs a first fit.
    """
    check_word("norm", norm, ("function", "parameters"))
    check_number("tol", tol, 0.0, open_below=True)
    check_whole("width", width)
    check_whole("n_alphas", n_alphas)
    prepared, chosen, names = _read(X, y, family, sample_weight)
    task = ConvexTask.of(prepared, chosen, RampFeatures(prepared, width), as_penalty(penalty), norm)
    points = walk_path(task, _falling(alphas), n_alphas, tol)
    return task.path(tuple(points), names)


def snam_path(
    X: ArrayLike,
    y: ArrayLike,
    *,
    family: str | Family | CustomLoss = "gaussian",
    penalty: str | Penalty = "group_lasso",
    order: Literal["convex", "dense"] = "convex",
    alphas: ArrayLike | None = None,
    n_alphas: int = 30,
    hidden: Hidden | Literal["auto"] = "auto",
    max_seconds: float | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> RegularizationPath:
    """Return a path of full networks, from sparse to dense.

    Parameters
    ----------
    order
        "convex" walks down the convex path and fits a network without penalty at each new support. "dense" starts
        with all features and raises alpha, each fit starting from the one before: in a network with hidden layers
        zero is absorbing, so such a path can only go from dense to sparse.
    hidden, max_seconds, random_state
        As for `SNAMRegressor`; "auto" with ``order="dense"`` is the paper's 100-50.
    """
    prepared, chosen, names = _read(X, y, family, sample_weight, split_levels=hidden != "auto" or order == "dense")
    init: Literal["convex", "random"] = "convex" if order == "convex" else "random"
    settings = Settings(
        penalty=penalty, hidden=hidden, init=init, max_seconds=max_seconds, random_state=random_state
    )
    settings.check()
    streams = Streams.from_random_state(random_state)
    task = Task(prepared, chosen, settings, streams, Deadline(max_seconds))
    grid = _falling(alphas)
    if order == "convex":
        points = list(_convex_points(task, grid, n_alphas))
    elif order == "dense":
        if grid is None:
            convex = ConvexTask.of(prepared, chosen, RampFeatures(prepared, RAMPS), as_penalty(penalty))
            grid = np.array([point.alpha for point in walk_path(convex, None, n_alphas, 1e-2)])
        task = replace(task, settings=replace(settings, hidden=PAPER_HIDDEN if hidden == "auto" else hidden))
        points = [_point(fitted) for fitted in fit_network_path(task, grid[::-1])][::-1]
    else:
        raise InputError(describe("order", "'convex' or 'dense'", repr(order), "choose one"))
    return RegularizationPath(tuple(points), names)


def _convex_points(task: Task, alphas: NDArray[np.float64] | None, n_alphas: int) -> Iterator[PathPoint]:
    """Yield a network for each new support on the convex path."""
    features = RampFeatures(task.prepared, RAMPS)
    convex = ConvexTask.of(task.prepared, task.family, features, as_penalty(task.settings.penalty))
    known: dict[tuple[int, ...], Fitted] = {}
    for point in walk_path(convex, alphas, n_alphas, 1e-4):
        places = convex.terms(point.supports[0])
        support = tuple(int(place) for place in places)
        if support not in known:
            known[support] = fit_features(task, places, point.alpha)
        yield replace(_point(known[support]), alpha=point.alpha, gap=float(point.gaps[0]))
        if task.clock.passed():
            return


def _point(fitted: Fitted) -> PathPoint:
    return PathPoint(fitted.alpha, np.sort(fitted.model.terms), fitted.norms, fitted.model)


def _read(
    X: ArrayLike,
    y: ArrayLike,
    family: str | Family | CustomLoss,
    sample_weight: ArrayLike | None,
    *,
    split_levels: bool = False,
) -> tuple[PreparedSample, Family, tuple[str, ...]]:
    table, encoded = TableEncoder.fit(X, split_levels=split_levels)
    columns, terms = encoded, table.terms
    chosen = as_family(family, tuple(FAMILIES), estimates=False)
    target = check_target(y)
    check_consistent_length(columns, target)
    target = target.reshape(len(target), -1)
    weights = _check_sample_weight(sample_weight, columns, dtype=np.float64, ensure_non_negative=True)
    names = [term.name for term in terms]
    levels = np.array([term.kind == "levels" for term in terms], dtype=np.bool_)
    sample = Sample(columns, target, weights, names, levels, grouping_of(table, None, None, None))
    prepared = prepared_for(chosen, sample)
    if not prepared.terms.size:
        raise InputError(describe("X", "a column that varies", "constant ones", "give other columns"))
    return prepared, chosen, tuple(names)


def _falling(alphas: ArrayLike | None) -> NDArray[np.float64] | None:
    if alphas is None:
        return None
    grid = np.sort(np.asarray(alphas, dtype=np.float64).ravel())[::-1]
    if grid.size == 0 or not np.isfinite(grid).all() or grid[-1] < 0:
        raise InputError(describe("alphas", "finite numbers of at least 0", f"{alphas!r}", "correct them"))
    return grid
