"""What the document of a model file may say: the type and range of every field, declared once and checked at once.

Then whether its parts fit each other, on which explaining, reporting and saving a model rely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any, cast, get_args

from sparsenam.discover.discoveries import Discoveries
from sparsenam.discover.stability import Stability
from sparsenam.errors import InputError
from sparsenam.families import FAMILIES
from sparsenam.fit.summary import ColumnSummary, Preliminary, TrainingSummary, kept_columns
from sparsenam.forms import (
    FARTHEST,
    RefusalError,
    anything,
    by_name,
    damaged,
    each,
    either,
    many,
    maybe,
    number,
    record,
    require,
    text,
    truth,
    whole,
    word,
)
from sparsenam.model import AdditiveModel
from sparsenam.model.bands import Verdict
from sparsenam.model.editing import Edit, EditKind
from sparsenam.networks import ACTIVATION_NAMES
from sparsenam.penalties import as_penalty
from sparsenam.selection.discovery import Test
from sparsenam.selection.stored_curve import rule_name
from sparsenam.tables import TableEncoder
from sparsenam.tables.cells import FIRST_DAY, LAST_DAY, FarValues, Stored
from sparsenam.tables.columns import HUGE, WANTED, Column, Reads, Unit
from sparsenam.tables.text import WRITINGS
from sparsenam.training import Network

SCHEMA = 1

FIGURE = number(-FARTHEST, FARTHEST)
SIZE = number(0.0, FARTHEST)
SHARE = number(0.0, 1.0)
ALPHA = either(number(0.0, 0.0), number(1e-100, 1e100))  # drawn on a logarithmic axis
NAMES = many(text())
FIGURES = many(FIGURE)
EVIDENCE = {
    "gain": number(),
    "gain_error": number(0.0),
    "behind_all": maybe(number()),
    "behind_all_error": maybe(number(0.0)),
    "kept_in": by_name(SHARE),
    "best_gain": number(),
}
CERTIFICATE = {
    "gap": number(),
    "tol": number(0.0),
    "alpha": number(0.0),
    "slack": by_name(number(0.0)),
    "kept": NAMES,
}

ENCODER = record(
    {
        "names": NAMES,
        "named": truth,
        "columns": many(
            record(
                {
                    "name": text(),
                    "reads": word(*get_args(Reads)),
                    "stored": word(*get_args(Stored)),
                    "asked": word(*WANTED),
                    "unit": word(*get_args(Unit)),
                    "writing": word(*WRITINGS),
                    "doubt": text(),
                    "zero": text(),
                    "n_missing": whole(),
                    "markers": NAMES,
                    "levels": NAMES,
                    "pooled": NAMES,
                    "varies": truth,
                    "different": many(whole(1), 2, 2),
                    "missing_term": text(),
                    "far": record(
                        {"values": many(number(-HUGE, HUGE), 1), "counts": many(whole(1), 1), "n_values": whole(1)}
                    ),
                },
                optional=tuple(field.name for field in fields(Column) if field.default is not MISSING),
            )
        ),
        "terms": many(
            record(
                {
                    "name": text(),
                    "column": whole(),
                    "kind": word("number", "binary", "levels", "missing"),
                    "levels": NAMES,
                },
                optional=("levels",),
            )
        ),
        "estimator_name": text(),
    }
)
MODEL = record(
    {
        "family": record({"name": word(*FAMILIES), "parameters": by_name(either(number(0.0, FARTHEST), word("auto")))}),
        "n_terms": whole(),
        "kind": word("shapes", "network"),
        "hidden": many(whole(1), 0, 64),
        "activation": word(*ACTIVATION_NAMES),
        "padded": truth,
    },
    optional=("hidden", "activation", "padded"),
)


def _packed(value: Any, where: str) -> None:
    """Take a list or record that `pack` may have written; who unpacks it looks into it."""
    if type(value) not in (list, dict):
        raise damaged(where)


FACTS = record(
    {
        "alpha": either(number(0.0), _packed),
        "n_parameters": whole(),
        "stationarity": maybe(either(SIZE, _packed)),
        "history": maybe(_packed),
        "substitutes": _packed,
    }
)
SUMMARY = record(
    {
        "data": record(
            {
                "rows": whole(),
                "columns": many(
                    record(
                        {
                            "name": text(),
                            "density": maybe(record({"edges": many(FIGURE, 2), "counts": many(whole(), 1)})),
                            "counts": many(whole()),
                            "present": whole(),
                            "missing": whole(),
                            "mean_absolute": SIZE,
                            "variation": SIZE,
                        }
                    )
                ),
                "pairs": many(record({"mean_absolute": SIZE, "variation": SIZE})),
            }
        ),
        "path": maybe(record({"alphas": many(ALPHA), "names": NAMES, "norms": many(many(SIZE))})),
        "twins": by_name(text()),
        "constant": NAMES,
        # what no held-out row could tell is not a number, which JSON does not have
        "evidence": maybe(record(EVIDENCE | {name: maybe(FIGURE) for name in ("gain", "gain_error", "best_gain")})),
        "seconds": SIZE,
        "created": text(100),
        "versions": by_name(text(1000)),
        "out_of_time": NAMES,
        "preliminary": maybe(word(*get_args(Preliminary))),
        "target": maybe(text()),
        "scores": maybe(by_name(maybe(FIGURE))),
        "source": maybe(by_name(text(1000))),
    },
    optional=("out_of_time", "preliminary", "target", "scores", "source"),
)
STABILITY = record(
    {
        "n_pairs": whole(1),
        "asked_pairs": whole(1),
        "alpha": SIZE,
        "kept_per_half": SIZE,
        "frequencies": by_name(SHARE),
        "kept": NAMES,
        "always_kept": NAMES,
        "replacements": many(
            record(
                {
                    "column": text(),
                    "other": text(),
                    "share": maybe(SHARE),
                    "share_in_all": maybe(SHARE),
                    "expressed": maybe(number(0.0, 2.0)),
                }
            )
        ),
    }
)
DISCOVERIES = record(
    {
        "q": number(0.0, 1.0),
        "method": word(*get_args(Test)),
        "reason": text(),
        "kept": NAMES,
        "always_kept": NAMES,
        "statistics": by_name(FIGURE),
        "threshold": maybe(FIGURE),
        "p_values": maybe(by_name(SHARE)),
        "construction": maybe(text(1000)),
        "reachable": truth,
    }
)
SHAPE = record(
    {
        "term": whole(),
        "place": whole(),
        "knots": many(FIGURE, 1),
        "values": many(FIGURES, 1),
        "left_slope": FIGURES,
        "right_slope": FIGURES,
        "absent": FIGURES,
    }
)
EDIT = record(
    {
        "kind": word(*get_args(EditKind)),
        "column": maybe(text()),
        "request": text(),
        "reason": text(),
        "who": text(),
        "when": text(100),
        "before": many(SHAPE),
        "after": many(SHAPE),
        "intercept_before": FIGURES,
        "intercept_after": FIGURES,
        "n_parameters": whole(),
        "norm": maybe(SIZE),
        "loss_before": maybe(FIGURE),
        "loss_after": maybe(FIGURE),
    }
)
RELIABILITY = record(
    {
        "predicted": many(SHARE),
        "observed": many(SHARE),
        "counts": many(SIZE),
        "kind": word("none", "platt", "isotonic"),
        "knots": many(FIGURES),
        "values": many(FIGURES),
        "loss": SIZE,
        "corrected": SIZE,
        "gain_error": SIZE,
    }
)
RESIDUALS = record(
    {
        "method": word("leave-one-out", "new rows", "folds"),
        "rows": whole(1),
        "symmetric": truth,
        "whole": truth,
        "inflation": number(0.0, FARTHEST),
        "edits": whole(),
        "kept": many(whole(1, 64), 2, 2),
        "tables": many(anything, 1, 2),
        "spread": maybe(MODEL),
        "reliability": maybe(RELIABILITY),
    }
)
BANDS = record(
    {
        "verdict": word(*get_args(Verdict)),
        "reason": text(),
        "information": maybe(FIGURE),
        "without": by_name(text()),
    }
)
DOCUMENT = record(
    {
        "schema": whole(SCHEMA, SCHEMA),
        "written_by": text(100),
        "estimator": text(100),
        "settings": by_name(anything),
        "left_out": by_name(text(1000)),
        "encoder": ENCODER,
        "model": MODEL,
        "facts": FACTS,
        "certificate": maybe(record(CERTIFICATE)),
        "pair_certificate": maybe(record(CERTIFICATE)),
        "curve": maybe(record({"rows": many(each(ALPHA, SIZE, FIGURE, SIZE), 1), "choices": by_name(whole())})),
        "taken": maybe(whole()),
        "bands": maybe(BANDS),
        "fdr": maybe(DISCOVERIES),
        "edits": many(EDIT),
        "summary": SUMMARY,
        "stability": maybe(STABILITY),
        "classes": maybe(record({"type": text(100), "values": many(anything, 1)})),
        "flat_target": maybe(truth),
        "log_likelihood": maybe(FIGURE),
        "residuals": maybe(RESIDUALS),
    }
)


def check_document(document: dict[str, Any]) -> None:
    """Raise `RefusalError` unless every field of a document has its type and lies in its range."""
    DOCUMENT(document, "")


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
        empty = column.is_empty and column.n_missing > 0 and not column.missing_term
        require((few or empty) and len(set(column.levels)) == len(column.levels), "a column of other levels")
        require(not column.pooled or column.kind == "category", "rare levels of no category")
        require(column.different is None or not column.varies, "an identifier that is kept")
        far = column.far or FarValues((), (), 0)
        dates = column.unit != "days" or all(FIRST_DAY <= value < LAST_DAY for value in far.values)
        require(dates and len(far.values) == len(far.counts), "other far cells")
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


def check_settings(settings: Mapping[str, Any], encoder: TableEncoder, curve: Mapping[str, Any] | None) -> None:
    """Raise `RefusalError` where a setting that is read after the fit cannot be one."""
    damage, rule, shapes = "a setting that cannot be", settings.get("rule"), settings.get("shapes")
    require(
        curve is None or rule is None or rule_name(rule) in curve["choices"], "a rule that is not that of the curve"
    )
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
