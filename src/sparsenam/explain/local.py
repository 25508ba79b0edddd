"""Explanations of single rows, as plain data: what each column adds to the score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from sparsenam.errors import InputError, describe
from sparsenam.explain.frames import DataFrame, as_frame
from sparsenam.explain.plain import SCHEMA, Numbers, numbers, plain, to_json

REFERENCE = "the average row of the training data: effects are centred"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one column adds to a row's score, ``effect`` (outputs,), and the same in words."""

    feature: str
    value: str
    effect: Numbers
    words: str


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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the row that was written down."""
        parts = (
            Contribution(own["feature"], own["value"], numbers(own["effect"]), own["words"])
            for own in data["contributions"]
        )
        prediction, score, intercept = (numbers(data[key]) for key in ("prediction", "score", "intercept"))
        return cls(data["row"], prediction, score, intercept, tuple(parts))

    def __str__(self) -> str:
        return "\n".join([f"row {self.row}", *(f"  {own.words}" for own in self.contributions)])


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
        return {"schema": SCHEMA, **plain(asdict(self))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the explanation that ``to_dict`` wrote, before or after a passage through JSON."""
        if data.get("schema") != SCHEMA:
            got, remedy = repr(data.get("schema")), "explain the rows again"
            raise InputError(describe("schema of the explanation", str(SCHEMA), got, remedy))
        rows = tuple(RowExplanation.from_dict(own) for own in data["rows"])
        return cls(tuple(data["outputs"]), data["link"], data["units"], data["reference"], rows)

    def to_json(self, indent: int | None = None) -> str:
        """Return ``to_dict`` as JSON text."""
        return to_json(self.to_dict(), indent)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one record for each row, column and output, with the intercept as a column of its own name."""
        records: list[dict[str, Any]] = []
        for row in self.rows:
            start = Contribution("(intercept)", "", row.intercept, "")
            for own in (start, *row.contributions):
                records += [
                    {
                        "row": row.row,
                        "feature": own.feature,
                        "value": own.value,
                        "output": output,
                        "effect": effect,
                        "words": own.words,
                    }
                    for output, effect in zip(self.outputs, own.effect, strict=True)
                ]
        return records

    def to_frame(self) -> DataFrame:
        """Return the records as a pandas table."""
        return as_frame(self.to_records())
