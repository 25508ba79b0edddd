"""Cells of experiments: their seeds and results, and the rate at which an error falls with n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

Result: TypeAlias = dict[str, Any]  # JSON-able: numbers, strings, None, and lists and dicts of them
MOST_REPEATS = 1000
CONFIDENCE = 0.95


def cells_of_estimators(settings: Mapping[str, Any]) -> list[Result]:
    """Return one cell for each estimator, n and repeat."""
    return [
        {"estimator": estimator, "n": n, "repeat": repeat}
        for estimator in settings["estimators"]
        for n in settings["n"]
        for repeat in range(settings["repeats"])
    ]


def cell_seed(cell: Result) -> int:
    """Return 1000 n + repeat, which no other n and repeat below 1000 have: cells share no data."""
    return MOST_REPEATS * int(cell["n"]) + int(cell["repeat"])


def picked(settings: Mapping[str, Any], *names: str) -> Result:
    """Return the settings of these names."""
    return {name: settings[name] for name in names}


def values_by(results: Sequence[Result], name: str, **wanted: object) -> list[Any]:
    """Return one value of every result whose cell has the wanted entries, in the order of the cells' repeats."""
    chosen = [result for result in results if wanted.items() <= result["cell"].items()]
    return [result[name] for result in sorted(chosen, key=lambda result: result["cell"].get("repeat", 0))]


def sizes_done(results: Sequence[Result], sizes: Sequence[int], **wanted: object) -> list[int]:
    """Return the n for which some result with the wanted entries is there."""
    return [n for n in sizes if values_by(results, "cell", n=n, **wanted)]


def slope_of(n: Sequence[float], errors: Sequence[Sequence[float]]) -> Result:
    """Return "slope" and "interval" of `log_log_slope`, nothing where there is no slope."""
    line = log_log_slope(n, errors)
    return {} if line is None else {"slope": line[0], "interval": list(line[1])}


def log_log_slope(n: Sequence[float], errors: Sequence[Sequence[float]]) -> tuple[float, tuple[float, float]] | None:
    """Return the slope of log error on log n over all repeats, and its 95 % interval by Student's t.

    ``errors`` holds the repeats for each n. The interval is that of a straight line; a bend makes it too narrow.
    None for fewer than three errors or a single n.
    """
    pairs = [(float(size), float(error)) for size, repeats in zip(n, errors, strict=True) for error in repeats]
    if len(pairs) < 3 or len({size for size, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ y) / spread
    residual = y - y.mean() - slope * centred
    freedom = x.size - 2
    deviation = float(np.sqrt(residual @ residual / freedom / spread))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * deviation
    return slope, (slope - half, slope + half)
