"""Whether the held-out losses that a fit states are those of its fits: against cross-validation made anew.

    python benchmarks/faithful.py [--out FILE]

Real tables of at most 1,000 training rows with numbers or two classes, one split each. A default fit without pairs
states the held-out loss of the columns it chose and of all columns, as shares of the empty model's. Both are measured
again with other folds: smooth fits of these columns on the training rows of each, by the public API.
"""

import argparse
import os
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"), TQDM_DISABLE="1")

import warnings

import numpy as np
from bench import load, save
from real.losses import empty_prediction, row_losses
from real.tables import TABLES, split_of
from sklearn.model_selection import KFold, StratifiedKFold

from sparsenam import SNAMClassifier, SNAMRegressor

RESULTS = Path(__file__).resolve().parent / "results" / "faithful.json"
MOST_ROWS, KINDS = 1000, ("number", "binary")


def fitted(kind, X, y, **settings):
    """Return how a smooth fit predicts."""
    make, method = (SNAMClassifier, "predict_proba") if kind == "binary" else (SNAMRegressor, "predict")
    model = make(random_state=0, pairs=0, **settings).fit(X, y)
    return model, getattr(model, method)


def loss_anew(kind, X, y):
    """Return the cross-validated loss of the smooth fit of all columns of X, as a share of the empty model's."""
    losses, empty = np.zeros(len(y)), np.zeros(len(y))
    folds = (StratifiedKFold if kind == "binary" else KFold)(5, shuffle=True, random_state=1)
    for train, test in folds.split(X, y if kind == "binary" else None):
        empty[test] = row_losses(kind, empty_prediction(kind, y[train], y[test]), y[test])
        if not X.shape[1]:
            losses[test] = empty[test]
            continue
        predict = fitted(kind, X.iloc[train], y[train], alpha=0.0)[1]
        losses[test] = row_losses(kind, predict(X.iloc[test]), y[test])
    return losses.mean() / empty.mean()


def measure(name):
    """Return what the fit states of its columns and of all, and what is found anew."""
    task = split_of(name, 0).task
    model, _ = fitted(task.kind, task.X, task.y)
    evidence, kept = model.summary_.evidence, list(model.get_feature_names_out())
    stated = {"chosen": 1.0 - evidence.gain}
    if evidence.behind_all is not None:
        stated["all"] = stated["chosen"] - evidence.behind_all
    columns = {"chosen": task.X[kept], "all": task.X}
    anew = {which: loss_anew(task.kind, columns[which], task.y) for which in stated}
    return {"rows": len(task.y), "columns": task.X.shape[1], "kept": len(kept), "stated": stated, "anew": anew}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    wanted, found = parser.parse_args(), {}
    warnings.simplefilter("ignore")
    for name, recipe in TABLES.items():
        if recipe.kind not in KINDS or not 80 <= len(split_of(name, 0).task.y) <= MOST_ROWS:
            continue
        entry = found[name] = measure(name)
        print(name, *(f"{which} {entry['stated'][which]:.3f} {entry['anew'][which]:.3f}" for which in entry["stated"]))
    save(wanted.out, load(wanted.out) | {"tables": found})
    for which in ("chosen", "all"):
        pairs = [(e["stated"][which], e["anew"][which]) for e in found.values() if which in e["stated"]]
        off = np.array([stated - anew for stated, anew in pairs])
        error = off.std(ddof=1) / np.sqrt(off.size)
        size = np.abs(off).mean()
        print(f"{which}: {off.size} tables, off by {size:.4f} on average, bias {off.mean():+.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
