"""The tables of the paper, as arrays: synthetic ones drawn from a seed, real ones read from the folder SPARSENAM_DATA.

A loader takes a seed and returns X, y and the true effects, which are ``None`` where nobody knows them.
"""

import os
from pathlib import Path

import pandas as pd

from sparsenam.datasets import make_classification, make_regression

DATA = Path(os.environ.get("SPARSENAM_DATA") or Path(__file__).parents[2] / "shared" / "data")


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


# the loader and what is predicted
TASKS = {
    "regression": (synthetic(make_regression), "regression"),
    "classification": (synthetic(make_classification), "classification"),
    "correlated": (synthetic(make_regression, correlation=0.7), "regression"),
    "wide": (synthetic(make_regression, n_rows=500, n_features=10_000), "regression"),
    "california": (california, "regression"),
    "superconductivity": (superconductivity, "regression"),
    "compas": (compas, "classification"),
}
