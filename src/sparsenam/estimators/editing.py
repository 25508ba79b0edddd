"""Editing: copies of fitted estimators that can be changed, every change with a reason and written into a log."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sparsenam.errors import InputError, check_word, describe, nearest
from sparsenam.explain import TrainingSummary, reader_of
from sparsenam.explain.edits import points_of
from sparsenam.families import Family
from sparsenam.families.base import robust_center_and_scale
from sparsenam.model import AdditiveModel
from sparsenam.model.additive import SubNetworks
from sparsenam.model.column_edits import EditedColumn, Knots, Place, as_effects
from sparsenam.model.editing import Direction, Edit, EditKind, applied, column_curves, terms_of
from sparsenam.tables import TableEncoder
from sparsenam.tables.encoder import ColumnName
from sparsenam.tables.text import listed

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
UNKNOWN = "unknown"
LONGEST = 2000  # characters of a reason or a name


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """Rows on which losses are measured: terms (rows, terms), target (rows, outputs), weights (rows,)."""

    terms: Matrix
    target: Matrix
    weights: Vector


@dataclass(frozen=True, slots=True, eq=False)
class EditSession:
    """What an editable copy was made with: the rows to measure losses on, if any, and what tells the time."""

    rows: GivenRows | None
    clock: Callable[[], datetime]


WHOLE_COLUMN = ("make_monotone", "merge_levels", "drop")  # edits that promise something of all that a column does


class EditingMixin:
    """Editable copies of a fitted estimator, its log of edits, and the way back."""

    model_: AdditiveModel
    encoder_: TableEncoder
    summary_: TrainingSummary
    intercept_: float | Vector
    n_parameters_: int
    norms_: Vector
    edits_: tuple[Edit, ...]
    _session: EditSession | None

    def edit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        *,
        clock: Callable[[], datetime] | None = None,
    ) -> Self:
        """Return a copy of the fitted estimator that can be changed; this one stays as it is.

        The copy has the methods `set_shape`, `flatten`, `make_monotone`, `drop`, `merge_levels`, `shift_intercept`
        and `undo`. It predicts, explains, saves and loads like any other model; ``edits_`` is the log, the report shows
        it, and the model file holds it. The certificate, the losses held out and the folds remain those of the fit.

        Parameters
        ----------
        X : table of shape (rows, features), optional
            Rows on which the loss before and after each edit is measured, best ones that the fit has not seen.
        y : array-like of shape (rows,) or (rows, outputs), optional
            Their target, as for ``fit``.
        sample_weight : array-like of shape (rows,), optional
            Weight of each row.
        exposure : array-like of shape (rows,), optional
            Exposure of each row, for families of rates.
        clock : callable, optional
            What tells the time of an edit; by default the clock of the computer, in universal time.
        """
        check_is_fitted(cast(Any, self))
        if isinstance(self.model_.functions, SubNetworks):
            got = f"the activation {self.model_.functions.name!r}"
            remedy = "fit without a network, or with activation='relu'"
            raise InputError(describe("edit", "piecewise linear effects", got, remedy))
        if (X is None) != (y is None):
            given = "X alone" if y is None else "y alone"
            raise InputError(describe("edit", "both X and y, or neither", given, "give both, or leave both out"))
        edited = [self.encoder_.names.index(edit.column) for edit in self.edits_ if edit.column is not None]
        reader = reader_of(self.encoder_, self.model_, edited)  # undo may bring an edited column back
        rows = None if X is None or y is None else self._given_rows(X, y, sample_weight, exposure, reader)
        copy = cast(Self, clone(cast(Any, self)))
        for name, value in vars(self).items():
            if name not in vars(copy):
                setattr(copy, name, value)
        copy._session = EditSession(rows, clock or _utc_now)
        return copy

    def set_shape(
        self, column: ColumnName, knots: Knots, values: ArrayLike | None = None, *, reason: str, who: str | None = None
    ) -> Self:
        """Give a column another shape: straight lines through values at knots, flat beyond the ends.

        Parameters
        ----------
        column : str or int
            Name of the column; its position where the table had no names.
        knots : sequence or mapping
            Rising numbers or dates, or levels of a category; or a mapping from them to values. Levels that are not
            named keep their values.
        values : array-like of shape (knots,) or (knots, outputs), optional
            The effects there, as `effects` and `explain` give them; left out where ``knots`` is a mapping or pairs.
        reason : str
            Why, for the log.
        who : str, optional
            Who wants it, for the log.
        """
        edited = self._column("set_shape", column, reason, who)
        return self._change(edited, *edited.with_knots(knots, values), reason, who)

    def flatten(
        self,
        column: ColumnName,
        start: Place,
        end: Place,
        *,
        reason: str,
        who: str | None = None,
        value: ArrayLike | None = None,
    ) -> Self:
        """Make a column's effect constant from start to end; elsewhere it stays, with a jump where it must.

        Either end may be infinite. ``value`` (outputs,) is the effect there, by default its mean over the training rows
        between the ends, with which effects stay centred. Other parameters as for `set_shape`.
        """
        edited = self._column("flatten", column, reason, who)
        return self._change(edited, *edited.flat(start, end, value), reason, who)

    def make_monotone(self, column: ColumnName, direction: Direction, *, reason: str, who: str | None = None) -> Self:
        """Make a column's effect rise or fall everywhere, exactly: the nearest such shape, in squares over the rows.

        ``direction`` is "increasing" or "decreasing"; of several outputs each becomes so. Other parameters as for
        `set_shape`.
        """
        edited, family = self._column("make_monotone", column, reason, who), self.model_.family
        check_word("direction", direction, ("increasing", "decreasing"))
        if family.couples_outputs:
            expected, got = "one output, or several that do not depend on each other", f"the {family.name} family"
            raise InputError(describe("make_monotone", expected, got, "use set_shape"))
        return self._change(edited, *edited.one_way(direction), reason, who)

    def merge_levels(
        self, column: ColumnName, levels: Sequence[object], *, reason: str, who: str | None = None
    ) -> Self:
        """Give some levels of a category one effect, the mean over their training rows.

        Other parameters as for `set_shape`.
        """
        edited = self._column("merge_levels", column, reason, who)
        return self._change(edited, *edited.merged(levels), reason, who)

    def drop(self, column: ColumnName, *, reason: str, who: str | None = None) -> Self:
        """Take a column out of the model, its missing cells included; the intercept stays, effects being centred.

        Parameters as for `set_shape`.
        """
        edited = self._column("drop", column, reason, who, any_terms=True)
        return self._change(edited, (), "dropped", reason, who)

    def shift_intercept(self, by: ArrayLike, *, reason: str, who: str | None = None) -> Self:
        """Add ``by`` (outputs,) to the intercept, hence to every score. Other parameters as for `set_shape`."""
        self._require_session("shift_intercept", reason, who)
        outputs = self.model_.intercept.size
        shift = as_effects("shift_intercept", [by], 1, outputs)[0]
        texts = " / ".join(f"{value:+.4g}" for value in shift)
        edit = self._blank("shift_intercept", None, f"intercept shifted by {texts}", reason, who)
        return self._take(replace(edit, intercept_after=tuple((self.model_.intercept + shift).tolist())))

    def undo(self) -> Self:
        """Take the last edit back, exactly: every prediction is again what it was, to the bit."""
        self._require_session("undo")
        if not self.edits_:
            raise InputError(describe("undo", "an edit to take back", "none", "there is nothing to do"))
        edit = self.edits_[-1]
        model = applied(self.model_, self.encoder_, edit, backwards=True)
        self._become(model, self.edits_[:-1], edit.n_parameters, edit.column, edit.norm)
        return self

    def _given_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        exposure: ArrayLike | None,
        reader: TableEncoder | None = None,
    ) -> GivenRows:
        """Return rows on which losses are measured; a ``reader`` reads some of the columns."""
        terms, target = (reader or self.encoder_).encode(X), self._target_in(y)
        weights = np.ones(len(terms)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        check_consistent_length(terms, target, weights)
        if weights.ndim != 1 or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            expected = "finite weights of at least 0, not all of them 0"
            raise InputError(describe("sample_weight", expected, "others", "correct them"))
        return self._with_exposure(GivenRows(terms, target, weights), exposure)

    def _with_exposure(self, rows: GivenRows, exposure: ArrayLike | None) -> GivenRows:
        """Return the rows with rates for targets; raise where there are no rates."""
        if exposure is None:
            return rows
        got = f"the {self.model_.family.name} family of {type(self).__name__}"
        raise InputError(describe("exposure", "a family of rates", got, "leave the exposure out"))

    @abstractmethod
    def _target_in(self, y: ArrayLike) -> Matrix:
        """Return the target of other rows as losses read it, shape (rows, outputs)."""

    def _mean_loss(self, model: AdditiveModel, rows: GivenRows) -> float:
        """Return the mean loss of a model over rows, y in units of its spread where the fit brings it to variance 1."""
        return mean_loss(model.family, model.scores(rows.terms), rows.target, rows.weights)

    def _require_session(self, where: str, reason: str = "-", who: str | None = None) -> None:
        """Raise unless this is an editable copy, and the reason and the name are texts."""
        check_is_fitted(cast(Any, self))
        if self._session is None:
            got = f"this {type(self).__name__}, which stays as it was fitted"
            raise InputError(describe(where, "a copy made by edit()", got, f"call edit().{where}(…)"))
        for name, text in (("reason", reason), ("who", UNKNOWN if who is None else who)):
            if not isinstance(cast(object, text), str) or not text.strip() or len(text) > LONGEST:
                got = repr(text) if len(repr(text)) <= 40 else f"{repr(text)[:40]}…"
                expected = f"a {name} in up to {LONGEST} characters"
                raise InputError(describe(where, expected, got, f"say {'why' if name == 'reason' else name}"))

    def _column(
        self, where: str, column: ColumnName, reason: str, who: str | None, *, any_terms: bool = False
    ) -> EditedColumn:
        """Return a kept column to be edited; raise where the model does not use its values, or it at all."""
        self._require_session(where, reason, who)
        encoder, names = self.encoder_, list(self.encoder_.names)
        index = names.index(column) if isinstance(column, str) and column in names else column
        if isinstance(index, bool) or not isinstance(index, int | np.integer) or not 0 <= index < len(names):
            expected = f"a column of the table ({listed(names)})"
            raise InputError(describe(where, expected, repr(column), nearest(column, names, "correct the name")))
        shapes = column_curves(self.model_, terms_of(encoder, int(index)))
        kinds = [encoder.terms[shape.term].kind for shape in shapes]
        if not kinds or (not any_terms and all(kind == "missing" for kind in kinds)):
            got = f"{names[index]!r}, which it {'uses only where it is missing' if kinds else 'does not use'}"
            raise InputError(describe(where, "a column that the model uses", got, "choose another"))
        if where in WHOLE_COLUMN:
            shared = [other for other in self.model_.pairs if {shape.term for shape in shapes} & set(other.terms)]
            if shared:
                got = f"{names[index]!r}, which is in {len(shared)} pair(s)"
                remedy = "fit with pairs=0 or other pairs, or change its single effect by set_shape or flatten"
                raise InputError(describe(where, "a column in no pair", got, remedy))
        summary = next(part for part in self.summary_.data.columns if part.name == names[index])
        x, counts = points_of(summary)
        return EditedColumn(where, int(index), encoder, shapes, self.model_.intercept.size, x, counts)

    def _blank(self, kind: EditKind, column: int | None, request: str, reason: str, who: str | None) -> Edit:
        """Return the record of an edit that changes nothing yet."""
        session, intercept = cast(EditSession, self._session), tuple(self.model_.intercept.tolist())
        return Edit(
            kind=kind,
            column=None if column is None else self.encoder_.names[column],
            request=request,
            reason=reason.strip(),
            who=UNKNOWN if who is None else who.strip(),
            when=session.clock().astimezone(UTC).isoformat(timespec="seconds"),
            before=(),
            after=(),
            intercept_before=intercept,
            intercept_after=intercept,
            n_parameters=self.n_parameters_,
            norm=None if column is None else float(self.norms_[column]),
        )

    def _change(self, edited: EditedColumn, shapes: Any, request: str, reason: str, who: str | None) -> Self:
        """Give an edited column its new shapes."""
        edit = self._blank(cast(EditKind, edited.where), edited.index, request, reason, who)
        return self._take(replace(edit, before=edited.curves, after=shapes))

    def _take(self, edit: Edit) -> Self:
        """Apply an edit and write it into the log, with the losses where rows were given."""
        model = applied(self.model_, self.encoder_, edit)
        rows = cast(EditSession, self._session).rows
        if rows is not None:
            losses = (self._mean_loss(each, rows) for each in (self.model_, model))
            edit = replace(edit, **dict(zip(("loss_before", "loss_after"), losses, strict=True)))
        norm = 0.0 if edit.kind == "drop" else edit.norm
        n_parameters = self.n_parameters_ if edit.column is None else model.n_parameters
        self._become(model, (*self.edits_, edit), n_parameters, edit.column, norm)
        return self

    def _become(
        self, model: AdditiveModel, edits: tuple[Edit, ...], n_parameters: int, column: str | None, norm: float | None
    ) -> None:
        """Set the attributes that an edit changes, together."""
        norms = self.norms_.copy()
        if column is not None and norm is not None:
            norms[self.encoder_.names.index(column)] = norm
        intercept = model.intercept
        self.intercept_ = float(intercept[0]) if intercept.size == 1 else intercept.copy()
        self.model_, self.edits_, self.n_parameters_, self.norms_ = model, edits, n_parameters, norms


def mean_loss(family: Family, scores: Matrix, target: Matrix, weights: Vector) -> float:
    """Return the weighted mean loss of scores (rows, outputs), in units of `loss_units`."""
    units = loss_units(family, target, weights)
    return float(np.average(family.loss(scores / units, target / units), weights=weights))


def loss_units(family: Family, target: Matrix, weights: Vector) -> Vector:
    """Return what scores and target are divided by before their loss is taken, shape (outputs,).

    Where a family's target is brought to variance 1 for the fit, its parameters are on that scale, and y is measured
    in units of its spread over the rows; elsewhere the units are 1.
    """
    scale: Vector = np.ones_like(target[0])
    if not family.standardizes_target:
        return scale
    if family.robust_scale:
        _, scale = robust_center_and_scale(target, weights)
    else:
        center = np.average(target, axis=0, weights=weights)
        squares = np.asarray(np.average((target - center) ** 2, axis=0, weights=weights), dtype=np.float64)
        scale = np.sqrt(squares)
    return np.where(scale > 0, scale, 1.0)


def _utc_now() -> datetime:
    return datetime.now(UTC)
