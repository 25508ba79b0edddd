"""Random tables, targets, weights and settings, each drawn from a seed and a number; small, to fit thousands."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from sparsenam import (
    FDR,
    Network,
    RandomFeatureSNAMClassifier,
    RandomFeatureSNAMRegressor,
    SNAMClassifier,
    SNAMRegressor,
    SNAMSurvival,
)
from sparsenam.families import Huber, NegativeBinomial, Quantile, Tweedie
from sparsenam.penalties import PENALTIES

Generator = np.random.Generator
FAMILIES = ("gaussian", "poisson", "gamma", "tweedie", "negative_binomial", "quantile", "huber")
OBJECTS = (Quantile(level=0.001), Quantile(level=0.95), Huber(width=1.0), Tweedie(power=1.1), NegativeBinomial(2.0))
NAMES = (
    *("", " ", "a\nb", "<script>alert(1)</script>", "x" * 300, "é", "\x1b[31m", "0", "target", "a:b", "'\"", "\u202e"),
    *("constructor", "=1+1", "nan", "(intercept)"),
)
SIZES = {1: 0.01, 2: 0.02, 3: 0.04, 5: 0.08, 8: 0.2, 12: 0.25, 20: 0.2, 30: 0.12, 45: 0.05, 60: 0.03}  # rows
SHAPES = ("increasing", "decreasing", "convex", "linear")
HUGE = (1e308, -1e308, 1e307, 1e300, 1e200, 1e155)
EXTREMES = (1e99, -1e99, 1e50, 1e20, -1e15, 1e-155, 1e-300, 1e-308, 5e-324)
REFUSED = ("huge", "out of scale", "infinite", "mixed", "nested", "absent")  # kinds that a fit refuses, mostly
FILLS = (-999.0, 9999.0, 1e20, -1e30)


@dataclass(frozen=True)
class Case:
    """A table, its target and arguments of fit, the estimator to make, other rows to predict, and how it was drawn."""

    X: Any
    y: Any
    model: Callable[[], Any]
    recipe: str
    arguments: dict[str, Any] = field(default_factory=dict)
    fresh: tuple[Any, ...] = ()


def draw(seed: int, number: int) -> Case:
    """Return the table of this number among those of the seed."""
    rng = np.random.default_rng([seed, number])
    rows = int(rng.choice(list(SIZES), p=list(SIZES.values())))
    width = int(rng.choice([0, 1, 2, 3, 4, 5, 6, 8], p=[0.02, 0.15, 0.2, 0.25, 0.15, 0.1, 0.08, 0.05]))
    signal = rng.normal(size=rows)
    kinds, columns = list[str](), list[Any]()
    usable = [kind for kind in COLUMNS if kind not in REFUSED] if rng.random() < 0.85 else list(COLUMNS)
    for _ in range(width):
        kind = str(rng.choice(usable))
        if kind == "twin" and not columns:
            kind = "floats"
        kinds.append(kind)
        columns.append(COLUMNS[kind](rng, signal, columns))
    estimator = str(rng.choice(["regressor", "classifier", "survival", "random regressor", "random classifier"],
                               p=[0.45, 0.25, 0.12, 0.1, 0.08]))  # fmt: skip
    family = _family(rng) if "regressor" in estimator else None
    target, target_kind = _target(rng, signal, estimator, family)
    names = _names(rng, width)
    container, table, again = _contain(rng, columns, names, rows)
    model, settings = _estimator(rng, estimator, family, names)
    arguments, weighing = _arguments(rng, rows, family)
    recipe = f"{estimator} {_family_text(family)}, {rows} rows, {container}: {', '.join(kinds) or 'no column'}; "
    recipe += f"y {target_kind}; {weighing}; {settings}"
    fresh = tuple(again(changed) for changed in _changed(rng, columns))
    return Case(table, target, model, recipe, arguments, fresh)


def _family_text(family: Any) -> str:
    return "" if family is None else family if isinstance(family, str) else repr(family)


def _family(rng: Generator) -> Any:
    return OBJECTS[rng.integers(len(OBJECTS))] if rng.random() < 0.2 else str(rng.choice(FAMILIES, p=[0.4, *[0.1] * 6]))


def _some(rng: Generator, values: np.ndarray, cells: Sequence[Any], share: float | None = None) -> np.ndarray:
    """Return the values with some cells replaced by draws of others."""
    values = values.copy()
    share = rng.choice([0.02, 0.2, 0.6, 0.95]) if share is None else share
    places = np.flatnonzero(rng.random(values.size) < share)
    if places.size == 0:
        places = rng.integers(values.size, size=1)
    for place in places:
        values[place] = cells[rng.integers(len(cells))]
    return values


def _floats(rng: Generator, signal: np.ndarray) -> np.ndarray:
    return signal * rng.choice([0.0, 0.5, 2.0]) + rng.normal(size=signal.size)


def _objects(values: Sequence[Any]) -> np.ndarray:
    cells = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        cells[place] = value
    return cells


def _texts(rng: Generator, signal: np.ndarray) -> np.ndarray:
    levels = rng.choice(
        ["a", "b", "", " ", "NA", "1e400", "é", "3", "<b>", "\n", "x" * 200], size=int(rng.integers(1, 8))
    )
    return _objects([str(level) for level in rng.choice(levels, size=signal.size)])


def _dates(rng: Generator, signal: np.ndarray) -> np.ndarray:
    unit = str(rng.choice(["D", "s", "ns"]))
    start = np.datetime64(str(rng.choice(["1970-01-01", "2024-02-29", "1700-01-01", "2200-12-31"])), "D")
    days = rng.integers(0, rng.choice([1, 2, 30, 5000]), size=signal.size)
    dates = (start + days).astype(f"datetime64[{unit}]")
    return _some(rng, dates, [np.datetime64("NaT")]) if rng.random() < 0.3 else dates


def _mixed(rng: Generator, signal: np.ndarray) -> np.ndarray:
    cells = [
        1,
        2.5,
        "a",
        None,
        True,
        np.nan,
        decimal.Decimal("3.1"),
        datetime.date(2020, 1, 1),
        b"x",
        10**30,
        -0.0,
        np.inf,
    ]
    chosen = [cells[place] for place in rng.integers(len(cells), size=int(rng.integers(1, 6)))]
    return _objects([chosen[place] for place in rng.integers(len(chosen), size=signal.size)])


def _decimals(rng: Generator, signal: np.ndarray) -> np.ndarray:
    values = [decimal.Decimal(repr(round(float(value), 3))) for value in _floats(rng, signal)]
    return (
        _some(rng, _objects(values), [decimal.Decimal("NaN"), decimal.Decimal("1e400"), None, decimal.Decimal("sNaN")])
        if (rng.random() < 0.3)
        else _objects(values)
    )


def _nested(rng: Generator, signal: np.ndarray) -> np.ndarray:
    cells: list[Any] = [[1, 2], (1,), {"a": 1}, {1, 2}, np.arange(2), 1.0]
    return _objects([cells[place] for place in rng.integers(len(cells), size=signal.size)])


COLUMNS: dict[str, Callable[[Generator, np.ndarray, list[Any]], np.ndarray]] = {
    "floats": lambda rng, s, c: _floats(rng, s),
    "more floats": lambda rng, s, c: _floats(rng, s),
    "signal": lambda rng, s, c: s.copy(),
    "skewed": lambda rng, s, c: np.exp(rng.choice([1.0, 5.0, 20.0]) * _floats(rng, s)),
    "scaled": lambda rng, s, c: _floats(rng, s) * 10.0 ** int(rng.choice([-98, -50, -20, 20, 50, 98])),
    "out of scale": lambda rng, s, c: _floats(rng, s) * 10.0 ** int(rng.choice([-308, -300, -200, 150, 200, 307])),
    "shifted": lambda rng, s, c: 10.0 ** int(rng.choice([6, 9, 12, 15, 90])) + _floats(rng, s),
    "huge": lambda rng, s, c: _some(rng, _floats(rng, s), HUGE),
    "absent": lambda rng, s, c: np.full(s.size, np.nan),
    "extremes": lambda rng, s, c: _some(rng, _floats(rng, s), EXTREMES),
    "fills": lambda rng, s, c: _some(rng, _floats(rng, s), FILLS[:1] if rng.random() < 0.5 else FILLS),
    "missing": lambda rng, s, c: _some(rng, _floats(rng, s), [np.nan]),
    "infinite": lambda rng, s, c: _some(rng, _floats(rng, s), [np.inf, -np.inf], 0.05),
    "single": lambda rng, s, c: _floats(rng, s).astype(np.float32) * np.float32(rng.choice([1.0, 1e30, 1e-38])),
    "integers": lambda rng, s, c: rng.integers(0, rng.choice([2, 3, 10, 10**6, 2**62]), size=s.size),
    "bools": lambda rng, s, c: s > rng.choice([-9.0, 0.0]),
    "constant": lambda rng, s, c: np.full(s.size, rng.choice([0.0, 1.0, 1e99, 1e-308])),
    "twin": lambda rng, s, c: c[int(rng.integers(len(c)))],
    "texts": lambda rng, s, c: _texts(rng, s),
    "categories": lambda rng, s, c: pd.Categorical(_texts(rng, s), ordered=bool(rng.random() < 0.3)),
    "dates": lambda rng, s, c: _dates(rng, s),
    "mixed": lambda rng, s, c: _mixed(rng, s),
    "decimals": lambda rng, s, c: _decimals(rng, s),
    "nested": lambda rng, s, c: _nested(rng, s) if rng.random() < 0.2 else _floats(rng, s),
}  # fmt: skip


def _names(rng: Generator, width: int) -> list[Any]:
    kind = rng.choice(["plain", "hostile", "numbers", "doubled"], p=[0.65, 0.23, 0.1, 0.02])
    if kind == "hostile":
        return [str(name) for name in rng.choice(NAMES, size=width, replace=False)]
    if kind == "numbers":
        return list(range(width))
    return ["a"] * width if kind == "doubled" else [f"x{place}" for place in range(width)]


def _contain(
    rng: Generator, columns: list[Any], names: list[Any], rows: int
) -> tuple[str, Any, Callable[[list[Any]], Any]]:
    """Return a name of a kind of table, the table, and the function that makes such a one of other columns."""
    kind = str(rng.choice(["pandas", "polars", "pyarrow", "numpy", "list"], p=[0.4, 0.2, 0.15, 0.15, 0.1]))

    def frame(cells: list[Any]) -> pd.DataFrame:
        size = len(cells[0]) if cells else rows
        made = pd.DataFrame({place: column for place, column in enumerate(cells)}, index=range(size))
        made.columns = pd.Index(names[: len(cells)], dtype=object)
        return made

    def polars(cells: list[Any]) -> Any:
        import polars as pl

        return pl.DataFrame(
            [pl.Series(str(name), _plain(column), strict=False) for name, column in zip(names, cells, strict=True)]
        )

    def arrow(cells: list[Any]) -> Any:
        import pyarrow as pa

        return pa.table([pa.array(_plain(column), from_pandas=True) for column in cells], [str(name) for name in names])

    def array(cells: list[Any]) -> Any:
        size = len(cells[0]) if cells else rows
        if all(
            getattr(column, "dtype", None) is not None and getattr(column.dtype, "kind", "O") in "fiub"
            for column in cells
        ):
            return np.column_stack(cells) if cells else np.empty((size, 0))
        made = np.empty((size, len(cells)), dtype=object)
        for place, column in enumerate(cells):
            made[:, place] = _objects(list(column))
        return made

    makers = {"pandas": frame, "polars": polars, "pyarrow": arrow, "numpy": array}
    makers["list"] = lambda cells: array(cells).tolist()
    try:
        return kind, makers[kind](columns), makers[kind]
    except BaseException as error:  # another library does not hold such cells; polars panics at some
        if isinstance(error, KeyboardInterrupt):
            raise
        return "pandas", frame(columns), frame


def _plain(column: Any) -> Any:
    values = np.asarray(column)
    return list(values) if values.dtype == object else values


def _changed(rng: Generator, columns: list[Any]) -> list[list[Any]]:
    """Return other rows for the same columns: cells never seen, huge, absent."""
    if not columns:
        return []
    found = list[list[Any]]()
    for cells in (EXTREMES + HUGE, (np.nan, 0.0, 3.0)):
        changed = list[Any]()
        for column in columns:
            values = np.asarray(column)
            changed.append(_some(rng, values.astype(float), cells, 0.5) if values.dtype.kind == "f" else column)
        found.append(changed)
    return found


TARGETS = {
    **{"plain": 0.34, "constant": 0.1, "zeros": 0.05, "nearly constant": 0.1, "scaled": 0.1, "outlier": 0.08},
    **{"extreme": 0.05, "two values": 0.08, "several": 0.05, "noise": 0.05},
}


def _target(rng: Generator, signal: np.ndarray, estimator: str, family: Any) -> tuple[Any, str]:
    if "classifier" in estimator:
        return _classes(rng, signal)
    if estimator == "survival":
        return _times(rng, signal)
    name = family if isinstance(family, str) else family.name
    kind = str(rng.choice(list(TARGETS), p=list(TARGETS.values())))
    noise = rng.choice([0.0, 0.1, 1.0])
    y = signal + noise * rng.normal(size=signal.size)
    if name in ("poisson", "negative_binomial", "tweedie"):
        y = rng.poisson(np.exp(np.clip(y, -5, 4))).astype(float)
    elif name == "gamma":
        y = np.exp(y)
    if kind == "constant":
        y = np.full(signal.size, float(rng.choice([1.0, 3.5, 1e9, 1e-9])))
    elif kind == "zeros":
        y = np.zeros(signal.size)
    elif kind == "nearly constant":
        y = 1e9 + 1e-5 * signal
    elif kind == "scaled":
        y = y * 10.0 ** int(rng.choice([-300, -90, -20, 20, 90, 150]))
    elif kind in ("outlier", "extreme"):
        y[rng.integers(y.size)] = 1e9 if kind == "outlier" else float(rng.choice([1e99, 1e308, 5e-324]))
    elif kind == "two values":
        y = np.where(signal > 0, 2.0, 1.0)
    elif kind == "noise":
        y = np.abs(rng.standard_cauchy(size=signal.size))
    if kind == "several":
        y = np.column_stack([y, np.abs(y[::-1]), np.ones(y.size)])
    return y, kind


def _classes(rng: Generator, signal: np.ndarray) -> tuple[Any, str]:
    kind = str(
        rng.choice(
            ["two", "separable", "three", "many", "one", "labels", "texts", "rare", "bools"],
            p=[0.15, 0.15, 0.15, 0.1, 0.03, 0.12, 0.1, 0.1, 0.1],
        )
    )
    noisy = signal + rng.normal(size=signal.size)
    choices = {
        "two": noisy > 0,
        "separable": (signal > 0).astype(int),
        "three": np.digitize(noisy, [-0.5, 0.5]),
        "many": np.arange(signal.size) % 9,
        "one": np.zeros(signal.size),
        "labels": np.column_stack([noisy > 0, signal > 0.5, signal > -9]).astype(int),
        "texts": np.where(noisy > 0, "<yes>", "no\n"),
        "rare": (np.arange(signal.size) == 0).astype(int),
        "bools": signal > 0,
    }
    return choices[kind], kind


def _times(rng: Generator, signal: np.ndarray) -> tuple[Any, str]:
    kind = str(rng.choice(["plain", "tied", "no event", "one event", "scaled", "all events"]))
    times, events = np.exp(signal + rng.normal(size=signal.size)), rng.random(signal.size) < 0.6
    if kind == "tied":
        times = np.full(signal.size, 2.0)
    elif kind in ("no event", "one event"):
        events = np.arange(signal.size) < (kind == "one event")
    elif kind == "scaled":
        times = times * 10.0 ** int(rng.choice([-90, -20, 20, 90, 300]))
    elif kind == "all events":
        events = np.ones(signal.size, dtype=bool)
    y = np.empty(times.size, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = events, times
    return y, kind


def _arguments(rng: Generator, rows: int, family: Any) -> tuple[dict[str, Any], str]:
    kind = str(
        rng.choice(["no weights", "weights", "zeros", "one row", "ratio", "huge", "tiny"], p=[0.6, *[0.4 / 6] * 6])
    )
    plain = rng.exponential(size=rows)
    weights = {
        "no weights": None,
        "weights": plain,
        "zeros": plain * (rng.random(rows) < 0.5),
        "one row": (np.arange(rows) == 0).astype(float),
        "ratio": np.where(rng.random(rows) < 0.5, 1.0, 10.0 ** int(rng.choice([8, 15, 100]))),
        "huge": np.full(rows, 1e308) * np.where(rng.random(rows) < 0.5, 1.0, 0.5),
        "tiny": plain * 1e-308,
    }[kind]
    arguments = {} if weights is None else {"sample_weight": weights}
    if family in ("poisson", "tweedie", "gamma") and rng.random() < 0.3:
        arguments["exposure"] = rng.choice([1.0, 1e6, 1e-6]) * rng.exponential(size=rows)
        kind += " and exposure"
    return arguments, kind


def _estimator(rng: Generator, kind: str, family: Any, names: list[Any]) -> tuple[Callable[[], Any], str]:
    settings: dict[str, Any] = {"random_state": 0, "n_alphas": 5, "cv": KFold(2, shuffle=True, random_state=0)}
    if family is not None:
        settings["family"] = family
    random = kind.startswith("random")
    options: list[tuple[float, Callable[[], dict[str, Any]]]] = [
        (0.1, lambda: {"pairs": rng.choice([1, 2]).item()} if not random else {"features": "hinges"}),
        (0.05, lambda: {"pairs": "auto"} if not random else {"norm": "parameters"}),
        (0.08, lambda: {"rule": FDR(q=0.5)} if not random else {"features": "random", "hidden": (8,)}),
        (0.1, lambda: {"rule": str(rng.choice(["best", "one_se"]))}),
        (0.1, lambda: {"max_features": int(rng.integers(1, 4))}),
        (0.08, lambda: {"always_keep": names[:1]} if names else {}),
        (0.08, lambda: {"shapes": {names[0]: str(rng.choice(SHAPES))}} if names and not random else {}),
        (0.06, lambda: {"penalty": str(rng.choice(list(PENALTIES)))}),
        (0.05, lambda: {"feature_groups": [names[:2]]} if len(names) > 1 else {}),
        (0.05, lambda: {"refit": False} if not random else {}),
        (0.1, lambda: {"cv": int(rng.choice([2, 3]))}),  # drawn several times, which takes time
        (0.05, lambda: {"class_weight": "balanced"} if "classifier" in kind else {}),
    ]  # fmt: skip
    for chance, option in options:
        if rng.random() < chance:
            settings |= option()
    if rng.random() < 0.1:
        settings["alpha"] = float(rng.choice([0.0, 1e-3, 0.1, 100.0]))
        settings = {
            name: value for name, value in settings.items() if name not in ("cv", "n_alphas", "rule", "max_features")
        }
    if not random and rng.random() < 0.05:
        settings["network"] = Network(hidden=(4,), max_epochs=5, activation=str(rng.choice(["relu", "tanh"])))
        settings = {name: value for name, value in settings.items() if name not in ("pairs", "shapes", "refit", "rule")}
    makers = {
        "regressor": SNAMRegressor,
        "classifier": SNAMClassifier,
        "survival": SNAMSurvival,
        "random regressor": RandomFeatureSNAMRegressor,
        "random classifier": RandomFeatureSNAMClassifier,
    }
    shown = {name: value for name, value in settings.items() if name not in ("random_state", "family")}
    return lambda: makers[kind](**settings), f"{shown}"
