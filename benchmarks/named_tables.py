"""Tables of `pairs.py named`: generated ones with known surfaces, and real ones, each with the pairs that are named."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from real.tables import split_of


@dataclass(frozen=True)
class Named:
    """Rows to learn from, rows to judge by, and the pairs that every model is given."""

    kind: str
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray
    pairs: list


def frame(x):
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])


def cut(kind, table, y, rows, pairs):
    """Return a table of which the first rows are learnt from; classes are indices from 0."""
    fresh = table.iloc[rows:].reset_index(drop=True)
    return Named(kind, table.iloc[:rows], y[:rows], fresh, y[rows:], pairs)


def all_pairs(names):
    return [(one, other) for place, one in enumerate(names) for other in names[:place]]


def buildings(generator):
    """A grid of 12 shapes, 4 directions and 16 windows, of which 770 are known; eight columns of few values."""
    shape, side, share, spread = (part.ravel() for part in np.meshgrid(range(12), range(4), range(4), range(5)))
    height = np.where(shape < 6, 7.0, 3.5)
    compact = 0.98 - 0.03 * shape - 0.01 * (shape > 5)
    surface, wall = 500 + 25.0 * shape + 8 * (shape % 3), 245 + 24.5 * ((5 * shape) % 7)
    roof = np.where(shape < 6, 110 + 12.0 * (shape % 3), 220.0)
    share = share * 0.1 + 0.1 * (share > 0)
    x = np.column_stack([compact, surface, wall, roof, height, side, share, spread])
    heat = 10 + 12 * (height > 5) + 0.03 * (wall - 300) * (height > 5) - 4 * (compact < 0.7)
    heat += 20 * share * (1 + 0.5 * (height > 5)) + 3 * (surface > 650) * (share > 0.2)
    heat += 1.5 * (side == 2) * (share > 0) * (roof > 120) + 2 * np.sin(shape) * (height > 5)
    heat += 0.8 * (spread == 3) * (share > 0.1) + generator.normal(0, 1.0, shape.size)
    order = generator.permutation(shape.size)
    pairs = [("x0", "x6"), ("x2", "x4"), ("x1", "x6"), ("x5", "x6"), ("x3", "x5")]
    return cut("number", frame(x[order]), heat[order], 580, pairs)


def step_pairs(generator, rows=2000):
    x = generator.uniform(0, 1, (rows + 4000, 6))
    y = 2.0 * (x[:, 0] > 0.4) + 1.0 * (x[:, 3] > 0.7) + x[:, 5]
    y += 2.0 * ((x[:, 0] > 0.6) & (x[:, 1] > 0.5)) + 1.5 * ((x[:, 2] > 0.3) & (x[:, 3] < 0.45)) * (x[:, 2] < 0.8)
    y += 1.0 * np.floor(3 * x[:, 4]) * (x[:, 5] > 0.5) + generator.normal(0, 0.5, len(x))
    return cut("number", frame(x), y, rows, [("x0", "x1"), ("x2", "x3"), ("x4", "x5")])


def ridges(generator, rows=2500):
    x = generator.normal(size=(rows + 4000, 6))
    y = np.sin(2 * (x[:, 0] + x[:, 1])) + np.maximum(x[:, 2] - x[:, 3], 0) + np.tanh(3 * (x[:, 1] * x[:, 4]))
    return cut(
        "number", frame(x), y + generator.normal(0, 0.4, len(x)), rows, [("x0", "x1"), ("x2", "x3"), ("x1", "x4")]
    )


def bumps(generator, rows=3000):
    x = generator.uniform(-2, 2, (rows + 4000, 5))
    y = 2 * np.exp(-3 * ((x[:, 0] - 0.5) ** 2 + (x[:, 1] + 0.5) ** 2)) + np.exp(-((x[:, 2] - x[:, 3]) ** 2)) * x[:, 2]
    y += np.sin(x[:, 4]) * x[:, 0]
    return cut(
        "number", frame(x), y + generator.normal(0, 0.4, len(x)), rows, [("x0", "x1"), ("x2", "x3"), ("x0", "x4")]
    )


def texts(generator, rows=3000):
    """Two classes by three pairs of categories."""
    x = generator.integers(8, size=(rows + 4000, 5))
    scores = sum(generator.normal(0, 0.4, 8)[x[:, j]] for j in range(5))
    pairs = [(0, 1), (2, 3), (0, 4)]
    scores = scores + sum(generator.choice([-1.2, 1.2], (8, 8))[x[:, a], x[:, b]] for a, b in pairs)
    y = (generator.uniform(size=len(x)) < 1 / (1 + np.exp(-scores))).astype(int)
    table = pd.DataFrame({f"x{j}": np.array(list("abcdefgh"), dtype=object)[x[:, j]] for j in range(5)})
    return cut("binary", table, y, rows, [(f"x{a}", f"x{b}") for a, b in pairs])


def slopes_by_level(generator, rows=2500):
    sort, x = generator.integers(10, size=rows + 4000), generator.normal(size=(rows + 4000, 4))
    y = (
        generator.normal(0, 1, 10)[sort] * x[:, 0]
        + generator.normal(0, 0.7, 10)[sort] * (x[:, 1] > 0)
        + np.sin(x[:, 2])
    )
    table = frame(x).assign(sort=np.array(list("abcdefghij"), dtype=object)[sort])
    return cut(
        "number", table, y + generator.normal(0, 0.7, len(x)), rows, [("sort", "x0"), ("sort", "x1"), ("x2", "x3")]
    )


def hours(generator, rows=5000):
    """Counts a hour, more varied than Poisson's, by the hour on working days and others, and by the weather."""
    n = rows + 4000
    hour, work, season = generator.integers(24, size=n), generator.integers(2, size=n), generator.integers(4, size=n)
    warm, wet, wind = season * 5 + generator.normal(5, 4, n), generator.uniform(20, 100, n), generator.gamma(2, 5, n)
    on_work = 1.8 * np.exp(-((hour - 8) ** 2) / 2) + 2.0 * np.exp(-((hour - 17.5) ** 2) / 4) + 0.8 * (hour > 9)
    off_work = 2.3 * np.exp(-((hour - 14) ** 2) / 18) + 0.3 * (hour < 2)
    scores = 2.5 + np.where(work == 1, on_work, off_work) + 0.04 * warm - 0.012 * np.maximum(wet - 60, 0) - 0.01 * wind
    scores += 0.4 * (season == 3) * (warm > 18) * (hour > 10) - 0.5 * ((wet > 85) & (warm < 10))
    y = generator.poisson(np.exp(scores) * generator.gamma(8, 1 / 8, n)).astype(float)
    columns = [hour, work, season, warm, wet, wind, warm + generator.normal(0, 1, n), generator.integers(7, size=n)]
    pairs = [("x0", "x1"), ("x0", "x3"), ("x3", "x4"), ("x2", "x3"), ("x0", "x6")]
    return cut("count", frame(np.column_stack(columns).astype(float)), y, rows, pairs)


