"""Whether the parts of a model file fit each other: what explaining, reporting and saving a model rely on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from sparsenam.errors import InputError
from sparsenam.explain.discoveries import Discoveries
from sparsenam.explain.stability import Stability
from sparsenam.explain.summary import ColumnSummary, TrainingSummary, kept_columns
from sparsenam.export.plain_data import StoredCurve, rule_name
from sparsenam.forms import RefusalError, require
from sparsenam.model import AdditiveModel
from sparsenam.model.editing import Edit
from sparsenam.penalties import as_penalty
from sparsenam.tables import TableEncoder
from sparsenam.tables.columns import Column
from sparsenam.training import Network

VALUES = {  # the terms that say the values of a column, by its kind
    "number": ("number",),
    "date": ("number",),
    "category": ("levels", "binary"),
    "ordered": ("levels", "number", "binary"),
    "constant": (),
}


def check_encoder(encoder: TableEncoder) -> None:
    """Raise `RefusalError` unless columns, levels and terms fit each other."""
    missing = {term.name for term in encoder.terms if term.kind == "missing"}
    for column in encoder.columns:
        few = len(column.levels) == 1 if column.kind == "constant" else bool(column.levels) == _has_levels(column)
        require(few and len(set(column.levels)) == len(column.levels), "a column of other levels")
        require(not column.pooled or column.kind == "category", "rare levels of no category")
        require(not column.missing_term or column.missing_term in missing, "a column whose missing cells are no term")
    for term in encoder.terms:
        column = encoder.columns[term.column]
        require(term.kind == "missing" or term.kind in VALUES[column.kind], "a term of another kind than its column")
        require(set(term.levels) <= set(column.levels), "a term of levels that its column does not have")
        require(term.kind not in ("levels", "binary") or bool(term.levels), "a term without levels")


def _has_levels(column: Column) -> bool:
    return column.kind in ("category", "ordered")


def check_summary(summary: TrainingSummary, encoder: TableEncoder, model: AdditiveModel, edits: Sequence[Edit]) -> None:
    """Raise `RefusalError` unless a summary is one of this table and of what the model keeps."""
    damage, data = "a summary of another model", summary.data
    require(len(data.pairs) == len(model.pairs), "a summary of other pairs")
    kept, told = (
        [encoder.names[column] for column in kept_columns(encoder, model)],
        [part.name for part in data.columns],
    )
    require(told == kept or (bool(edits) and set(kept) <= set(told) <= set(encoder.names)), damage)
    require(len(set(told)) == len(told), damage)
    valued = {term.column for term in encoder.terms if term.kind != "missing"}
    for part in data.columns:
        column = encoder.names.index(part.name)
        _check_column(part, encoder.columns[column], has_values=column in valued)
    path = summary.path
    if path is not None:
        require(len(path.alphas) == len(path.norms) >= 1, damage)
        require(all(len(row) == len(path.names) for row in path.norms), damage)
        require(len(set(path.names)) == len(path.names), damage)
        _require_known(path.names, encoder)
    _require_known([*summary.twins, *summary.twins.values(), *summary.constant], encoder)
    if summary.evidence is not None:
        _require_known(summary.evidence.kept_in, encoder)


def _check_column(part: ColumnSummary, column: Column, *, has_values: bool) -> None:
    damage = "a summary of another column"
    levels = len(column.levels) if has_values and column.kind != "constant" else 0
    require(len(part.counts) == levels and not (levels and part.density is not None), damage)
    if part.density is not None:
        edges = part.density.edges
        require(len(edges) == len(part.density.counts) + 1, damage)
        require(all(one < other for one, other in pairwise(edges)), damage)


def check_names(encoder: TableEncoder, found: Discoveries | None, stability: Stability | None) -> None:
    """Raise `RefusalError` where tests speak of columns that the table does not have."""
    if found is not None:
        _require_known([*found.kept, *found.always_kept, *found.statistics], encoder)
    if stability is not None:
        _require_known([*stability.kept, *stability.always_kept, *stability.frequencies], encoder)
        _require_known([name for each in stability.replacements for name in (each.column, each.other)], encoder)


def _require_known(names: Iterable[str], encoder: TableEncoder) -> None:
    require(set(names) <= set(encoder.names), "columns that the table does not have")


def check_settings(settings: Mapping[str, Any], encoder: TableEncoder, curve: StoredCurve | None) -> None:
    """Raise `RefusalError` where a setting that is read after the fit cannot be one."""
    damage, rule, shapes = "a setting that cannot be", settings.get("rule"), settings.get("shapes")
    require(curve is None or rule is None or rule_name(rule) in curve.choices, "a rule that is not that of the curve")
    require(shapes is None or isinstance(shapes, Mapping), damage)
    kept: Any = settings.get("always_keep")
    require(kept is None or isinstance(kept, list | tuple), damage)
    for name in cast("Sequence[object]", kept or ()):
        inside = type(name) is int and -len(encoder.names) <= name < len(encoder.names)
        require(inside or (isinstance(name, str) and name in encoder.names), damage)
    network, penalty = settings.get("network"), settings.get("penalty", "group_lasso")
    try:
        penalties = as_penalty(penalty)
        if isinstance(network, Network):
            network.solver_for(penalties)
    except (InputError, TypeError) as error:
        raise RefusalError(f"{damage} ({str(error)[:80]})") from error
