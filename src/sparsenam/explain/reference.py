"""Importances measured on histograms; effects on classes read against one of them instead of against the average."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Numbers
from sparsenam.errors import InputError, describe, nearest
from sparsenam.explain.explanation import Curve, Explanation, Feature, Pair, most_important_first
from sparsenam.fit.editing import within_bins

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def importance_of(effects: Matrix, rows: Vector) -> dict[str, float]:
    """Return the mean absolute effect and the variation of effects (points, outputs) that so many ``rows`` have."""
    if not rows.any():
        return {"mean_absolute": 0.0, "variation": 0.0}
    sizes = np.average(np.abs(effects), axis=0, weights=rows)
    return {"mean_absolute": float(sizes.mean()), "variation": float(np.ptp(effects[rows > 0], axis=0).max())}


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
    return replace(
        explanation,
        outputs=names[:index] + names[index + 1 :],
        units=f"log odds against {reference!r}",
        intercept=_less(explanation.intercept, index),
        features=most_important_first(_feature(feature, index) for feature in explanation.features),
        edits=tuple(
            replace(edit, before=_curve(edit.before, index), after=_curve(edit.after, index))
            for edit in explanation.edits
        ),
        pairs=most_important_first(_pair(pair, index) for pair in explanation.pairs),
    )


def _less(effect: Numbers, index: int) -> Numbers:
    """Return effects (outputs,) less that of one output, which is left out."""
    return tuple(value - effect[index] for output, value in enumerate(effect) if output != index)


def _each(effects: Iterable[Numbers], index: int) -> tuple[Numbers, ...]:
    return tuple(_less(effect, index) for effect in effects)


def _curve(curve: Curve | None, index: int) -> Curve | None:
    return None if curve is None else replace(curve, effect=_each(curve.effect, index))


def _feature(feature: Feature, index: int) -> Feature:
    levels, missing = feature.levels, feature.missing
    if levels is not None:
        levels = tuple(replace(level, effect=_less(level.effect, index)) for level in levels)
    if missing is not None:
        missing = replace(missing, effect=_less(missing.effect, index))
    return measured(replace(feature, curve=_curve(feature.curve, index), levels=levels, missing=missing))


def measured(feature: Feature) -> Feature:
    """Return a feature with the importances of its effects over its levels, histogram and missing cells.

    Each row counts once, those of a bin spread evenly within it.
    """
    parts = [*(feature.levels or ()), *(() if feature.missing is None else (feature.missing,))]
    effects, counts = [part.effect for part in parts], [float(part.count) for part in parts]
    curve, density = feature.curve, feature.density
    if feature.levels is None and curve is not None and density is not None:
        x, rows = within_bins(density)
        columns = [np.interp(x, curve.x, column).tolist() for column in zip(*curve.effect, strict=True)]
        effects += zip(*columns, strict=True)
        counts += rows.tolist()
    return replace(feature, **importance_of(np.array(effects, dtype=np.float64), np.array(counts)))


def _pair(pair: Pair, index: int) -> Pair:
    one, other = (replace(axis, main=_each(axis.main, index)) for axis in (pair.one, pair.other))
    effect, share = tuple(_each(row, index) for row in pair.effect), np.array(pair.share)
    sizes = importance_of(np.array(effect).reshape(share.size, -1), share.ravel())
    return replace(pair, one=one, other=other, effect=effect, **sizes)
