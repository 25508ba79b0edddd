"""Shapes that are asked for: violations, loss beside monotone boosting, steps beside curves, lines that are found.

Usage: python benchmarks/shapes.py [PART …] [--tables N] [--seeds N] [--out FILE]
with PART among violations, monotone, pairs, steps, lines (all by default). JSON is printed and, with --out, written:
parts measured now replace those of the file. Losses are those of the true score on new rows: mean squares of its error;
in pairs the seconds of CPU follow.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target

NEW_ROWS = 5000
REGRESSION = ("gaussian", "huber", "quantile", "poisson", "negative_binomial", "gamma", "tweedie")
FAMILIES = (*REGRESSION, "binomial", "multilabel", "survival")
KINDS = ("increasing", "decreasing", "increasing+concave", "decreasing+convex", "increasing+convex")
KINDS = (*KINDS, "decreasing+concave", "steps+increasing", "steps+decreasing", "linear+increasing")


def drawn(family, score, generator):
    """Return an estimator and a target whose link is linear in the score (rows,)."""
    rows, mean = score.size, np.exp(0.5 * score)
    if family in ("poisson", "negative_binomial"):
        return SNAMRegressor(family=family), generator.poisson(mean).astype(float)
    if family in ("gamma", "tweedie"):
        kept = 1.0 if family == "gamma" else generator.random(rows) < 0.7
        return SNAMRegressor(family=family), mean * generator.gamma(2.0, 0.5, rows) * kept
    if family == "binomial":
        return SNAMClassifier(), (generator.random(rows) < 1.0 / (1.0 + np.exp(-score))).astype(int)
    if family == "multilabel":
        shares = 1.0 / (1.0 + np.exp(-np.stack([score, -score], axis=1)))
        return SNAMClassifier(), (generator.random((rows, 2)) < shares).astype(int)
    if family == "survival":
        time = generator.exponential(size=rows) * np.exp(-score)
        return SNAMSurvival(), survival_target(generator.random(rows) < 0.7, time)
    noise = generator.standard_t(3, size=rows) if family == "huber" else generator.normal(size=rows)
    return SNAMRegressor(family=family), score + noise


def violations(tables, seeds):
    """Count pairs of inputs, one coordinate apart, that are ordered against the shape; half are next numbers."""
    wrong, pairs = 0, 0
    for seed in range(tables):
        generator = np.random.default_rng(seed)
        rows, columns = int(generator.integers(60, 500)), int(generator.integers(2, 6))
        X = generator.normal(size=(rows, columns))
        if generator.random() < 0.5:  # whole numbers, some of them far from 0
            X = np.round(10.0 * X) + generator.choice([0.0, 1e6])
        unit = (X - X.mean(axis=0)) / X.std(axis=0)
        score = np.sin(2.0 * unit[:, 0]) + 0.7 * unit[:, 1] + (np.abs(unit[:, 2]) if columns > 2 else 0.0)
        model, y = drawn(FAMILIES[seed % len(FAMILIES)], score, generator)
        shapes = {column: str(generator.choice(KINDS)) for column in range(columns)}
        model.set_params(shapes=shapes, always_keep=list(range(columns)), random_state=0).fit(X, y)
        per_column = -(-10_000 // columns)
        for column, kind in shapes.items():
            low = X[generator.integers(0, rows, per_column)]
            ends, width = (X[:, column].min(), X[:, column].max()), np.ptp(X[:, column])
            high = low.copy()
            low[:, column] = generator.uniform(ends[0] - width, ends[1] + width, per_column)
            high[:, column] = generator.uniform(low[:, column], ends[1] + width)
            high[::2, column] = np.nextafter(low[::2, column], np.inf)
            change = model.model_.scores(high) - model.model_.scores(low)
            wrong += int(((-change if "decreasing" in kind else change) < 0).any(axis=1).sum())
            pairs += per_column
    return {"tables": tables, "pairs": pairs, "violations": wrong}


def monotone_truths():
    """Return tables with monotone truths: rows, columns, family, and the score of X (rows, columns)."""

    def soft(X):
        return np.tanh(2.0 * X[:, 0]) + np.exp(0.5 * X[:, 1]) - np.sqrt(np.abs(X[:, 2] + 4.0))

    def jumps(X):
        return (X[:, 0] > 0.0) + np.floor(1.5 * X[:, 1]) * 0.5 - (X[:, 2] > 0.7) * 1.5

    def flat(X):
        return np.maximum(X[:, 0], 0.0) ** 2 + np.minimum(X[:, 1], 0.5) - np.maximum(X[:, 2] - 1.0, 0.0) * 3.0

    return {
        "soft 500": (500, 3, "gaussian", soft),
        "soft 5000": (5000, 3, "gaussian", soft),
        "soft 1000 with 10 columns of noise": (1000, 13, "gaussian", soft),
        "flat 1000": (1000, 3, "gaussian", flat),
        "flat 1000 poisson": (1000, 3, "poisson", flat),
        "flat 2000 gamma": (2000, 3, "gamma", flat),
        "soft 2000 two classes": (2000, 3, "binomial", soft),
        "jumps 1000": (1000, 3, "gaussian", jumps),
        "jumps 5000": (5000, 3, "gaussian", jumps),
    }


def scores_of(family, model, X):
    """Return the linear predictor of ours and of boosting at X, shape (rows,)."""
    if hasattr(model, "decision_function"):
        return np.ravel(model.decision_function(X))
    predicted = np.ravel(model.predict(X))
    return 2.0 * np.log(predicted) if family in ("poisson", "gamma") else predicted


def boosting(family, signs, seed):
    """Return scikit-learn's boosting with monotone constraints."""
    if family == "binomial":
        return HistGradientBoostingClassifier(monotonic_cst=signs, random_state=seed)
    loss = {"gaussian": "squared_error"}.get(family, family)
    return HistGradientBoostingRegressor(loss=loss, monotonic_cst=signs, random_state=seed)


