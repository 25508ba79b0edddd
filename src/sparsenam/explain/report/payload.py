"""The numbers that the page's script draws from, as small as they can be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sparsenam.explain.report.markup import clean
from sparsenam.explain.report.records import Feature, Level, Record
from sparsenam.explain.report.shapes import drawn_levels, has_bars


def payload(record: Record, shown: Sequence[int]) -> dict[str, object]:
    """Return what the script needs: the outputs, those that are shown at first, and each feature's shape."""
    return {
        "outputs": [clean(name) for name in record.outputs],
        "shown": list(shown),
        "units": clean(record.units),
        "features": [_feature(feature) for feature in record.features],
    }


def _feature(feature: Feature) -> dict[str, object]:
    shape: dict[str, object] = {
        "name": clean(feature.name),
        "kind": feature.kind if feature.kind == "date" else "number",
        "importance": _number(feature.importance, 6),
        "entry": feature.entry,
    }
    if has_bars(feature):
        levels = drawn_levels(feature)
        return {**shape, "bars": [{**_level(level), "missing": level is feature.missing} for level in levels]}
    curve, density = feature.curve, feature.density
    assert curve is not None
    return {
        **shape,
        "x": _numbers(curve.x, 8),
        "effects": [_numbers(effects) for effects in curve.effects],
        "density": None if density is None else {"edges": _numbers(density.edges, 8), "counts": density.counts},
        "missing": None if feature.missing is None else _level(feature.missing),
    }


def _level(level: Level) -> dict[str, object]:
    return {"name": clean(level.name), "effects": _numbers(level.effects), "count": level.count}


def _numbers(values: Iterable[float], digits: int = 5) -> list[float | None]:
    return [_number(value, digits) for value in values]


def _number(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
