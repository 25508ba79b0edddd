"""The shape of a feature as it is drawn: which levels, which axes, where its rows are, its bands, fewer points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_closing

from sparsenam.codec import Numbers
from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import Axis, axis_over
from sparsenam.explain.explanation import POINTWISE, Curve, Explanation, Feature, Level
from sparsenam.fit.summary import Density
from sparsenam.text import MISSING, count_text

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

MOST_BARS = 16  # bars that fit a card and a panel
EFFECT_MARGIN = 0.06  # of the range of effects, above and below
LONG_TAIL = 0.25  # an outer bin longer than this share of all inner ones together is a tail
SKEWED_AXIS, EASED = 4.0, 0.7  # range over that of the middle 80 %, and what must be left of it on a skewed axis
LEAST_BINS = 8  # a histogram with fewer bins shows neither skewness nor gaps
BENT_POINTS = 80  # of a curve on a skewed axis
FEW_STRETCH_ROWS, TAIL_ROWS, LONG_BIN = 5, 20, 3.0  # rows that a stretch has at least; times the width of other bins
THIN = 5e-4  # of a curve's height by which a thinned curve may be off: a tenth of a pixel on the page


def named_features(explanation: Explanation, features: Sequence[str] | int | None) -> list[Feature]:
    """Return features by name, or the largest so many, or all."""
    if features is None:
        return list(explanation.features)
    if isinstance(features, int):
        return list(explanation.features[:features])
    return [explanation.feature(name) for name in ([features] if isinstance(features, str) else features)]


def named_outputs(explanation: Explanation, outputs: Sequence[str] | None, most: int) -> list[int]:
    """Return the indices of outputs by name, or of the ``most`` whose effects vary most, in their order."""
    names = list(explanation.outputs)
    if outputs is None:
        sizes = np.zeros(len(names))
        for feature in explanation.features:
            effects = effects_of(feature)
            if effects.size:
                sizes += np.ptp(np.nan_to_num(effects), axis=0)
        return sorted(np.argsort(-sizes, kind="stable")[:most].tolist())
    wanted = [outputs] if isinstance(outputs, str) else list(outputs)
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        got = repr(unknown[0]) if unknown else "none"
        raise InputError(describe("outputs", f"some of {names}", got, "choose among these"))
    return [names.index(name) for name in wanted]


def kept_text(explanation: Explanation) -> str:
    """Return how many columns and pairs the model keeps."""
    kept = len(explanation.features)
    pairs = f" and {count_text(len(explanation.pairs), 'pair')}" if explanation.pairs else ""
    return f"{kept} of {count_text(kept + len(explanation.dropped), 'column')}{pairs}"


def has_levels(feature: Feature) -> bool:
    """Return whether a feature is drawn level by level, and not as a curve."""
    return feature.curve is None or bool(feature.levels)


def drawn_levels(feature: Feature) -> list[Level]:
    """Return the levels to draw, then the missing cells: the most frequent ones.

    Ordered levels are in their order, others by their effect; by frequency where there are several outputs.
    """
    levels = feature.levels or ()
    frequent = sorted(range(len(levels)), key=lambda index: -levels[index].count)[:MOST_BARS]
    shown = [levels[index] for index in (sorted(frequent) if feature.kind == "ordered" else frequent)]
    if feature.kind != "ordered" and all(len(level.effect) == 1 for level in shown):
        shown.sort(key=lambda level: (math.isnan(level.effect[0]), level.effect[0]))
    if feature.missing is not None:
        shown.append(Level(MISSING, feature.missing.effect, feature.missing.count))
    return shown


def levels_note(feature: Feature) -> str:
    """Return how many levels there are where not all are drawn, else nothing."""
    count = len(feature.levels or ())
    return f"the {MOST_BARS} most frequent of {count} levels" if count > MOST_BARS else ""


def effects_of(feature: Feature) -> Matrix:
    """Return all effects that a drawing of the feature holds, limits of bands included, shape (points, outputs)."""
    if has_levels(feature):
        levels = drawn_levels(feature)
        found = np.array([level.effect for level in levels], dtype=np.float64)
        unknown = (np.nan,) * found.shape[-1]
        half = POINTWISE * np.array([level.deviation or unknown for level in levels], dtype=np.float64)
    else:
        found, half = _curve_effects(feature)
    limits = np.vstack([found - half, found + half])[np.isfinite(np.vstack([half, half])).all(axis=-1)]
    if limits.size:  # a band that is far wider than the curve is tall may leave the picture
        inside = found[np.isfinite(found).all(axis=1)]
        room = np.ptp(inside) if inside.size else 0.0
        found = np.vstack([found, np.clip(limits, inside.min() - room, inside.max() + room)])
    return np.where(np.isfinite(found), found, np.nan)


def _curve_effects(feature: Feature) -> tuple[Matrix, Matrix]:
    """Return the effects of a curve and of a missing cell, and half the width of the band about each, NaN without one.

    Where there are hardly any rows, the curve counts only as far as the range of the rest on either side, and its band
    not at all: it would flatten the rest of the picture.
    """
    curve = feature.curve
    assert curve is not None
    effects = np.array(curve.effect, dtype=np.float64)
    half = np.full(effects.shape, np.nan)
    if curve.deviation is not None and curve.whole is not None:
        half = np.array(curve.deviation) * np.array(curve.whole)
    thin = np.zeros(len(curve.x), dtype=bool)
    for start, stop in thin_spans(feature):
        thin |= (np.array(curve.x) >= start) & (np.array(curve.x) <= stop)
    core = effects[~thin]
    if thin.any() and core.size and np.isfinite(core).all():
        low, high = min(0.0, float(core.min())), max(0.0, float(core.max()))
        effects[thin] = np.clip(effects[thin], 2 * low - high, 2 * high - low)
        half[thin] = np.nan
    if feature.missing is not None:
        effects = np.vstack([effects, feature.missing.effect])
        half = np.vstack([half, np.full(effects.shape[1], np.nan)])
    return effects, half


def effect_axis(features: Iterable[Feature], outputs: Sequence[int], margin: float = EFFECT_MARGIN) -> Axis:
    """Return the axis over the effects of features on some outputs, and over 0."""
    effects = (effects_of(feature) for feature in features)
    return axis_over([0.0, *(value for rows in effects if rows.size for value in rows[:, outputs].ravel())], margin)


def axis_of(feature: Feature, *, whole: bool) -> Axis:
    """Return the horizontal axis of a curve: over all of it, or without long thin tails on either side."""
    x = () if feature.curve is None else feature.curve.x
    kind = "date" if feature.kind == "date" else "number"
    if (unit := skew_unit(feature)) is not None:
        return replace(axis_over(x, kind="skewed"), unit=unit)
    if whole or feature.density is None:
        return axis_over(x, kind=kind)
    edges = np.array(feature.density.edges)
    low, high = float(edges[0]), float(edges[-1])
    if edges.size > 4:
        inner = float(edges[-2] - edges[1])
        low = float(edges[1]) if edges[1] - edges[0] > LONG_TAIL * inner else low
        high = float(edges[-2]) if edges[-1] - edges[-2] > LONG_TAIL * inner else high
    return axis_over([low, high], kind=kind)


def skew_unit(feature: Feature) -> float | None:
    """Return the unit of a skewed axis for a column whose rows would crowd a straight one; None for others.

    A column is skewed where its range is many times the distance between its outer tenths, and much less so on the
    skewed axis.
    """
    density = feature.density
    if density is None or feature.kind != "number" or len(density.counts) < LEAST_BINS or not sum(density.counts):
        return None
    edges, shares = np.array(density.edges), np.cumsum([0, *density.counts]) / sum(density.counts)
    tenths = np.interp((0.1, 0.9), shares, edges)
    if not edges[-1] - edges[0] > SKEWED_AXIS * (tenths[1] - tenths[0]):
        return None
    unit = max(float(edges[0]), float(np.median(np.diff(edges)))) / 3.0
    placed = np.array([Axis(0.0, 1.0, "skewed", unit).place(float(value)) for value in (edges[0], edges[-1], *tenths)])
    better = (placed[1] - placed[0]) * (tenths[1] - tenths[0]) < EASED * (edges[-1] - edges[0]) * (
        placed[3] - placed[2]
    )
    return unit if better else None


def bent(feature: Feature) -> Feature:
    """Return the feature with more points on its curve where a skewed axis bends straight pieces."""
    axis, curve = axis_of(feature, whole=True), feature.curve
    if axis.kind != "skewed" or curve is None:
        return feature
    places = np.linspace(axis.place(curve.x[0]), axis.place(curve.x[-1]), BENT_POINTS)
    between = [axis.value_at(float(place)) for place in places[1:-1]]
    x = np.unique(np.concatenate([curve.x, [value for value in between if curve.x[0] < value < curve.x[-1]]]))

    def at(rows: Sequence[Numbers]) -> tuple[Numbers, ...]:
        columns = [np.interp(x, curve.x, column).tolist() for column in zip(*rows, strict=True)]
        return tuple(zip(*columns, strict=True))

    spread = None if curve.deviation is None else at(curve.deviation)
    return replace(feature, curve=Curve(tuple(x.tolist()), at(curve.effect), spread, curve.whole))


def thin_spans(feature: Feature) -> list[tuple[float, float]]:
    """Return the stretches of a curve with hardly any rows, each from where to where.

    A bin is thin that has fewer than `FEW_STRETCH_ROWS` rows together with its neighbours; a long bin, which holds a
    tail, must have `TAIL_ROWS`. So are up to three bins with hardly more rows between thin ones, which would make
    stripes.
    """
    density = feature.density
    if density is None or len(density.counts) < LEAST_BINS:
        return []
    counts, edges = np.array(density.counts), np.array(density.edges)
    widths = np.diff(edges)
    near = np.convolve(counts, np.ones(3), mode="same")
    thin = np.where(widths > LONG_BIN * np.median(widths), counts < TAIL_ROWS, near < FEW_STRETCH_ROWS)
    thin |= binary_closing(thin, np.ones(4, dtype=np.intp)) & (near < 3 * FEW_STRETCH_ROWS)
    found: list[tuple[float, float]] = []
    for index in np.flatnonzero(thin).tolist():
        start, stop = float(edges[index]), float(edges[index + 1])
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
    return found


def thinned(curve: Curve) -> Curve:
    """Return the curve on fewer points, off by at most `THIN` of its height at each point left out.

    The farthest point from the chord is kept, on both sides of it again, until none is too far off. A curve with
    gaps (effects that are not finite) is kept whole.
    """
    x, effects = np.array(curve.x), np.array(curve.effect)
    if curve.deviation is not None:
        effects = np.hstack([effects, POINTWISE * np.array(curve.deviation)])
    if len(x) < 3 or not (np.isfinite(effects).all() and np.isfinite(x).all()):
        return curve
    allowed = THIN * float(np.ptp(np.array(curve.effect)) or np.ptp(effects))
    kept = np.zeros(len(x), dtype=bool)
    kept[[0, -1]] = True
    pieces = [(0, len(x) - 1)]
    while pieces:
        first, last = pieces.pop()
        if last - first < 2:
            continue
        width = x[last] - x[first]
        inner = slice(first + 1, last)
        share = (x[inner] - x[first]) / width if width > 0 else np.zeros(last - first - 1)
        chord = effects[first] + share[:, None] * (effects[last] - effects[first])
        distance = np.abs(effects[inner] - chord).max(axis=1)
        farthest = int(distance.argmax())
        if distance[farthest] > allowed:
            middle = first + 1 + farthest
            kept[middle] = True
            pieces += [(first, middle), (middle, last)]
    indices = np.flatnonzero(kept)
    return Curve(
        tuple(curve.x[index] for index in indices),
        tuple(curve.effect[index] for index in indices),
        None if curve.deviation is None else tuple(curve.deviation[index] for index in indices),
        curve.whole,
    )


def curve_bands(curve: Curve, output: int) -> list[tuple[Vector, Vector]]:
    """Return the lower and upper limits (points,) of one output, of the whole curve first, then of single points."""
    if curve.deviation is None or curve.whole is None:
        return []
    effect = np.array([row[output] for row in curve.effect])
    spread = np.array([row[output] for row in curve.deviation])
    return [(effect - times * spread, effect + times * spread) for times in (curve.whole[output], POINTWISE)]


def density_heights(density: Density, axis: Axis) -> Vector:
    """Return the heights (bins,) of a histogram whose areas on an axis are the counts, the tallest 1."""
    places = [axis.place(edge) for edge in density.edges]
    heights = np.array(density.counts) / np.maximum(np.diff(places), 1e-300)
    return heights / (heights.max(initial=0.0) or 1.0)