def monotone(tables, seeds):
    """Compare the error of the score with and without constraints, and with that of monotone boosting."""
    found = {}
    for name, (rows, columns, family, truth) in monotone_truths().items():
        errors = {"monotone": [], "free": [], "steps": [], "boosting": []}
        seconds = {method: 0.0 for method in errors}
        for seed in range(seeds):
            generator = np.random.default_rng(1000 + seed)
            X, new = generator.normal(size=(rows, columns)), generator.normal(size=(NEW_ROWS, columns))
            center = truth(new).mean()
            model, y = drawn(family, truth(X) - center, generator)
            signs = [1, 1, -1] + [0] * (columns - 3)
            words = {1: "increasing", -1: "decreasing"}
            shapes = {column: words[sign] for column, sign in enumerate(signs) if sign}
            asked = {"monotone": shapes, "free": None, "steps": {key: f"steps+{kind}" for key, kind in shapes.items()}}
            for method in errors:
                started = time.perf_counter()
                fit = boosting(family, signs, seed)
                if method in asked:
                    fit = type(model)(**model.get_params() | {"shapes": asked[method], "random_state": seed})
                predicted = scores_of(family, fit.fit(X, y), new)
                seconds[method] += time.perf_counter() - started
                errors[method].append(float(np.mean((predicted - truth(new) + center) ** 2)))
        means = {method: round(float(np.mean(values)), 5) for method, values in errors.items()}
        wins = sum(ours <= theirs for ours, theirs in zip(errors["monotone"], errors["boosting"], strict=True))
        spent = {method: round(each / seeds, 2) for method, each in seconds.items()}
        found[name] = {"error": means, "seconds": spent, "seeds": seeds, "better than boosting": wins}
        print(name, found[name], flush=True)
    return found


