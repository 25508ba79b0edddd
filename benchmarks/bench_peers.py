"""The libraries that `bench.py` measures: one function each, which fits with everything chosen and can then predict.

Each runs in its library's interpreter (`bench_environments.py`), with its library's defaults and the way to choose that
its authors offer; nothing is set for a table. Nothing here imports sparsenam but the functions of sparsenam.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from bench_group_lasso import FOLDS, Splines, solve_by_adelie, solve_by_skglm
from bench_inputs import Codes, Numbers, as_categories


@dataclass(frozen=True, eq=False)
class Task:
    """What is fitted: ``X`` is a matrix or a pandas table, ``kind`` is regression or classification with y 0 or 1."""

    kind: str
    X: object
    y: np.ndarray
    seed: int
    cores: int

    @property
    def is_regression(self) -> bool:
        return self.kind == "regression"


@dataclass(frozen=True, eq=False)
class Fitted:
    """``predict`` returns means, or probabilities of class 1; ``kept`` are the table's columns that the model reads."""

    predict: Callable[[object], np.ndarray]
    kept: list[int]


def prediction_of(task, model, prepare=lambda X: X):
    """Return the function that predicts with a model of scikit-learn's kind."""
    if task.is_regression:
        return lambda X: model.predict(prepare(X))
    return lambda X: model.predict_proba(prepare(X))[:, 1]


def every(task):
    return list(range(task.X.shape[1]))


def sparsenam(task, **settings):
    from sparsenam import SNAMClassifier, SNAMRegressor

    model = (SNAMRegressor if task.is_regression else SNAMClassifier)(random_state=task.seed, **settings)
    model.fit(task.X, task.y)
    return Fitted(prediction_of(task, model), np.flatnonzero(model.get_support()).tolist())


def sparsenam_mains(task):
    return sparsenam(task, pairs=0)


def ebm(task, **settings):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    make = ExplainableBoostingRegressor if task.is_regression else ExplainableBoostingClassifier
    model = make(random_state=task.seed, n_jobs=task.cores, **settings).fit(task.X, task.y)
    used = [term for term, weight in zip(model.term_features_, model.term_importances(), strict=True) if weight > 0]
    return Fitted(prediction_of(task, model), sorted({column for term in used for column in term}))


def ebm_mains(task):
    return ebm(task, interactions=0)


def held_out(task):
    """Return the indices of four fifths and of a fifth of the rows, on which boosting and training are stopped."""
    order = np.random.default_rng(task.seed).permutation(len(task.y))
    return order[len(order) // 5 :], order[: len(order) // 5]


def rows_of(X, rows):
    return X[rows] if isinstance(X, np.ndarray) else X.iloc[rows]


def lightgbm(task):
    import lightgbm as library

    make = library.LGBMRegressor if task.is_regression else library.LGBMClassifier
    settings = {"n_estimators": 5000, "learning_rate": 0.05, "n_jobs": task.cores, "random_state": task.seed}
    prepare = as_categories(task.X)
    table, (train, test) = prepare(task.X), held_out(task)
    model = make(**settings, verbose=-1).fit(
        rows_of(table, train),
        task.y[train],
        eval_set=[(rows_of(table, test), task.y[test])],
        callbacks=[library.early_stopping(50, verbose=False)],
    )
    return Fitted(prediction_of(task, model, prepare), np.flatnonzero(model.feature_importances_).tolist())


def xgboost(task):
    import xgboost as library

    make = library.XGBRegressor if task.is_regression else library.XGBClassifier
    settings = {"n_estimators": 5000, "learning_rate": 0.05, "n_jobs": task.cores, "random_state": task.seed}
    prepare = as_categories(task.X)
    table, (train, test) = prepare(task.X), held_out(task)
    model = make(**settings, enable_categorical=True, early_stopping_rounds=50).fit(
        rows_of(table, train), task.y[train], eval_set=[(rows_of(table, test), task.y[test])], verbose=False
    )
    return Fitted(prediction_of(task, model, prepare), np.flatnonzero(model.feature_importances_).tolist())


def pygam(task):
    from pygam import LinearGAM, LogisticGAM, f, s
    from pygam.terms import TermList

    codes = Codes(task.X)
    terms = TermList(*[f(place) if factor else s(place) for place, factor in enumerate(codes.is_category)])
    model = (LinearGAM if task.is_regression else LogisticGAM)(terms)
    model.gridsearch(codes(task.X), task.y, progress=False)
    predict = model.predict if task.is_regression else model.predict_proba
    return Fitted(lambda X: predict(codes(X)), every(task))


def standardised(task):
    """Return y with mean 0 and variance 1, as networks ask for, and the way back; classes stay."""
    if not task.is_regression:
        return task.y.astype(int), lambda predicted: predicted
    mean, spread = task.y.mean(), task.y.std()
    return ((task.y - mean) / spread).astype(np.float32), lambda predicted: mean + spread * np.ravel(predicted)


def lassonet(task):
    import torch
    from lassonet import LassoNetClassifierCV, LassoNetRegressorCV

    numbers = Numbers(task.X)
    make = LassoNetRegressorCV if task.is_regression else LassoNetClassifierCV
    model = make(cv=FOLDS, random_state=task.seed, torch_seed=task.seed, device=torch.device("cpu"), verbose=0)
    target, back = standardised(task)
    model.fit(numbers(task.X).astype(np.float32), target)
    predict = prediction_of(task, model, lambda X: numbers(X).astype(np.float32))
    kept = np.unique(numbers.source[np.asarray(model.best_selected_, bool)]).tolist()
    return Fitted(lambda X: back(predict(X)), kept)


def frame_of(X):
    """Return a pandas table; a matrix gets names for its columns."""
    import pandas as pd

    if not isinstance(X, np.ndarray):
        return X
    return pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])


