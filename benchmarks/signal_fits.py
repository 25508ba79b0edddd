"""How `signals.py` fits and measures: our estimators with nothing set but the seed, and their peers."""

import sys
import time
import warnings

import numpy as np
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing as rows_of

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival

OURS = {"regression": SNAMRegressor, "classification": SNAMClassifier, "survival": SNAMSurvival}


def ours(kind, seed, **settings):
    return OURS[kind](random_state=seed, **settings)


def ebm(kind, seed):
    return ebm_with_pairs(kind, seed, interactions=0)


def ebm_with_pairs(kind, seed, **settings):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    make = ExplainableBoostingRegressor if kind == "regression" else ExplainableBoostingClassifier
    return make(random_state=seed, **settings)


def linear(kind, seed):
    """Return the lasso, or logistic regression with an l1 penalty, by cross-validation on standardised columns."""
    if kind == "regression":
        return make_pipeline(StandardScaler(), LassoCV(cv=KFold(5, shuffle=True, random_state=seed), max_iter=20_000))
    return make_pipeline(StandardScaler(), logistic_lasso(seed, folds=5, strengths=20))


def ridge_classes(kind, seed):
    """Return multinomial logistic regression with a ridge penalty by cross-validation on standardised columns."""
    settings = {"scoring": "neg_log_loss", "max_iter": 2000, "use_legacy_attributes": False}
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return make_pipeline(StandardScaler(), LogisticRegressionCV(cv=folds, l1_ratios=(0.0,), **settings))


def one_against_rest(kind, seed):
    """Return one l1-penalised logistic regression for each class; few strengths and folds keep wide tables quick."""
    return make_pipeline(StandardScaler(), OneVsRestClassifier(logistic_lasso(seed, folds=3, strengths=8)))


def logistic_lasso(seed, folds, strengths):
    return LogisticRegressionCV(
        Cs=np.logspace(-2, 2, strengths),
        cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
        l1_ratios=(1.0,),
        solver="liblinear",
        scoring="neg_log_loss",
        random_state=seed,
        use_legacy_attributes=False,
    )


def timed_fit(model, X, y):
    """Return the fitted model, and a record of its seconds, the columns it kept and how often it warned."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    seconds = time.perf_counter() - started
    columns = kept(model, X.shape[1])
    name = type(model[-1] if hasattr(model, "steps") else model).__name__
    print(f"  {name}, {X.shape[0]} x {X.shape[1]}: kept {len(columns)}, {seconds:.2f} s", file=sys.stderr, flush=True)
    return model, {"kept": len(columns), "seconds": round(seconds, 3), "warnings": len(caught), "columns": columns}


def kept(model, n_columns):
    """Return the indices of the columns that the model reads."""
    if hasattr(model, "get_support"):
        return np.flatnonzero(model.get_support()).tolist()
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, OneVsRestClassifier):
        return np.flatnonzero(np.any([each.coef_[0] != 0 for each in last.estimators_], axis=0)).tolist()
    if hasattr(last, "coef_"):
        return np.flatnonzero(np.atleast_2d(last.coef_).any(axis=0)).tolist()
    return list(range(n_columns))


def found(columns, true_columns):
    """Return how many columns were found, missed and kept in vain."""
    true = set(true_columns)
    return {"found": len(true & set(columns)), "missed": len(true - set(columns)), "false": len(set(columns) - true)}


def jaccard(one, other):
    """Return |A ∩ B| / |A ∪ B|; two empty sets agree."""
    union = set(one) | set(other)
    return len(set(one) & set(other)) / len(union) if union else 1.0


def r_squared(y, predicted):
    return float(1 - np.mean((predicted - y) ** 2) / np.var(y))


def score_of(kind, model, X):
    """Return predicted means, or log odds of the second class."""
    return model.predict(X) if kind == "regression" else model.decision_function(X)


def fresh_loss(kind, model, X, y):
    """Return the mean squared error or the log loss."""
    if kind == "regression":
        return float(np.mean((model.predict(X) - y) ** 2))
    return float(log_loss(y, model.predict_proba(X), labels=model.classes_))


def out_of_fold(make, kind, X, y, seed, n_folds=5):
    """Return the held-out ``value`` pooled over folds, and what was kept.

    ``value`` is R² for regression, the log loss for classification, and for survival the concordance, which
    compares the rows of one fold only and is averaged.
    """
    strata = {"regression": None, "classification": y, "survival": None}[kind]
    if kind == "survival":
        strata = y[y.dtype.names[0]]
    splitter = KFold if strata is None else StratifiedKFold
    folds = splitter(n_folds, shuffle=True, random_state=50_000 + seed).split(np.zeros(len(y)), strata)
    classes = np.unique(y) if kind == "classification" else None
    pooled = np.zeros(len(y) if classes is None else (len(y), classes.size))
    fits, concordances = [], []
    for train, test in folds:
        model, fit = timed_fit(make(kind, seed), rows_of(X, train), y[train])
        held_out = rows_of(X, test)
        if kind == "survival":
            concordances.append(model.score(held_out, y[test]))
        else:
            pooled[test] = model.predict_proba(held_out) if kind == "classification" else model.predict(held_out)
        fits.append(fit)
    if kind == "survival":
        value = float(np.mean(concordances))
    else:
        value = r_squared(y, pooled) if kind == "regression" else float(log_loss(y, pooled, labels=classes))
    return {
        "value": value,
        "kept": float(np.mean([fit["kept"] for fit in fits])),
        "kept_by_fold": [fit["kept"] for fit in fits],
        "seconds": round(sum(fit["seconds"] for fit in fits), 3),
        "warnings": sum(fit["warnings"] for fit in fits),
    }
