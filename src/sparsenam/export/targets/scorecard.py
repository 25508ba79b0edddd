"""A scorecard as a workbook with live formulas, or as CSV.

Sheet "scorecard" has the bins and their points, "calculator" looks up the points of a case that is typed in and adds
them up, "lookup" has the texts and cuts that it searches. Texts of the model are written as strings, never as formulas.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sparsenam.export.exporting import Matrix, Options, Rows
from sparsenam.export.portable import Cell, PortableColumn, PortableModel, refusal
from sparsenam.export.scorecard_bins import CardBins
from sparsenam.export.scorecard_build import scorecard
from sparsenam.export.scorecard_points import Part, Scorecard
from sparsenam.tables.text import MARKERS

if TYPE_CHECKING:
    from xlsxwriter import Workbook

EXCEL_EPOCH = 25569.0  # the day 1970-01-01 in a spreadsheet
LONGEST_TEXT = 32767  # of a cell
NO_NUMBER = "-"  # beside a level that writes no number: an empty cell would equal 0
HEADINGS = ("column", "bin", "from", "below", "points")


def files(model: PortableModel, path: Path, options: Options) -> dict[Path, bytes]:
    """Return the workbook, or the CSV where the path ends in ``.csv``."""
    card = scorecard(model, **options)
    if path.suffix.lower() == ".csv":
        return {path: card.to_csv().encode()}
    if path.suffix.lower() != ".xlsx":
        raise refusal(f"path {path} of a scorecard", "the suffix .xlsx or .csv", repr(path.suffix), "rename it")
    return {path: workbook(card)}


def require_engine(path: Path, options: Options) -> None:
    """Do nothing: the points are added up here."""


def scores(model: PortableModel, path: Path, rows: Rows, options: Options) -> Matrix:
    """Return the log odds (rows, 1) that the points of the written card stand for."""
    made = files(model, path, options)[path]
    if not path.is_file() or path.read_bytes() != made:
        got, remedy = "another file, or none", "export the model again with the same options"
        raise refusal(f"check of {path}", "the scorecard of this model and these options", got, remedy)
    card = scorecard(model, **options)
    return np.array([[card.scale.model_score(card.points(row))] for row in rows], dtype=np.float64).reshape(-1, 1)


def workbook(card: Scorecard) -> bytes:
    """Return the workbook of a scorecard; the same card gives the same bytes."""
    try:
        from xlsxwriter import Workbook
    except ModuleNotFoundError as error:  # CSV is written without it
        got, remedy = "an environment without xlsxwriter", 'pip install "sparsenam[scorecard]", or write .csv'
        raise refusal("export to scorecard", "its libraries", got, remedy) from error
    texts = [level.text for column in _columns(card) for level in column.levels]
    texts += [column.name for column in _columns(card)]
    longest = max(map(len, texts), default=0)
    if longest > LONGEST_TEXT:
        expected, got = f"names and levels of at most {LONGEST_TEXT} characters", f"one of {longest}"
        raise refusal("export to scorecard", expected, got, "shorten it, or write .csv")
    stream = io.BytesIO()
    book = Workbook(stream, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    book.set_properties({"title": "scorecard", "created": datetime(2000, 1, 1)})
    _Sheets(book, card).write()
    book.close()
    return stream.getvalue()


class _Sheets:
    """The three sheets of a workbook under way; rows and columns count from 0, those in formulas from 1."""

    def __init__(self, book: Workbook, card: Scorecard) -> None:
        self.card = card
        self.calculator, self.bins, self.lookup = (
            book.add_worksheet(name) for name in ("calculator", "scorecard", "lookup")
        )
        self.bold = book.add_format({"bold": True})
        self.date = book.add_format({"num_format": "yyyy-mm-dd"})
        typed = {"bg_color": "#FFF8DC", "border": 1}
        self.typed = {
            "number": book.add_format(typed),
            "text": book.add_format({**typed, "num_format": "@"}),
            "date": book.add_format({**typed, "num_format": "yyyy-mm-dd"}),
        }
        self.next_bin, self.next_lookup = 1, 1

    def write(self) -> None:
        for column, heading in enumerate(HEADINGS):
            self.bins.write_string(0, column, heading, self.bold)
        for column, heading in enumerate(("column", "text", "place", "number")):
            self.lookup.write_string(0, column, heading, self.bold)
        for column, heading in enumerate(("column", "value", "bin", "points", "place", "", "")):
            self.calculator.write_string(0, column, heading, self.bold)
        markers = sorted(MARKERS - {""})
        self.lookup.write_string(0, 5, "missing", self.bold)
        for row, text in enumerate(markers, start=1):
            self.lookup.write_string(row, 5, text)
        self.markers = f"lookup!$F$2:$F${len(markers) + 1}"
        self._bin("(base points)", "", None, None, self.card.base_points, "base")
        self._write_facts()
        self._write_calculator()
        self.calculator.set_column(0, 2, 28)
        self.bins.set_column(0, 1, 28)
        for sheet in (self.calculator, self.bins, self.lookup):
            sheet.freeze_panes(1, 0)

    def _bin(self, name: str, label: str, low: float | None, high: float | None, points: float, kind: str) -> None:
        row, self.next_bin = self.next_bin, self.next_bin + 1
        self.bins.write_string(row, 0, name[:LONGEST_TEXT])  # names of pairs and of pooled levels add up
        self.bins.write_string(row, 1, label[:LONGEST_TEXT])
        for column, end in ((2, low), (3, high)):
            if end is not None:
                shown = end + EXCEL_EPOCH if kind == "date" else end
                self.bins.write_number(row, column, shown, self.date if kind == "date" else None)
        self.bins.write_number(row, 4, points)

    def _write_facts(self) -> None:
        """Write what the points mean and how exact they are, beside the bins."""
        card, scale = self.card, self.card.scale
        facts: list[tuple[str, float | str]] = [
            ("points to double the odds", scale.pdo),
            ("base score", scale.base_score),
            ("base odds, good : bad", scale.base_odds),
            ("good", str(scale.good)),
            ("bad", str(scale.bad)),
            ("largest error, points", card.largest_error),
            ("largest error, log odds", card.largest_error / scale.factor),
            ("mean error, points", card.mean_error),
            ("mean error, log odds", card.mean_error / scale.factor),
            *(("note", sentence) for sentence in card.notes),
        ]
        self.bins.set_column(6, 6, 26)
        for row, (name, value) in enumerate(facts):
            self.bins.write_string(row, 6, name, self.bold)
            if isinstance(value, str):
                self.bins.write_string(row, 7, value)
            else:
                self.bins.write_number(row, 7, value)

    def _write_calculator(self) -> None:
        card, sheet = self.card, self.calculator
        case = example(card)
        inputs = {column.name: row for row, column in enumerate(_columns(card), start=1)}
        binned = {column.name: column for column in card.columns}
        for column in _columns(card):
            row = inputs[column.name]
            sheet.write_string(row, 0, column.name)
            self._write_input(row, column, case[column.name])
            if column.name in binned:
                self._write_column(row, binned[column.name].binned, case)
        row = len(inputs) + 1
        for pair in card.pairs:
            first = self.next_bin + 1
            for one, line in enumerate(pair.points):
                for other, points in enumerate(line):
                    self._bin(pair.name, pair.label(one, other), None, None, points, "pair")
            sheet.write_string(row, 0, pair.name[:LONGEST_TEXT])
            places = [side.place(case[side.column.name]) or 0 for side in (pair.one, pair.other)]
            for at, side, place in zip((5, 6), (pair.one, pair.other), places, strict=True):
                formula = self._place(f"$B${inputs[side.column.name] + 1}", side, None)
                sheet.write_formula(row, at, formula, None, place + 1)
            place = places[0] * len(pair.other.bins) + places[1] + 1
            sheet.write_formula(row, 4, f"=(F{row + 1}-1)*{len(pair.other.bins)}+G{row + 1}", None, place)
            self._write_found(row, first, pair.part(case))
            row += 1
        self._write_total(row, card.points(case))

    def _write_input(self, row: int, column: PortableColumn, cell: Cell) -> None:
        """Write the cell that is typed over, with a choice of the levels where there are some."""
        as_text = column.kind == "category" and not all(level.number is not None for level in column.levels)
        style = self.typed["date" if column.kind == "date" else "text" if as_text else "number"]
        if isinstance(cell, str):
            self.calculator.write_string(row, 1, cell, style)
        elif cell is None:
            self.calculator.write_blank(row, 1, None, style)
        else:
            shift = EXCEL_EPOCH if column.kind == "date" else 0.0
            self.calculator.write_number(row, 1, float(cell) + shift, style)

    def _write_column(self, row: int, binned: CardBins, case: Mapping[str, Cell]) -> None:
        first = self.next_bin + 1
        for found in binned.bins:
            self._bin(binned.column.name, found.label, found.low, found.high, found.points, binned.column.kind)
        ranges = sum(found.kind == "range" for found in binned.bins)
        cuts = f"scorecard!$C${first + 1}:$C${first + ranges - 1}" if ranges > 1 else None
        texts = self.next_lookup + 1
        place = binned.place(case[binned.column.name]) or 0
        self.calculator.write_formula(row, 4, self._place(f"$B${row + 1}", binned, cuts), None, place + 1)
        if binned.column.levels and self.next_lookup >= texts:
            choice = f"=lookup!$B${texts}:$B${self.next_lookup}"
            self.calculator.data_validation(row, 1, row, 1, {"validate": "list", "source": choice, "show_error": False})
        found = binned.bins[place]
        self._write_found(row, first, Part(binned.column.name, found.label, found.points))

    def _write_found(self, row: int, first: int, part: Part) -> None:
        """Write the bin's text and its points by their place in the card's rows from ``first`` on."""
        for at, source, value in ((2, "B", part.bin), (3, "E", part.points)):
            formula = f"=INDEX(scorecard!${source}${first}:${source}${self.next_bin},E{row + 1})"
            self.calculator.write_formula(row, at, formula, None, value)

    def _place(self, cell: str, binned: CardBins, cuts: str | None) -> str:
        """Return the formula of the place of a cell's bin; texts and cuts without a place go to the lookup sheet."""
        kinds = [found.kind for found in binned.bins]
        gap = f"OR(LEN(TRIM({cell}))=0,SUMPRODUCT(--EXACT(TRIM({cell}),{self.markers}))>0)"
        missing = kinds.index("missing") + 1
        if binned.column.kind != "category":
            if cuts is None and kinds.count("range") > 1:
                first = self.next_lookup + 1
                for place, found in enumerate(binned.bins[1 : kinds.count("range")], start=2):
                    shift = EXCEL_EPOCH if binned.column.kind == "date" else 0.0
                    self._look_up(binned.column.name, found.label, place, (found.low or 0.0) + shift)
                cuts = f"lookup!$D${first}:$D${self.next_lookup}"
            found_at = "1" if cuts is None else f"1+SUMPRODUCT(--({cuts}<={cell}))"
            return f"=IF({gap},{missing},IF(ISNUMBER({cell}),{found_at},NA()))"
        other, first = kinds.index("other") + 1, self.next_lookup + 1
        for place, found in enumerate(binned.bins, start=1):
            for level in binned.column.levels:
                if level.code in found.codes:
                    self._look_up(binned.column.name, level.text, place, level.number)
        if self.next_lookup < first:
            return f"=IF({gap},{missing},{other})"
        text, place, number = (f"lookup!${letter}${first}:${letter}${self.next_lookup}" for letter in "BCD")
        truth = "".join(f',"{_text_of(binned.column, code)}"' for code in (binned.column.true, binned.column.false))
        written = f"IF(ISLOGICAL({cell}),IF({cell}{truth}),{cell})"
        at = f"SUMPRODUCT(EXACT({written},{text})*{place})"
        if any(level.number is not None for level in binned.column.levels):
            # a text that writes a number is that number's level, but not with a zero in front, as in a postal code
            trimmed = f"TRIM({cell})"
            coded = f'AND(LEFT({trimmed},1)="0",ISNUMBER(FIND(MID({trimmed}&"x",2,1),"0123456789")))'
            by_value = f'SUMPRODUCT(({number}=IFERROR(VALUE({trimmed}),"none"))*{place})'
            at = f"IF(ISNUMBER({cell}),SUMPRODUCT(({number}={cell})*{place}),IF({at}>0,{at},IF({coded},0,{by_value})))"
        return f"=IF({gap},{missing},IF({at}=0,{other},{at}))"

    def _look_up(self, name: str, text: str, place: int, number: float | None) -> None:
        row, self.next_lookup = self.next_lookup, self.next_lookup + 1
        self.lookup.write_string(row, 0, name)
        self.lookup.write_string(row, 1, text)
        self.lookup.write_number(row, 2, place)
        if number is None:
            self.lookup.write_string(row, 3, NO_NUMBER)
        else:
            self.lookup.write_number(row, 3, number)

    def _write_total(self, row: int, score: float) -> None:
        """Write the sum of the points, and what it means."""
        scale = self.card.scale
        lines = (
            ("base points", "=scorecard!$E$2", self.card.base_points),
            ("score", f"=SUM(D2:D{row + 1})", score),
            (f"odds, {scale.good} : {scale.bad}", f"=scorecard!$H$3*2^((D{row + 2}-scorecard!$H$2)/scorecard!$H$1)",
             scale.odds(score)),
            (f"probability of {scale.bad}", f"=1/(1+D{row + 3})", scale.probability(score)),
        )  # fmt: skip
        for at, (name, formula, value) in enumerate(lines, start=row):
            self.calculator.write_string(at, 0, name, self.bold)
            self.calculator.write_formula(at, 3, formula, self.bold, value)


def example(card: Scorecard) -> dict[str, Cell]:
    """Return a case to begin with: a value in the middle of each column's bins, or its first level."""
    case: dict[str, Cell] = {}
    sides = [side for pair in card.pairs for side in (pair.one, pair.other)]
    for binned in (*sides, *(column.binned for column in card.columns)):
        ranges = [found for found in binned.bins if found.kind == "range"]
        if binned.column.kind != "category":
            case[binned.column.name] = ranges[len(ranges) // 2].low or 0.0
        else:
            case[binned.column.name] = binned.column.levels[0].text if binned.column.levels else "present"
    return case


def _columns(card: Scorecard) -> list[PortableColumn]:
    """Return every column that a card reads, once."""
    sides = [column.binned for column in card.columns]
    sides += [side for pair in card.pairs for side in (pair.one, pair.other)]
    return list({side.column.name: side.column for side in sides}.values())


def _text_of(column: PortableColumn, code: int | None) -> str:
    """Return a level of a code as a formula writes it; no level's name where there is none."""
    names = [level.text for level in column.levels if level.code == code]
    return names[0].replace('"', '""') if names else "TRUE or FALSE"
