"""Explanations as interpret has them, so that its dashboard and pictures show our models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.estimators import AdditiveEstimator
from sparsenam.explain import Explanation
from sparsenam.explain.explanation import POINTWISE, Feature
from sparsenam.explain.pairs import Pair, PairAxis
from sparsenam.interop.libraries import library

Vector = NDArray[np.float64]


def interpret_explanation(
    model: AdditiveEstimator | Explanation, output: str | int | None = None, name: str | None = None
) -> Any:
    """Return the explanation of a whole model as an explanation of interpret.

    ``show`` and ``preserve`` of interpret take it, and ``visualize(i)`` draws feature i: a line for a curve, which is
    exact between its points, bars for levels, a map for a pair. What it draws are the numbers of `explain`; bounds are
    those of 95 % at each point, where they are known.

    Parameters
    ----------
    model : fitted estimator, or what its ``explain`` returned
    output : str or int, optional
        The output to show, by name or place; needed where there are several.
    name : str, optional
        What interpret calls the model.
    """
    templates = library("interpret.api.templates", "interpret-core", "interpret_explanation")
    pandas = library("pandas", "pandas", "interpret_explanation")
    found = model if isinstance(model, Explanation) else model.explain()
    at = _output(found, output)
    specific = [_feature(feature, at) for feature in found.features] + [_pair(pair, at) for pair in found.pairs]
    limits = [bound for part in specific for bound in part.pop("limits")]
    bounds = (min(limits, default=0.0), max(limits, default=0.0))  # one scale for all pictures, as EBMs have it
    for part in specific:
        part["scores_range"] = bounds
    names = [feature.name for feature in found.features]
    names += [f"{pair.one.name} & {pair.other.name}" for pair in found.pairs]
    kinds = [_kind(feature) for feature in found.features] + ["interaction"] * len(found.pairs)
    sizes = [part.mean_absolute for part in (*found.features, *found.pairs)]
    densities = [part.get("density", {}) for part in specific]
    content = {
        "overall": {"type": "univariate", "names": names, "scores": sizes},
        "specific": specific,
        "mli": [
            {"explanation_type": "ebm_global", "value": {"feature_list": specific}},
            {"explanation_type": "density", "value": {"density": densities}},
        ],
    }
    shown = ["categorical" if kind in ("nominal", "ordinal") else kind for kind in kinds]
    selector = pandas.DataFrame({"Name": names, "Type": shown, "# Unique": np.nan, "% Non-zero": np.nan})
    return templates.FeatureValueExplanation(
        "global", content, feature_names=names, feature_types=kinds, name=name or "sparsenam", selector=selector
    )


def _output(explanation: Explanation, output: str | int | None) -> int:
    """Return the place of the output to show."""
    outputs = explanation.outputs
    if output is None and len(outputs) == 1:
        return 0
    if isinstance(output, str) and output in outputs:
        return outputs.index(output)
    if isinstance(output, int) and not isinstance(output, bool) and 0 <= output < len(outputs):
        return output
    got = "none" if output is None else repr(output)
    raise InputError(describe("output", f"one of {list(outputs)}, or its place", got, "choose one"))


def _kind(feature: Feature) -> str:
    if feature.levels is None:
        return "continuous"
    return "ordinal" if feature.kind == "ordered" else "nominal"


def _feature(feature: Feature, output: int) -> dict[str, Any]:
    """Return a column's effect: the points of its curve, or its levels and missing cells."""
    missing = feature.missing
    record: dict[str, Any] = {"type": "univariate", "feature_name": feature.name}
    if missing is not None:
        record["missing_score"] = missing.effect[output]
    if feature.levels is None:
        curve = feature.curve
        scores = np.array([] if curve is None else [effect[output] for effect in curve.effect])
        deviation = None if curve is None or curve.deviation is None else [row[output] for row in curve.deviation]
        record["names"] = [] if curve is None else list(curve.x)
        if feature.density is not None:
            record["density"] = {"names": list(feature.density.edges), "scores": list(feature.density.counts)}
    else:
        levels = feature.levels
        scores = np.array([level.effect[output] for level in levels])
        known = [level.deviation[output] for level in levels if level.deviation is not None]
        deviation = known if len(known) == len(levels) else None
        record["names"], counts = [level.name for level in levels], [level.count for level in levels]
        if missing is not None:
            record["names"], counts = [*record["names"], "missing"], [*counts, missing.count]
            scores = np.append(scores, missing.effect[output])
            deviation = None if deviation is None else [*deviation, 0.0]
        record["density"] = {"names": record["names"], "scores": counts}
    return record | {"scores": scores} | _bounds(scores, deviation)


def _bounds(scores: Vector, deviation: Sequence[float] | None) -> dict[str, Any]:
    if deviation is None:
        return {"upper_bounds": None, "lower_bounds": None, "limits": scores.tolist()}
    width = POINTWISE * np.array(deviation)
    upper, lower = scores + width, scores - width
    return {"upper_bounds": upper, "lower_bounds": lower, "limits": [*upper.tolist(), *lower.tolist()]}


def _pair(pair: Pair, output: int) -> dict[str, Any]:
    """Return a pair's effect at the nodes of its grid, shape (nodes of one, nodes of other)."""
    scores = np.array([[node[output] for node in line] for line in pair.effect])
    return {
        "type": "interaction",
        "left_names": _nodes(pair.one),
        "right_names": _nodes(pair.other),
        "scores": scores,
        "limits": [float(scores.min()), float(scores.max())],
    }


def _nodes(axis: PairAxis) -> list[Any]:
    """Return the nodes of an axis: numbers where all are, else texts."""
    if axis.x is not None and not axis.missing:
        return list(axis.x)
    return [axis.text_at(node) for node in range(axis.size)]
