"""Every picture as data: axes, lines, bands, bars, marks and words, which the report and matplotlib draw alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from sparsenam.errors import InputError, describe
from sparsenam.explain.drawing import Axis, Tick, alpha_axis, axis_over
from sparsenam.explain.explanation import POINTWISE, Explanation, Feature, Missing
from sparsenam.explain.local import LocalExplanation, RowExplanation
from sparsenam.explain.shapes import (
    EFFECT_MARGIN,
    axis_of,
    bent,
    curve_bands,
    density_heights,
    drawn_levels,
    effect_axis,
    has_levels,
    kept_text,
    levels_note,
    thin_spans,
)
from sparsenam.text import SURVIVAL_UNITS, TIMES, count_text, number_text, pair_text, shorten, signed_text

Vector = NDArray[np.float64]
Measure = Literal["mean_absolute", "variation"]

MEASURES: dict[Measure, str] = {"mean_absolute": "mean |effect|", "variation": "max - min of the effect"}
MOST_STEPS = 12  # bars of a waterfall
INVISIBLE = 0.02  # of the largest norm: below, a line cannot be told from the axis
AXIS_ROUNDING = 1e-9  # of an axis: an intercept below is 0
MISSING_AT = 0.13  # of the range of a curve, to the right of it
SIDE_BY_SIDE = 0.5  # of the room of a level, for the marks of several outputs


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line through points, with a gap where one is not finite; without a pen it is pale."""

    x: Sequence[float]
    y: Sequence[float]
    pen: int | None = 0
    name: str = ""
    dots: bool = False
    width: float = 1.4  # points


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The area between two lines over x."""

    x: Sequence[float]
    low: Iterable[float]
    high: Iterable[float]


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark at a point, in the shape and colour of its pen; a hollow one is the effect of a missing cell.

    ``text`` is its name, and ``legend`` the longer one for a legend.
    """

    x: float
    y: float
    pen: int
    text: str = ""
    hollow: bool = False
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from ``start`` to ``stop``; one without a pen is a point, such as a sum. ``text`` is written behind it."""

    name: str
    start: float
    stop: float
    text: str = ""
    pen: int | None = 0
    value: str = ""

    def label(self, length: int) -> str:
        """Return name and value in so many letters; two names leave no room for values."""
        if TIMES in self.name and TIMES in self.value:
            return pair_text(*(shorten(part, length // 2 - 1) for part in self.name.split(TIMES, 1)))
        if not self.value:
            return shorten(self.name, length)
        return shorten(f"{shorten(self.name, length // 2)} = {shorten(self.value, length // 2 - 3)}", length)


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """What one picture shows, in the units of its axes; an axis without ends holds all that is drawn.

    - ``errors`` are intervals (x, low, high), ``pale`` the stretches with hardly any rows;
    - ``counts`` are bars (start, stop, height) at the bottom that show where the rows are, the tallest 1;
    - ``names`` are ticks in words in place of those of the axis across, ``tops`` words along the top, explained by
      ``top_label``; ``ends`` are names of lines beside their last points;
    - ``guides`` are vertical lines with their text above, and a mark where y is finite;
    - ``bars`` stand upright at the places of ``names``, or lie one below the other where there are no ``names``; after
      a sum, each begins where the one before ended.
    """

    title: str
    across: Axis
    upward: Axis
    labels: tuple[str, str] = ("", "")
    lines: Sequence[Line] = ()
    bands: Sequence[Band] = ()
    errors: Sequence[tuple[float, float, float]] = ()
    marks: Sequence[Mark] = ()
    bars: Sequence[Bar] = ()
    guides: Sequence[Mark] = ()
    pale: Sequence[tuple[float, float]] = ()
    counts: Sequence[tuple[float, float, float]] = ()
    names: Sequence[Tick] = ()
    tops: Sequence[Tick] = ()
    top_label: str = ""
    ends: Sequence[Mark] = ()


def effect_label(units: str) -> str:
    """Return what the height of a shape is."""
    return f"effect ({units})" if units else "effect"


def shape_chart(feature: Feature, outputs: Sequence[int], names: Sequence[str] = (), *, whole: bool = False) -> Chart:
    """Return the effect of a feature on some outputs, each with the pen of its number, and its name if it has one.

    The axis across is that of the ``whole`` curve, or leaves out long thin tails.
    """
    chosen = {output: names[output] if names else "" for output in outputs}
    return _level_chart(feature, chosen) if has_levels(feature) else _curve_chart(feature, chosen, whole=whole)


def _curve_chart(feature: Feature, outputs: Mapping[int, str], *, whole: bool) -> Chart:
    curve, density, missing = bent(feature).curve, feature.density, feature.missing
    assert curve is not None
    across = axis_of(feature, whole=whole)
    low, high = across.place(across.low), across.place(across.high)
    apart = {output: high + (MISSING_AT + shift) * (high - low) for output, shift in _side_by_side(outputs, 0.04)}
    edges, heights = ((), ()) if density is None else (density.edges, density_heights(density, across))
    return Chart(
        feature.name,
        across,
        effect_axis([feature], [*outputs]),
        (feature.name, ""),
        [Line(curve.x, [effect[output] for effect in curve.effect], output, name) for output, name in outputs.items()],
        # several bands would hide each other
        bands=[Band(curve.x, *limits) for limits in curve_bands(curve, min(outputs))] if len(outputs) == 1 else (),
        marks=[] if missing is None else _missing_marks(missing, {key: across.value_at(x) for key, x in apart.items()}),
        pale=thin_spans(feature),
        counts=list(zip(edges, edges[1:], map(float, heights), strict=False)),
    )


def _level_chart(feature: Feature, outputs: Mapping[int, str]) -> Chart:
    """Return bars of one output, marks side by side of several, or lines where levels have an order."""
    levels, note, missing = drawn_levels(feature), levels_note(feature), feature.missing
    present = levels if missing is None else levels[:-1]
    effects = {output: [level.effect[output] for level in present] for output in outputs}
    places = dict(_side_by_side(outputs, SIDE_BY_SIDE))
    joined = feature.kind == "ordered" and len(present) > 1
    marks = [
        Mark(place + shift, effect, output, outputs[output])
        for output, shift in places.items()
        for place, effect in enumerate(() if joined or len(outputs) == 1 else effects[output])
    ]
    if missing is not None:
        marks += _missing_marks(missing, {output: len(present) + shift for output, shift in places.items()})
    most = max((level.count for level in levels), default=0) or 1
    return Chart(
        feature.name,
        Axis(-0.75, len(levels) - 0.25),  # half a level's room on either side: a single bar does not fill the picture
        effect_axis([feature], [*outputs]),
        (f"{feature.name} ({note})" if note else feature.name, ""),
        [
            Line(range(len(present)), effects[output], output, outputs[output], dots=True)
            for output in outputs
            if joined
        ],
        errors=[
            (place, level.effect[0] - half, level.effect[0] + half)
            for place, level in enumerate(present)
            for half in (POINTWISE * one for one in level.deviation or () if len(level.effect) == 1)
        ],
        marks=marks,
        bars=[
            Bar(level.name, 0.0, level.effect[output], pen=output)
            for output in (() if joined or len(outputs) > 1 else outputs)
            for level in present
        ],
        counts=[(place - 0.45, place + 0.45, level.count / most) for place, level in enumerate(levels)],
        names=[Tick(float(place), level.name) for place, level in enumerate(levels)],
    )


def _side_by_side(outputs: Mapping[int, str], room: float) -> Iterable[tuple[int, float]]:
    """Return how far each output's mark is moved so that they share a room."""
    return zip(outputs, np.linspace(-room / 2, room / 2, len(outputs)) if len(outputs) > 1 else [0.0], strict=True)


