"""How far off a prediction may be: coverage and width of intervals and sets, and what they cost, beside mapie.

Usage: python benchmarks/intervals.py [TASK …] [--repeats N] [--first SEED] [--out FILE] [--no-mapie]
with TASK among california, hetero, paper200, paper500, poisson, gamma, wide, weak, hundred, classes, classes4 (all by
default). JSON is printed and, with --out, written: tasks measured now replace those of the file.

Coverage is that of new rows at level 0.9, widths are means; fifths are those of the predicted spread. "plain" is
scale="constant", "folds" is calibrate(cv=5), "split" a calibration with new rows. Times are CPU seconds over those of
one fit without left-out errors: of a fit and a prediction, and of the calibration. mapie gives CV+ with 5 folds
about the same estimator, and the sets of its least ambiguous classifier.
"""

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.append(str(Path(__file__).parents[1]))  # paper/ is beside this folder

import numpy as np

from paper.data import load_california
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.fit import pipeline

LEVEL, NEW_ROWS = 0.9, 4000


def california(generator):
    """Return 3000 rows of California Housing, and 4000 others."""
    data = load_california()
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y, dtype=float)
    taken = generator.permutation(len(y))[: 3000 + NEW_ROWS]
    return SNAMRegressor(random_state=0), X[taken], y[taken], 3000


def hetero(generator):
    """Noise whose spread depends on a column that the mean does not use."""
    X = generator.normal(size=(1500 + NEW_ROWS, 8))
    noise = 0.7 * np.exp(0.7 * X[:, 2]) * generator.normal(size=len(X))
    return SNAMRegressor(random_state=0), X, 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + noise, 1500


def paper(rows):
    """Return the task of the paper's synthetic regression with so many rows."""

    def task(generator):
        X = generator.normal(size=(rows + NEW_ROWS, 24))
        y = 2.0 * X[:, 0] ** 2 * np.tanh(X[:, 0]) + np.sin(X[:, 1]) * np.cos(X[:, 1]) + X[:, 1] ** 2
        y += 20.0 / (1.0 + np.exp(-5.0 * np.sin(X[:, 2])))
        y += 20.0 * np.sin(2.0 * X[:, 3]) ** 3 - 6.0 * np.cos(X[:, 3]) + X[:, 3] ** 2
        return SNAMRegressor(random_state=0), X, y + generator.normal(size=len(X)), rows

    return task


def poisson(generator):
    """Counts."""
    X = generator.normal(size=(1500 + NEW_ROWS, 8))
    y = generator.poisson(np.exp(0.5 + np.sin(X[:, 0]) + 0.5 * X[:, 1])).astype(float)
    return SNAMRegressor(family="poisson", random_state=0), X, y, 1500


def gamma(generator):
    """Amounts."""
    X = generator.normal(size=(1000 + NEW_ROWS, 8))
    y = np.exp(0.5 + np.sin(X[:, 0]) + 0.5 * X[:, 1]) * generator.gamma(2.0, 0.5, len(X))
    return SNAMRegressor(family="gamma", random_state=0), X, y, 1000


def wide(generator):
    """60 rows, 500 columns."""
    X = generator.normal(size=(60 + NEW_ROWS, 500))
    y = X[:, 0] + 0.7 * X[:, 1] + 0.5 * X[:, 2] + 0.3 * X[:, 3:8].sum(axis=1) + 0.7 * generator.normal(size=len(X))
    return SNAMRegressor(random_state=0), X, y, 60


def weak(generator):
    """200 rows, 10 columns, weak effects."""
    X = generator.normal(size=(200 + NEW_ROWS, 10))
    y = 0.35 * X[:, 0] + 0.3 * np.sin(2.0 * X[:, 1]) + 0.25 * X[:, 2] ** 2 + generator.normal(size=len(X))
    return SNAMRegressor(random_state=0), X, y, 200


def hundred(generator):
    """100 rows, 50 columns."""
    X = generator.normal(size=(100 + NEW_ROWS, 50))
    y = X[:, 0] + 0.7 * X[:, 1] + 0.6 * np.sin(2.0 * X[:, 2]) + 0.3 * X[:, 3:8].sum(axis=1)
    return SNAMRegressor(random_state=0), X, y + generator.normal(size=len(X)), 100


def classes(generator):
    """Two classes."""
    X = generator.normal(size=(800 + NEW_ROWS, 8))
    score = 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - 1.0
    return SNAMClassifier(random_state=0), X, (generator.random(len(X)) < 1.0 / (1.0 + np.exp(-score))).astype(int), 800


def classes4(generator):
    """Four classes."""
    X = generator.normal(size=(800 + NEW_ROWS, 8))
    scores = np.stack([np.zeros(len(X)), X[:, 0], 1.5 * np.sin(2.0 * X[:, 1]), X[:, 2] ** 2 - 1.0], axis=1)
    return SNAMClassifier(random_state=0), X, (scores + generator.gumbel(size=scores.shape)).argmax(axis=1), 800


TASKS = {
    "california": california,
    "hetero": hetero,
    "paper200": paper(200),
    "paper500": paper(500),
    "poisson": poisson,
    "gamma": gamma,
    "wide": wide,
    "weak": weak,
    "hundred": hundred,
    "classes": classes,
    "classes4": classes4,
}


