"""False discovery rates and power of rule=FDR on simulated tables, and its time beside the default fit.

Usage: python benchmarks/discoveries.py SETTING [SETTING …] [--repeats N] [--first SEED] [--method M] [--jobs N]
[--timed N] [--out FILE]. JSON is printed and, with --out, written: settings measured now replace those of the file.
A discovery is false where the target does not depend on the column given all others. Seconds are of the processor.
At q = 0.2 the statistics of the fit at 0.1 are read again, unless "auto" would take the other test there.
"""

import argparse
import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd
from scipy import stats

from sparsenam import SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.datasets import make_regression
from sparsenam.discover.fdr import ENOUGH_FOR_KNOCKOFFS, benjamini_hochberg, fewest, knockoff_threshold
from sparsenam.selection import FDR

ROWS, COLUMNS, TRUE, AMPLITUDE = 500, 60, 15, 0.28
SHAPES = (
    lambda x: np.sin(2 * x),
    lambda x: x,
    lambda x: x**2,
    lambda x: np.tanh(3 * x),
    np.abs,
    lambda x: np.exp(-2 * x**2),
    lambda x: np.sign(x) * x**2,
    lambda x: np.cos(2.5 * x),
    lambda x: np.maximum(x, 0.0),
)
CORRELATION = {"ar5": 0.5, "ar7": 0.7, "t3": 0.0}
SETTINGS = (
    *("normal", "ar5", "ar7", "t3", "mixed", "quadratic", "logistic", "poisson", "few", "between", "null"),
    *("categories", "survival", "classes", "median", "logistic_ar7", "few_ar7", "squares"),
    *("few_huber", "few_quantile", "few_gamma", "few_tweedie", "few_negative_binomial", "few_multilabel"),
)
FAMILY_TABLES = SETTINGS[-6:]
FEW_ROWS, FEW_COLUMNS, FEW_TRUE = 400, 12, 3


def columns_of(setting, generator):
    """Return the columns (rows, columns) of a setting."""
    rho = 0.7 if setting.endswith("ar7") else CORRELATION.get(setting, 0.0)
    place = np.arange(COLUMNS)
    correlation = rho ** np.abs(place[:, None] - place)
    X = generator.multivariate_normal(np.zeros(COLUMNS), correlation, size=ROWS)
    if setting == "mixed":
        X[:, 1::4] = np.exp(X[:, 1::4])
        X[:, 2::4] = stats.poisson.ppf(stats.norm.cdf(X[:, 2::4]), 2.0)
        X[:, 3::4] = X[:, 3::4] > 0.5
    if setting == "t3":
        X *= np.sqrt(3.0 / generator.chisquare(3, size=ROWS))[:, None]
    if setting in ("quadratic", "squares"):
        X[:, 1::2] = 0.8 * (X[:, ::2] ** 2 - 1.0) / np.sqrt(2.0) + 0.6 * X[:, 1::2]
    return X


def score_of(X, true, amplitude=AMPLITUDE):
    """Return Σ of effects of equal variance, one for each true column, shape (rows,)."""
    total = np.zeros(len(X))
    for number, column in enumerate(true):
        x, values = X[:, column], np.unique(X[:, column]).size
        unit = np.log(x) if x.min() > 0 and values > 20 and stats.skew(x) > 2 else x
        effect = (
            SHAPES[number % len(SHAPES)](unit) if values > 20 else x if values == 2 else SHAPES[number % 3](x - 2.0)
        )
        total += amplitude * (effect - effect.mean()) / effect.std()
    return total


