"""Tables on which no rule was made: each loader returns kind, X, y. All come with installed packages.

statsmodels and palmerpenguins are needed for the tables that bear their names; lifelines and scikit-survival for
those of survival times.
"""

import numpy as np
import pandas as pd
from sklearn import datasets

NOISE_COLUMNS = 10


def friedman(make, noise, rows=400):
    """Return one of Friedman's functions of 4 or 5 columns, and ten columns that say nothing."""

    def load():
        X, y = make(n_samples=rows, noise=noise, random_state=60)
        extra = np.random.default_rng(61).uniform(size=(rows, NOISE_COLUMNS))
        return "regression", np.column_stack([X, extra]), y

    return load


def friedman1():
    # it comes with columns of noise: 5 of 15 matter
    X, y = datasets.make_friedman1(n_samples=400, n_features=5 + NOISE_COLUMNS, noise=1.0, random_state=60)
    return "regression", X, y


def sparse_linear():
    X, y = datasets.make_regression(n_samples=300, n_features=50, n_informative=8, noise=60.0, random_state=62)
    return "regression", X, y


def digits():
    """Return 600 of the digits: ten classes of small pictures."""
    X, y = datasets.load_digits(return_X_y=True)
    rows = np.random.default_rng(63).choice(len(y), 600, replace=False)
    return "classification", X[rows], y[rows]


def iris():
    return "classification", *datasets.load_iris(return_X_y=True)


def statsmodels_table(name):
    import statsmodels.datasets

    return getattr(statsmodels.datasets, name).load_pandas().data


def some(table, rows, seed):
    """Return a random part of a table."""
    return table.iloc[np.random.default_rng(seed).choice(len(table), min(rows, len(table)), replace=False)]


def fair():
    table = some(statsmodels_table("fair"), 1500, 64)
    return "classification", table.drop(columns="affairs"), (table.affairs > 0).to_numpy(int)


def randhie():
    """Return doctor visits, on the scale of the logarithm."""
    table = some(statsmodels_table("randhie"), 3000, 65)
    return "regression", table.drop(columns="mdvis"), np.log1p(table.mdvis.to_numpy(float))


def anes96():
    table = statsmodels_table("anes96")
    return "classification", table.drop(columns=["vote", "logpopul"]), table.vote.to_numpy(int)


def star98():
    """Return the share of pupils above the median of the nation, in 303 districts."""
    table = statsmodels_table("star98")
    share = table.NABOVE / (table.NABOVE + table.NBELOW)
    return "regression", table.drop(columns=["NABOVE", "NBELOW"]), share.to_numpy(float)


def penguins():
    import palmerpenguins

    table = palmerpenguins.load_penguins()
    return "classification", table.drop(columns=["species", "year"]), table.species.to_numpy(str)


def censored(table, event, time):
    """Return a table of survival times; an event of 0 is censored."""
    y = np.empty(len(table), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = table[event].to_numpy(float) > 0, table[time].to_numpy(float)
    return "survival", table.drop(columns=[event, time]), y


def rossi():
    from lifelines.datasets import load_rossi

    return censored(load_rossi(), "arrest", "week")


def gbsg2():
    from lifelines.datasets import load_gbsg2

    return censored(load_gbsg2(), "cens", "time")


def lung():
    """Return the lung cancer table with its missing cells; the number of the institution is a name."""
    from lifelines.datasets import load_lung

    table = load_lung()
    return censored(table.drop(columns="inst"), "status", "time")


def whas500():
    from sksurv.datasets import load_whas500

    X, y = load_whas500()
    table = pd.DataFrame(X).assign(event=y["fstat"], days=y["lenfol"])
    return censored(table, "event", "days")


JUDGES = {
    "friedman1": friedman1,
    "friedman2": friedman(datasets.make_friedman2, 125.0),
    "friedman3": friedman(datasets.make_friedman3, 0.1),
    "sparse_linear": sparse_linear,
    "star98": star98,
    "randhie": randhie,
    "iris": iris,
    "penguins": penguins,
    "fair": fair,
    "anes96": anes96,
    "rossi": rossi,
    "gbsg2": gbsg2,
    "lung": lung,
    "whas500": whas500,
    "digits": digits,  # long: ten classes
}
RULES = {
    "compact": {"rule": "compact"},
    "one_se": {"rule": "one_se"},
    "best": {"rule": "best"},
    "all columns": {"alpha": 0.0},
}
