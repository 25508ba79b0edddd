"""Ways of fitting a small model, alone and two at a time.

A way changes the table, the target, the settings of the estimator, or where the table is. Ways of different kinds can
be asked for together; two ways of the same kind, such as two kinds of target, exclude each other.
"""

import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold

from sparsenam import (
    FDR,
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
    survival_target,
)

ROWS = 300
SAMPLE, BLOCK = 160, 60  # rows of the sample and of a block of a table that counts as large
LARGE = {"SAMPLE_ROWS": SAMPLE, "BLOCK_ROWS": BLOCK}

# each way with its kind, of which a model has one, and how it is asked for
WAYS = {
    "plain": ("plain", "nothing set: numbers in a table in memory, a number as target"),
    "pairs": ("pairs", '`pairs=[("age", "dose")]`'),
    "shapes": ("shapes", '`shapes={"dose": "increasing"}`; `"linear"` for three classes'),
    "categories": ("categories", "a column of text"),
    "missing cells": ("missing cells", "a column with missing cells"),
    "weights": ("weights", "`fit(X, y, sample_weight=…)`"),
    "counts as weights": ("weights", '`weights="counts"` and `sample_weight`'),
    "exposure": ("target", '`family="poisson"` and `fit(X, y, exposure=…)`'),
    "groups": ("groups", "`cv=GroupKFold(5)` and `fit(X, y, groups=…)`"),
    "several outputs": ("target", "y with two columns of numbers"),
    "two classes": ("target", "`SNAMClassifier`, y with two labels"),
    "classes": ("target", "`SNAMClassifier`, y with three labels"),
    "survival": ("target", "`SNAMSurvival`"),
    "far-out rows": ("far-out rows", "three rows with cells at 25 to 40 times the range of all others"),
    "large table": (
        "large table",
        "more rows than the sample that chooses the columns; the tests make the sample small",
    ),
    "Parquet": ("Parquet", '`fit("table.parquet", "y")`'),
    "network": ("model", "`network=Network(…)`, with the activation ReLU"),
    "GELU network": ("model", '`network=Network(activation="gelu")`, as for every smooth activation'),
    "random features": ("model", "`RandomFeatureSNAMRegressor` and `…Classifier`"),
    "FDR": ("FDR", "`rule=FDR(q=0.2)`"),
    "edited": ("edited", "a fitted model, changed by `edit().flatten(…)`"),
}
# with these a large table in memory is fitted at once, without a sample
AT_ONCE = ("shapes", "groups", "survival", "network", "GELU network", "random features")
# the random feature estimators have no parameter for these
WITHOUT_PARAMETER = {
    ("pairs", "random features"),
    ("shapes", "random features"),
    ("counts as weights", "random features"),
    ("survival", "random features"),
}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model with its rows: what ``fit`` was given, as tables in memory."""

    ways: tuple[str, ...]
    model: object
    X: pd.DataFrame
    y: np.ndarray
    weights: np.ndarray | None
    exposure: np.ndarray | None
    groups: np.ndarray | None

    @property
    def rows(self):
        """The arguments about rows that are not None, for methods that take them."""
        given = {"sample_weight": self.weights, "exposure": self.exposure, "groups": self.groups}
        return {name: values for name, values in given.items() if values is not None}

    @property
    def kept(self):
        """The names of the kept columns."""
        return [str(name) for name in self.model.get_feature_names_out()]

    @property
    def has_classes(self):
        return hasattr(self.model, "classes_")

    @property
    def has_times(self):
        return self.y.dtype.names is not None

    def scores(self, X=None, model=None):
        """Return the scores (rows, outputs) by the public methods: the link of the predictions."""
        model, X = model or self.model, self.X if X is None else X
        if self.has_classes:
            found = model.decision_function(X)
        elif getattr(model, "family", None) == "poisson":
            found = np.log(model.predict(X))
        else:
            found = model.predict(X)
        return np.asarray(found).reshape(len(X), -1)

    def means(self, model=None):
        """Return the predicted means or probabilities (rows, outputs)."""
        model = model or self.model
        found = model.predict_proba(self.X) if self.has_classes else model.predict(self.X)
        return np.asarray(found).reshape(len(self.X), -1)


def excluded(one, other):
    """Return whether two ways cannot be asked for together."""
    return WAYS[one][0] == WAYS[other][0] or bool({(one, other), (other, one)} & WITHOUT_PARAMETER)


@cache
def fitted(*ways):
    """Return the model fitted in the given ways; a refusal of ``fit`` is raised each time."""
    if "edited" in ways:
        before = fitted(*(way for way in ways if way != "edited"))
        model = before.model.edit().flatten("dose", -0.2, 0.2, reason="no effect of small doses is known")
        return replace(before, ways=ways, model=model)
    X, score = _table(ways)
    kind, settings = _estimator(ways)
    rng = np.random.default_rng(2)
    weights = exposure = groups = None
    if "weights" in ways:
        weights = rng.uniform(0.5, 2.0, ROWS)
    if "counts as weights" in ways:
        weights, settings["weights"] = rng.integers(1, 4, ROWS).astype(float), "counts"
    if "exposure" in ways:
        exposure, settings["family"] = EXPOSURE, "poisson"
    if "groups" in ways:
        groups, settings["cv"] = np.arange(ROWS) // 4, GroupKFold(5)
    given = Fitted(ways, kind(**settings), X, _target(ways, score), weights, exposure, groups)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        if "large table" in ways:
            _make_large(patch)
        if "Parquet" in ways:
            _fit_parquet(given, Path(folder))
        else:
            given.model.fit(X, given.y, **given.rows)
    return given


EXPOSURE = np.random.default_rng(3).uniform(0.5, 2.0, ROWS)


def _table(ways):
    """Return a table of two columns that matter and two that do not, and the true score."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.uniform(-1, 1, ROWS) for name in ("age", "dose", "noise", "other")})
    score = np.sin(3 * X["age"]) + 1.2 * X["dose"]
    if "pairs" in ways:
        score += 2 * X["age"] * X["dose"]
    if "categories" in ways:
        X["city"] = rng.choice(["Bern", "Rome", "Oslo"], ROWS)
        score += 0.8 * (X["city"] == "Rome")
    if "missing cells" in ways:
        gaps = rng.random(ROWS) < 0.15
        X.loc[gaps, "age"] = np.nan
        score = score.where(~gaps, 1.2 * X["dose"] + 1.5)
    if "far-out rows" in ways:
        X.loc[[10, 90, 170], "dose"] = [25.0, -30.0, 40.0]
    return X, score.to_numpy()