def table_of(setting, seed):
    """Return an estimator's class and settings, a table, a target and the true columns of a setting."""
    generator = np.random.default_rng([seed, SETTINGS.index(setting)])
    if setting == "few":
        task = make_regression(ROWS, 24, seed=int(generator.integers(2**31)))
        return partial(SNAMRegressor), task.X, task.y, np.arange(4)
    if setting == "categories":
        return with_categories(generator)
    if setting in FAMILY_TABLES:
        return of_family(setting.removeprefix("few_"), generator)
    X = columns_of(setting, generator)
    count = {"between": 10, "null": 0, "survival": 8, "classes": 8, "median": 8, "few_ar7": 4}.get(setting, TRUE)
    places = {"quadratic": np.arange(0, COLUMNS, 2), "squares": np.arange(1, COLUMNS, 2)}.get(
        setting, np.arange(COLUMNS)
    )
    true = np.sort(generator.choice(places, count, replace=False))
    if setting == "few_ar7":
        return partial(SNAMRegressor), X, score_of(X, true, 0.6) + generator.normal(size=ROWS), true
    score = score_of(X, true)
    if setting.startswith("logistic"):
        return partial(SNAMClassifier), X, (generator.random(ROWS) < 1 / (1 + np.exp(-1.6 * score))).astype(int), true
    if setting == "poisson":
        return partial(SNAMRegressor, family="poisson"), X, generator.poisson(np.exp(0.3 + 0.7 * score)), true
    if setting == "survival":
        hazard = generator.exponential(size=ROWS) * np.exp(-1.5 * score)
        limit = generator.exponential(size=ROWS, scale=2.0)
        return partial(SNAMSurvival), X, survival_target(hazard <= limit, np.minimum(hazard, limit)), true
    if setting == "classes":
        others = score_of(X, true[::-1])
        noise = generator.gumbel(size=(ROWS, 3))
        return partial(SNAMClassifier), X, (2.5 * np.column_stack([score, others, -score]) + noise).argmax(1), true
    if setting == "median":
        return partial(SNAMRegressor, family="quantile"), X, 1.5 * score + generator.standard_t(3, size=ROWS), true
    return partial(SNAMRegressor), X, score + generator.normal(size=ROWS), true


def of_family(family, generator):
    """Return a small table of correlated columns, a target of a family, and the few columns that it depends on."""
    place = np.arange(FEW_COLUMNS)
    X = generator.multivariate_normal(np.zeros(FEW_COLUMNS), 0.5 ** np.abs(place[:, None] - place), size=FEW_ROWS)
    true = np.sort(generator.choice(FEW_COLUMNS, FEW_TRUE, replace=False))
    score = score_of(X, true, 1.0)
    if family == "multilabel":
        scores = np.column_stack([score_of(X, np.roll(true, shift), 0.8) for shift in range(2)])
        labels = generator.random(scores.shape) < 1 / (1 + np.exp(-scores))
        return partial(SNAMClassifier, family="multilabel"), X, labels.astype(int), true
    mean = np.exp(0.5 + 0.35 * score)
    if family == "gamma":
        y = generator.gamma(1.5, mean / 1.5)
    elif family == "tweedie":  # Σ of as many amounts as a count says, of variance 1.5 mean^1.5
        count = generator.poisson(np.sqrt(mean) / 0.75)
        y = generator.gamma(np.maximum(count, 1)) * 0.75 * np.sqrt(mean) * (count > 0)
    elif family == "negative_binomial":
        y = generator.poisson(mean * generator.gamma(2.0, 0.5, size=FEW_ROWS))
    else:
        y = 0.5 * score + generator.standard_t(3, size=FEW_ROWS)
    return partial(SNAMRegressor, family=family), X, y, true


