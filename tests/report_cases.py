"""Explanations as dicts, as their to_dict() makes them, with names that try to break out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sparsenam.explain import Explanation, LocalExplanation

HOSTILE = (
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(2)">',
    "\" onfocus=alert(3) autofocus x='",
    "line\u2028and\u2029paragraph",
    "<!--<script>",
    "${alert(4)} $title {{x}}",
    "right\u202eto left",
    "nul\x00 and \ud800 half",
    "&lt;b&gt; &amp;",
    "a" * 180,
    "   ",
    "</style><style>*{display:none}</style>",
    "javascript:alert(5)",
    "Größe in m² – 日本語 🙂",
    "]]><svg onload=alert(6)>",
)


def explanation(*case, **more) -> Explanation:
    """Return the explanation of `explanation_dict`."""
    return Explanation.from_dict(explanation_dict(*case, **more))


def local_explanation(*case, **more) -> LocalExplanation:
    """Return the explanation of `local_dict`."""
    return LocalExplanation.from_dict(local_dict(*case, **more))


def explanation_dict(features: int = 30, outputs: int = 1, task: str = "regression", hostile: bool = True):
    """Return the dict of an explanation: every fourth column a category, every third with missing cells."""
    draw = np.random.default_rng(0)
    names = [f"column {index}" for index in range(features)]
    if hostile:
        names[: len(HOSTILE)] = HOSTILE[:features]
    made = [_feature(draw, name, index, outputs) for index, name in enumerate(names)]
    made.sort(key=lambda feature: -feature["mean_absolute"])
    labels = ["y"] if outputs == 1 else [f"class {index}" for index in range(outputs)]
    if hostile and outputs > 1:
        labels[0] = HOSTILE[1]
    dropped = [
        {
            "name": f"noise {index}",
            "reason": "its share is within the penalty",
            "slack": float(draw.uniform()),
        }
        for index in range(features // 2)
    ]
    dropped.append({"name": HOSTILE[0] + "2", "reason": "it holds one single value: " + HOSTILE[1], "slack": None})
    return {
        "schema": 1,
        "task": task,
        "target": "price <b>in</b> €" if hostile else "price",
        "outputs": labels,
        "link": {"regression": "identity", "classification": "logit", "survival": "log"}[task],
        "units": {"regression": "€", "classification": "log odds of 'yes'", "survival": "log hazard"}[task],
        "intercept": draw.normal(size=outputs).tolist(),
        "features": made,
        "pairs": [_pair(draw, one, other, outputs) for one, other in pairwise(made[:5])],
        "dropped": dropped,
        "card": _card(features + len(dropped)),
        **_selection(draw, names),
        "history": [{"epoch": epoch, "loss": 1 / (epoch + 1), "terms": features} for epoch in range(40)],
        "edits": _edits(draw, made, hostile),
    }


def local_dict(rows: int = 3, features: int = 16, outputs: int = 1, hostile: bool = True):
    """Return the dict of a local explanation whose effects add up."""
    draw = np.random.default_rng(1)
    names = [*(HOSTILE if hostile else ()), *(f"column {index}" for index in range(features))][:features]
    made = []
    for row in range(rows):
        effects = draw.normal(size=(features, outputs)) * draw.uniform(0, 1.5, size=(features, 1))
        intercept = draw.normal(size=outputs)
        score = intercept + effects.sum(axis=0)
        order = np.argsort(-np.abs(effects).max(axis=1))
        contributions = [
            {
                "feature": names[index],
                "value": "<i>8.3</i>" if index == 2 else f"{draw.normal():.3g}",
                "effect": effects[index].tolist(),
                "text": f"{names[index]} adds {effects[index][0]:+.2g}",
            }
            for index in order
        ]
        label = HOSTILE[0] if hostile and row == 1 else f"row {row}"
        made.append(
            {
                "row": label,
                "prediction": score.tolist(),
                "score": score.tolist(),
                "intercept": intercept.tolist(),
                "contributions": contributions,
            }
        )
    labels = ["y"] if outputs == 1 else [f"class {index}" for index in range(outputs)]
    return {
        "schema": 1,
        "outputs": labels,
        "link": "identity",
        "units": "€",
        "reference": "the mean row",
        "rows": made,
    }


def _pair(draw, one, other, outputs: int):
    """Return the joint effect of two features, of many nodes where they are numbers."""
    axes = [_pair_axis(feature) for feature in (one, other)]
    shape = [len(axis["main"]) for axis in axes]
    share = draw.uniform(size=shape) * (draw.uniform(size=shape) < 0.5) + 1e-9
    first, second = (np.sin(np.linspace(0, draw.uniform(2, 9), length)) for length in shape)
    effect = first[:, None, None] * second[:, None] * draw.normal(size=outputs)
    return {
        "one": axes[0],
        "other": axes[1],
        "mean_absolute": float(draw.uniform(0.1, 0.5)),
        "variation": 2.0,
        "effect": effect.tolist(),
        "share": (share / share.sum()).tolist(),
        "reason": "it was asked for: " + HOSTILE[1],
        "deviation": None,
    }


def _pair_axis(feature):
    levels, curve, missing = feature["levels"], feature["curve"], feature["missing"]
    main = [level["effect"] for level in levels] if levels else list(curve["effect"])
    return {
        "name": feature["name"],
        "kind": feature["kind"],
        "x": None if levels else list(curve["x"]),
        "levels": [level["name"] for level in levels] if levels else None,
        "missing": missing is not None,
        "main": main + ([] if missing is None else [missing["effect"]]),
    }


def _feature(draw, name: str, index: int, outputs: int):
    size = float(np.exp(-index / 8))
    feature = {
        "name": name,
        "kind": "number",
        "mean_absolute": size * float(draw.uniform(0.6, 1)),
        "variation": 3 * size,
        "norm": size * 1.7,
        "entry": None if index == 5 else index + 1,
        "curve": None,
        "density": None,
        "levels": None,
        "missing": None,
        "substitutes": {HOSTILE[0]: 0.93, "twin": 0.88} if index == 1 else {},
        "reason": "",
        "kept_in": None if index == 5 else 1.0 - index / 40,
        "form": "curved",
        "stability": None,
    }
    if index % 3 == 0:
        feature["missing"] = {
            "effect": (size * draw.normal(size=outputs)).tolist(),
            "count": int(draw.integers(1, 900)),
        }
    if index % 4 == 2:
        feature["kind"] = "ordered" if index % 8 == 6 else "category"
        feature["levels"] = _levels(draw, 60 if index == 10 else 2 + index % 9, size, outputs)
        return feature
    if index % 7 == 4:
        feature["kind"] = "date"
    x = (
        np.linspace(17000, 19000, 200)
        if feature["kind"] == "date"
        else np.sort(draw.normal(size=200) * 10.0 ** draw.integers(-2, 5))
    )
    unit = (x - x.min()) / np.ptp(x)
    waves = np.stack([np.sin(6 * unit * draw.uniform(0.3, 1.5) + draw.uniform(0, 6)) for _ in range(outputs)], axis=1)
    counts, edges = np.histogram(draw.choice(x, 4000), bins=30)
    feature["curve"] = _curve(x.tolist(), (size * waves).tolist())
    feature["density"] = {"edges": edges.tolist(), "counts": counts.tolist()}
    return feature


def _curve(x, effect):
    return {"x": x, "effect": effect, "deviation": None, "whole": None}


def _edits(draw, made, hostile: bool):
    """Return an edit of every third feature, the last of which drops it, and one of the intercept."""
    words = {"request": "flat from 1 to 2", "reason": HOSTILE[1] if hostile else "by law", "who": "A. Ng"}
    words |= {"when": "2026-01-31T12:30:00+00:00", "loss_before": 0.5, "loss_after": 0.53}
    edits = []
    for feature in made[::3]:
        levels, curve = [level["name"] for level in feature["levels"] or ()], feature["curve"]
        if curve is None:
            effects = [level["effect"] for level in feature["levels"]]
            curve = _curve(list(range(len(levels))), effects)
        after = curve | {"effect": [[value * draw.uniform() for value in row] for row in curve["effect"]]}
        kinds = {"is_date": feature["kind"] == "date", "levels": levels}
        drawn = {"kind": "set_shape", "column": feature["name"], "before": curve, "after": after}
        edits.append(words | kinds | drawn)
    for edit in edits[-1:]:
        edit |= {"kind": "drop", "after": None}
    nothing = {"column": None, "before": None, "after": None, "levels": [], "is_date": False, "loss_after": None}
    return [*edits, words | nothing | {"kind": "shift_intercept"}]


def _levels(draw, count: int, size: float, outputs: int):
    names = [*HOSTILE[:3], *(f"level {index}" for index in range(count))][:count]
    return [
        {
            "name": name,
            "effect": (size * draw.normal(size=outputs)).tolist(),
            "count": int(draw.integers(1, 5000)),
            "deviation": None,
        }
        for name in names
    ]


def _card(columns: int):
    return {
        "rows": 20640,
        "columns": columns,
        "seconds": 12.345,
        "estimator": "SNAMRegressor",
        "settings": {
            "penalty": "group lasso",
            "random_state": None,
            "alphas": [1.0, 0.1],
            "note": HOSTILE[0],
            "prune": True,
        },
        "versions": {"sparsenam": "0.1.0", "torch": "2.13.0", "python": "3.12.3"},
        "alpha": 0.01,
        "certificate": {"gap": 3.2e-7, "tol": 1e-6, "slack": {"noise 0": 0.4, HOSTILE[1]: 0.2}},
        "explained": {"share": 0.812, "error": 0.011},
        "notes": ["The folds contradict each other: " + HOSTILE[0]],
        "scores": {"R²": 0.812, "mean absolute error": 0.31},
        "created": "2025-01-31T12:00:00+00:00",
    }


def _selection(draw, names: list[str]):
    alphas = np.geomspace(1, 1e-3, 20)
    mean = 1 + (np.log10(alphas) + 2) ** 2 / 4
    curve = [
        {
            "alpha": float(alpha),
            "features": min(index * 2, len(names)),
            "mean": float(value),
            "standard_error": 0.05,
        }
        for index, (alpha, value) in enumerate(zip(alphas, mean, strict=True))
    ]
    entering = np.linspace(0, 0.9, len(names))
    reach = np.maximum(np.linspace(0, 1, 20)[:, None] - entering, 0) * draw.uniform(0.5, 2, size=len(names))
    path = {"alphas": alphas.tolist(), "names": names, "norms": reach.tolist()}
    return {"curve": curve, "chosen": {"best": 13, "taken": 10}, "path": path}