def _missing_marks(missing: Missing, places: Mapping[int, float]) -> list[Mark]:
    return [Mark(x, missing.effect[output], output, "a missing cell", hollow=True) for output, x in places.items()]


def importance_chart(explanation: Explanation, most: int, measure: Measure) -> Chart:
    """Return the sizes of the largest effects as bars; pairs are among the columns."""
    if measure not in MEASURES:
        raise InputError(describe("measure", f"one of {sorted(MEASURES)}", repr(measure), "choose one"))
    effects = (*explanation.features, *explanation.pairs)
    sizes = sorted(((float(getattr(part, measure)), part.name) for part in effects), key=lambda part: -part[0])[:most]
    bars = [Bar(name, 0.0, size, number_text(size, 3)) for size, name in sizes]
    some = f"the {len(bars)} largest of {len(effects)} effects"
    title = some if len(bars) < len(effects) else f"{kept_text(explanation)} kept"
    longest = max((size for size, _ in sizes), default=0.0) or 1.0
    return _rows(title, f"{MEASURES[measure]} ({explanation.units})", bars, Axis(0.0, longest))


def waterfall(local: LocalExplanation, row: RowExplanation, output: int, most: int = MOST_STEPS) -> Chart:
    """Return how one row's score comes about: from the intercept, each cell's share added in turn, the largest first.

    Small shares are taken together.
    """
    ordered = sorted(row.contributions, key=lambda part: -abs(part.effect[output]))
    shown = ordered if len(ordered) <= most else ordered[: most - 1]
    parts = [(part.feature, part.value, part.effect[output]) for part in shown]
    if rest := ordered[len(shown) :]:
        parts.append((f"{len(rest)} others", "", sum(part.effect[output] for part in rest)))
    first, last = row.intercept[output], row.score[output]
    ends = np.cumsum([first, *(effect for _, _, effect in parts)]).tolist()
    steps = [
        Bar(name, start, stop, signed_text(stop - start), 0 if stop >= start else 1, value)
        for (name, value, _), start, stop in zip(parts, ends, ends[1:], strict=False)
    ]
    across = axis_over([first, last, *ends[1:]], EFFECT_MARGIN)
    if abs(first) < AXIS_ROUNDING * (across.high - across.low):  # Cox's model has none, but for rounding
        first = 0.0
    start = "start: average row" if local.units == SURVIVAL_UNITS else "start: intercept"
    sums = [Bar(name, value, value, number_text(value, 3), None) for name, value in ((start, first), ("score", last))]
    title = f"How the score of row {row.row} comes about, in {local.units}"
    return _rows(title, local.units, [sums[0], *steps, sums[1]], across)


