"""What is drawn: the numbers and the text of every chart as plain data, which plots and report draw alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_closing
from scipy.optimize import isotonic_regression

from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import Axis, axis_over
from sparsenam.explain.explanation import POINTWISE, Curve, Explanation, Feature, Level
from sparsenam.explain.local import LocalExplanation, RowExplanation
from sparsenam.fit.summary import Density
from sparsenam.plain import Numbers
from sparsenam.text import MISSING, count_text

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Measure = Literal["mean_absolute", "variation"]

MEASURES: dict[Measure, str] = {"mean_absolute": "mean |effect|", "variation": "max - min of the effect"}
ALPHA_LABEL = "penalty α, weaker →"
NORM_LABEL = "norm of the effect"
LOSS_LABEL = "held-out loss"
MOST_LEVELS = 16  # bars that fit a card and a panel
MOST_STEPS = 12  # bars of a waterfall
EFFECT_MARGIN = 0.06  # of the range of effects, above and below
LONG_TAIL = 0.25  # an outer bin longer than this share of all inner ones together is a tail
SKEWED, EASED = 4.0, 0.7  # range over that of the middle 80 %, and what must be left of it on a skewed axis
LEAST_BINS = 8  # of a histogram that can tell
BENT_POINTS = 80  # of a curve on a skewed axis
FEW_ROWS, TAIL_ROWS, LONG_BIN = 5, 20, 3.0  # rows that a stretch has at least; times the width of other bins
INVISIBLE = 0.02  # of the largest norm: below, a line is one with the axis
THIN = 5e-4  # of a curve's height by which a thinned curve may be off: a tenth of a pixel on the page


def effect_label(units: str) -> str:
    """Return what the height of a shape is."""
    return f"effect ({units})" if units else "effect"


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


def has_levels(feature: Feature) -> bool:
    """Return whether a feature is drawn level by level, and not as a curve."""
    return feature.curve is None or bool(feature.levels)


def drawn_levels(feature: Feature) -> list[Level]:
    """Return the levels to draw, then the missing cells: the most frequent ones.

    Ordered levels are in their order, others by their effect; by frequency where there are several outputs.
    """
    levels = feature.levels or ()
    frequent = sorted(range(len(levels)), key=lambda index: -levels[index].count)[:MOST_LEVELS]
    shown = [levels[index] for index in (sorted(frequent) if feature.kind == "ordered" else frequent)]
    if feature.kind != "ordered" and all(len(level.effect) == 1 for level in shown):
        shown.sort(key=lambda level: (math.isnan(level.effect[0]), level.effect[0]))
    if feature.missing is not None:
        shown.append(Level(MISSING, feature.missing.effect, feature.missing.count))
    return shown


def levels_note(feature: Feature) -> str:
    """Return how many levels there are where not all are drawn, else nothing."""
    count = len(feature.levels or ())
    return f"the {MOST_LEVELS} most frequent of {count} levels" if count > MOST_LEVELS else ""


def effects_of(feature: Feature) -> Matrix:
    """Return all effects that a drawing of the feature holds, shape (points, outputs)."""
    if has_levels(feature):
        levels = drawn_levels(feature)
        rows, spread = [level.effect for level in levels], [level.deviation for level in levels]
    else:
        rows = [*(() if feature.curve is None else feature.curve.effect)]
        spread = _whole_widths(feature.curve)
        rows, spread = _held_back(feature, rows, spread)
        rows += [] if feature.missing is None else [feature.missing.effect]
        spread += [] if feature.missing is None else [None]
    found = np.array(rows, dtype=np.float64)
    limits = [
        np.array(effect) + side * POINTWISE * np.array(deviation)
        for effect, deviation in zip(rows, spread, strict=True)
        for side in (-1.0, 1.0)
        if deviation is not None
    ]
    if limits:  # a band that is far wider than the curve is tall may leave the picture
        inside = found[np.isfinite(found).all(axis=1)]
        room = np.ptp(inside) if inside.size else 0.0
        found = np.vstack([found, np.clip(np.array(limits), inside.min() - room, inside.max() + room)])
    return np.where(np.isfinite(found), found, np.nan)


def _held_back(
    feature: Feature, rows: list[Numbers], spread: list[Numbers | None]
) -> tuple[list[Numbers], list[Numbers | None]]:
    """Return effects and spreads of a curve, those without rows no farther out than the others' range on either side.

    What a curve does where no rows are would else press the rest of it flat.
    """
    spans, curve = thin_spans(feature), feature.curve
    if not spans or curve is None:
        return rows, spread
    thin = [any(start <= x <= stop for start, stop in spans) for x in curve.x]
    effects = np.array(rows, dtype=np.float64)
    core = effects[~np.array(thin)]
    if not core.size or not np.isfinite(core).all():
        return rows, spread
    low, high = min(0.0, float(core.min())), max(0.0, float(core.max()))
    held = np.clip(effects, 2 * low - high, 2 * high - low)
    effects[np.array(thin)] = held[np.array(thin)]
    return list(map(tuple, effects.tolist())), [None if gone else one for gone, one in zip(thin, spread, strict=True)]


def _whole_widths(curve: Curve | None) -> list[Numbers | None]:
    """Return half the width of a whole curve's band at each point, in units of `POINTWISE`; None where unknown."""
    if curve is None or curve.deviation is None or curve.whole is None:
        return [None] * (0 if curve is None else len(curve.x))
    times = [value / POINTWISE for value in curve.whole]
    return [tuple(one * other for one, other in zip(row, times, strict=True)) for row in curve.deviation]


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
    if not edges[-1] - edges[0] > SKEWED * (tenths[1] - tenths[0]):
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
    """Return the stretches of a curve that hardly any rows speak for, each from where to where.

    A bin is thin that has fewer than `FEW_ROWS` rows together with its neighbours; a long bin, which holds a tail, must
    have `TAIL_ROWS`. So are up to three bins with hardly more rows between thin ones, which would make stripes.
    """
    density = feature.density
    if density is None or len(density.counts) < LEAST_BINS:
        return []
    counts, edges = np.array(density.counts), np.array(density.edges)
    widths = np.diff(edges)
    near = np.convolve(counts, np.ones(3), mode="same")
    thin = np.where(widths > LONG_BIN * np.median(widths), counts < TAIL_ROWS, near < FEW_ROWS)
    thin |= binary_closing(thin, np.ones(4, dtype=np.intp)) & (near < 3 * FEW_ROWS)
    found: list[tuple[float, float]] = []
    for index in np.flatnonzero(thin).tolist():
        start, stop = float(edges[index]), float(edges[index + 1])
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))
    return found


