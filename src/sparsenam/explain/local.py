"""Explanations of single rows, as plain data: what each column and each pair adds to the score."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec import Numbers, to_plain
from sparsenam.explain.explanation import SCHEMA, DataFrame, as_frame, read_explanation
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.summary import against_average, numbers, read_cells
from sparsenam.tables.columns import Cells, Column, as_numbers, levels_of
from sparsenam.tables.text import date_key
from sparsenam.text import MISSING, number_text, pair_text

Matrix = NDArray[np.float64]
REFERENCE = "the average row of the training data: effects are centred"
EXACT_DIGITS = 1e6  # whole numbers below this are written out


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one column, or a pair, adds to a row's score, ``effect`` (outputs,), and the same as ``text``.

    Of a pair, ``feature`` has both names and ``value`` both values, with " × " in between.
    """

    feature: str
    value: str
    effect: Numbers
    text: str


@dataclass(frozen=True, slots=True)
class RowExplanation:
    """One row: ``score`` = ``intercept`` + the sum of its contributions, each (outputs,), the largest first.

    ``prediction`` (outputs,) is the score through the inverse link.
    """

    row: int | str
    prediction: Numbers
    score: Numbers
    intercept: Numbers
    contributions: tuple[Contribution, ...]

    def __str__(self) -> str:
        return "\n".join([f"row {self.row}", *(f"  {part.text}" for part in self.contributions)])


@dataclass(frozen=True, slots=True)
class LocalExplanation:
    """Explanations of some rows; effects are differences from ``reference``, in ``units``."""

    outputs: tuple[str, ...]
    link: str
    units: str
    reference: str
    rows: tuple[RowExplanation, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {"schema": SCHEMA, **to_plain(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the explanation that ``to_dict`` wrote, before or after a passage through JSON."""
        return read_explanation(cls, data)

    def to_json(self, indent: int | None = None) -> str:
        """Return ``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each row, column and output; the intercept is the column "(intercept)"."""
        return [
            {
                "row": row.row,
                "feature": part.feature,
                "value": part.value,
                "output": output,
                "effect": effect,
                "text": part.text,
            }
            for row in self.rows
            for part in (Contribution("(intercept)", "", row.intercept, ""), *row.contributions)
            for output, effect in zip(self.outputs, part.effect, strict=True)
        ]

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas table."""
        return as_frame(self.to_records())


def explain_rows(fit: Fit, X: object) -> LocalExplanation:
    """Return what each column adds to the score of each row of a table."""
    reader = fit.reader()
    encoded, cells = reader.encode(X), read_cells(reader, X)
    labels = row_labels(X, len(encoded))
    model, encoder = fit.model, fit.encoder
    effects = against_average(model.family, model.kept_effects(encoded))
    column_of = np.array([encoder.terms[int(term)].column for term in model.terms], dtype=np.intp)
    texts = {fit.encoder.names[column]: cell_texts(encoder.columns[column], cells[column]) for column in fit.kept}
    parts = [
        (encoder.names[column], texts[encoder.names[column]], effects[:, column_of == column].sum(axis=1))
        for column in fit.kept
    ]
    joint = against_average(model.family, model.pair_effects(encoded))
    for index, names in enumerate(fit.interactions):
        both = zip(*(texts[name] for name in names), strict=True)
        paired = [(pair_text(one[0], other[0]), pair_text(one[1], other[1])) for one, other in both]
        parts.append((pair_text(*names), paired, joint[:, index]))
    scores = model.scores(encoded)
    # the risk score is what a survival model predicts
    means = scores if fit.task == "survival" else model.family.mean(scores)
    predictions = np.asarray(means, dtype=np.float64)
    scores, intercept = against_average(model.family, scores), against_average(model.family, model.intercept)
    rows = tuple(
        RowExplanation(
            row=label,
            prediction=numbers(predictions[row]),
            score=numbers(scores[row]),
            intercept=numbers(intercept),
            contributions=_contributions(parts, row, fit.outputs),
        )
        for row, label in enumerate(labels)
    )
    return LocalExplanation(fit.outputs, model.family.link, fit.units, REFERENCE, rows)


def _contributions(
    parts: Sequence[tuple[str, Sequence[tuple[str, str]], Matrix]], row: int, outputs: tuple[str, ...]
) -> tuple[Contribution, ...]:
    """Return what each part adds to a row: its name, the texts of its cells in each row, and its effects."""
    found: list[Contribution] = []
    for name, texts, effects in parts:
        effect, (value, words) = numbers(effects[row]), texts[row]
        found.append(Contribution(name, value, effect, f"{words} {describe_effect(effect, outputs)}"))
    return tuple(sorted(found, key=lambda part: (-max(map(abs, part.effect)), part.feature)))


def describe_effect(effect: Numbers, outputs: tuple[str, ...], output: int | None = None) -> str:
    """Return what an effect (outputs,) does as text; of several outputs to a given one, or the one it moves most."""
    if output is None:
        output = max(range(len(effect)), key=lambda index: abs(effect[index]))
    size = number_text(abs(effect[output]), 3)
    if size == "0":
        return "adds nothing"
    rising = effect[output] > 0
    if len(outputs) == 1:
        return f"adds +{size}" if rising else f"takes {size}"
    return f"adds +{size} to {outputs[output]!r}" if rising else f"takes {size} from {outputs[output]!r}"


def cell_texts(column: Column, cells: Cells) -> list[tuple[str, str]]:
    """Return each cell as text, and as a sentence has it: after its column's name, levels in quotation marks."""
    if column.kind in ("number", "date"):
        unit, write = " s" if column.unit == "seconds" else "", date_key if column.kind == "date" else _number
        values = as_numbers(cells, column.unit, column.writing).tolist()
        texts = ["" if np.isnan(value) else f"{write(value)}{unit}" for value in values]
        found = [(text, text) for text in texts]
    else:
        codes, keys = levels_of(column, cells)
        known = keys if column.kind == "constant" else {*column.levels, *column.pooled}
        quoted = [("", "")] + [(key, f"'{key}'" if key in known else f"'{key}' (never seen)") for key in keys]
        places: list[int] = (codes + 1).tolist()  # the code of a missing cell is -1
        found = [quoted[place] for place in places]
    shown = [(MISSING, MISSING) if missing else text for text, missing in zip(found, cells.missing, strict=True)]
    return [(text, f"{column.name} {words}") for text, words in shown]


def row_labels(X: object, rows: int) -> list[int | str]:
    """Return the labels of a pandas table's index, or 0, 1, … for other tables."""
    index: Iterable[object] | Callable[..., object] | None = getattr(X, "index", None)
    if index is None or callable(index):  # a list has a method of that name
        return list(range(rows))
    return [str(label) if isinstance(label, bool) or not isinstance(label, Integral) else int(label) for label in index]


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) and abs(value) < EXACT_DIGITS else f"{value:.4g}"
