"""How the penalty weight was chosen: the cross-validation curve and the regularisation path."""

from __future__ import annotations

import math

from sparsenam.explain.report.markup import Markup, joined
from sparsenam.explain.report.records import Path, Record, Trial
from sparsenam.explain.report.scale import Scale, scale_over
from sparsenam.explain.report.svg import MARKS, drawing, label, left_axis, line, mark, polyline
from sparsenam.explain.report.words import number_words, shortened

WIDTH, LEFT, TOP, PLOT = 460.0, 58.0, 34.0, 200.0
NAME_SPACE = 118.0
NAME_STEP = 15.0  # least distance of two names


def trials_drawing(record: Record) -> Markup:
    """Return the cross-validation curve with its standard errors; best and taken weights are marked."""
    trials = record.trials
    right, bottom = WIDTH - 14, TOP + PLOT
    across = _weights([trial.alpha for trial in trials], right)
    ends = [trial.mean + sign * _error(trial) for trial in trials for sign in (-1, 1)]
    upward = scale_over(ends, bottom, TOP + 14, margin=0.06)
    points = [(across(_place(trial.alpha)), upward(trial.mean)) for trial in trials]
    bars = [
        line(x, upward(trial.mean - _error(trial)), x, upward(trial.mean + _error(trial)), "error")
        for trial, (x, _) in zip(trials, points, strict=True)
        if math.isfinite(trial.mean) and math.isfinite(x)
    ]
    parts = (
        left_axis(upward, LEFT, right),
        _weight_axis(across, bottom),
        _kept_counts(trials, across),
        *bars,
        polyline(points, "line out-0"),
        _choices(record, points, bottom),
    )
    return drawing(WIDTH, bottom + 42, "Cross-validation curve over the penalty weight", *parts)


def path_drawing(path: Path, alpha: float | None) -> Markup:
    """Return each column's group norm over the penalty weight; the largest at the end are named."""
    right, bottom = WIDTH - NAME_SPACE, TOP + PLOT
    order = sorted(range(len(path.alphas)), key=lambda place: -path.alphas[place])
    across = _weights(path.alphas, right)
    upward = scale_over([*(value for row in path.norms for value in row), 0.0], bottom, TOP, margin=0.02)
    largest = sorted(range(len(path.names)), key=lambda column: -max(row[column] for row in path.norms))
    ranks = {column: rank for rank, column in enumerate(largest[:MARKS])}
    lines: list[Markup] = []
    for column in reversed(largest):  # the large ones last, on top
        points = [(across(_place(path.alphas[row])), upward(path.norms[row][column])) for row in order]
        name = f"line out-{ranks[column]}" if column in ranks else "line other"
        lines.append(polyline(points, name, path.names[column]))
    ends = {column: upward(path.norms[order[-1]][column]) for column in ranks}
    parts = [left_axis(upward, LEFT, right), _weight_axis(across, bottom), *lines, _names(path, ranks, ends, right)]
    if alpha is not None and min(path.alphas) * 0.999 <= alpha <= max(path.alphas) * 1.001:
        x = across(_place(alpha))
        parts += [line(x, TOP, x, bottom, "chosen"), label(x, TOP - 8, "taken", "middle", "tick strong")]
    return drawing(WIDTH, bottom + 42, "Norm of each column over the penalty weight", *parts)


def _names(path: Path, ranks: dict[int, int], ends: dict[int, float], right: float) -> Markup:
    parts: list[Markup] = []
    lowest = -math.inf
    for column in sorted(ends, key=lambda place: ends[place]):
        y = max(ends[column] + 4, lowest + NAME_STEP)
        lowest = y
        parts.append(mark(right + 9, y - 4, ranks[column]))
        parts.append(label(right + 18, y, shortened(path.names[column], 14), "start", "tick", path.names[column]))
    return joined(parts)


def _place(alpha: float) -> float:
    """Return −log₁₀ α, so that weaker penalties are to the right."""
    return -math.log10(max(alpha, 1e-300))


def _weights(alphas: tuple[float, ...] | list[float], right: float) -> Scale:
    return scale_over([_place(alpha) for alpha in alphas], LEFT + 8, right - 8)


def _weight_axis(across: Scale, bottom: float) -> Markup:
    parts = [label((across.start + across.stop) / 2, bottom + 34, "penalty weight α, weaker →", "middle", "tick")]
    for alpha in round_weights(10**-across.high, 10**-across.low):
        x = across(_place(alpha))
        parts += [
            line(x, bottom, x, bottom + 4, "axis"),
            label(x, bottom + 16, number_words(alpha, 2), "middle", "tick"),
        ]
    return joined(parts)


def round_weights(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten within the range, or every few powers alone where it is wide."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    every = max(1, (last - first) // 6)
    weights = [float(f"{factor}e{power}") for power in range(first, last + 1, every) for factor in factors]
    return [weight for weight in weights if low * 0.999 <= weight <= high * 1.001]


def _kept_counts(trials: tuple[Trial, ...], across: Scale) -> Markup:
    """Return the number of kept columns along the top, as many as there is room for."""
    parts = [label(LEFT - 6, TOP - 18, "kept", "end", "tick faint")]
    last = -math.inf
    for trial in sorted(trials, key=lambda trial: -trial.alpha):
        x = across(_place(trial.alpha))
        if x - last >= 34 and math.isfinite(trial.features):
            parts.append(label(x, TOP - 18, number_words(trial.features, 3), "middle", "tick faint"))
            last = x
    return joined(parts)


def _choices(record: Record, points: list[tuple[float, float]], bottom: float) -> Markup:
    marked = ((record.taken, "taken"), (record.best, "best"))
    chosen = [(points[place], words) for place, words in marked if place is not None and 0 <= place < len(points)]
    if record.best == record.taken:
        chosen = [(point, "best, taken") for point, _ in chosen[:1]]
    leftmost = min((x for (x, _), _ in chosen), default=0.0)
    parts: list[Markup] = []
    for (x, y), words in chosen:
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        # two labels side by side point away from each other
        anchor = "middle" if len(chosen) == 1 else "end" if x == leftmost else "start"
        parts.append(line(x, TOP, x, bottom, "chosen"))
        parts.append(mark(x, y, 1 if words == "best" else 3, words))
        parts.append(label(x, TOP - 4, words, anchor, "tick strong"))
    return joined(parts)


def _error(trial: Trial) -> float:
    return trial.standard_error if math.isfinite(trial.standard_error) else 0.0
