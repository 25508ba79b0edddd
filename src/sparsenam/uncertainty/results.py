"""How far off predictions may be, as results: intervals, sets, and one finding for the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sparsenam.codec import Matrix
from sparsenam.tables.text import listed
from sparsenam.text import Finding, FindingTable, Found, count_text, number_text
from sparsenam.uncertainty.residuals import Method, Residuals

LEVELS = (0.5, 0.8, 0.9, 0.95)  # of the table
LEVEL_SHOWN = 0.9  # level of the sentence


def guarantee_of(residuals: Residuals, level: float, groups: str | None = None) -> str:
    """Return in a sentence what holds for certain and what was only measured."""
    rows, share = f"{residuals.rows} rows", f"{100 * level:g} %"
    each = f"for each level of {groups} " if groups else ""
    if residuals.method == "new rows":
        return (
            f"At least {share} of new rows {each}are covered on average, for rows drawn like the {rows} of the "
            "calibration, whatever the model: a finite-sample guarantee of split conformal prediction."
        )
    if residuals.method == "folds":
        return (
            f"About {share} of new rows {each}are covered, from {rows} predicted by refits without them; for certain "
            f"are {100 * max(2.0 * level - 1.0, 0.0):g} % for intervals about the refits themselves (CV+)."
        )
    return (
        f"About {share} of new rows {each}are covered, from {rows} left out one by one in closed form: measured in "
        "simulations and on held-out data, not guaranteed. calibrate with new rows guarantees it."
    )


@dataclass(frozen=True, slots=True, eq=False)
class PredictionIntervals(Found):
    """Intervals of predictions: ``lower`` and ``upper``, shape (rows,) or (rows, outputs).

    ``method`` says from which rows the errors are known, ``guarantee`` what that promises in a sentence.
    """

    lower: Matrix
    upper: Matrix
    level: float
    method: Method
    guarantee: str

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        """Return (rows, 2), lower and upper ends; (rows, outputs, 2) for several outputs."""
        return np.stack([self.lower, self.upper], axis=-1).astype(np.float64 if dtype is None else dtype)

    def __len__(self) -> int:
        return len(self.lower)

    def covers(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Return which of other numbers, in the shape of ``lower``, lie in their intervals."""
        return (self.lower <= np.asarray(y)) & (np.asarray(y) <= self.upper)

    def finding(self) -> Finding:
        middle = float(np.median(self.upper - self.lower))
        half = f", {number_text(middle)} wide" if len(self) == 1 else f", half of them wider than {number_text(middle)}"
        sentence = f"{count_text(len(self), 'interval')} of level {self.level:g}{half}."
        return Finding("Prediction intervals", sentence, notes=(self.guarantee,))


@dataclass(frozen=True, slots=True, eq=False)
class PredictionSets(Found):
    """Sets of classes: ``members`` (rows, classes) says which of ``classes`` (classes,) each row may have."""

    members: NDArray[np.bool_]
    classes: NDArray[np.generic]
    level: float
    method: Method
    guarantee: str

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[np.generic]:
        return self.members.astype(np.bool_ if dtype is None else dtype)

    def __len__(self) -> int:
        return len(self.members)

    def labels(self) -> list[list[Any]]:
        """Return the classes of each row's set."""
        return [self.classes[row].tolist() for row in self.members]

    def finding(self) -> Finding:
        sizes = np.count_nonzero(self.members, axis=1)
        single = np.count_nonzero(sizes == 1) / max(len(self), 1)
        sentence = (
            f"{count_text(len(self), 'set')} of level {self.level:g} with {sizes.mean():.3g} classes on average; "
            f"{100 * single:.3g} % have a single one."
        )
        return Finding("Prediction sets", sentence, notes=(self.guarantee,))

    def to_dict(self) -> dict[str, Any]:
        labels = [[str(label) for label in row] for row in self.labels()]
        return {"level": self.level, "method": self.method, "guarantee": self.guarantee, "sets": labels}


