"""Every estimator of this package that the tables and experiments use is made and fitted here.

SNAM with nothing set, SNAM as the paper and its notebook have it, random features, NAM and SPAM; and by kind, with
the methods beside them, `METHODS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from paper.baselines import fit_boosting, fit_lasso, fit_logistic, fit_support_vectors
from paper.fitted import ALL_KEPT, BY_THRESHOLD, EXACT_ZEROS, FittedMethod, choose, indices_of
from paper.models import NAMClassifier, NAMRegressor, SPAMRegressor
from paper.recipe import Settings
from paper.tasks import Kind, Rows, Split
from sparsenam import (
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
)
from sparsenam.errors import InputError, describe

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
FitMethod = Callable[[Split, Settings, int], FittedMethod]
# these solvers find their step and their end themselves; a recipe's settings are for all its solvers
FULL_BATCH, NOT_OF_FULL_BATCH = ("prox_gd", "fista"), ("learning_rate", "batch_size", "patience")


def make_snam(kind: Kind, settings: Settings, seed: int) -> SNAMRegressor | SNAMClassifier:
    """Return SNAM with a recipe's settings, those of the estimator and those of the network in one table."""
    make = SNAMRegressor if kind == "regression" else SNAMClassifier
    given, known = _arguments(settings), Network().get_params()
    network = {key: value for key, value in given.items() if key in known}
    if network.get("solver") in FULL_BATCH:
        network = {key: value for key, value in network.items() if key not in NOT_OF_FULL_BATCH}
    rest: dict[str, Any] = {"pairs": 0} | {key: value for key, value in given.items() if key not in known}
    trained = Network(**network) if network else None
    return make(**rest, network=trained, verbose=False, random_state=seed)


def make_paper_snam(kind: Kind, penalty: float, settings: Settings, seed: int) -> SNAMRegressor | SNAMClassifier:
    """Return the paper's model: Adam's subgradient steps from random parameters, on the raw scale of y.

    ``penalty`` is the paper's λ. The loss here is half the mean squared error, so that λ is alpha = λ/2 for
    regression; for classification it is alpha = λ, with two outputs as in the paper.
    """
    shared = {"solver": "adam", "standardize": False, "patience": settings["max_epochs"], **settings}
    if kind == "regression":
        return make_snam(kind, {**shared, "alpha": penalty / 2}, seed)
    return make_snam(kind, {**shared, "alpha": penalty, "family": "multinomial"}, seed)


def make_regressor(name: str, seed: int) -> SNAMRegressor | RandomFeatureSNAMRegressor:
    """Return the library's default for "default" and "network", else random features by the lowest held-out loss."""
    if name in ("default", "network"):
        return SNAMRegressor(pairs=0, random_state=seed)
    return RandomFeatureSNAMRegressor(rule="best", random_state=seed)


