"""The log of edits in a model file: plain records, believed only where they lead to the model beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from sparsenam.errors import InputError
from sparsenam.forms import RefusalError, as_list, require
from sparsenam.model import AdditiveModel, Curve
from sparsenam.model.editing import Edit, TermCurve, applied, column_curves, terms_of
from sparsenam.plain import plain_data, read_plain
from sparsenam.tables import TableEncoder

DAMAGE = "a damaged log of edits"
SIDES = ("before", "after")


def edits_to_list(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """Return the log as JSON has it; numbers keep every bit."""
    return [plain_data({**_parts(edit), **{name: _curves_to_list(edit, name) for name in SIDES}}) for edit in edits]


def read_edits(data: Any, encoder: TableEncoder, model: AdditiveModel) -> tuple[Edit, ...]:
    """Return the log that `edits_to_list` wrote, the first edit first.

    Read backwards from the model, every edit must be found as it was left, and lead to what the next one says.
    """
    records = as_list(data, DAMAGE)
    try:
        edits = tuple(_read_edit(record) for record in records)
        for edit in reversed(edits):
            _check(edit, encoder, model)
            model = applied(model, encoder, edit, backwards=True)
    except (InputError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RefusalError(f"{DAMAGE} ({type(error).__name__}: {str(error)[:80]})") from error
    return edits


def _parts(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _curves_to_list(edit: Edit, side: str) -> list[dict[str, Any]]:
    found: tuple[TermCurve, ...] = getattr(edit, side)
    arrays = [{name: part.tolist() for name, part in _parts(each.curve).items()} for each in found]
    return [{"term": each.term, "place": each.place, **part} for each, part in zip(found, arrays, strict=True)]


def _read_edit(record: dict[str, Any]) -> Edit:
    edit = read_plain(Edit, record | {name: [] for name in SIDES})
    return replace(edit, **{name: tuple(_read_curve(dict(part)) for part in record[name]) for name in SIDES})


def _read_curve(record: dict[str, Any]) -> TermCurve:
    term, place = record.pop("term"), record.pop("place")
    return TermCurve(term, place, Curve(**{name: np.array(part, dtype=np.float64) for name, part in record.items()}))


def _check(edit: Edit, encoder: TableEncoder, model: AdditiveModel) -> None:
    """Raise unless a model is what an edit left behind."""
    require(model.exact_shapes and edit.intercept_after == tuple(model.intercept.tolist()), DAMAGE)
    outputs = model.intercept.size
    require(len(edit.intercept_before) == outputs and all(map(math.isfinite, edit.intercept_before)), DAMAGE)
    if edit.column is None:
        require(not edit.before and not edit.after, DAMAGE)
        return
    require(edit.column in encoder.names, DAMAGE)
    terms = terms_of(encoder, encoder.names.index(edit.column))
    found = {each.term: each for each in column_curves(model, terms)}
    require(found == {each.term: each for each in edit.after}, DAMAGE)
    before = [each.term for each in edit.before]
    require(bool(before) and set(before) <= set(terms) and len(set(before)) == len(before), DAMAGE)
    require(all(each.curve.outputs == outputs and each.place >= 0 for each in edit.before), DAMAGE)
