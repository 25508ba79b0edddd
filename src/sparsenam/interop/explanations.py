"""Explanations as SHAP and interpret have them, so that their plots and dashboards show our models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Plain
from sparsenam.errors import InputError, describe
from sparsenam.estimators import AdditiveEstimator
from sparsenam.explain import Explanation
from sparsenam.explain.explanation import POINTWISE, Feature, Pair, PairAxis
from sparsenam.explain.local import cell_texts, read_cells
from sparsenam.tables.text import numbered
from sparsenam.text import pair_text

Vector = NDArray[np.float64]


class LibraryError(ImportError):
    """A library that a model shall be handed to is not installed."""


def library(name: str, package: str, where: str) -> ModuleType:
    """Return a module of a library; one sentence says what to install where it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        remedy = f'pip install "{package}"'
        raise LibraryError(describe(where, f"the package {package}", "an environment without it", remedy)) from error


def shap_explanation(model: AdditiveEstimator, X: ArrayLike) -> Any:
    """Return what each column adds to each row's score as a ``shap.Explanation``.

    The values are those of `effects`, with each pair as one more feature after the columns, named "a × b", or
    "a × b (2)" where a column has that name. With the base values they add up to the score: the prediction of a
    regression with the identity link, elsewhere log odds or log means. Without pairs they are the Shapley values with
    the training rows as background. Dropped columns have 0.

    Parameters
    ----------
    model : fitted estimator
    X : table of shape (rows, features)
        The rows to explain.

    Returns
    -------
    shap.Explanation
        ``values`` (rows, features + pairs) or, for several outputs, (rows, features + pairs, outputs); ``base_values``
        (rows,) or (rows, outputs), the intercept; ``data`` with numbers, dates as days since 1970-01-01, and
        texts, "missing" where there is none.
    """
    shap = library("shap", "shap", "shap_explanation")
    values = np.concatenate([model.effects(X), model.interaction_effects(X)], axis=1)
    intercept = np.asarray(model.model_.intercept, dtype=np.float64)
    single = values.ndim == 2
    base = np.full(len(values), intercept[0]) if single else np.tile(intercept, (len(values), 1))
    names = numbered([*model.encoder_.names, *(pair_text(one, other) for one, other in model.interactions_)])
    outputs = None if single else list(model.portable().outputs)
    return shap.Explanation(
        values=values, base_values=base, data=_data(model, X), feature_names=names, output_names=outputs
    )


def _data(model: AdditiveEstimator, X: ArrayLike) -> NDArray[np.generic]:
    """Return the cells (rows, features + pairs): numbers where all are numbers, else objects."""
    cells = read_cells(model.fit_.reader(), X)
    columns: list[NDArray[np.generic]] = []
    for column in cells:
        if column.numbers.size:
            columns.append(column.numbers)
            continue
        texts = np.array([*column.values, "missing"], dtype=object)  # whose code is -1; SHAP sorts texts
        columns.append(texts[column.codes])
    if model.interactions_:
        texts = {
            described.name: [text for text, _ in cell_texts(described, column)]
            for described, column in zip(model.encoder_.columns, cells, strict=True)
        }
        for one, other in model.interactions_:
            columns.append(np.array([*map(pair_text, texts[one], texts[other])], dtype=object))
    return np.column_stack(columns)


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


def _feature(feature: Feature, output: int) -> Plain:
    """Return a column's effect: the points of its curve, or its levels and missing cells."""
    missing = feature.missing
    record: Plain = {"type": "univariate", "feature_name": feature.name}
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


def _bounds(scores: Vector, deviation: Sequence[float] | None) -> Plain:
    if deviation is None:
        return {"upper_bounds": None, "lower_bounds": None, "limits": scores.tolist()}
    width = POINTWISE * np.array(deviation)
    upper, lower = scores + width, scores - width
    return {"upper_bounds": upper, "lower_bounds": lower, "limits": [*upper.tolist(), *lower.tolist()]}


def _pair(pair: Pair, output: int) -> Plain:
    scores = np.array([[node[output] for node in line] for line in pair.effect])
    return {
        "type": "interaction",
        "left_names": _nodes(pair.one),
        "right_names": _nodes(pair.other),
        "scores": scores,
        "limits": [float(scores.min()), float(scores.max())],
    }


def _nodes(axis: PairAxis) -> Sequence[float | str]:
    if axis.x is not None and not axis.missing:
        return list(axis.x)
    return [axis.text_at(node) for node in range(axis.size)]
