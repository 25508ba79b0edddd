"""Our defaults and EBM's on the paper's tasks, in one run: accuracy, features kept, seconds, ratios.

Usage: python benchmarks/tasks.py TASK [--seeds N] [--ebm N] [--out FILE]
with TASK one of regression, classification, correlated, wide, california, superconductivity, compas.
EBM (mains only, `interpret-core`) runs on the first ``--ebm`` seeds; 0 leaves it out. Real data are read from
the folder in SPARSENAM_DATA, by default ../shared/data.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

import sparsenam
from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.datasets import make_classification, make_regression

DATA = Path(os.environ.get("SPARSENAM_DATA", Path(__file__).parents[2] / "shared" / "data"))


def california(seed):
    d = pd.read_csv(DATA / "cal_housing.data", header=None).to_numpy(float)
    X = d[:, [7, 2, 3, 4, 5, 6, 1, 0]].copy()
    X[:, 2] /= X[:, 5]
    X[:, 3] /= X[:, 5]
    X[:, 5] = X[:, 4] / X[:, 5]
    return X, d[:, 8] / 1e5, None


def superconductivity(seed):
    t = pd.read_csv(DATA / "superconductivity_train.csv.gz")
    u = pd.read_csv(DATA / "superconductivity_unique_m.csv.gz")
    X = pd.concat([t.drop(columns="critical_temp"), u.drop(columns=["critical_temp", "material"])], axis=1)
    return X.loc[:, X.var() >= 0.05].to_numpy(float), t.critical_temp.to_numpy(float), None


def compas(seed):
    d = pd.read_csv(DATA / "compas-scores-two-years.csv")
    f = d[
        d.days_b_screening_arrest.between(-30, 30)
        & (d.is_recid != -1)
        & (d.c_charge_degree != "O")
        & (d.score_text != "N/A")
    ]
    columns = {"priors_count": f.priors_count, "two_year_recid": f.two_year_recid}
    columns |= {"sex_Female": f.sex == "Female", "charge_M": f.c_charge_degree == "M"}
    columns |= {f"age_{age}": f.age_cat == age for age in ("Less than 25", "25 - 45", "Greater than 45")}
    races = ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")
    columns |= {f"race_{race}": f.race == race for race in races}
    return pd.DataFrame(columns).to_numpy(float), (f.score_text != "Low").to_numpy(float), None


def synthetic(make, **settings):
    def load(seed):
        task = make(seed=seed, **settings)
        return task.X, task.y, task.effects

    return load


TASKS = {
    "regression": (synthetic(make_regression), "regression", 20),
    "classification": (synthetic(make_classification), "classification", 20),
    "correlated": (synthetic(make_regression, correlation=0.7), "regression", 10),
    "wide": (synthetic(make_regression, n_rows=500, n_features=10_000), "regression", 10),
    "california": (california, "regression", 3),
    "superconductivity": (superconductivity, "regression", 2),
    "compas": (compas, "classification", 5),
}


def measure(model, kind, X, y, effects):
    """Return what the paper measures on test rows."""
    if kind == "regression":
        result = {"mse": float(np.mean((model.predict(X) - y) ** 2))}
    else:
        chances = model.predict_proba(X)[:, 1]
        result = {
            "accuracy": float(np.mean((chances > 0.5) == y)),
            "cross_entropy": float(log_loss(y, chances)),
            "auc": float(roc_auc_score(y, chances)),
        }
    if effects is not None and hasattr(model, "effects"):
        result["identification"] = float(np.sum((model.effects(X) - effects).var(axis=0)) / X.shape[1])
    return result


def ours(kind, seed):
    return (SNAMRegressor if kind == "regression" else SNAMClassifier)(random_state=seed)


def ebm(kind, seed):
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    make = ExplainableBoostingRegressor if kind == "regression" else ExplainableBoostingClassifier
    return make(interactions=0, random_state=seed)


def run(name, n_seeds, n_ebm):
    """Return one record for each method and seed."""
    load, kind, _ = TASKS[name]
    records = []
    for seed in range(n_seeds):
        X, y, effects = load(seed)
        rows = np.arange(len(y))
        # the wide task is about selection with 500 rows, so all 500 are trained on
        train, test = (rows, rows) if name == "wide" else train_test_split(rows, test_size=0.2, random_state=seed)
        for method, make in (("sparsenam", ours), ("ebm", ebm)):
            if method == "ebm" and seed >= n_ebm:
                continue
            started = time.perf_counter()
            model = make(kind, seed).fit(X[train], y[train])
            seconds = time.perf_counter() - started
            record = {"method": method, "seed": seed, "seconds": seconds}
            record |= measure(model, kind, X[test], y[test], None if effects is None else effects[test])
            if method == "sparsenam":
                support = np.flatnonzero(model.get_support())
                record |= {
                    "features": int(support.size),
                    "gap": model.certificate_.gap,
                    "alpha": model.alpha_,
                }
                if effects is not None:
                    record |= {"support": support.tolist(), "exact": support.tolist() == [0, 1, 2, 3]}
            records.append(record)
            print(json.dumps({key: record[key] for key in record}), flush=True)
    return records


def summary(records):
    """Return means over seeds for each method, and the ratio of times on shared seeds."""
    frame = pd.DataFrame(records)
    numbers = frame.drop(columns=[c for c in ("support", "seed") if c in frame])
    means = {
        method: {key: round(float(value), 5) for key, value in part.mean(numeric_only=True).dropna().items()}
        for method, part in numbers.groupby("method")
    }
    times = frame.pivot(index="seed", columns="method", values="seconds").dropna()
    if "ebm" in times:
        means["ebm seconds / ours, median"] = round(float((times.ebm / times.sparsenam).median()), 2)
    if "exact" in frame:
        means["exact supports"] = int(frame.exact.fillna(False).sum())
    return means


def main():
    """Run one task and write its JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--ebm", type=int, default=0)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    n_seeds = TASKS[wanted.task][2] if wanted.seeds is None else wanted.seeds
    records = run(wanted.task, n_seeds, wanted.ebm)
    versions = {"sparsenam": sparsenam.__version__, "torch": torch.__version__, "numpy": np.__version__}
    report = {
        "task": wanted.task,
        "summary": summary(records),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "versions": versions,
        "threads": torch.get_num_threads(),
        "records": records,
    }
    print(json.dumps(report["summary"], indent=2))
    if wanted.out:
        wanted.out.parent.mkdir(parents=True, exist_ok=True)
        wanted.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