def _rows(title: str, label: str, bars: Sequence[Bar], across: Axis) -> Chart:
    """Return bars one below the other."""
    return Chart(title, across, Axis(len(bars) - 0.4, -0.7), (label, ""), bars=bars)


def shown_output(local: LocalExplanation, row: RowExplanation, output: str | None = None) -> int:
    """Return the index of an output by name; by default of the one with the highest score, the predicted class."""
    if output is None:
        return int(np.argmax(row.score))
    if output not in local.outputs:
        raise InputError(describe("output", f"one of {list(local.outputs)}", repr(output), "choose one"))
    return local.outputs.index(output)


def loss_chart(explanation: Explanation) -> Chart | None:
    """Return the cross-validation curve with the points to mark and the numbers of columns along the top.

    None where the explanation has none.
    """
    curve = explanation.curve
    if not curve:
        return None
    points = sorted(range(len(curve)), key=lambda index: -curve[index]["alpha"])
    alphas, mean, error, sizes = (
        np.array([curve[index][key] for index in points], dtype=np.float64)
        for key in ("alpha", "mean", "standard_error", "features")
    )
    error = np.nan_to_num(error)
    chosen = explanation.chosen or {}
    best, taken = (points.index(chosen[key]) if key in chosen else None for key in ("best", "taken"))
    words = {best: "best", taken: "taken"} if best != taken else {taken: "best and taken"}
    guides = [
        Mark(
            x=float(alphas[index]),
            y=float(mean[index]),
            pen=1 if word == "best" else 3,
            text=word,
            legend=f"{word}: {count_text(int(sizes[index]), 'column')}",
        )
        for index, word in words.items()
        if index is not None
    ]
    return Chart(
        "Cross-validation curve over the penalty weight",
        alpha_axis(alphas.tolist()),
        axis_over([*(mean - error), *(mean + error)], EFFECT_MARGIN),
        ("penalty α, weaker →", "held-out loss"),
        lines=[Line(alphas.tolist(), mean.tolist())],
        errors=list(zip(alphas.tolist(), (mean - error).tolist(), (mean + error).tolist(), strict=True)),
        guides=guides,
        tops=[
            Tick(alpha, f"{size:.0f}")
            for alpha, size, before in zip(alphas.tolist(), sizes, [math.nan, *sizes], strict=False)
            if alpha > 0 and math.isfinite(size) and size != before
        ],
        top_label="kept",
    )


