"""The log of edits in a model file: plain records, believed only where they lead to the model beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from sparsenam.codec import to_plain, unpack
from sparsenam.errors import InputError
from sparsenam.forms import RefusalError, as_list, require
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Edit, applied, column_shapes, terms_of
from sparsenam.tables import TableEncoder

DAMAGE = "a damaged log of edits"


def edits_to_list(edits: Iterable[Edit]) -> list[dict[str, Any]]:
    """Return the log as JSON has it; numbers keep every bit."""
    return [to_plain(edit) for edit in edits]


def read_edits(data: Any, encoder: TableEncoder, model: AdditiveModel) -> tuple[Edit, ...]:
    """Return the log that `edits_to_list` wrote, the first edit first.

    Read backwards from the model, every edit must be found as it was left, and lead to what the next one says.
    """
    records = as_list(data, DAMAGE)
    try:
        edits = tuple(unpack(Edit, record) for record in records)
        for edit in reversed(edits):
            _check(edit, encoder, model)
            model = applied(model, encoder, edit, backwards=True)
    except (InputError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RefusalError(f"{DAMAGE} ({type(error).__name__}: {str(error)[:80]})") from error
    return edits


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
    found = {shape.term: shape for shape in column_shapes(model, terms)}
    require(found == {shape.term: shape for shape in edit.after}, DAMAGE)
    before = [shape.term for shape in edit.before]
    require(bool(before) and set(before) <= set(terms) and len(set(before)) == len(before), DAMAGE)
    sizes = [len(row) for shape in edit.before for row in (*shape.values, shape.left_slope)]
    require(all(size == outputs for size in sizes) and all(shape.place >= 0 for shape in edit.before), DAMAGE)
