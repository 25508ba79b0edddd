"""Small fits of many kinds, whose model files and checkpoints are changed by attacks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS = 90


@dataclass(frozen=True)
class Kind:
    """A fit: how it is made and used."""

    name: str
    make: Callable[[], Any]
    table: Callable[[], Any]
    target: Callable[[], Any]
    after: Callable[[Any, Any, Any], Any] | None = None
    in_parts: bool = False  # fitted from Parquet, pass after pass

    def fitted(self) -> Any:
        model = self.make().fit(self.table(), self.target())
        return model if self.after is None else self.after(model, self.table(), self.target())

    def predict(self, model: Any) -> Any:
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(self.table()))
        return np.asarray(model.predict(self.table()))


@cache
def numbers() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    return pd.DataFrame(generator.normal(size=(ROWS, 3)), columns=["a", "b", "c"])


@cache
def mixed() -> pd.DataFrame:
    generator = np.random.default_rng(1)
    frame = numbers().copy()
    frame["colour"] = generator.choice(["red", "green", "blue"], ROWS)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 400, ROWS), unit="D")
    frame["size"] = pd.Categorical(generator.choice(["s", "m", "l"], ROWS), ["s", "m", "l"], ordered=True)
    frame["same"] = 3.0
    frame.loc[::7, "b"] = np.nan
    return frame


def score() -> np.ndarray:
    frame = mixed()
    drawn = np.random.default_rng(2).normal(size=ROWS)
    return (np.sin(2 * frame["a"]) + (frame["colour"] == "red") + frame["b"].isna() + 0.2 * drawn).to_numpy(float)


def cut(*labels: Any) -> np.ndarray:
    edges = np.quantile(score(), np.arange(1, len(labels)) / len(labels))
    return np.array(labels)[np.searchsorted(edges, score())]


def counts() -> np.ndarray:
    return np.rint(np.exp(score() / 2))


def several_labels() -> np.ndarray:
    return np.column_stack([score() > 0, numbers()["c"] > 0]).astype(int)


def times() -> np.ndarray:
    from sparsenam import survival_target

    drawn = np.random.default_rng(3).exponential(np.exp(-score())) + 0.01
    return survival_target(drawn < 1.5, np.minimum(drawn, 1.5))


def _usual(settings: dict[str, Any]) -> dict[str, Any]:
    few = {} if "alpha" in settings or "rule" in settings else {"n_alphas": 8, "cv": 3}
    return {"random_state": 0, **few, **settings}


def _regressor(**settings: Any) -> Callable[[], Any]:
    from sparsenam import SNAMRegressor

    return lambda: SNAMRegressor(**_usual(settings))


def _classifier(**settings: Any) -> Callable[[], Any]:
    from sparsenam import SNAMClassifier

    return lambda: SNAMClassifier(**_usual(settings))


def _network(**settings: Any) -> Any:
    from sparsenam import Network

    return Network(**({"hidden": (4,), "max_epochs": 3} | settings))


def _survival(**settings: Any) -> Any:
    from sparsenam import SNAMSurvival

    return SNAMSurvival(alpha=0.05, random_state=0, **settings)


def _random_features() -> Any:
    from sparsenam import RandomFeatureSNAMRegressor

    return RandomFeatureSNAMRegressor(random_state=0, alpha=0.02)


def _fdr() -> Any:
    from sparsenam import FDR

    return _regressor(rule=FDR(0.2))()


def _edited(model: Any, table: Any, target: Any) -> Any:
    edited = model.edit(table, target)
    edited.flatten("a", -0.5, 0.5, reason="no reason")
    edited.make_monotone("a", "increasing", reason="it must rise")
    return edited.shift_intercept(0.5, reason="a shift")


def _stable(model: Any, table: Any, target: Any) -> Any:
    model.stability(table, target, n_pairs=3)
    return model


def _kinds() -> list[Kind]:
    pairs = [("a", "b"), ("a", "colour")]
    return [
        Kind("regressor", _regressor(), mixed, score),
        Kind("poisson", _regressor(family="poisson", alpha=0.02), numbers, counts),
        Kind("two outputs", _regressor(alpha=0.02), numbers, lambda: np.column_stack([score(), -score()])),
        Kind("two classes", _classifier(alpha=0.01), mixed, lambda: cut("no", "yes")),
        Kind("three classes", _classifier(alpha=0.03), numbers, lambda: cut(3, 5, 7)),
        Kind("several labels", _classifier(alpha=0.01), numbers, several_labels),
        Kind("survival", _survival, numbers, times),
        Kind("pairs", _regressor(alpha=0.01, pairs=pairs), mixed, score),
        Kind("fdr", _fdr, mixed, score),
        Kind("edits", _regressor(alpha=0.01), mixed, score, _edited),
        Kind("stability", _regressor(), numbers, score, _stable),
        Kind("network", _regressor(alpha=0.001, network=_network(activation="gelu")), mixed, score),
        Kind("relu network", _regressor(alpha=0.001, network=_network(hidden=(4, 3))), numbers, score),
        Kind("random features", _random_features, numbers, score),
    ]


MODELS = _kinds()


def _checkpoints() -> list[Kind]:
    adam = {"max_epochs": 12, "batch_size": 32, "patience": 100}
    return [
        Kind("adam", _regressor(alpha=0.01, network=_network(**adam)), numbers, score),
        Kind("fista", _regressor(alpha=0.01, network=_network(solver="fista", max_epochs=12)), numbers, score),
        Kind("survival stage", lambda: _survival(network=_network(max_epochs=12)), numbers, times),
        Kind("passes", _regressor(alpha=0.02), numbers, score, in_parts=True),
        Kind("steps", _regressor(alpha=0.02, family="poisson"), numbers, counts, in_parts=True),
    ]


CHECKPOINTS = _checkpoints()


def write_model(kind: Kind, path: Path) -> tuple[bytes, np.ndarray]:
    """Return the bytes of a kind's model file, and what it predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind.fitted()
        model.save(path)
        return path.read_bytes(), np.asarray(kind.predict(model))


def resume(kind: Kind, path: Path) -> Any:
    """Return a kind's fit, resumed from a file of stages; the file may be written on."""
    from sparsenam.context import ResumeFile
    from sparsenam.estimators.base import fit_with

    given = kind.table(), kind.target()
    if kind.in_parts:
        source = path.parent / f"{kind.name}.parquet"
        if not source.exists():
            given[0].assign(target=given[1]).to_parquet(source)
        given = source, "target"
    return fit_with(kind.make(), *given, resume=ResumeFile(path))


def write_checkpoint(kind: Kind, path: Path) -> tuple[bytes, np.ndarray]:
    """Return the bytes of a kind's checkpoint, and what the fit predicts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = resume(kind, path)
        return path.read_bytes(), np.asarray(kind.predict(model))