def path_chart(explanation: Explanation, labels: int) -> Chart | None:
    """Return each column's norm over the penalty weight; None where the explanation has no path.

    Up to so many of the largest have a pen and a name.
    """
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
    pens = {column: rank for rank, column in enumerate(visible[:labels])}
    alpha: float | None = explanation.card.get("alpha")
    is_within = alpha is not None and float(alphas.min()) * 0.999 <= alpha <= float(alphas.max()) * 1.001
    return Chart(
        "Norm of each column over the penalty weight",
        alpha_axis(alphas.tolist()),
        axis_over([0.0, *norms.ravel()], 0.02),
        ("penalty α, weaker →", "norm of the effect"),
        lines=[  # the large ones last, on top
            Line(alphas.tolist(), norms[:, column].tolist(), pens.get(column), names[column])
            for column in reversed(order)
        ],
        guides=[Mark(alpha, math.nan, 3, "taken")] if alpha is not None and is_within else [],
        ends=[Mark(float(alphas[-1]), float(norms[-1, column]), pen, names[column]) for column, pen in pens.items()],
    )


def history_chart(explanation: Explanation) -> Chart | None:
    """Return loss, and loss plus penalty where there is one, against epochs; None where there was no training."""
    history = [epoch for epoch in explanation.history if epoch.get("loss") is not None]
    if not history:
        return None
    epochs = [float(epoch.get("epoch", index)) for index, epoch in enumerate(history)]
    loss = np.array([epoch["loss"] for epoch in history], dtype=np.float64)
    penalty = np.array([epoch.get("penalty") or 0.0 for epoch in history], dtype=np.float64)
    dots = len(history) <= MOST_STEPS
    lines = [Line(epochs, loss.tolist(), 0, "loss", dots)]
    if penalty.any():
        lines.append(Line(epochs, (loss + penalty).tolist(), 1, "loss + penalty", dots))
    terms = history[-1].get("terms")
    return Chart(
        "training" if terms is None else f"training, {terms:.0f} terms at the end",
        axis_over(epochs),
        axis_over([value for line in lines for value in line.y], EFFECT_MARGIN),
        ("epoch", "objective on the training rows"),
        lines,
    )


def truth_chart(explanation: Explanation, name: str, x: ArrayLike, effect: ArrayLike) -> Chart:
    """Return the effect of a column over the true one at x (rows,), whose mean is taken off."""
    at, heights = np.asarray(x, dtype=np.float64), np.asarray(effect, dtype=np.float64)
    if at.shape != heights.shape or not at.size:
        where, got = f"the truth of {name!r}", f"{at.size} of x, {heights.size} of effect"
        raise InputError(describe(where, "columns of one length, at least 1", got, "store them together"))
    order = np.argsort(at, kind="stable")
    at, heights = at[order], (heights - heights.mean())[order]
    kept = next((feature for feature in explanation.features if feature.name == name), None)
    fit = Line(at[[0, -1]].tolist(), [0.0, 0.0], 0, "fit", width=1.2)
    if kept is not None and kept.curve is not None:
        fit = Line(kept.curve.x, [row[0] for row in kept.curve.effect], 0, "fit", width=1.2)
    lines = [Line(at.tolist(), heights.tolist(), 1, "truth", width=2.8), fit]
    kind = "date" if kept is not None and kept.kind == "date" else "number"
    return Chart(
        "" if kept is not None else "dropped",
        axis_over([value for line in lines for value in line.x], kind=kind),
        Axis(math.nan, math.nan),
        (name, ""),
        lines,
    )


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
