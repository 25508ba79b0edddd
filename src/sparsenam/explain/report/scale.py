"""Axes: a straight map from values to places, and round numbers to mark on it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The straight map that takes ``low`` to ``start`` and ``high`` to ``stop``."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the place of a value, to a tenth of a unit."""
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start), 1)

    def ticks(self, about: int) -> list[float]:
        """Return round numbers within the range, about as many as asked."""
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / max(about, 1)))
        spans = [self._span(factor * power) for factor in (1, 2, 5, 10)]
        step, first, last = min(spans, key=lambda span: abs(span[2] - span[1] + 1 - about))
        decimals = 1 - math.floor(math.log10(step))
        return [round(count * step, decimals) + 0.0 for count in range(first, last + 1)]

    @property
    def digits(self) -> int:
        """Significant digits that tell two ticks apart."""
        largest = max(abs(self.low), abs(self.high))
        return max(4, math.ceil(math.log10(largest / (self.high - self.low))) + 3)

    def _span(self, step: float) -> tuple[float, int, int]:
        return step, math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)


def scale_over(values: Iterable[float], start: float, stop: float, *, margin: float = 0.0) -> Scale:
    """Return the scale over the finite values, widened by a share ``margin`` and never of no width."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        half = 0.5 if low == 0 else abs(low) * 0.5
        low, high = low - half, high + half
    extra = (high - low) * margin
    return Scale(low - extra, high + extra, start, stop)