def steps(tables, seeds):
    """Compare steps, curves and boosting on sums of three step functions."""
    found = {}
    for rows, noise, jumps in ((1000, 0.5, 3), (1000, 1.0, 3), (5000, 1.0, 3), (1000, 0.5, 12), (5000, 0.5, 12)):
        errors = {"steps": [], "smooth": [], "boosting": []}
        for seed in range(seeds):
            generator = np.random.default_rng(2000 + seed)
            cuts, sizes = np.sort(generator.normal(size=(3, jumps))), generator.normal(size=(3, jumps + 1))
            X, new = generator.normal(size=(rows, 3)), generator.normal(size=(NEW_ROWS, 3))
            both = np.concatenate([X, new])
            parts = zip(sizes, cuts, both.T, strict=True)
            truth = np.sum([size[np.searchsorted(cut, x)] for size, cut, x in parts], axis=0)
            truth = (truth - truth.mean()) / truth.std()
            y = truth[:rows] + noise * generator.normal(size=rows)
            for method in errors:
                model = HistGradientBoostingRegressor(random_state=seed)
                if method != "boosting":
                    model = SNAMRegressor(shapes=dict.fromkeys(range(3), method), random_state=seed)
                errors[method].append(float(np.mean((model.fit(X, y).predict(new) - truth[rows:]) ** 2)))
        name = f"{rows} rows, noise {noise}, {jumps} jumps a column"
        found[name] = {method: round(float(np.mean(values)), 5) for method, values in errors.items()}
        print(name, found[name], flush=True)
    return found


def lines(tables, seeds):
    """Count the true lines that are found to be lines, and the true curves that are taken for them."""
    found = {}
    for rows in (300, 1000, 5000):
        straight, bent = [], []
        for seed in range(2 * seeds):
            generator = np.random.default_rng(3000 + seed)
            X = generator.normal(size=(rows, 4))
            y = np.sin(2.0 * X[:, 0]) + np.tanh(1.5 * X[:, 1]) + X[:, 2] - 0.5 * X[:, 3] + generator.normal(size=rows)
            explanation = SNAMRegressor(always_keep=[0, 1, 2, 3], random_state=seed).fit(X, y).explain()
            forms = [explanation.feature(f"x{column}").form == "linear" for column in range(4)]
            bent += forms[:2]
            straight += forms[2:]
        found[f"{rows} rows"] = {"lines found": float(np.mean(straight)), "curves lost": float(np.mean(bent))}
        print(rows, found[f"{rows} rows"], flush=True)
    return found


def pairs(tables, seeds):
    """Compare pairs in which the first column must rise with free pairs, with none, and with monotone boosting."""
    truths = {
        "soft": lambda x, z, w: np.log1p(np.exp(4.0 * (x - 1.5))) * z,
        "two": lambda x, z, w: x * z + x * w,
        "steps": lambda x, z, w: 2.0 * (x > 1.5) * (z > 0.5) + z,
    }
    found, named, rising = {}, [(0, 1), (0, 2)], {0: "increasing"}
    for name, rows in ((name, rows) for name in truths for rows in (500, 4000)):
        methods = {"monotone": (rising, named), "free": (None, named), "no pairs": (rising, 0), "boosting": None}
        errors, seconds = {method: [] for method in methods}, dict.fromkeys(methods, 0.0)
        for seed in range(seeds):
            generator = np.random.default_rng(4000 + seed)
            both = generator.uniform(size=(rows + NEW_ROWS, 3)) * [3.0, 1.0, 1.0]
            truth = truths[name](*both.T)
            y = truth[:rows] + 0.5 * generator.normal(size=rows)
            for method, asked in methods.items():
                model = boosting("gaussian", [1, 0, 0], seed)
                if asked is not None:
                    model = SNAMRegressor(shapes=asked[0], pairs=asked[1], random_state=seed)
                started = time.process_time()
                predicted = model.fit(both[:rows], y).predict(both[rows:])
                seconds[method] += time.process_time() - started
                errors[method].append(float(np.mean((predicted - truth[rows:]) ** 2)))
        found[f"{name} {rows}"] = {
            method: [round(float(np.mean(errors[method])), 5), round(seconds[method] / seeds, 2)] for method in methods
        }
        print(name, rows, found[f"{name} {rows}"], flush=True)
    return found


PARTS = {"violations": violations, "monotone": monotone, "pairs": pairs, "steps": steps, "lines": lines}


def main():
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    report = json.loads(wanted.out.read_text()) if wanted.out and wanted.out.exists() else {}
    for part in wanted.parts or PARTS:
        report[part] = PARTS[part](wanted.tables, wanted.seeds)
        if wanted.out:
            wanted.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
