"""Edits of a fit: every change gives a new value, with a reason, and is written into the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from sparsenam.codec import Vector
from sparsenam.errors import InputError, describe
from sparsenam.fit.pipeline import Fit
from sparsenam.fit.response import GivenRows
from sparsenam.fit.summary import Density
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Curves, Edit, EditedColumn, EditKind, applied, as_effects, column_curves, terms_of
from sparsenam.model.networks import SubNetworks
from sparsenam.tables.encoder import ColumnName, column_index
from sparsenam.text import count_text

NewCurves = Callable[[EditedColumn], tuple[Curves, str]]  # from a column to its curves after an edit, and to words
UNKNOWN = "unknown"
LONGEST_REASON = 2000  # characters of a reason or a name
BIN_POINTS = 8  # of a bin at which an effect is read
WHOLE_COLUMN = ("make_monotone", "merge_levels")  # edits that promise something of all that a column does


@dataclass(frozen=True, slots=True, eq=False)
class EditSession:
    """What an editable copy was made with: the rows to measure losses on, if any, and what tells the time."""

    rows: GivenRows | None
    clock: Callable[[], datetime]


def edit_session(
    fit: Fit,
    X: ArrayLike | None,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    exposure: ArrayLike | None,
    clock: Callable[[], datetime] | None,
) -> EditSession:
    """Return the session of an editable copy; raise where the model cannot be edited."""
    if isinstance(fit.model.functions, SubNetworks):
        got = f"the activation {fit.model.functions.name!r}"
        remedy = "fit without a network, or with activation='relu'"
        raise InputError(describe("edit", "piecewise linear effects", got, remedy))
    if (X is None) != (y is None):
        given = "X alone" if y is None else "y alone"
        raise InputError(describe("edit", "both X and y, or neither", given, "give both, or leave both out"))
    clock = clock or partial(datetime.now, UTC)
    if X is None or y is None:
        return EditSession(None, clock)
    edited = [fit.encoder.names.index(edit.column) for edit in fit.edits if edit.column is not None]
    reader = fit.reader(edited)  # undo may bring an edited column back
    return EditSession(fit.rows(X, y, sample_weight, exposure, reader), clock)


@dataclass(frozen=True, slots=True, eq=False)
class Editor:
    """One edit of a fit: which, why and by whom."""

    fit: Fit
    session: EditSession
    kind: EditKind
    reason: str
    who: str | None

    def __post_init__(self) -> None:
        for name, text in (("reason", self.reason), ("who", UNKNOWN if self.who is None else self.who)):
            is_text = isinstance(text, str)  # pyright: ignore[reportUnnecessaryIsInstance]
            if not is_text or not text.strip() or len(text) > LONGEST_REASON:
                got = repr(text) if len(repr(text)) <= 40 else f"{repr(text)[:40]}…"
                expected = f"a {name} in up to {LONGEST_REASON} characters"
                raise InputError(describe(self.kind, expected, got, f"say {'why' if name == 'reason' else name}"))

    def change(self, column: ColumnName, new: NewCurves) -> Fit:
        """Give a column new curves."""
        edited = self._column(column)
        shapes, request = new(edited)
        pairs = self.fit.model.pairs
        shared = {each.term for each in edited.curves}
        gone = 0 if shapes else sum(not shared.isdisjoint(pair.terms) for pair in pairs)
        request += f", with {count_text(gone, 'pair')}" if gone else ""
        edit = replace(self._blank(edited.index, request), before=edited.curves, after=shapes)
        return self._take(replace(edit, pairs=pairs) if gone else edit)

    def shift_intercept(self, by: ArrayLike) -> Fit:
        """Add to the intercept."""
        intercept = self.fit.model.intercept
        shift = as_effects("shift_intercept", [by], 1, intercept.size)[0]
        texts = " / ".join(f"{value:+.4g}" for value in shift)
        edit = self._blank(None, f"intercept shifted by {texts}")
        return self._take(replace(edit, intercept_after=tuple((intercept + shift).tolist())))

    def _column(self, column: ColumnName) -> EditedColumn:
        """Return a kept column to be edited; raise where the model does not use its values, or it at all."""
        where, encoder, model = self.kind, self.fit.encoder, self.fit.model
        names, index = encoder.names, column_index(encoder, column, where)
        shapes = column_curves(model, terms_of(encoder, index))
        kinds = [encoder.terms[shape.term].kind for shape in shapes]
        if not kinds or (where != "drop" and all(kind == "missing" for kind in kinds)):
            got = f"{names[index]!r}, which it {'uses only where it is missing' if kinds else 'does not use'}"
            raise InputError(describe(where, "a column that the model uses", got, "choose another"))
        if where == "make_monotone" and model.family.couples_outputs:
            expected, got = "one output, or several that do not depend on each other", f"the {model.family.name} family"
            raise InputError(describe(where, expected, got, "use set_shape"))
        if where in WHOLE_COLUMN:
            shared = [other for other in model.pairs if {shape.term for shape in shapes} & set(other.terms)]
            if shared:
                got = f"{names[index]!r}, which is in {len(shared)} pair(s)"
                remedy = "fit with pairs=0 or other pairs, or change its single effect by set_shape or flatten"
                raise InputError(describe(where, "a column in no pair", got, remedy))
        summary = next(part for part in self.fit.summary.data.columns if part.name == names[index])
        if summary.density is not None:
            x, counts = within_bins(summary.density)  # rows spread evenly within a bin
        else:
            x, counts = np.arange(len(summary.counts), dtype=np.float64), np.array(summary.counts, dtype=np.float64)
        return EditedColumn(where, index, encoder, shapes, model.intercept.size, x, counts)

    def _blank(self, column: int | None, request: str) -> Edit:
        """Return the record of an edit that changes nothing yet."""
        intercept = tuple(self.fit.model.intercept.tolist())
        return Edit(
            kind=self.kind,
            column=None if column is None else self.fit.encoder.names[column],
            request=request,
            reason=self.reason.strip(),
            who=UNKNOWN if self.who is None else self.who.strip(),
            when=self.session.clock().astimezone(UTC).isoformat(timespec="seconds"),
            before=(),
            after=(),
            intercept_before=intercept,
            intercept_after=intercept,
            n_parameters=self.fit.n_parameters,
            norm=None if column is None else float(self.fit.norms[column]),
        )

    def _take(self, edit: Edit) -> Fit:
        """Apply an edit and write it into the log, with the losses where rows were given."""
        fit, rows = self.fit, self.session.rows
        model = applied(fit.model, fit.encoder, edit)
        if rows is not None:
            before, after = (fit.response.mean_loss(each, rows) for each in (fit.model, model))
            edit = replace(edit, loss_before=before, loss_after=after)
        n_parameters = fit.n_parameters if edit.column is None else model.n_parameters
        norm = 0.0 if edit.kind == "drop" else edit.norm
        return _edited(fit, model, (*fit.edits, edit), n_parameters, edit.column, norm)


def undone(fit: Fit) -> Fit:
    """Return the fit before its last edit, to the bit."""
    if not fit.edits:
        raise InputError(describe("undo", "an edit to take back", "none", "there is nothing to do"))
    edit = fit.edits[-1]
    model = applied(fit.model, fit.encoder, edit, backwards=True)
    return _edited(fit, model, fit.edits[:-1], edit.n_parameters, edit.column, edit.norm)


def _edited(
    fit: Fit, model: AdditiveModel, edits: tuple[Edit, ...], n_parameters: int, column: str | None, norm: float | None
) -> Fit:
    norms = fit.norms.copy()
    if column is not None and norm is not None:
        norms[fit.encoder.names.index(column)] = norm
    return replace(fit, model=model, edits=edits, n_parameters=n_parameters, norms=norms)


def within_bins(density: Density) -> tuple[Vector, Vector]:
    """Return values (points,) within the bins of a histogram, and how many rows each stands for."""
    edges, inside = np.array(density.edges), (np.arange(BIN_POINTS) + 0.5) / BIN_POINTS
    x = (edges[:-1, None] + inside * np.diff(edges)[:, None]).ravel()
    return x, np.repeat(np.array(density.counts) / BIN_POINTS, BIN_POINTS)
