"""What every drawing shares, whatever draws it: colours, pens, axes and their ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sparsenam.tables.text import EPOCH, days_since_epoch
from sparsenam.text import MOST_DAYS, date_text, number_text, value_text

# the colours of Okabe and Ito, which colour-blind readers can distinguish
BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"

Style = Literal["-", "--", "-.", ":"]
Kind = Literal["number", "date", "log", "skewed"]

# yellow is left out: thin yellow lines vanish on white
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
_STYLES: tuple[Style, ...] = ("-", "--", "-.", ":")
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
PENS = len(_COLOURS)  # pens whose colours differ

LABEL_SPACE = 2  # letters between two labels of an axis
ALPHA_MARGIN = 0.02  # of the range of log alpha, on either side
LEVELS = (2, 3, 5, 9, 18, 40, 80, 160)  # about how many ticks an axis has, from coarse to fine
# days between the ticks of a date axis, and the months that this is; 0 for ticks that no month governs
_DATE_STEPS = {1: 0, 2: 0, 7: 0, 14: 0, 30: 1, 91: 3, 183: 6} | {
    365 * years: 12 * years for years in (1, 2, 5, 10, 20, 50, 100, 200, 500)
}
# leading digits of the ticks of a log axis, by the number of decades that it covers
_LEADS = ((1.2, (1, 2, 3, 4, 6, 8)), (2.5, (1, 2, 5)))
_FEW_DECADES = 0.5  # below this a log axis has the ticks of a straight one


@dataclass(frozen=True, slots=True)
class Pen:
    """How a line is drawn."""

    colour: str
    style: Style
    mark: str


def pen(number: int) -> Pen:
    """Return the pen of the line with this number; 28 pens differ in colour or style."""
    return Pen(
        _COLOURS[number % len(_COLOURS)],
        _STYLES[(number + number // len(_COLOURS)) % len(_STYLES)],
        _MARKS[number % len(_MARKS)],
    )


@dataclass(frozen=True, slots=True)
class Tick:
    """A marked value of an axis and its label."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from ``low`` to ``high``, straight, of days since 1970, logarithmic, or skewed; it may fall.

    A skewed axis is straight near 0 and logarithmic beyond its ``unit``, on either side.
    """

    low: float
    high: float
    kind: Kind = "number"
    unit: float = 1.0

    def place(self, value: float) -> float:
        """Return a value where a skewed axis has it, ± log(1 + |value| / unit); on other axes the value itself."""
        if self.kind != "skewed":
            return value
        return math.copysign(math.log1p(abs(value) / self.unit), value)

    def value_at(self, place: float) -> float:
        """Return the value at a place, the inverse of `place`."""
        if self.kind != "skewed":
            return place
        return math.copysign(math.expm1(abs(place)) * self.unit, place)

    def fraction(self, value: float) -> float:
        """Return how far along the axis a value is: 0 at ``low``, 1 at ``high``."""
        if self.kind == "skewed":
            low, high = self.place(self.low), self.place(self.high)
            return (self.place(value) - low) / (high - low)
        if self.kind == "log":
            low, high = math.log(self.low), math.log(self.high)
            return (math.log(max(value, 1e-300)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def percent(self, value: float, *, down: bool = False) -> str:
        """Return how far along the axis a value is, as SVG writes it; from the other end if ``down``."""
        share = self.fraction(value)
        return percent(1 - share if down else share)

    def ticks(self, about: int = 5) -> list[Tick]:
        """Return round values within the axis, about as many as asked, in rising order."""
        low, high = sorted((self.low, self.high))
        if self.kind == "log":
            return _log_ticks(low, high, about)
        if self.kind == "skewed":
            return _skewed_ticks(low, high, about, self.unit)
        if self.kind == "date" and max(abs(low), abs(high)) < MOST_DAYS and high - low > 3:
            return _date_ticks(low, high, about)
        digits = max(4, math.ceil(math.log10(max(abs(low), abs(high)) / (high - low))) + 3)
        return [Tick(value, value_text(value, self.kind, digits)) for value in _round_values(low, high, about)]

    def levels(self, finest: float = 1.0) -> list[list[Tick]]:
        """Return ticks from few to many, until a share ``finest`` of the axis has several."""
        found: list[list[Tick]] = []
        for about in LEVELS:
            ticks = self.ticks(about)
            if ticks and (not found or len(ticks) > len(found[-1])):
                found.append(ticks)
            if about * finest >= LEVELS[2]:
                break
        return found

    def fitting(self, letters: float, about: int = 5) -> list[Tick]:
        """Return as many ticks, up to about so many, as have room on an axis of a width in ``letters``."""
        if self.kind in ("log", "skewed"):
            return self.apart(self.ticks(about), letters)
        for wanted in range(about, 0, -1):
            found = self.ticks(wanted)
            if len(self.apart(found, letters, LABEL_SPACE)) == len(found) or len(found) < 2:
                return found
        return self.apart(self.ticks(1), letters)

    def apart(self, ticks: Sequence[Tick], letters: float, space: float = LABEL_SPACE / 2) -> list[Tick]:
        """Return the ticks whose labels have ``space`` letters between them, on an axis of a width in ``letters``."""
        kept: list[Tick] = []
        for tick in sorted(ticks, key=lambda tick: self.fraction(tick.value)):
            room = space + (len(tick.text) + len(kept[-1].text)) / 2 if kept else 0.0
            if not kept or (self.fraction(tick.value) - self.fraction(kept[-1].value)) * letters >= room:
                kept.append(tick)
        return sorted(kept, key=lambda tick: tick.value)


def percent(share: float) -> str:
    """Return a share of a width or height as SVG writes it."""
    return f"{round(100 * share, 3):g}%"


def axis_over(values: Iterable[float], margin: float = 0.0, kind: Kind = "number") -> Axis:
    """Return the axis over the finite values, widened by a share ``margin`` and never of no width."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        half = 0.5 if low == 0 else abs(low) * 0.5
        low, high = low - half, high + half
    extra = (high - low) * margin
    return Axis(low - extra, high + extra, kind)