def fit_snam(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit this package's SNAM with the given settings and nothing else."""
    return additive_method(make_snam(split.kind, settings, seed), split.kind, split.train)


def fit_random_features(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit random-feature SNAM, alpha by cross-validation."""
    make = RandomFeatureSNAMRegressor if split.kind == "regression" else RandomFeatureSNAMClassifier
    model = make(**_arguments(settings), verbose=False, random_state=seed)
    return additive_method(model, split.kind, split.train)


def fit_nam(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit NAM; the learning rate is the one of ``learning_rates`` with the lowest loss on held-out rows."""
    make = NAMRegressor if split.kind == "regression" else NAMClassifier
    rest = _arguments({key: value for key, value in settings.items() if key != "learning_rates"})

    def fit(rate: float, rows: Rows) -> FittedMethod:
        model = make(**rest, learning_rate=rate, verbose=False, random_state=seed)
        return additive_method(model, split.kind, rows, all_kept=True)

    best = choose(settings["learning_rates"], fit, split.train, split.kind, seed)
    return replace(fit(best, split.train), support_rule=ALL_KEPT, chosen={"learning_rate": best})


def fit_paper_snam(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit the paper's model; of several ``lambdas`` the one with the lowest loss on held-out rows is taken.

    ``columns`` is "raw" or "standardised". A proximal ``solver`` instead of Adam's subgradient steps has exact zeros.
    """
    rest = {key: value for key, value in settings.items() if key not in ("lambdas", "columns")}
    scaler = StandardScaler().fit(split.train.X)
    scaled = settings.get("columns", "raw") == "standardised"
    rows = Rows(scaler.transform(split.train.X), split.train.y) if scaled else split.train
    rule = EXACT_ZEROS if str(settings.get("solver", "")).startswith("prox") else BY_THRESHOLD

    def fit(penalty: float, rows: Rows) -> FittedMethod:
        fitted = additive_method(make_paper_snam(split.kind, penalty, rest, seed), split.kind, rows)
        return replace(fitted, support_rule=rule)

    best = choose(settings["lambdas"], fit, rows, split.kind, seed)
    fitted = fit(best, rows).having_chosen(**{"lambda": best})
    return fitted.after(scaler.transform) if scaled else fitted


def fit_spam(split: Split, settings: Settings, seed: int) -> FittedMethod:
    """Fit SPAM by backfitting, its penalty chosen by the estimator."""
    if split.kind != "regression":
        raise InputError(describe("spam", "a regression", "a classification", "leave it out"))
    model = SPAMRegressor(**_arguments({"random_state": seed, **settings})).fit(split.train.X, split.train.y)
    return FittedMethod(
        predict=model.predict,
        effects=model.effects,
        support=indices_of(model.get_support()),
        n_parameters=None,
        chosen={"alpha": float(model.alpha_)},
    )


def additive_method(model: Any, kind: Kind, rows: Rows, *, all_kept: bool = False) -> FittedMethod:
    """Fit an estimator of this package; two outputs for two classes count by their difference, the log odds."""
    model.fit(rows.X, rows.y)

    def effects(X: Matrix) -> Matrix:
        shares: Matrix = model.effects(X)
        return shares if shares.ndim == 2 else shares[:, :, 1] - shares[:, :, 0]

    return FittedMethod(
        predict=model.predict if kind == "regression" else lambda X: model.predict_proba(X)[:, 1],
        effects=effects,
        support=tuple(range(rows.X.shape[1])) if all_kept else indices_of(model.get_support()),
        n_parameters=model.n_parameters_,
        chosen={"alpha": float(model.alpha_)},
    )


def train_with_solver(rows: Rows, solver: str, settings: Settings, seed: int) -> list[dict[str, Any]]:
    """Return the history of the paper's model under a solver, on the paper's scale, with the recipe's settings."""
    rest = {key: value for key, value in settings.items() if key not in ("solvers", "lambda", "columns")}
    scaled = settings.get("columns", "raw") == "standardised"
    X = StandardScaler().fit(rows.X).transform(rows.X) if scaled else rows.X
    model = make_paper_snam("regression", settings["lambda"], {**rest, "solver": solver}, seed).fit(X, rows.y)
    wanted = {"epoch": "epoch", "loss": "loss", "penalty": "penalty", "features": "terms", "seconds": "seconds"}
    return [{name: point[key] for name, key in wanted.items()} for point in model.history_]


def train_full_batch(X: Matrix, y: Vector, solver: str, settings: Settings, seed: int) -> dict[str, Any]:
    """Return objective and kept columns by epoch of a network trained with all rows at once, and where it ended.

    ``settings`` has alpha, hidden, learning_rate (of plain descent; the others find theirs) and epochs.
    """
    epochs = settings["epochs"]
    network = {"hidden": settings["hidden"], "solver": solver, "init": "random", "tol": 1e-12}
    network |= {"max_epochs": epochs, "patience": epochs}
    network["learning_rate"] = settings["learning_rate"] if solver == "gd" else None
    model = make_snam("regression", {"alpha": settings["alpha"], "refit": False, **network}, seed)
    with warnings.catch_warnings():  # the experiment shows how far a fixed number of iterations gets
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return {
        "iteration": [point["epoch"] for point in model.history_],
        "objective": [float(point["loss"] or 0.0) + float(point["penalty"] or 0.0) for point in model.history_],
        "kept": [int(point["terms"] or 0) for point in model.history_],
        "stationarity": model.stationarity_,
    }


def _arguments(settings: Settings) -> dict[str, Any]:
    """Return a recipe's settings as a constructor takes them: TOML has lists where estimators take tuples."""
    return {
        key: tuple(cast("list[object]", value)) if isinstance(value, list) else value for key, value in settings.items()
    }


METHODS: Mapping[str, FitMethod] = {
    "snam": fit_snam,
    "paper-snam": fit_paper_snam,
    "random-feature": fit_random_features,
    "nam": fit_nam,
    "spam": fit_spam,
    "lasso": fit_lasso,
    "l1-logistic": fit_logistic,
    "l1-svm": fit_support_vectors,
    "ebm": fit_boosting,
}
