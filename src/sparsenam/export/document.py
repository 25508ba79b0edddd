"""What the document of a model file may say: the type and range of every field, declared once and checked at once.

Whether fields fit each other, the tensors and the table is checked where they are read.
"""

from __future__ import annotations

from typing import Any, get_args

from sparsenam.families import FAMILIES
from sparsenam.forms import (
    FARTHEST,
    anything,
    by_name,
    damaged,
    either,
    many,
    maybe,
    number,
    record,
    text,
    truth,
    whole,
    word,
)
from sparsenam.model.bands import Verdict
from sparsenam.model.editing import EditKind
from sparsenam.networks import ACTIVATION_NAMES
from sparsenam.selection.discovery import Test
from sparsenam.selection.stored_choice import CERTIFICATE, EVIDENCE
from sparsenam.tables.columns import Kind, Unit

SCHEMA = 5
OLDEST = 3  # written before models had pairs and a log of edits; 4 before they knew their uncertainty
LATER = ("pair_certificate", "edits", "bands", "fdr", "stability", "residuals", "flat_target", "log_likelihood")

FIGURE = number(-FARTHEST, FARTHEST)
SIZE = number(0.0, FARTHEST)
SHARE = number(0.0, 1.0)
NAMES = many(text())
FIGURES = many(FIGURE)

ENCODER = record(
    {
        "names": NAMES,
        "named": truth,
        "columns": many(
            record(
                {
                    "name": text(),
                    "kind": word(*get_args(Kind)),
                    "description": text(),
                    "n_missing": whole(),
                    "levels": NAMES,
                    "pooled": NAMES,
                    "unit": word(*get_args(Unit)),
                    "missing_term": text(),
                }
            )
        ),
        "terms": many(
            record(
                {
                    "name": text(),
                    "column": whole(),
                    "kind": word("number", "binary", "levels", "missing"),
                    "levels": NAMES,
                }
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
        "alpha_": either(number(0.0), _packed),
        "n_parameters_": whole(),
        "stationarity_": maybe(either(SIZE, _packed)),
        "history_": _packed,
        "readmitted_": _packed,
        "substitutes_": _packed,
    },
    optional=("stationarity_", "history_"),
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
        "path": maybe(record({"alphas": many(SIZE), "names": NAMES, "norms": many(many(SIZE))})),
        "twins": by_name(text()),
        "constant": NAMES,
        # what no held-out row could tell is not a number, which JSON does not have
        "evidence": maybe(record(EVIDENCE | {name: maybe(FIGURE) for name in ("gain", "gain_error", "best_gain")})),
        "seconds": SIZE,
        "created": text(100),
        "versions": by_name(text(1000)),
    }
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
        "schema": whole(OLDEST, SCHEMA),
        "written_by": text(100),
        "estimator": text(100),
        "settings": by_name(anything),
        "left_out": by_name(text(1000)),
        "encoder": ENCODER,
        "model": MODEL,
        "facts": FACTS,
        "certificate": maybe(record(CERTIFICATE)),
        "pair_certificate": maybe(record(CERTIFICATE)),
        "curve": maybe(record({"rows": many(many(FIGURE, 4, 4), 1), "choices": by_name(whole())})),
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
    },
    optional=LATER,
)


def check_document(document: dict[str, Any]) -> None:
    """Raise `RefusalError` unless every field of a document has its type and lies in its range."""
    DOCUMENT(document, "")
