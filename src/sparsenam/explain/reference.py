"""Effects on classes read against one of them: log odds against a class instead of against the average of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe, nearest
from sparsenam.explain.explanation import Curve, EditRecord, Explanation, Feature
from sparsenam.explain.pairs import Pair
from sparsenam.plain import Numbers, numbers, rows_of_numbers

Matrix = NDArray[np.float64]
POINTS = 8  # of a bin at which an effect is read for its mean


def against_class(explanation: Explanation, reference: str) -> Explanation:
    """Return the explanation of a model of classes with one class as reference, whose score is 0 everywhere.

    Of every effect and of the intercept that of the reference is taken off, and its output is left out; probabilities
    are the same. Importances are those of the differences, over the rows of the histograms and levels, each row
    counting once and spread evenly within its bin; of a pair, over the rows at its nodes.
    """
    names = explanation.outputs
    if explanation.task != "classification" or explanation.link != "log":
        got = f"{explanation.task} with {explanation.units}"
        expected, remedy = "a model of three classes or more", "leave it out: the effects have a reference already"
        raise InputError(describe("reference", expected, got, remedy))
    if reference not in names:
        remedy = nearest(reference, names, "choose one")
        raise InputError(describe("reference", f"one of the classes {list(names)}", repr(reference), remedy))
    index = names.index(reference)
    features = [_feature(feature, index) for feature in explanation.features]
    features.sort(key=lambda feature: (-feature.mean_absolute, feature.name))
    pairs = [_pair(pair, index) for pair in explanation.pairs]
    pairs.sort(key=lambda pair: (-pair.mean_absolute, pair.name))
    return replace(
        explanation,
        outputs=names[:index] + names[index + 1 :],
        units=f"log odds against {reference!r}",
        intercept=_less(explanation.intercept, index),
        features=tuple(features),
        edits=tuple(_edit(edit, index) for edit in explanation.edits),
        pairs=tuple(pairs),
    )


def _less(effect: Numbers, index: int) -> Numbers:
    """Return effects (outputs,) less that of one output, which is left out."""
    return tuple(value - effect[index] for output, value in enumerate(effect) if output != index)


def _curve(curve: Curve | None, index: int) -> Curve | None:
    if curve is None:
        return None
    return replace(curve, effect=rows_of_numbers(_less(effect, index) for effect in curve.effect))


def _edit(edit: EditRecord, index: int) -> EditRecord:
    return replace(edit, before=_curve(edit.before, index), after=_curve(edit.after, index))


def _feature(feature: Feature, index: int) -> Feature:
    curve, missing = _curve(feature.curve, index), feature.missing
    levels = None
    if feature.levels is not None:
        levels = tuple(replace(level, effect=_less(level.effect, index)) for level in feature.levels)
    if missing is not None:
        missing = replace(missing, effect=_less(missing.effect, index))
    made = replace(feature, curve=curve, levels=levels, missing=missing)
    effects, counts = _effects_and_rows(made)
    if not counts.any():
        return replace(made, mean_absolute=0.0, variation=0.0)
    seen = effects[counts > 0]
    sizes = np.average(np.abs(effects), axis=0, weights=counts)
    return replace(made, mean_absolute=float(sizes.mean()), variation=float(np.ptp(seen, axis=0).max()))


def _pair(pair: Pair, index: int) -> Pair:
    one, other = (
        replace(axis, main=rows_of_numbers(_less(effect, index) for effect in axis.main))
        for axis in (pair.one, pair.other)
    )
    effect = tuple(rows_of_numbers(_less(cell, index) for cell in row) for row in pair.effect)
    made, weights = replace(pair, one=one, other=other, effect=effect), np.array(pair.share)
    if not weights.any():
        return replace(made, mean_absolute=0.0, variation=0.0)
    effects = np.array(effect)
    size = float(np.tensordot(weights, np.abs(effects), 2).mean() / weights.sum())
    return replace(made, mean_absolute=size, variation=float(np.ptp(effects[weights > 0], axis=0).max()))


def _effects_and_rows(feature: Feature) -> tuple[Matrix, NDArray[np.float64]]:
    """Return effects (points, outputs) of a feature and how many rows have each, (points,)."""
    effects: list[Numbers] = []
    counts: list[float] = []
    curve, density = feature.curve, feature.density
    if feature.levels is not None:
        effects += [level.effect for level in feature.levels]
        counts += [float(level.count) for level in feature.levels]
    elif curve is not None and density is not None:
        edges = np.array(density.edges)
        inside = (np.arange(POINTS) + 0.5) / POINTS
        x = (edges[:-1, None] + inside * np.diff(edges)[:, None]).ravel()
        columns = [np.interp(x, curve.x, column) for column in zip(*curve.effect, strict=True)]
        effects += rows_of_numbers(np.column_stack(columns))
        counts += numbers(np.repeat(np.array(density.counts) / POINTS, POINTS))
    if feature.missing is not None:
        effects.append(feature.missing.effect)
        counts.append(float(feature.missing.count))
    return np.array(effects), np.array(counts)