@dataclass(frozen=True, slots=True)
class Uncertainty(Found):
    """How far off predictions of a model typically are.

    ``method`` says from which ``rows`` the errors are known, ``guarantee`` what follows for intervals of level 0.9.
    ``ends`` are for each output and level how far below and above its prediction y typically lies: (output, level,
    below, above); none for classes, and where there are too few rows. ``relative`` says whether the width of an
    interval grows with the prediction, as the family expects, and ``spread_columns`` are what it depends on besides;
    "prediction" is the prediction itself. Of classes, ``reliability`` has for each bin mean probability, share that
    came true and number of cases, ``correction`` is what `calibrated_proba` does ("none", "platt" or "isotonic"),
    ``losses`` are the log loss of left-out probabilities and that after the better correction, and ``thresholds`` for
    each level the least probability of a class in a set.
    """

    method: Method
    rows: int
    guarantee: str
    ends: tuple[tuple[int, float, float, float], ...] = ()
    relative: bool = False
    spread_columns: tuple[str, ...] = ()
    reliability: tuple[tuple[float, float, int], ...] = ()
    correction: str | None = None
    losses: tuple[float, float] | None = None
    thresholds: tuple[tuple[float, float], ...] = ()

    def finding(self) -> Finding:
        return self._of_classes() if self.correction is not None else self._of_numbers()

    def _of_numbers(self) -> Finding:
        shown = next((row for row in self.ends if row[1] == LEVEL_SHOWN), None)
        sentence = "There are too few rows to say how far off a prediction may be."
        if shown is not None:
            below, above = (number_text(end, 3) for end in shown[2:])
            same = shown[2] == shown[3]
            reach = f"within {above} of" if same else f"between {below} below and {above} above"
            sentence = f"9 of 10 new rows lie {reach} a typical prediction."
        notes = [self.guarantee]
        if self.relative:
            notes.append("Widths grow with the prediction, as the family expects; these are at the average score.")
        if self.spread_columns:
            notes.append(f"The width of an interval depends on {listed(list(self.spread_columns))}.")
        several = len({row[0] for row in self.ends}) > 1
        rows = tuple(
            ((f"output {output}, " if several else "") + f"{100 * level:g} %", number_text(below), number_text(above))
            for output, level, below, above in self.ends
        )
        table = FindingTable("Typical distance from the prediction", ("of new rows", "below", "above"), rows)
        return Finding("How far off", sentence, (table,) if rows else (), tuple(notes))

    def _of_classes(self) -> Finding:
        gaps = [(abs(predicted - share), predicted, count) for predicted, share, count in self.reliability]
        largest, predicted, count = max(gaps, default=(0.0, 0.0, 1))
        chance = math.sqrt(max(predicted * (1.0 - predicted), 0.0) / max(count, 1))
        word = "are not shown to be off" if self.correction == "none" else "are off"
        sentence = (
            f"Probabilities {word}: in bins of left-out rows they differ from what came true by up to "
            f"{100 * largest:.2g} percentage points (chance alone: ± {100 * chance:.2g} in that bin)."
        )
        notes = [self.guarantee]
        if self.losses is not None:
            before, after = self.losses
            helps = "no correction helps for certain"
            if self.correction != "none":
                helps = f"calibrated_proba corrects them ({self.correction})"
            notes.append(f"Log loss {before:.4g} as they are, {after:.4g} with the better correction: {helps}.")
        rows = tuple((f"{p:.3f}", f"{o:.3f}", f"{n}") for p, o, n in self.reliability)
        tables = [FindingTable("Reliability", ("mean probability", "share that came true", "cases"), rows)]
        if self.thresholds:
            limits = tuple((f"{100 * level:g} %", f"{limit:.3f}") for level, limit in self.thresholds)
            tables.append(FindingTable("Sets of classes", ("level", "least probability in a set"), limits))
        return Finding("How sure", sentence, tuple(tables), tuple(notes))