def curve_within(curve: Curve, axis: Axis) -> tuple[Vector, Matrix]:
    """Return x (points,) and the effect (points, outputs) of a curve between the ends of an axis."""
    x, effect = np.array(curve.x), np.array(curve.effect)
    low, high = max(axis.low, x[0]), min(axis.high, x[-1])
    within = np.unique(np.concatenate([[low], x[(x > low) & (x < high)], [high]]))
    return within, np.stack([np.interp(within, x, effect[:, output]) for output in range(effect.shape[1])], axis=1)


def thinned(curve: Curve, tolerance: float = THIN) -> Curve:
    """Return the curve on fewer points, off by at most ``tolerance`` of its height at each point left out.

    The farthest point from the chord is kept, on both sides of it again, until none is too far off. A curve with
    gaps (effects that are not finite) is kept whole.
    """
    x, effects = np.array(curve.x), np.array(curve.effect)
    if curve.deviation is not None:
        effects = np.hstack([effects, POINTWISE * np.array(curve.deviation)])
    if len(x) < 3 or not (np.isfinite(effects).all() and np.isfinite(x).all()):
        return curve
    allowed = tolerance * float(np.ptp(np.array(curve.effect)) or np.ptp(effects))
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


@dataclass(frozen=True, slots=True, eq=False)
class PathLines:
    """Norms (points, columns) at alphas (points,) from the largest on; ``order`` has the largest columns first.

    ``named`` are the first of ``order``, which get a colour and a name; ``taken`` is the chosen alpha, None where
    the path does not reach it.
    """

    alphas: Vector
    names: list[str]
    norms: Matrix
    order: list[int]
    named: list[int]
    taken: float | None


