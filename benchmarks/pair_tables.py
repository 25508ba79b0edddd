"""Simulated tables of `pairs.py`: additive truths under hard noise, and pairs that are planted."""

import numpy as np
import pandas as pd
from scipy.stats import norm


def autoregressive(generator, rows, columns, rho):
    """Return normal columns in which neighbours have correlation ``rho``."""
    z = generator.normal(size=(rows, columns))
    for column in range(1, columns):
        z[:, column] = rho * z[:, column - 1] + np.sqrt(1 - rho**2) * z[:, column]
    return z


def additive(law, seed, rows=1500, columns=12):
    """Return an additive table: four effects, and noise that is normal, has heavy tails, or hangs on columns."""
    generator = np.random.default_rng(50_000 + 100 * seed + len(law))
    x = autoregressive(generator, rows, columns, 0.7 if law == "ar" else 0.0)
    scores = np.sin(2 * x[:, 0]) + 0.6 * x[:, 1] ** 2 + x[:, 2] + 1.5 * np.tanh(2 * x[:, 3])
    noise = generator.normal(size=rows)
    if law == "t3":
        noise = generator.standard_t(3, size=rows)
    if law == "spread_of_one":
        noise *= np.exp(0.7 * x[:, 4])
    if law == "spread_of_two":
        noise *= np.exp(0.5 * x[:, 0] * x[:, 1])
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)]), scores + noise


def friedman_and_xor(seed, rows=1000, columns=60, rho=0.8):
    """Friedman's first function, and a pair without main effects among correlated noise columns."""
    generator = np.random.default_rng(51_000 + seed)
    x = norm.cdf(autoregressive(generator, rows, columns, rho))
    scores = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    scores += 0.7 * np.sign(x[:, 7] - 0.5) * np.sign(x[:, 9] - 0.5)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)]), scores + generator.normal(size=rows)


def poisson_pairs(seed, rows=20_000, fresh=10_000, columns=20):
    """Counts by six pairs, of numbers and of a category, and four main effects."""
    generator = np.random.default_rng(52_000 + seed)
    n = rows + fresh
    x = generator.uniform(-1, 1, size=(n, columns))
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])
    sort = generator.integers(6, size=n)
    table["x19"] = np.array(list("abcdef"), dtype=object)[sort]
    slopes = generator.normal(size=6)
    scores = 0.5 + 0.5 * np.sin(3 * x[:, 0]) + 0.4 * x[:, 1] ** 2 - 0.5 * x[:, 2] + 0.3 * np.abs(x[:, 3])
    scores += 0.5 * x[:, 0] * x[:, 1] + 0.5 * np.sin(3 * x[:, 4]) * x[:, 5] + 0.4 * np.sign(x[:, 6]) * np.sign(x[:, 7])
    scores += 0.6 * np.exp(-4 * (x[:, 8] ** 2 + x[:, 9] ** 2)) + 0.5 * np.maximum(x[:, 2] + x[:, 10] - 0.5, 0)
    scores += 0.4 * slopes[sort] * x[:, 11]
    y = generator.poisson(np.exp(scores))
    return table.iloc[:rows], y[:rows], table.iloc[rows:], y[rows:], np.exp(scores[rows:])
