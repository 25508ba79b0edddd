"""What prediction intervals of nearly empty models cover: no feature, one 0/1 feature, one rare 0/1 feature.

Usage: python benchmarks/interval_cases.py [--quick] [--out FILE]

Each setting is a family, a case and a number of rows. Coverage at level 0.9 is the exact probability of a new y under
the true distribution, in the middle of two columns of noise: "mean" over tables, its standard error, and the "worst".
"true" is the coverage of the interval between the true quantiles 0.05 and 0.95, and "least" the smallest coverage, 0.9
or more, of any interval that y allows: both are 0.9, and more for counts. Where "least" is above 0.92, as for the small
counts of "poisson", no interval covers between 0.88 and 0.92; "poisson, large" has larger counts. A mean is "within"
from 0.88 to 0.92, or to 0.02 above "true". Only tables count whose model selects what the case says; "drawn" is the
number of all. "warned" counts tables with a warning.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd
from scipy import stats

from sparsenam import SNAMRegressor

LEVEL, ROOM = 0.9, 0.02
SHAPE = 2.0  # of the gamma distribution
ROWS = {40: 200, 100: 120, 300: 60, 1000: 40, 3000: 30}  # number of tables by number of rows
CASES = {"empty": 0.5, "binary": 0.5, "rare": 0.05}  # share of ones
FAMILIES = ("gaussian", "poisson", "poisson, large", "gamma")
MEANS = {"gaussian": (0.0, 3.0), "poisson": (2.0, 8.0), "poisson, large": (40.0, 120.0), "gamma": (2.0, 10.0)}


def true_law(family, means):
    """Return the distribution of y, given its means."""
    if family == "gaussian":
        return stats.norm(means)
    return stats.gamma(SHAPE, scale=means / SHAPE) if family == "gamma" else stats.poisson(means)


def covered(law, lower, upper, family):
    """Return the probability that y lies between two ends, which belong to the interval."""
    return law.cdf(upper) - law.cdf(np.ceil(lower) - 1.0 if "poisson" in family else lower)


def true_coverages(law, family):
    """Return "true" and "least" for each mean, shape (2, means)."""
    ideal = covered(law, law.ppf(0.5 - 0.5 * LEVEL), law.ppf(0.5 + 0.5 * LEVEL), family)
    if "poisson" not in family:
        return np.array([ideal, np.full_like(ideal, LEVEL)])
    ends = law.cdf(np.arange(-1, 400)[:, None])
    every = ends[None] - ends[:, None]
    return np.array([ideal, np.where(every >= LEVEL, every, 1.0).min(axis=(0, 1))])


def one_table(family, case, rows, seed):
    """Return the coverage of a table's intervals, "true", "least", and if it warned; None for another selection."""
    generator, share, means = np.random.default_rng(seed), CASES[case], np.asarray(MEANS[family])
    flag = generator.permutation(np.arange(rows) < round(share * rows)).astype(float)
    table = pd.DataFrame({"flag": flag, "noise": generator.normal(size=rows), "other": generator.uniform(size=rows)})
    means = means if case != "empty" else means[[0, 0]]
    y = true_law(family, means[flag.astype(int)]).rvs(random_state=generator)
    settings = {} if family == "gaussian" else {"family": family.split(",")[0]}
    keep = None if case == "empty" else ["flag"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SNAMRegressor(random_state=0, always_keep=keep, **settings).fit(table, np.asarray(y, dtype=float))
        at = pd.DataFrame({"flag": [0.0, 1.0], "noise": 0.0, "other": 0.5})
        found = model.predict_interval(at, LEVEL)
    if model.get_support().tolist() != [case != "empty", False, False]:
        return None
    law = true_law(family, means)
    by_level = covered(law, np.ravel(found.lower), np.ravel(found.upper), family)
    return *(np.vstack([by_level, true_coverages(law, family)]) @ [1.0 - share, share]), bool(caught)


def setting(family, case, rows, tables):
    """Return what intervals cover in a setting."""
    found, seed = [], 0
    while len(found) < tables:
        result = one_table(family, case, rows, 10_000 + seed)
        seed += 1
        if result is not None:
            found.append(result)
    coverage, true, least, warned = np.array(found, dtype=float).T
    return {
        "mean": round(float(coverage.mean()), 4),
        "error": round(float(coverage.std(ddof=1)) / tables**0.5, 4),
        "worst": round(float(coverage.min()), 4),
        "true": round(float(true[0]), 4),
        "least": round(float(least[0]), 4),
        "within": bool(LEVEL - ROOM <= coverage.mean() <= max(LEVEL, float(true[0])) + ROOM),
        "tables": tables,
        "drawn": seed,
        "warned": int(warned.sum()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "interval_cases.json")
    given = parser.parse_args()
    results = {}
    for family in FAMILIES:
        for case in CASES:
            for rows, tables in ROWS.items():
                name = f"{family} {case} {rows}"
                results[name] = setting(family, case, rows, tables // 10 if given.quick else tables)
                print(name, results[name], flush=True)
    worst = min(results, key=lambda name: results[name]["worst"])
    found = {"worst_setting": worst, "all_within": all(each["within"] for each in results.values()), **results}
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
