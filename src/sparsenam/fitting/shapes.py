"""Shapes that are asked of columns: read, checked against the table, and given to terms."""

from __future__ import annotations

from collections.abc import Mapping

from sparsenam.errors import InputError, describe
from sparsenam.fitting.problem import FitProblem
from sparsenam.smooth.constraints import Shape, read_shape
from sparsenam.tables import TableEncoder
from sparsenam.tables.encoder import ColumnName, column_index, column_places


def read_shapes(shapes: Mapping[ColumnName, str]) -> dict[ColumnName, Shape]:
    """Return what is asked of each column."""
    if not isinstance(shapes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user's input
        remedy = 'write for example {"age": "increasing"}'
        raise InputError(describe("shapes", "a dictionary from column to shape", repr(shapes), remedy))
    return {column: read_shape(text, f"shapes of column {column!r}") for column, text in shapes.items()}


def check_shapes(shapes: Mapping[ColumnName, Shape], encoder: TableEncoder, problem: FitProblem) -> None:
    """Raise for a shape of a column that is absent, given twice, constant or no number, and of several classes."""
    seen, places = set[int](), column_places(encoder)
    varying = {*problem.prepared.names, *(name for twins in problem.prepared.twins.values() for name in twins)}
    for column, shape in shapes.items():
        index = column_index(encoder, column, "shapes", places)
        where, kind = f"shapes of column {encoder.names[index]!r}", encoder.columns[index].kind
        if index in seen:
            raise InputError(describe(where, "one shape", "two, by name and by position", "take one out"))
        seen.add(index)
        if kind == "category":
            remedy = "leave it out, or say in feature_types that it is a number or ordered"
            raise InputError(describe(where, "a column of numbers, dates or ordered levels", "a category", remedy))
        if kind == "constant" or encoder.names[index] not in varying:
            raise InputError(describe(where, "a column that varies", "a constant column", "leave it out"))
        outputs = problem.prepared.target.shape[1]
        if problem.family.couples_outputs and outputs > 1 and not shape.is_free:
            expected = "two classes, since several share no direction"
            raise InputError(
                describe(where, expected, f"{outputs} classes", "leave it out, or ask for 'linear' or 'steps'")
            )


def shaped_terms(shapes: Mapping[ColumnName, Shape], problem: FitProblem) -> dict[int, Shape]:
    """Return what is asked of the terms of a problem, by index: of the numbers of a column, not its missing cells."""
    names = problem.column_names
    wanted = {column if isinstance(column, str) else names[column]: shape for column, shape in shapes.items()}
    return {index: wanted[name] for index, name in enumerate(problem.prepared.names) if name in wanted}
