"""The methods that are compared on the real tables: each takes a task and returns a way to predict.

Everyone gets the same rows, one core, and the defaults of the library with the way of choosing that its authors offer.
LightGBM stops early on a fifth of the rows; the lasso chooses its strength by cross-validation on dummy columns.
Dates are given to the peers as numbers of days, because none of them reads dates.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from bench_inputs import Numbers, as_categories

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Task:
    """Training rows; classes are indices from 0, survival has fields ``event`` and ``time``."""

    kind: str
    X: pd.DataFrame
    y: np.ndarray
    seed: int
    times: np.ndarray | None = None  # at which survival is predicted

    @property
    def is_class(self) -> bool:
        return self.kind in ("binary", "classes")


@dataclass(frozen=True, eq=False)
class Fitted:
    """``predict`` gives means, probabilities (rows, classes) or survival (rows, times); ``kept`` features are named."""

    predict: Callable[[pd.DataFrame], np.ndarray]
    kept: tuple[str, ...]
    facts: dict[str, object] = field(default_factory=dict)


def without_dates(X):
    """Return a table in which dates are days since 1970."""
    dates = [name for name in X if X[name].dtype.kind == "M"]
    return X.assign(**{name: (X[name] - pd.Timestamp(0)) / pd.Timedelta(days=1) for name in dates})


def ours(task, **settings):
    from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival

    if task.kind == "survival":
        model = SNAMSurvival(random_state=task.seed, **settings).fit(task.X, task.y)
        predict = lambda X: model.predict_survival_function(X, times=task.times, return_array=True)  # noqa: E731
    elif task.is_class:
        model = SNAMClassifier(random_state=task.seed, **settings).fit(task.X, task.y)
        predict = model.predict_proba
    else:
        family = {"count": "poisson", "amount": "gamma"}.get(task.kind, "gaussian")
        model = SNAMRegressor(family=family, random_state=task.seed, **settings).fit(task.X, task.y)
        predict = model.predict
    return Fitted(predict, tuple(map(str, model.get_feature_names_out())), {"pairs": len(model.interactions_)})


def ours_mains(task):
    return ours(task, pairs=0)


def ours_best(task):
    return ours(task, rule="best")


def ours_all(task):
    return ours(task, alpha=0.0)


def ebm(task, **settings):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    settings |= {"random_state": task.seed, "n_jobs": 1}
    X = without_dates(task.X)
    if task.is_class:
        model = ExplainableBoostingClassifier(**settings).fit(X, task.y)
        predict = model.predict_proba
    else:
        objective = {"count": "poisson_deviance", "amount": "gamma_deviance"}.get(task.kind, "rmse")
        model = ExplainableBoostingRegressor(objective=objective, **settings).fit(X, task.y)
        predict = model.predict
    used = [term for term, weight in zip(model.term_features_, model.term_importances(), strict=True) if weight > 0]
    names = sorted({str(X.columns[column]) for term in used for column in term})
    return Fitted(lambda X: predict(without_dates(X)), tuple(names), {"pairs": sum(len(term) == 2 for term in used)})


def ebm_mains(task):
    return ebm(task, interactions=0)


def lightgbm(task):
    import lightgbm as library

    objective = {"number": "regression", "count": "poisson", "amount": "gamma"}.get(task.kind)
    settings = {"n_estimators": 5000, "learning_rate": 0.05, "n_jobs": 1, "random_state": task.seed, "verbose": -1}
    make = library.LGBMClassifier if task.is_class else library.LGBMRegressor
    settings |= {} if task.is_class else {"objective": objective}
    X = without_dates(task.X)
    categories = as_categories(X)
    names = {name: f"x{place}" for place, name in enumerate(X.columns)}  # it refuses JSON's special characters
    prepare = lambda X: categories(without_dates(X)).rename(columns=names)  # noqa: E731
    train, test = early_stopping_rows(task)
    table = prepare(task.X)
    model = make(**settings).fit(
        table.iloc[train],
        task.y[train],
        eval_set=[(table.iloc[test], task.y[test])],
        callbacks=[library.early_stopping(50, verbose=False)],
    )
    # the number of trees is chosen; the rows that chose it are then fitted, too
    model = make(**settings | {"n_estimators": max(model.best_iteration_, 1)}).fit(table, task.y)
    kept = tuple(str(name) for name, used in zip(X.columns, model.feature_importances_, strict=True) if used)
    predict = model.predict_proba if task.is_class else model.predict
    return Fitted(lambda X: predict(prepare(X)), kept)


def early_stopping_rows(task):
    """Return four fifths of the rows and a fifth; of classes, as many of each as in all rows."""
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(task.y))
    return train_test_split(rows, test_size=0.2, random_state=task.seed, stratify=task.y if task.is_class else None)


def names_of(numbers, X, coefficients):
    """Return the features of which some column has a coefficient."""
    used = np.unique(numbers.source[np.any(np.atleast_2d(coefficients) != 0, axis=0)])
    return tuple(str(X.columns[place]) for place in used)


def lasso(task):
    from sklearn.linear_model import LassoCV, LogisticRegressionCV
    from sklearn.model_selection import KFold, StratifiedKFold

    X = without_dates(task.X)
    numbers = Numbers(X)
    matrix = numbers(X)
    prepare = lambda X: numbers(without_dates(X))  # noqa: E731
    if task.kind in ("count", "amount"):
        return lasso_of_means(task, numbers, matrix, prepare)
    if task.kind == "number":
        model = LassoCV(cv=KFold(FOLDS, shuffle=True, random_state=task.seed)).fit(matrix, task.y)
        return Fitted(lambda X: model.predict(prepare(X)), names_of(numbers, X, model.coef_))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task.seed)
    solver = "liblinear" if task.kind == "binary" else "saga"
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 2, 20),
        cv=folds,
        l1_ratios=(1.0,),
        solver=solver,
        scoring="neg_log_loss",
        random_state=task.seed,
        max_iter=100 if task.kind == "binary" else 300,
        use_legacy_attributes=False,
    ).fit(matrix, task.y)
    return Fitted(lambda X: model.predict_proba(prepare(X)), names_of(numbers, X, model.coef_))


def lasso_of_means(task, numbers, matrix, prepare):
    """ℓ1 regression of counts (Poisson) or amounts (Gamma) with a log link, by skglm, along a path of 20 strengths."""
    import skglm.datafits
    from skglm import GeneralizedLinearEstimator
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton
    from sklearn.model_selection import KFold

    from .losses import row_losses

    unit = task.y.mean()  # a mean of 1: coefficients start near 0
    y = task.y / unit
    datafit = getattr(skglm.datafits, "Poisson" if task.kind == "count" else "Gamma")
    # the largest strength that keeps a column, from the gradient at the mean
    first = np.abs(matrix.T @ (y - 1.0)).max() / len(y)

    def fitted(strength, rows):
        model = GeneralizedLinearEstimator(datafit(), L1(strength), ProxNewton(fit_intercept=True, tol=1e-5))
        return model.fit(matrix[rows], y[rows])

    def mean(model, matrix):
        return unit * np.exp(np.clip(matrix @ np.ravel(model.coef_) + model.intercept_, -30.0, 30.0))

    strengths = first * np.logspace(0, -3, 20)
    losses = np.zeros(strengths.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for train, test in KFold(FOLDS, shuffle=True, random_state=task.seed).split(matrix):
            for place, strength in enumerate(strengths):
                predicted = mean(fitted(strength, train), matrix[test])
                losses[place] += row_losses(task.kind, predicted, task.y[test]).sum()
        model = fitted(strengths[int(losses.argmin())], np.arange(len(y)))
    return Fitted(lambda X: mean(model, prepare(X)), names_of(numbers, task.X, np.ravel(model.coef_)))


def survival_numbers(task):
    X = without_dates(task.X)
    numbers = Numbers(X)
    return numbers, lambda X: numbers(without_dates(X))


def survival_at(functions, times):
    """Return survival at times (rows, times); before the first step it is 1, after the last it stays."""
    return np.stack(
        [np.where(times < each.x[0], 1.0, each(np.clip(times, each.x[0], each.x[-1]))) for each in functions]
    )


def cox_lasso(task):
    """Cox's model with an ℓ1 penalty by scikit-survival; the strength with the best held-out concordance."""
    from sklearn.model_selection import GridSearchCV, KFold
    from sksurv.linear_model import CoxnetSurvivalAnalysis

    numbers, prepare = survival_numbers(task)
    matrix, y = prepare(task.X), survival_array(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = CoxnetSurvivalAnalysis(l1_ratio=1.0, n_alphas=30, alpha_min_ratio=0.01).fit(matrix, y)
        search = GridSearchCV(
            CoxnetSurvivalAnalysis(l1_ratio=1.0, fit_baseline_model=True),
            {"alphas": [[alpha] for alpha in path.alphas_]},
            cv=KFold(FOLDS, shuffle=True, random_state=task.seed),
            error_score=0.5,
        ).fit(matrix, y)
    model = search.best_estimator_
    return Fitted(
        lambda X: survival_at(model.predict_survival_function(prepare(X)), task.times),
        names_of(numbers, task.X, model.coef_.ravel()),
    )


def survival_boosting(task):
    """Gradient-boosted Cox model by scikit-survival, with its defaults."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis

    numbers, prepare = survival_numbers(task)
    model = GradientBoostingSurvivalAnalysis(random_state=task.seed).fit(prepare(task.X), survival_array(task))
    return Fitted(
        lambda X: survival_at(model.predict_survival_function(prepare(X)), task.times),
        names_of(numbers, task.X, model.feature_importances_),
    )


def survival_array(task):
    from sksurv.util import Surv

    return Surv.from_arrays(task.y["event"], task.y["time"])


@dataclass(frozen=True)
class Method:
    """A method: its name on the page, how it fits, its package, and the kinds of targets that it has."""

    label: str
    fit: Callable[[Task], Fitted]
    package: str
    kinds: tuple[str, ...]
    modules: tuple[str, ...]


EVERY = ("number", "binary", "classes", "count", "amount", "survival")
NO_TIMES = EVERY[:-1]
OURS = ("sparsenam.estimators",)

METHODS = {
    "ours": Method("sparsenam", ours, "sparsenam", EVERY, OURS),
    "ours_mains": Method("sparsenam, `pairs=0`", ours_mains, "sparsenam", EVERY, OURS),
    "ours_best": Method('sparsenam, `rule="best"`', ours_best, "sparsenam", EVERY, OURS),
    "ours_all": Method("sparsenam, `alpha=0`", ours_all, "sparsenam", EVERY, OURS),
    "ebm": Method("EBM without pairs", ebm_mains, "interpret-core", NO_TIMES, ("interpret.glassbox",)),
    "ebm_pairs": Method("EBM", ebm, "interpret-core", NO_TIMES, ("interpret.glassbox",)),
    "lightgbm": Method("LightGBM", lightgbm, "lightgbm", NO_TIMES, ("lightgbm",)),
    "lasso": Method("ℓ1 linear", lasso, "scikit-learn", NO_TIMES, ("sklearn.linear_model", "skglm", "skglm.datafits")),
    "cox_lasso": Method("ℓ1 Cox", cox_lasso, "scikit-survival", ("survival",), ("sksurv.linear_model",)),
    "survival_boosting": Method(
        "boosted Cox", survival_boosting, "scikit-survival", ("survival",), ("sksurv.ensemble",)
    ),
}