def timed(call):
    """Return what a call gives, and its CPU seconds."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


def without_errors(estimator, X, y):
    """Return the CPU seconds of a fit that keeps no left-out errors."""
    kept = pipeline.residuals_of
    pipeline.residuals_of = lambda *given: None
    try:
        return timed(lambda: estimator.fit(X, y))[1]
    finally:
        pipeline.residuals_of = kept


def of_intervals(found, y, spread=None):
    """Return coverage, mean width, and the coverage of each fifth of the spread."""
    covered, width = found.covers(y), found.upper - found.lower
    spread = width if spread is None else spread
    fifths = np.array_split(np.argsort(spread, kind="stable"), 5)
    return {
        "coverage": float(covered.mean()),
        "width": float(width.mean()),
        "fifths": [float(covered[rows].mean()) for rows in fifths],
    }


def coverage_alone(estimator, X, y, rows):
    """Measure nothing but what intervals or sets of a fit cover, which is quick."""
    model = estimator.fit(X[:rows], y[:rows])
    if isinstance(estimator, SNAMClassifier):
        return {"auto": of_sets(np.asarray(model.predict_set(X[rows:])), y[rows:])}
    auto = model.predict_interval(X[rows:])
    plain = model.predict_interval(X[rows:], scale="constant")
    return {
        "auto": of_intervals(auto, y[rows:]),
        "plain": of_intervals(plain, y[rows:], auto.upper - auto.lower),
        "scaled": float(model.residuals_.scaled is not None),
        "inflation": model.residuals_.inflation,
    }


def numbers(estimator, X, y, rows, peer):
    """Measure intervals."""
    old, new = slice(0, rows), slice(rows, None)
    alone = without_errors(estimator, X[old], y[old])
    model, seconds = timed(lambda: estimator.fit(X[old], y[old]))
    auto, asking = timed(lambda: model.predict_interval(X[new]))
    folds, refits = timed(lambda: model.calibrate(X[old], y[old], cv=5))
    half = rows + NEW_ROWS // 2
    split = model.calibrate(X[rows:half], y[rows:half])
    found = {
        "auto": of_intervals(auto, y[new]),
        "plain": of_intervals(model.predict_interval(X[new], scale="constant"), y[new], auto.upper - auto.lower),
        "folds": of_intervals(folds.predict_interval(X[new]), y[new]),
        "split": of_intervals(split.predict_interval(X[half:]), y[half:]),
        "scaled": float(model.residuals_.scaled is not None),
        "inflation": model.residuals_.inflation,
        "time": {"fit": alone, "auto": (seconds + asking) / alone, "folds": refits / alone},
    }
    if peer:
        from mapie.regression import CrossConformalRegressor

        other = CrossConformalRegressor(estimator, confidence_level=LEVEL, method="plus", cv=5, random_state=0)
        _, seconds = timed(lambda: other.fit_conformalize(X[old], y[old]))
        ends = other.predict_interval(X[new])[1][:, :, 0]
        covered = (ends[:, 0] <= y[new]) & (y[new] <= ends[:, 1])
        found["mapie"] = {"coverage": float(covered.mean()), "width": float((ends[:, 1] - ends[:, 0]).mean())}
        found["time"]["mapie"] = seconds / alone
    return found


def of_sets(members, y):
    """Return coverage and mean size of sets."""
    return {"coverage": float(members[np.arange(len(y)), y].mean()), "size": float(members.sum(axis=1).mean())}


def log_loss(probabilities, y):
    """Return the mean log loss."""
    return float(-np.mean(np.log(np.maximum(probabilities[np.arange(len(y)), y], 1e-12))))


def labels(estimator, X, y, rows, peer):
    """Measure sets and probabilities."""
    old, new = slice(0, rows), slice(rows, None)
    alone = without_errors(estimator, X[old], y[old])
    model, seconds = timed(lambda: estimator.fit(X[old], y[old]))
    reliability = model.residuals_.reliability
    found = {
        "auto": of_sets(np.asarray(model.predict_set(X[new])), y[new]),
        "corrected": float(reliability.kind != "none"),
        "log_loss": {
            "left_out": reliability.loss,
            "new": log_loss(model.predict_proba(X[new]), y[new]),
            "new_corrected": log_loss(model.calibrated_proba(X[new]), y[new]),
        },
        "time": {"fit": alone, "auto": seconds / alone},
    }
    if peer:
        from mapie.classification import CrossConformalClassifier

        other = CrossConformalClassifier(
            estimator, confidence_level=LEVEL, conformity_score="lac", cv=5, random_state=0
        )
        _, seconds = timed(lambda: other.fit_conformalize(X[old], y[old]))
        found["mapie"] = of_sets(other.predict_set(X[new])[1][:, :, 0], y[new])
        found["time"]["mapie"] = seconds / alone
    return found


def averaged(results):
    """Return the means over repeats, entry by entry."""
    if isinstance(results[0], dict):
        return {name: averaged([result[name] for result in results]) for name in results[0]}
    return np.round(np.mean(results, axis=0), 4).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-mapie", action="store_true")
    parser.add_argument("--coverage-alone", action="store_true", help="no refits, no peer, no times: for many repeats")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    for name in given.tasks or TASKS:
        results = []
        for seed in range(given.first, given.first + given.repeats):
            estimator, X, y, rows = TASKS[name](np.random.default_rng(seed))
            if given.coverage_alone:
                results.append(coverage_alone(estimator, X, y, rows))
                continue
            measure = labels if isinstance(estimator, SNAMClassifier) else numbers
            results.append(measure(estimator, X, y, rows, not given.no_mapie))
        known[name] = {"repeats": given.repeats, "first": given.first, **averaged(results)}
        print(json.dumps({name: known[name]}), flush=True)
        if given.out:
            given.out.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
