"""Explanations with one pair of columns of any kinds, with random surfaces; and the margins of fitted pairs."""

import numpy as np

from sparsenam.explain import Curve, Density, Explanation, Feature, Level, Missing, Pair, PairAxis

EMPTY = {"norm": 1.0, "entry": None, "substitutes": {}, "reason": ""}


def plain(values):
    return tuple(plain(value) for value in values) if np.ndim(values) else float(values)


def axis(name, kind, outputs, missing, draw, size=None):
    """An axis of a pair, and the feature of its column."""
    levels = tuple(f"{name} {index}" for index in range(size or 4)) if kind in ("category", "ordered") else None
    x = None if levels else np.sort(draw.normal(size=size or 20)) * (1000 if kind == "date" else 1)
    nodes = (len(levels) if levels else x.size) + missing
    main = draw.normal(size=(nodes, outputs))
    made = PairAxis(name, kind, None if levels else plain(x), levels, missing, plain(main))
    shown = {"mean_absolute": 0.3, "variation": 1.0} | EMPTY
    shown |= {"missing": Missing(plain(main[-1]), 9) if missing else None}
    if levels:
        found = tuple(Level(level, plain(effect), 5) for level, effect in zip(levels, main, strict=False))
        return made, Feature(name, kind, curve=None, density=None, levels=found, **shown)
    edges = np.linspace(x[1], x[-2], 31)  # the outermost nodes lie beyond the data
    density = Density(plain(edges), (10,) * 30)
    return made, Feature(
        name, kind, curve=Curve(plain(x), plain(main[: x.size])), density=density, levels=None, **shown
    )


def case(kinds=("number", "number"), missing=(False, False), outputs=1, names=("up", "across"), sizes=(None, None)):
    draw = np.random.default_rng(0)
    parts = [axis(*part, draw, size) for *part, size in zip(names, kinds, (outputs,) * 2, missing, sizes, strict=True)]
    (one, first), (other, second) = parts
    share = draw.uniform(size=(one.size, other.size)) * (draw.uniform(size=(one.size, other.size)) < 0.7)
    effect = draw.normal(size=(one.size, other.size, outputs))
    pair = Pair(one, other, 0.4, 2.0, plain(effect), plain(share / share.sum()), "it was asked for")
    labels = tuple(f"class {index}" for index in range(outputs)) if outputs > 1 else ("y",)
    made = Explanation("regression", None, labels, "identity", "units of y", (0.0,) * outputs, (first, second), (), {},
                       pairs=(pair,))  # fmt: skip
    assert Explanation.from_dict(made.to_dict()) == made
    return made, pair


def margins(pair):
    """The conditional means of a fitted pair over its reference, along either axis; 0 where there are no rows."""
    found = []
    for axis in (1, 0):
        rows, sums = pair.weights.sum(axis=axis)[:, None], (pair.weights[:, :, None] * pair.values).sum(axis=axis)
        found.append(np.divide(sums, rows, out=np.zeros_like(sums), where=rows > 0))
    return found