def path_lines(explanation: Explanation, labels: int) -> PathLines | None:
    """Return the path with up to so many named columns; None where the explanation has none."""
    path = explanation.path
    if not path or not len(path["alphas"]):
        return None
    falling = np.argsort(-np.array(path["alphas"], dtype=np.float64), kind="stable")
    alphas = np.array(path["alphas"], dtype=np.float64)[falling]
    names: list[str] = list(path["names"])
    norms = np.array(path["norms"], dtype=np.float64).reshape(len(alphas), len(names))[falling]
    largest = norms.max(axis=0)
    order = [int(column) for column in np.argsort(-norms[-1] - largest, kind="stable")]
    visible = [column for column in order if largest[column] >= INVISIBLE * norms.max(initial=0.0)]
    alpha: float | None = explanation.card.get("alpha")
    if alpha is not None and not float(alphas.min()) * 0.999 <= alpha <= float(alphas.max()) * 1.001:
        alpha = None
    return PathLines(alphas, names, norms, order, visible[:labels], alpha)


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """Held-out losses, their standard errors and numbers of columns, each (points,), at falling alphas (points,).

    ``marks`` are the points to mark, each an index and what it is.
    """

    alphas: Vector
    mean: Vector
    error: Vector
    sizes: Vector
    marks: list[tuple[int, str]]

    def size_labels(self, axis: Axis, distance: float) -> list[tuple[float, str]]:
        """Return alphas and numbers of columns to write along the top: where they change, and not too near."""
        found: list[tuple[float, str]] = []
        last, written = -math.inf, -1.0
        for alpha, size in zip(self.alphas, self.sizes, strict=True):
            at = axis.fraction(float(alpha))
            if alpha > 0 and math.isfinite(size) and size != written and at - last >= distance:
                found.append((float(alpha), f"{size:.0f}"))
                last, written = at, size
        return found

    def legend(self) -> list[str]:
        """Return what each mark is, with its number of columns."""
        return [f"{text}: {count_text(int(self.sizes[index]), 'column')}" for index, text in self.marks]


def loss_curve(explanation: Explanation) -> LossCurve | None:
    """Return the cross-validation curve; None where the explanation has none."""
    curve = explanation.curve
    if not curve:
        return None
    points = sorted(range(len(curve)), key=lambda index: -curve[index]["alpha"])
    alphas, mean, error, sizes = (
        np.array([curve[index][key] for index in points], dtype=np.float64)
        for key in ("alpha", "mean", "standard_error", "features")
    )
    chosen = explanation.chosen or {}
    best, taken = (points.index(chosen[key]) if key in chosen else None for key in ("best", "taken"))
    if best == taken:
        marks = [] if taken is None else [(taken, "best and taken")]
    else:
        marks = [(index, text) for index, text in ((best, "best"), (taken, "taken")) if index is not None]
    return LossCurve(alphas, mean, np.nan_to_num(error), sizes, marks)


def spread(positions: Vector, distance: float) -> Vector:
    """Return the positions in [0, 1] nearest to those given, in squares, in their order and at least so far apart.

    Positions that do not fit at this distance share the room evenly. Shapes (n,).
    """
    if positions.size < 2:
        return np.clip(positions, 0.0, 1.0)
    steps = min(distance, 1.0 / (positions.size - 1)) * np.arange(positions.size)
    order = np.argsort(positions, kind="stable")
    moved = np.asarray(isotonic_regression(positions[order] - steps).x, dtype=np.float64)
    result = np.empty(positions.size)
    result[order] = np.clip(moved, 0.0, 1.0 - steps[-1]) + steps
    return result


@dataclass(frozen=True, slots=True)
class Step:
    """A bar of the waterfall from ``start`` to ``stop``; without a ``value`` it stands for several columns."""

    name: str
    value: str
    start: float
    stop: float


def waterfall(row: RowExplanation, output: int, most: int = MOST_STEPS) -> list[Step]:
    """Return the steps from the intercept to the score, the largest first; small ones are taken together."""
    ordered = sorted(row.contributions, key=lambda part: -abs(part.effect[output]))
    shown = ordered if len(ordered) <= most else ordered[: most - 1]
    parts = [(part.feature, part.value, part.effect[output]) for part in shown]
    if rest := ordered[len(shown) :]:
        parts.append((f"{len(rest)} others", "", sum(part.effect[output] for part in rest)))
    ends = np.cumsum([row.intercept[output], *(effect for _, _, effect in parts)]).tolist()
    return [Step(name, value, ends[index], ends[index + 1]) for index, (name, value, _) in enumerate(parts)]


def shown_output(local: LocalExplanation, row: RowExplanation, output: str | None = None) -> int:
    """Return the index of an output by name; by default of the one with the highest score, the predicted class."""
    if output is None:
        return int(np.argmax(row.score))
    if output not in local.outputs:
        raise InputError(describe("output", f"one of {list(local.outputs)}", repr(output), "choose one"))
    return local.outputs.index(output)