def regions(generator, rows=3000):
    """Four classes by steps in pairs."""
    x = generator.uniform(-1, 1, (rows + 4000, 5))
    scores = np.zeros((len(x), 4))
    scores[:, 0] = 2.0 * (x[:, 0] * x[:, 1] > 0) + x[:, 4]
    scores[:, 1] = 2.5 * ((x[:, 1] > 0.2) & (x[:, 2] < 0.1))
    scores[:, 2] = 2.0 * np.sin(4 * (x[:, 2] + x[:, 3]))
    scores[:, 3] = 1.5 * (x[:, 4] ** 2 > 0.4)
    y = np.argmax(scores + generator.gumbel(size=scores.shape), axis=1)
    return cut("classes", frame(x), y, rows, [("x0", "x1"), ("x1", "x2"), ("x2", "x3")])


def clusters(generator, rows=4050, columns=5, number=40, is_wide=False):
    """Two classes, each of many clusters: every pair says something, none says all."""
    n = rows + 4000
    centres, owner = generator.normal(0, 1, (number, columns)), generator.integers(number, size=n)
    x = centres[owner] + (0.35 if not is_wide else 0.5) * generator.normal(size=(n, columns))
    if is_wide:
        x = np.sinh(x)
    y = (owner < 0.3 * number).astype(int)
    flip = generator.uniform(size=n) < 0.05
    return cut("binary", frame(x), np.where(flip, 1 - y, y), rows, all_pairs([f"x{j}" for j in range(columns)])[:10])


def showers(generator):
    return clusters(generator, rows=6000, columns=10, number=60, is_wide=True)


def real(name, pairs):
    def make(generator, name=name, pairs=pairs):
        split = split_of(name, int(generator.integers(1000)))
        return Named(split.task.kind, split.task.X, split.task.y, split.X_test, split.judged, pairs)

    return make


GENERATED = {
    each.__name__: each
    for each in (buildings, step_pairs, ridges, bumps, texts, slopes_by_level, hours, regions, clusters, showers)
}
REAL = {
    name: real(name, pairs)
    for name, pairs in {
        "computer_prices": [("speed", "trend"), ("ram", "trend"), ("hd", "trend"), ("ram", "hd")],
        "covid_tests": [("pan_day", "clinic_name"), ("age", "pan_day"), ("demo_group", "pan_day")],
        "remifentanil_in_blood": [("Time", "Rate"), ("Time", "Amt"), ("Time", "Subject")],
    }.items()
}
NAMED = GENERATED | REAL


def named_table(name, seed):
    return NAMED[name](np.random.default_rng([seed, list(NAMED).index(name)]))