def dnamite(task):
    """All columns: to choose some, it asks for a strength that it does not choose."""
    from dnamite.models import DNAMiteBinaryClassifier, DNAMiteRegressor

    model = (DNAMiteRegressor if task.is_regression else DNAMiteBinaryClassifier)(random_state=task.seed)
    target, back = standardised(task)
    model.fit(frame_of(task.X), target)
    predict = model.predict if task.is_regression else model.predict_proba
    return Fitted(lambda X: back(predict(frame_of(X))), every(task))


def igann(task):
    from igann import IGANN

    numbers = Numbers(task.X)
    target, back = standardised(task)
    model = IGANN(task=task.kind, random_state=task.seed)
    model.fit(frame_of(numbers(task.X)), target)
    return Fitted(lambda X: back(prediction_of(task, model)(frame_of(numbers(X)))), every(task))


def nam(task):
    from bench_nam import fit_networks, scores_of

    numbers = Numbers(task.X)
    target, back = standardised(task)
    model = fit_networks(numbers(task.X), target, task.is_regression, *held_out(task), task.seed)
    return Fitted(lambda X: back(mean_of(task, scores_of(model, numbers(X)))), every(task))


def lasso(task):
    """The lasso, or logistic regression with an l1 penalty, by cross-validation on standardised columns."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV
    from sklearn.model_selection import KFold, StratifiedKFold

    numbers = Numbers(task.X)
    folds = (KFold if task.is_regression else StratifiedKFold)(FOLDS, shuffle=True, random_state=task.seed)
    if task.is_regression:
        model = LassoCV(cv=folds, n_jobs=task.cores)
    else:
        model = LogisticRegressionCV(
            Cs=np.logspace(-3, 2, 20),
            cv=folds,
            l1_ratios=(1.0,),
            solver="liblinear",
            scoring="neg_log_loss",
            random_state=task.seed,
            n_jobs=task.cores,
            use_legacy_attributes=False,
        )
    model.fit(numbers(task.X), task.y)
    kept = np.unique(numbers.source[np.ravel(model.coef_) != 0]).tolist()
    return Fitted(prediction_of(task, model, numbers), kept)


def group_lasso(task, solve):
    splines = Splines(task.X)
    coefficients, intercept = solve(splines, splines(task.X), task.y, task.is_regression, task.seed, task.cores)
    return Fitted(lambda X: mean_of(task, splines.scores(X, coefficients, intercept)), splines.kept(coefficients))


def skglm(task):
    return group_lasso(task, solve_by_skglm)


def adelie(task):
    return group_lasso(task, solve_by_adelie)


def mean_of(task, scores):
    return scores if task.is_regression else 1 / (1 + np.exp(-scores))


@dataclass(frozen=True)
class Peer:
    """A library: its name on the page, how it fits, its package and imports, and the environment that it may need."""

    label: str
    fit: Callable[[Task], Fitted]
    package: str
    modules: tuple[str, ...]
    environment: str | None = None


PEERS = {
    "sparsenam": Peer("sparsenam, pairs=0", sparsenam_mains, "sparsenam", ("sparsenam.estimators",)),
    "sparsenam_pairs": Peer("sparsenam", sparsenam, "sparsenam", ("sparsenam.estimators",)),
    "ebm": Peer("EBM, mains", ebm_mains, "interpret-core", ("interpret.glassbox",)),
    "ebm_pairs": Peer("EBM, pairs", ebm, "interpret-core", ("interpret.glassbox",)),
    "lightgbm": Peer("LightGBM", lightgbm, "lightgbm", ("lightgbm",)),
    "xgboost": Peer("XGBoost", xgboost, "xgboost-cpu", ("xgboost",), "xgboost"),
    "pygam": Peer("pyGAM", pygam, "pygam", ("pygam",), "pygam"),
    "lassonet": Peer("LassoNet", lassonet, "lassonet", ("lassonet",), "lassonet"),
    "skglm": Peer("skglm, group lasso", skglm, "skglm", ("skglm",)),
    "adelie": Peer("adelie, group lasso", adelie, "adelie", ("adelie",), "adelie"),
    "dnamite": Peer("DNAMite", dnamite, "dnamite", ("dnamite.models",), "dnamite"),
    "igann": Peer("IGANN", igann, "igann", ("igann",), "igann"),
    "lasso": Peer("ℓ1 linear", lasso, "scikit-learn", ("sklearn.linear_model",)),
    "nam": Peer("NAM, a loop", nam, "torch", ("torch",)),
}
