"""Audits: planted harm that must be found, tables without harm that must raise no flag, and COMPAS.

Usage: python benchmarks/audits.py [PART …] [--seeds N] [--first N] [--out FILE]
with PART among harm, null, compas (all by default). JSON is printed and, with --out, written: parts measured now
replace those of the file.

harm: a column that matters only within one level of a category, which 5 % of the rows have; found means that the column
is flagged within that level. A column that the model kept all the same is dropped by an edit first, since only dropped
ones are audited. null: no dropped column matters anywhere. COMPAS is measured in aggregate only.
"""

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.append(str(Path(__file__).parents[1]))  # paper/ is beside this folder

import numpy as np
import pandas as pd

from paper.data import load_compas_recidivism
from sparsenam import SNAMClassifier, SNAMRegressor

COLUMNS = 10
# the planted slopes, in deviations of the noise and in log odds
SLOPES = {"gaussian": (1.0,), "binomial": (1.5, 2.0)}


def table(seed, rows, family, slope):
    """Return columns, a target and an estimator; x0 and x1 matter everywhere, x5 on the island by a slope."""
    draw = np.random.default_rng(seed)
    X = pd.DataFrame({f"x{index}": draw.normal(size=rows) for index in range(COLUMNS)})
    X["region"] = np.where(draw.random(rows) < 0.05, "island", draw.choice(["north", "south", "west"], rows))
    X["kind"] = draw.choice(list("abcd"), rows)
    X.loc[draw.random(rows) < 0.1, "x7"] = np.nan
    score = np.sin(2.0 * X["x0"]) + X["x1"]
    score = score + slope * X["x5"] * (X["region"] == "island")
    if family == "gaussian":
        return X, (score + draw.normal(size=rows)).to_numpy(), SNAMRegressor(random_state=seed)
    y = (draw.random(rows) < 1.0 / (1.0 + np.exp(-score))).astype(int).to_numpy()
    return X, y, SNAMClassifier(random_state=seed)


def audited(seed, rows, family, slope):
    """Return the audit of a default fit on its training rows, and whether the planted column had to be dropped."""
    X, y, model = table(seed, rows, family, slope)
    model.fit(X, y)
    kept = slope > 0 and "x5" in model.get_feature_names_out()
    if kept:
        model = model.edit().drop("x5", reason="for the audit")
    return model.audit(X, y), bool(kept)


def harm(seeds, first):
    """Count how often the planted column is flagged within its level, and what the audit says that it costs."""
    found = []
    cases = [(family, slope, rows) for rows in (2000, 4000) for family in SLOPES for slope in SLOPES[family]]
    for family, slope, rows in cases:
        costs, kept, others, hits = [], 0, 0, 0
        for seed in range(first, first + seeds):
            audit, was_kept = audited(seed, rows, family, slope)
            places = {(harm.column, harm.groups, harm.label): harm for harm in audit.harms}
            hit = places["x5", "region", "island"]
            hits, kept = hits + hit.flagged, kept + was_kept
            others += sum(harm.column not in ("x5", "region") for harm in audit.flagged)
            costs.append(hit.cost)
        found.append(
            {"family": family, "slope": slope, "rows": rows, "seeds": seeds, "found": hits, "kept_by_the_fit": kept}
            | {"flags_of_other_columns": others, "mean_cost": float(np.mean(costs))}
        )
        print(json.dumps(found[-1]), flush=True)
    return found


def null(seeds, first):
    """Count the audits with any flag where no dropped column matters."""
    found = []
    for family in SLOPES:
        for rows in (2000, 4000):
            audits = [audited(seed, rows, family, 0.0)[0] for seed in range(first, first + seeds)]
            flagged = [audit for audit in audits if audit.flagged]
            combinations = int(np.mean([len(audit.harms) for audit in audits]))
            found.append(
                {"family": family, "rows": rows, "seeds": seeds, "audits_with_a_flag": len(flagged)}
                | {"combinations": combinations, "flags": [str(audit.flagged[0].column) for audit in flagged]}
            )
            print(json.dumps(found[-1]), flush=True)
    return found


def compas(seeds, first):
    """Audit a default fit of COMPAS on its rows, and say what was flagged."""
    task = load_compas_recidivism()
    X = pd.DataFrame(task.X, columns=list(task.feature_names)) if isinstance(task.X, np.ndarray) else task.X
    audit = SNAMClassifier(random_state=first).fit(X, task.y).audit(X, task.y)
    shown = [harm for harm in audit.harms if harm.flagged] + list(audit.harms[:10])
    return {
        "rows": audit.rows,
        "dropped": list(audit.dropped),
        "combinations": len(audit.harms),
        "most_certain": [
            {"column": harm.column, "subgroup": harm.subgroup, "rows": harm.rows, "cost": harm.cost}
            | {"error": harm.error, "share": harm.share, "share_error": harm.share_error, "p_value": harm.p_value}
            for harm in dict.fromkeys(shown)
        ],
    }


PARTS = {"harm": harm, "null": null, "compas": compas}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = {}
    if arguments.out is not None and arguments.out.exists():
        results = json.loads(arguments.out.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in arguments.parts or PARTS:
            results[part] = PARTS[part](arguments.seeds, arguments.first)
            if arguments.out is not None:
                arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