def with_categories(generator):
    """Return a table of numbers, categories of 3 to 40 levels and columns with missing cells; pairs are dependent."""
    G = generator.normal(size=(ROWS, 30))
    G[:, 1::2] = 0.6 * G[:, ::2] + 0.8 * G[:, 1::2]
    columns, effects, true = {}, np.zeros(ROWS), np.sort(generator.choice(30, 8, replace=False))
    for column in range(30):
        x, name = G[:, column], f"c{column:02d}"
        number = np.where(np.isin(true, column))[0]
        if column % 3 == 0:
            levels = (3, 8, 40)[column // 3 % 3]
            codes = np.minimum((stats.norm.cdf(x) * levels).astype(int), levels - 1)
            effect = generator.normal(size=levels)[codes]
            columns[name] = pd.Categorical([f"level {code}" for code in codes])
        elif column % 3 == 1:
            gone = generator.random(ROWS) < stats.norm.cdf(0.7 * x - 1.0)
            effect = SHAPES[column % len(SHAPES)](x) * ~gone
            columns[name] = np.where(gone, np.nan, x)
        else:
            effect, columns[name] = SHAPES[column % len(SHAPES)](x), x
        if number.size:
            effects += 0.45 * (effect - effect.mean()) / effect.std()
    return partial(SNAMRegressor), pd.DataFrame(columns), effects + generator.normal(size=ROWS), true


def found_at(q, model):
    """Return the discoveries at another q from the statistics of a fit, as indices of columns."""
    told, names = model.fdr_, list(model.encoder_.names)
    values = np.array(list(told.statistics.values()))
    if told.p_values is None:
        threshold = knockoff_threshold(values, q)
        mask = np.zeros(values.size, dtype=bool) if threshold is None else values >= threshold
    else:
        mask = benjamini_hochberg(np.array(list(told.p_values.values())), q)
    return np.array([names.index(name) for name, kept in zip(told.statistics, mask, strict=True) if kept], dtype=int)


def one(seed, timed, *, setting, method):
    """Return what one table gives."""
    warnings.simplefilter("ignore")
    make, X, y, true = table_of(setting, seed)
    seconds = {}
    if timed:
        started = time.process_time()
        make(random_state=seed).fit(X, y)
        seconds["default"] = time.process_time() - started
    started = time.process_time()
    model = make(random_state=seed, rule=FDR(0.1, method)).fit(X, y)
    seconds["fdr"] = time.process_time() - started
    result = {"seconds": seconds, "method": model.fdr_.method, "construction": model.fdr_.construction}
    for q in (0.1, 0.2):
        if q == 0.2 and method == "auto" and model.certificate_ is not None:
            near = (
                ENOUGH_FOR_KNOCKOFFS * fewest(0.2) <= len(model.certificate_.kept) < ENOUGH_FOR_KNOCKOFFS * fewest(0.1)
            )
            if near and model.fdr_.method == "split" and setting != "categories":
                model = make(random_state=seed, rule=FDR(0.2, method)).fit(X, y)
        found = found_at(q, model)
        false = np.setdiff1d(found, true).size
        power = np.intersect1d(found, true).size / max(true.size, 1)
        result[f"q={q}"] = {"false": false / max(found.size, 1), "power": power, "size": int(found.size)}
    return result


def summary(results):
    """Return means and standard errors over the tables."""
    methods = [result["method"] for result in results]
    timed = [result["seconds"] for result in results if "default" in result["seconds"]]
    told = {
        "repeats": len(results),
        "knockoffs": methods.count("knockoffs"),
        "split": methods.count("split"),
        "sequential": sum(result["construction"] == "sequential" for result in results),
        "times_default": round(float(np.median([each["fdr"] / each["default"] for each in timed])), 2)
        if timed
        else None,
        "seconds": round(float(np.median([result["seconds"]["fdr"] for result in results])), 2),
    }
    for q in ("q=0.1", "q=0.2"):
        shares = np.array([result[q]["false"] for result in results])
        error = float(shares.std(ddof=1) / np.sqrt(shares.size)) if shares.size > 1 else 0.0
        told[q] = {
            "fdr": round(float(shares.mean()), 4),
            "error": round(error, 4),
            "power": round(float(np.mean([result[q]["power"] for result in results])), 4),
            "size": round(float(np.mean([result[q]["size"] for result in results])), 2),
        }
    return told


def main():
    """Measure the settings that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="+", choices=SETTINGS)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--method", default="auto", choices=("auto", "knockoffs", "split"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timed", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    told = json.loads(given.out.read_text()) if given.out and given.out.exists() else {}
    seeds = range(given.first, given.first + given.repeats)
    for setting in given.settings:
        run = partial(one, setting=setting, method=given.method)
        timed = [seed < given.first + given.timed for seed in seeds]
        if given.jobs == 1:
            results = list(map(run, seeds, timed))
        else:
            with ProcessPoolExecutor(given.jobs) as pool:
                results = list(pool.map(run, seeds, timed))
        key = setting if given.method == "auto" else f"{setting}/{given.method}"
        told[key] = {"command": f"discoveries.py {setting} --first {given.first}", **summary(results)}
        print(json.dumps({key: told[key]}), flush=True)
        if given.out:
            given.out.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