def alpha_axis(alphas: Sequence[float]) -> Axis:
    """Return the log axis on which alpha falls from left to right; a straight one for fewer than two above 0."""
    above = [alpha for alpha in alphas if alpha > 0 and math.isfinite(alpha)]
    if not above or max(above) <= min(above):
        return axis_over(alphas)
    widening = (max(above) / min(above)) ** ALPHA_MARGIN
    return Axis(max(above) * widening, min(above) / widening, "log")


def _round_values(low: float, high: float, about: int) -> list[float]:
    """Return the multiples of 1, 2 or 5 times a power of ten within a range."""
    if not (math.isfinite(high - low) and high > low):
        return []
    power = 10.0 ** math.floor(math.log10((high - low) / max(about, 1)))
    spans = [
        (step, math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9))
        for step in (power, 2 * power, 5 * power, 10 * power)
    ]
    step, first, last = min(spans, key=lambda span: abs(span[2] - span[1] + 1 - about))
    decimals = 1 - math.floor(math.log10(step))
    rounded = (round(count * step, decimals) + 0.0 for count in range(first, last + 1))
    return [min(max(value, low), high) for value in rounded]  # rounding may lead out of a narrow range far from 0


def _log_ticks(low: float, high: float, about: int) -> list[Tick]:
    """Return few leading digits times powers of ten within a range, or every few powers alone where it is wide."""
    # an axis without lines may have limits that have no logarithm
    decades = math.log10(high / low) if 0 < low < high < math.inf else 0.0
    if decades <= _FEW_DECADES:
        return [Tick(value, number_text(value)) for value in _round_values(low, high, about)]
    leads = next((leads for most, leads in _LEADS if decades <= most), (1,))
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, round((last - first) / (about + 1)))
    values = [float(f"{lead}e{power}") for power in range(first, last + 1, every) for lead in leads]
    return [Tick(value, number_text(value)) for value in values if low * 0.999 <= value <= high * 1.001]


def _skewed_ticks(low: float, high: float, about: int, unit: float) -> list[Tick]:
    """Return 0 and leading digits times powers of ten beyond the unit, within a range."""
    leads = (1,) if about <= 5 else (1, 3) if about <= 9 else (1, 2, 5)
    first, last = math.floor(math.log10(unit)), math.ceil(math.log10(max(abs(low), abs(high), unit)))
    every = max(1, round((last - first) / about)) if about <= 3 else 1
    sizes = [float(f"{lead}e{power}") for power in range(last, first - 1, -every) for lead in leads]
    values = {0.0, *(sign * size for size in sizes if size >= 2 * unit for sign in (-1.0, 1.0))}
    return [Tick(value, number_text(value)) for value in sorted(values) if low <= value <= high]


def _date_ticks(low: float, high: float, about: int) -> list[Tick]:
    """Return first days of years, quarters or months, or days, within a range of days since 1970."""
    step = min(_DATE_STEPS, key=lambda days: abs(math.log((high - low) / days / about)))
    months = _DATE_STEPS[step]
    if not months:
        first = math.ceil(low)  # of whole numbers: a tiny low, divided, would be 0
        values = range(first + -first % step, math.floor(high) + 1, step)
        return [Tick(float(day), date_text(day)) for day in values]
    begin = EPOCH + timedelta(days=low)
    month = begin.year * 12 + begin.month - 1
    found: list[Tick] = []
    while True:
        month += -month % months
        value = days_since_epoch(datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC))
        if value > high:
            return found
        if value >= low:
            found.append(Tick(value, date_text(value)[: 4 if months >= 12 else 7]))
        month += 1
