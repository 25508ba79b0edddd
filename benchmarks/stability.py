"""Stability over half-samples: what is kept beside the bound, and the time beside that of a fit.

500 rows, 60 columns of which 15 act (lines, sines, squares, absolute values), noise of a fifth of the variance, columns
independent or with correlations 0.7^|i - j|. The bound is on columns that a half-sample keeps no more often than a
random choice does; all 45 columns that do not act are counted beside it. Run: python benchmarks/stability.py [seeds]
"""

from __future__ import annotations

import sys
import time

import numpy as np
from numpy.typing import NDArray

from sparsenam import SNAMRegressor

ROWS, COLUMNS, ACTING = 500, 60, 15
SHAPES = (lambda x: x, lambda x: np.sin(2 * x), lambda x: x**2 / 1.5, lambda x: 1.3 * np.abs(x))
THRESHOLDS = (0.6, 0.75, 0.9, 1.0)


def table(seed: int, correlation: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Return X, y and the columns that act."""
    generator = np.random.default_rng(seed)
    noise = generator.normal(size=(ROWS, COLUMNS))
    x = noise.copy()
    for column in range(1, COLUMNS):
        x[:, column] = correlation * x[:, column - 1] + np.sqrt(1 - correlation**2) * noise[:, column]
    acting = generator.choice(COLUMNS, ACTING, replace=False)
    signal = sum(SHAPES[rank % len(SHAPES)](x[:, column]) for rank, column in enumerate(acting))
    return x, signal + 0.5 * np.std(signal) * generator.normal(size=ROWS), acting


def measure(seeds: int, correlation: float) -> None:
    """Print frequencies, columns kept by threshold beside the bounds, and seconds."""
    true, false, rows, fits, asked = [], [], [], 0.0, 0.0
    for seed in range(seeds):
        x, y, acting = table(seed, correlation)
        started = time.process_time()
        model = SNAMRegressor(random_state=0).fit(x, y)
        fitted = time.process_time()
        found = model.stability(x, y)
        asked, fits = asked + time.process_time() - fitted, fits + fitted - started
        shares = np.array([found.frequencies[f"x{column}"] for column in range(COLUMNS)])
        inside = np.isin(np.arange(COLUMNS), acting)
        true.append(shares[inside])
        false.append(shares[~inside])
        rows.append([(np.sum(shares[~inside] >= t), np.sum(shares[inside] >= t), found.bound(t)) for t in THRESHOLDS])
        last = [found.bound_if_unimodal(t) for t in THRESHOLDS]
    means = np.mean(np.array(rows, dtype=float), axis=0)
    print(f"correlation {correlation}: {seeds} seeds, a fit {fits / seeds:.2f} s, stability {asked / seeds:.2f} s")
    print(f"  mean frequency of acting columns {np.mean(true):.3f}, of others {np.mean(false):.3f}")
    for threshold, (noise, signal, bound), unimodal in zip(THRESHOLDS, means, last, strict=True):
        sharper = "none" if unimodal is None else f"{unimodal:.2f}"
        print(f"  in {threshold:.0%}: {noise:.2f} others (bound {bound:.2f}, one peak {sharper}), {signal:.2f} acting")


if __name__ == "__main__":
    for of in (0.0, 0.7):
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20, of)
