"""Simulated tables of `signals.py`: weak laws, genes, mixed columns. Each is drawn from its seed alone.

A `Draw` has rows to train on and fresh rows; ``truth`` is the score without noise on the fresh rows. The seeds of each
law start at an offset of 40,000 and more, so that no table is one on which a rule was made.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

FRESH = 4000
WEAK = {"weak200x10": (200, 10, 0.5), "weak400x30": (400, 30, 0.35), "weak1000x40": (1000, 40, 0.2)}
SHAPES = (
    lambda x: np.sin(2 * x),
    lambda x: x,
    lambda x: x**2,
    lambda x: np.tanh(3 * x),
    np.abs,
    lambda x: np.exp(-2 * x**2),
    lambda x: np.sign(x) * x**2,
    lambda x: np.cos(2.5 * x),
    lambda x: np.maximum(x, 0),
)


@dataclass(frozen=True, eq=False)
class Draw:
    """X, y to train on; X_fresh, truth, y_fresh to judge by; the indices of the columns that matter."""

    kind: str  # regression or classification
    X: object
    y: np.ndarray
    X_fresh: object
    truth: np.ndarray
    y_fresh: np.ndarray
    true_columns: tuple[int, ...] = ()


def split(kind, X, y, scores, rows, true_columns):
    """Return the first rows to train on and the others as fresh ones."""
    part = (
        (lambda table, which: table.iloc[which]) if isinstance(X, pd.DataFrame) else (lambda table, which: table[which])
    )
    first, rest = slice(None, rows), slice(rows, None)
    return Draw(kind, part(X, first), y[first], part(X, rest), scores[rest], y[rest], tuple(map(int, true_columns)))


def drawn_target(kind, scores, generator):
    """Return scores with normal noise of variance 1, or classes of these log odds."""
    if kind == "regression":
        return scores + generator.normal(size=scores.size)
    return (generator.uniform(size=scores.size) < 1 / (1 + np.exp(-scores))).astype(int)


def weak_steps(rows, columns, size, seed):
    """Eight soft steps and two waves of equal size among normal columns."""
    generator = np.random.default_rng(40_000 + seed)
    X = generator.normal(size=(rows + FRESH, columns))
    scores = size * (np.tanh(2 * X[:, :8]).sum(axis=1) + np.sin(2 * X[:, 8:10]).sum(axis=1))
    return split("regression", X, drawn_target("regression", scores, generator), scores, rows, range(10))


def weak_shapes(seed, rows=500, columns=60, n_true=15, size=0.28):
    """Fifteen effects of nine shapes, each of standard deviation ``size``, at random places."""
    generator = np.random.default_rng(41_000 + seed)
    X = generator.normal(size=(rows + FRESH, columns))
    true = np.sort(generator.choice(columns, n_true, replace=False))
    scores = np.zeros(len(X))
    for place, column in enumerate(true):
        values = SHAPES[place % len(SHAPES)](X[:, column])
        scores += size * (values - values.mean()) / values.std()
    return split("regression", X, drawn_target("regression", scores, generator), scores, rows, true)


def logistic(seed, rows=500, columns=30):
    """Two classes: six soft steps, a wave and a square."""
    generator = np.random.default_rng(42_000 + seed)
    X = generator.normal(size=(rows + FRESH, columns))
    scores = 0.6 * np.tanh(2 * X[:, :6]).sum(axis=1) + 0.5 * np.sin(2 * X[:, 6]) + 0.4 * (X[:, 7] ** 2 - 1) / np.sqrt(2)
    return split("classification", X, drawn_target("classification", scores, generator), scores, rows, range(8))


def strong_and_weak(seed, rows=1000, columns=50):
    """Two strong curves, and six weak effects behind them."""
    generator = np.random.default_rng(43_000 + seed)
    X = generator.normal(size=(rows + FRESH, columns))
    scores = 1.2 * np.sin(2 * X[:, 0]) + 0.8 * (X[:, 1] ** 2 - 1) + 0.2 * np.tanh(2 * X[:, 2:6]).sum(axis=1)
    scores += 0.2 * X[:, 6] + 0.2 * np.abs(X[:, 7])
    return split("regression", X, drawn_target("regression", scores, generator), scores, rows, range(8))


def nothing(seed, rows=400, columns=30):
    """Noise alone."""
    generator = np.random.default_rng(44_000 + seed)
    X = generator.normal(size=(rows + FRESH, columns))
    scores = np.zeros(len(X))
    return split("regression", X, drawn_target("regression", scores, generator), scores, rows, ())


def genes(classes, rows, seed, columns=2000, block=20, correlation=0.6, n_true=10, shift=0.6, fresh=2000):
    """Normal columns in correlated blocks; the means of ten, each in another block, hang on the class.

    The class means of such a column have standard deviation ``shift`` where the spread within a class is 1.
    """
    generator = np.random.default_rng(45_000 + 10 * seed + classes)
    n = rows + fresh
    common = np.repeat(generator.normal(size=(n, columns // block)), block, axis=1)
    X = np.sqrt(correlation) * common + np.sqrt(1 - correlation) * generator.normal(size=(n, columns))
    blocks = np.sort(generator.choice(columns // block, n_true, replace=False))
    true = blocks * block + generator.integers(block, size=n_true)
    # every class as often as the others among the rows to train on
    y = np.concatenate([generator.permutation(np.arange(rows) % classes), generator.integers(classes, size=fresh)])
    means = generator.normal(size=(classes, n_true))
    means -= means.mean(axis=0)
    X[:, true] += shift * (means / means.std(axis=0))[y]
    return split("classification", X, y, np.zeros(n), rows, true)


def levels_of(generator, rows, size, word):
    """Return a text column of ``size`` unequally frequent levels, and an effect of variance about 1 for each row."""
    which = generator.choice(size, rows, p=generator.dirichlet(np.full(size, 2.0)))
    return np.array([f"{word}{level}" for level in range(size)], dtype=object)[which], generator.normal(size=size)[
        which
    ]


def with_holes(table, columns, generator, share=0.1):
    """Empty a share of the cells of some columns, completely at random."""
    for name in columns:
        table[name] = table[name].where(generator.uniform(size=len(table)) >= share)
    return table


def mixed30k(kind, seed, rows=30_000, fresh=10_000):
    """Nine numeric columns, skewed, normal and whole; categories of 2, 5, 20, 100 and 500 levels; half have holes."""
    generator = np.random.default_rng(46_000 + seed)
    n = rows + fresh
    columns = {"income": np.exp(generator.normal(10, 0.8, n)), "debt": generator.gamma(1.5, 1000.0, n)}
    columns |= {"wait": np.exp(generator.normal(0, 1.2, n)), "height": generator.normal(170, 10, n)}
    columns |= {"noise_a": generator.normal(size=n), "noise_b": generator.normal(size=n)}
    columns |= {"months": generator.integers(0, 72, n), "visits": generator.poisson(2.0, n)}
    columns |= {"noise_c": generator.integers(0, 10, n)}
    effects = {}
    for size in (2, 5, 20, 100, 500):
        columns[f"levels_{size}"], effects[size] = levels_of(generator, n, size, "level ")
    scores = 0.6 * np.log(columns["income"] / 22_000) - 0.7 * np.tanh(columns["debt"] / 2000)
    scores += 0.3 * np.sin((columns["height"] - 170) / 6) + 0.4 * np.abs(columns["months"] - 36) / 36
    scores += 0.25 * np.sqrt(columns["visits"]) + 0.3 * (effects[5] + effects[20] + effects[100] + effects[500])
    names = list(columns)
    true = [
        place for place, name in enumerate(names) if name not in {"wait", "noise_a", "noise_b", "noise_c", "levels_2"}
    ]
    scores = scores - scores.mean()
    y = drawn_target(kind, scores, generator)
    table = with_holes(pd.DataFrame(columns), names[::2], generator)
    return split(kind, table, y, scores, rows, true)


def mixed2300x73(seed, rows=2300, fresh=2000):
    """A table like one of house prices: 30 numeric, 20 ordered and 23 unordered categories; a third of them matter."""
    generator = np.random.default_rng(47_000 + seed)
    n = rows + fresh
    common = generator.normal(size=n)
    columns, effects = {}, []
    for place in range(30):
        normal = 0.6 * common + 0.8 * generator.normal(size=n)
        shape = (lambda x: x, np.exp, lambda x: np.maximum(np.round(2 * x), 0))[place % 3]
        columns[f"number_{place}"] = shape(normal)
        effects.append(np.tanh(normal))
    for place in range(20):
        normal, grades = 0.4 * common + 0.9 * generator.normal(size=n), ["poor", "fair", "good", "fine", "best"]
        cut = np.digitize(normal, (-1.5, -0.5, 0.5, 1.5))
        columns[f"grade_{place}"] = pd.Categorical.from_codes(cut, grades, ordered=True)
        effects.append((cut - 2) / 1.1)
    for place in range(23):
        columns[f"sort_{place}"], effect = levels_of(generator, n, (3, 5, 8, 25)[place % 4], "sort ")
        effects.append(effect)
    true = np.sort(generator.choice(73, 24, replace=False))
    scores = sum(generator.uniform(0.1, 0.5) * generator.choice((-1, 1)) * effects[place] for place in true)
    y = drawn_target("regression", scores, generator)
    return split("regression", pd.DataFrame(columns), y, scores, rows, true)


def skewed(seed, rows=4000, fresh=4000, columns=57, n_true=50):
    """Two classes by how often words occur: mostly zero, the others lognormal; fifty of 57 words tell."""
    generator = np.random.default_rng(48_000 + seed)
    n = rows + fresh
    present = generator.uniform(size=(n, columns)) < generator.uniform(0.05, 0.35, size=columns)
    X = np.where(present, np.exp(generator.normal(-0.5, 1.0, size=(n, columns))), 0.0)
    true = np.sort(generator.choice(columns, n_true, replace=False))
    sizes = generator.uniform(0.3, 1.2, size=n_true) * generator.choice((-1, 1), size=n_true)
    scores = (sizes * (present[:, true] + np.log1p(X[:, true]))).sum(axis=1)
    scores -= scores.mean()
    return split("classification", X, drawn_target("classification", scores, generator), scores, rows, true)
