"""The scorecard of a model of two classes, made from its portable form."""

from __future__ import annotations

import math

from sparsenam.errors import InputError, check_number, describe
from sparsenam.export.portable import ExportError, Label, PortableCurve, PortableModel, PortableTable
from sparsenam.export.scorecard_bins import (
    Bin,
    BinKind,
    CardBins,
    Rounding,
    bins_of_curve,
    level_bin,
    number_label,
    segments_of,
)
from sparsenam.export.scorecard_pairs import card_pair
from sparsenam.export.scorecard_points import CardColumn, Scale, Scorecard

MOST_DIGITS = 6


def scorecard(
    model: PortableModel,
    *,
    pdo: float = 20.0,
    base_score: float = 600.0,
    base_odds: float = 50.0,
    good: Label | None = None,
    digits: int = 0,
    max_error: float = 2.5,
) -> Scorecard:
    """Return the scorecard of a model of two classes.

    Parameters
    ----------
    model : PortableModel
        ``estimator.portable()`` of a classifier of two classes.
    pdo : float, default 20
        Points to double the odds.
    base_score, base_odds : float, default 600 and 50
        The score where the odds of good against bad are ``base_odds`` : 1.
    good : label, optional
        The class with the high scores; by default the first, so that the second is the event to fear.
    digits : int, default 0
        Digits after the point that points are rounded to; 0 makes whole numbers.
    max_error : float, default 2.5
        How far a column's points may be from its curve; a smaller one makes more bins.
    """
    scale = _scale(model, pdo, base_score, base_odds, good)
    rounding = _rounding(digits, max_error)
    notes: list[str] = []
    columns = [
        _card_column(model, index, scale, rounding, notes)
        for index in range(len(model.columns))
        if model.of_column(index)
    ]
    pairs = [card_pair(model, pair, scale, rounding) for pair in model.pairs]
    exact = scale.offset + scale.points(model.intercept[0])
    base = rounding(exact)
    return Scorecard(scale, rounding.digits, base, abs(base - exact), tuple(columns), tuple(pairs), tuple(notes))


def _scale(model: PortableModel, pdo: float, base_score: float, base_odds: float, good: Label | None) -> Scale:
    if model.task != "classes" or len(model.outputs) != 1 or model.link != "logit":
        got = f"one of {len(model.classes)} classes" if model.task == "classes" else f"one of the task {model.task!r}"
        raise ExportError(describe("scorecard", "a model of two classes", got, "fit a classifier of two classes"))
    try:
        check_number("pdo", pdo, 0.0, open_below=True)
        check_number("base_score", base_score, -math.inf)
        check_number("base_odds", base_odds, 0.0, open_below=True)
    except InputError as error:
        raise ExportError(str(error)) from error
    first, second = model.classes
    if good is None or good == first or str(good) == str(first):
        return Scale(float(pdo), float(base_score), float(base_odds), first, second, -1)
    if good != second and str(good) != str(second):
        raise ExportError(describe("good", f"one of the classes {list(model.classes)}", repr(good), "choose one"))
    return Scale(float(pdo), float(base_score), float(base_odds), second, first, 1)


def _rounding(digits: int, max_error: float) -> Rounding:
    if isinstance(digits, bool) or digits not in range(MOST_DIGITS + 1):
        expected = f"a whole number from 0 to {MOST_DIGITS}"
        raise ExportError(describe("digits", expected, repr(digits), "choose another"))
    try:
        check_number("max_error", max_error, 0.5 * 10.0**-digits)  # rounding alone takes half a unit
    except InputError as error:
        raise ExportError(str(error)) from error
    return Rounding(int(digits), float(max_error))


def _card_column(model: PortableModel, index: int, scale: Scale, rounding: Rounding, notes: list[str]) -> CardColumn:
    column, terms = model.columns[index], [model.terms[place] for place in model.of_column(index)]
    curves = [term for term in terms if isinstance(term, PortableCurve)]
    tables = [term for term in terms if isinstance(term, PortableTable)]
    levels = [table for table in tables if table.reads == "level"]
    gaps = [table for table in tables if table.reads == "missing"]
    present, missing = (scale.points(sum(table.values[code][0] for table in gaps)) for code in (0, 1))
    absent = scale.points(sum(term.absent[0] for term in (*curves, *levels)))
    bins: list[Bin] = []
    errors: list[float] = []
    if curves:
        segments = segments_of(curves[0], scale.points(1.0), present)
        if any(curves[0].slopes[0][end] for end in (0, -1)):
            ends = " and ".join(
                number_label(column, knot) for knot in sorted({*curves[0].knots[:1], *curves[0].knots[-1:]})
            )
            notes.append(f"{column.name}: the curve goes on beyond {ends or 'all knots'}, its points do not.")
        bins, largest, mean = bins_of_curve(column, segments, rounding)
    elif column.kind != "category":
        bins = [Bin("range", "present", rounding(present))]
        largest = mean = abs(bins[0].points - present)
    else:
        for code in sorted({level.code for level in column.levels}) if levels else ():
            exact = present + scale.points(sum(table.values[code][0] for table in levels))
            bins.append(level_bin(column, code, rounding(exact)))
            errors.append(abs(bins[-1].points - exact))
        largest, mean = max(errors, default=0.0), sum(errors) / max(len(errors), 1)
    rest: list[tuple[BinKind, str, float]] = [("missing", "missing", missing + absent)]
    if column.kind == "category":
        rest.append(("other", "any other level" if levels else "present", present + absent))
    for kind, label, exact in rest:
        bins.append(Bin(kind, label, rounding(exact)))
        largest = max(largest, abs(bins[-1].points - exact))
    return CardColumn(CardBins(column, tuple(bins), bool(curves)), largest, mean)
