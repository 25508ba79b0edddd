"""Colours of Okabe and Ito, told apart by colour-blind readers, with line styles and marks as a second cue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from matplotlib import colormaps
from matplotlib.colors import to_hex

BLACK = "#000000"
ORANGE = "#E69F00"
SKY = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"

Style = Literal["-", "--", "-.", ":"]

# yellow is left out: thin yellow lines vanish on white
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
_STYLES: tuple[Style, ...] = ("-", "--", "-.", ":")
_MARKS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo")


@dataclass(frozen=True, slots=True)
class Pen:
    """How a line is drawn."""

    colour: str
    style: Style
    mark: str


def ordered_pen(place: int, count: int) -> Pen:
    """Return the pen of the line at this place among ``count`` lines that have an order, dark to light."""
    shade = 0.9 * place / max(1, count - 1)  # the lightest colours are hard to see on white
    return Pen(to_hex(colormaps["viridis"](shade)), "-", _MARKS[place % len(_MARKS)])


def pen(number: int) -> Pen:
    """Return the pen of the line with this number; 28 pens differ in colour or style."""
    return Pen(
        _COLOURS[number % len(_COLOURS)],
        _STYLES[(number + number // len(_COLOURS)) % len(_STYLES)],
        _MARKS[number % len(_MARKS)],
    )