def _target(ways, score):
    """Return the target whose mean the score stands for."""
    rng = np.random.default_rng(11)
    if "exposure" in ways:
        return rng.poisson(EXPOSURE * np.exp(score)).astype(float)
    if "several outputs" in ways:
        return np.column_stack([score, -0.5 * score]) + 0.3 * rng.normal(size=(ROWS, 2))
    if "two classes" in ways:
        return np.where(1.5 * score + rng.logistic(size=ROWS) > 0, "yes", "no")
    if "classes" in ways:
        return np.digitize(2 * score + rng.logistic(size=ROWS), [-1.0, 1.0])
    if "survival" in ways:
        time, end = rng.exponential(np.exp(-score)), rng.exponential(2.0, ROWS)
        return survival_target(time <= end, np.minimum(time, end))
    return score + 0.3 * rng.normal(size=ROWS)


def _estimator(ways):
    """Return the class of the estimator and its settings."""
    settings = {"random_state": 0} | ({"n_alphas": 12} if len(ways) > 1 else {})  # many fits, each a little quicker
    has_classes, random_features = bool({"classes", "two classes"} & {*ways}), "random features" in ways
    kind = SNAMClassifier if has_classes else SNAMRegressor
    if "survival" in ways:
        kind = SNAMSurvival
    if random_features:
        kind = RandomFeatureSNAMClassifier if has_classes else RandomFeatureSNAMRegressor
    if "pairs" in ways:
        settings["pairs"] = [("age", "dose")]
    if "shapes" in ways:  # classes have no direction in common
        settings["shapes"] = {"dose": "linear" if "classes" in ways else "increasing"}
    if "network" in ways:
        settings["network"] = Network(hidden=(8,), max_epochs=30)
    if "GELU network" in ways:
        settings["network"] = Network(hidden=(8,), activation="gelu", max_epochs=30)
    if "FDR" in ways:
        settings["rule"] = FDR(q=0.2)
    return kind, settings


def _make_large(patch):
    """Let a sample be small, so that the table counts as large."""
    found = [
        (module, name)
        for path, module in sorted(sys.modules.items())
        if path.startswith("sparsenam.")
        for name in LARGE
        if hasattr(module, name)
    ]
    assert {name for _, name in found} == set(LARGE), "the constants of large tables have other names now"
    for module, name in found:
        patch.setattr(module, name, LARGE[name])


def _fit_parquet(given, folder):
    """Fit the rows from a Parquet file, with target, weights and exposure among its columns."""
    columns, table = {}, given.X.copy()
    for name, values in {"y": given.y, "w": given.weights, "e": given.exposure}.items():
        if values is not None and values.ndim == 1 and values.dtype.names is None:
            table[name], columns[name] = values, name
    table.to_parquet(folder / "table.parquet")
    named = {"sample_weight": columns.get("w"), "exposure": columns.get("e")}
    rows = {key: name for key, name in named.items() if name} | (
        {} if given.groups is None else {"groups": given.groups}
    )
    given.model.fit(folder / "table.parquet", columns.get("y", given.y), **rows)
