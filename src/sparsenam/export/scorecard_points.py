"""A scorecard: points for the bins of each column, which add up to a score from which odds are read; plain data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sparsenam.codec import to_plain
from sparsenam.errors import check_word
from sparsenam.explain.explanation import DataFrame, as_frame
from sparsenam.export.portable import Cell, Label
from sparsenam.export.scorecard_bins import CardBins
from sparsenam.text import no_formula

Against = Literal["best", "average"]


@dataclass(frozen=True, slots=True)
class Scale:
    """How log odds become points: ``base_score`` where the odds are ``base_odds`` : 1, ``pdo`` more where they double.

    The odds are those of the class ``good`` against the class ``bad``: a high score is a good one. ``sign`` is 1 where
    the model's score is the log odds of ``good``, -1 where it is that of ``bad``.
    """

    pdo: float
    base_score: float
    base_odds: float
    good: Label
    bad: Label
    sign: int

    @property
    def factor(self) -> float:
        """Points for each unit of log odds."""
        return self.pdo / math.log(2.0)

    @property
    def offset(self) -> float:
        """Points where the odds are 1 : 1."""
        return self.base_score - self.factor * math.log(self.base_odds)

    def points(self, effect: float) -> float:
        """Return what an effect on the model's score is in points, not rounded."""
        return self.sign * self.factor * effect

    def model_score(self, points: float) -> float:
        """Return the model's score that a total of points stands for."""
        return self.sign * (points - self.offset) / self.factor

    def odds(self, points: float) -> float:
        """Return the odds of good against bad that a total of points stands for."""
        return math.exp((points - self.offset) / self.factor)

    def probability(self, points: float) -> float:
        """Return the probability of ``bad`` that a total of points stands for."""
        return 0.5 * (1.0 - math.tanh(0.5 * (points - self.offset) / self.factor))


@dataclass(frozen=True, slots=True)
class CardColumn:
    """A column's points, and how far they are from the model's: at most, and on average over the range of its knots."""

    binned: CardBins
    largest_error: float
    mean_error: float

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.binned.column.name

    @property
    def best(self) -> float:
        """The most points that the column can give."""
        return max(found.points for found in self.binned.bins)

    def part(self, row: Mapping[str, Cell]) -> Part:
        """Return what the column gives a row."""
        place = self.binned.place(row.get(self.name))
        if place is None:
            return Part(self.name, "infinite", math.nan)
        found = self.binned.bins[place]
        return Part(self.name, found.label, found.points)


@dataclass(frozen=True, slots=True)
class CardPair:
    """The points of two columns together, ``points`` (bins of ``one``, bins of ``other``); the bins' points are 0."""

    one: CardBins
    other: CardBins
    points: tuple[tuple[float, ...], ...]
    largest_error: float
    mean_error: float

    @property
    def name(self) -> str:
        """The names of both columns."""
        return f"{self.one.column.name} × {self.other.column.name}"

    @property
    def best(self) -> float:
        """The most points that the pair can give."""
        return max(max(line) for line in self.points)

    def part(self, row: Mapping[str, Cell]) -> Part:
        """Return what the pair gives a row."""
        places = [side.place(row.get(side.column.name)) for side in (self.one, self.other)]
        one, other = places
        if one is None or other is None:
            return Part(self.name, "infinite", math.nan)
        return Part(self.name, self.label(one, other), self.points[one][other])

    def label(self, one: int, other: int) -> str:
        """Return the text of a cell of the table."""
        return f"{self.one.bins[one].label} × {self.other.bins[other].label}"


@dataclass(frozen=True, slots=True)
class Part:
    """What one column, or a pair, gives a row: the text of its bin, and its points."""

    name: str
    bin: str
    points: float


@dataclass(frozen=True, slots=True)
class Reason(Part):
    """A column that lowers a row's score, and by how many points against the best or the average."""

    lost: float


@dataclass(frozen=True, slots=True)
class Scorecard:
    """Points of a model of two classes: a row's score is ``base_points`` plus the points of each column and each pair.

    ``scale`` says what a score means. ``largest_error`` and ``mean_error`` are in points: no score is farther from the
    model's than the first where numbers are within the knots of their curves, and on average it is not farther than
    the second, all parts of these ranges and all levels counted alike. ``notes`` are sentences on what to know.
    """

    scale: Scale
    digits: int
    base_points: float
    base_error: float
    columns: tuple[CardColumn, ...]
    pairs: tuple[CardPair, ...]
    notes: tuple[str, ...] = ()

    @property
    def largest_error(self) -> float:
        """The largest difference of a score from the model's, in points; over ``scale.factor`` it is in log odds."""
        return self.base_error + sum(part.largest_error for part in (*self.columns, *self.pairs))

    @property
    def mean_error(self) -> float:
        """The sum of the mean differences, in points."""
        return self.base_error + sum(part.mean_error for part in (*self.columns, *self.pairs))

    def parts(self, row: Mapping[str, Cell]) -> list[Part]:
        """Return what each column and each pair gives a row, as ``{column: cell}``; a column that is absent is missing.

        Dates are days since 1970-01-01 and durations seconds.
        """
        return [part.part(row) for part in (*self.columns, *self.pairs)]

    def points(self, row: Mapping[str, Cell]) -> float:
        """Return the score of a row; NaN where a number that the model reads is infinite."""
        return self.base_points + sum(part.points for part in self.parts(row))

    def reasons(self, row: Mapping[str, Cell], most: int = 4, against: Against = "best") -> list[Reason]:
        """Return the columns and pairs that lower a row's score most, the largest loss first.

        Parameters
        ----------
        row : mapping of names to cells
            As for `points`.
        most : int, default 4
            How many to return; only those that take points are.
        against : {"best", "average"}, default "best"
            What to compare with: the most points that a column can give, or the points of the average training row,
            which are 0 because effects are centred.
        """
        check_word("against", against, ("best", "average"))
        parts = zip((*self.columns, *self.pairs), self.parts(row), strict=True)
        found = [
            Reason(part.name, part.bin, part.points, (source.best if against == "best" else 0.0) - part.points)
            for source, part in parts
        ]
        return sorted((reason for reason in found if reason.lost > 0.0), key=lambda reason: -reason.lost)[:most]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        more = {
            "factor": self.scale.factor,
            "offset": self.scale.offset,
            "largest_error": self.largest_error,
            "mean_error": self.mean_error,
        }
        return {**to_plain(asdict(self)), **more}

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each bin: the column, the bin as text, its ends, and its points."""
        records: list[dict[str, Any]] = [_record("(base points)", "", None, None, self.base_points)]
        for column in self.columns:
            records += [
                _record(column.name, found.label, found.low, found.high, found.points) for found in column.binned.bins
            ]
        for pair in self.pairs:
            records += [
                _record(pair.name, pair.label(one, other), None, None, points)
                for one, line in enumerate(pair.points)
                for other, points in enumerate(line)
            ]
        return records

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas table."""
        return as_frame(self.to_records())

    def to_csv(self) -> str:
        """Return the records as CSV; a text that a spreadsheet would run as a formula has an apostrophe before it."""
        records = self.to_records()
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(records[0])
        for record in records:
            cells = ("" if cell is None else cell for cell in record.values())
            writer.writerow([no_formula(cell) if isinstance(cell, str) else cell for cell in cells])
        return stream.getvalue()


def _record(column: str, text: str, low: float | None, high: float | None, points: float) -> dict[str, object]:
    return {"column": column, "bin": text, "from": low, "below": high, "points": points}
