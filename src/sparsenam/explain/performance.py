"""How predictions compare with the target, as plain data: of rows held out, or of the fit's left-out errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Plain, to_plain
from sparsenam.uncertainty.residuals import Residuals

Vector = NDArray[np.float64]
PERFORMANCE_BINS = 10  # of equally many rows
THRESHOLDS = 101
ROWS_DRAWN = 300  # rows that are drawn one by one
HELD_OUT = "rows held out"


def class_performance(chances: ArrayLike, came_true: ArrayLike, name: str) -> Plain:
    """Return how probabilities (rows,) of a class compare with whether it came true (rows,).

    ``calibration`` has the mean probability, the share that came true and the rows of each bin; ``thresholds`` the rows
    called the class, rightly and wrongly, from each probability on; ``auc`` is the area under the ROC curve.
    """
    given, truth = np.asarray(chances, dtype=np.float64), np.asarray(came_true, dtype=np.bool_)
    order = np.argsort(given, kind="stable")
    parts = [part for part in np.array_split(order, min(PERFORMANCE_BINS, max(len(order) // 5, 1))) if part.size]
    levels = np.linspace(0.0, 1.0, THRESHOLDS)
    rights = len(given[truth]) - np.searchsorted(np.sort(given[truth]), levels)
    wrongs = len(given[~truth]) - np.searchsorted(np.sort(given[~truth]), levels)
    return to_plain(
        {
            "kind": "classes",
            "rows_are": HELD_OUT,
            "rows": len(given),
            "of": name,
            "positive": int(truth.sum()),
            "calibration": {
                "predicted": [float(given[part].mean()) for part in parts],
                "observed": [float(truth[part].mean()) for part in parts],
                "counts": [int(part.size) for part in parts],
            },
            "thresholds": {"at": levels, "right": rights, "wrong": wrongs},
        }
    )


def number_performance(predicted: ArrayLike, target: ArrayLike) -> Plain:
    """Return how predictions (rows,) compare with the target (rows,): some rows, and how large errors are."""
    given, truth = np.asarray(predicted, dtype=np.float64), np.asarray(target, dtype=np.float64)
    some = np.unique(np.linspace(0, len(given) - 1, ROWS_DRAWN).round().astype(np.intp))
    errors = np.abs(truth - given)
    return to_plain(
        {
            "kind": "numbers",
            "rows_are": HELD_OUT,
            "rows": len(given),
            "points": {"predicted": given[some], "residual": (truth - given)[some]},
            "errors": {"share": [0.5, 0.8, 0.9, 0.95], "within": np.quantile(errors, [0.5, 0.8, 0.9, 0.95])},
        }
    )


def kept_performance(residuals: Residuals, outputs: tuple[str, ...]) -> Plain | None:
    """Return what a fit keeps of its left-out errors, in the same form as far as it goes; None where it is nothing."""
    words = {"leave-one-out": "rows of the fit, each left out", "folds": "rows of the fit, in folds left out"}
    facts = {"rows_are": words.get(residuals.method, "rows given after the fit"), "rows": residuals.rows}
    reliability = residuals.reliability
    if reliability is not None:
        names = ("predicted", "observed", "counts")
        of = outputs[0] if len(outputs) == 1 else "each class"
        return to_plain(
            {"kind": "classes", **facts, "of": of, "calibration": {name: getattr(reliability, name) for name in names}}
        )
    tables = residuals.constant.tables
    if len(tables) != 1 or not residuals.symmetric:  # others are in units of the spread that the family expects
        return None
    shares = [share for share in np.linspace(0.05, 0.95, 19).tolist() if np.isfinite(tables[0].above(share))]
    errors = {"share": shares, "within": [tables[0].above(share) for share in shares]}
    return to_plain({"kind": "numbers", **facts, "errors": errors}) if shares else None


def survival_facts(times: Vector, cumulative_hazard: Vector) -> Plain:
    """Return the baseline of Cox's model at up to so many event times as can be seen."""
    some = np.unique(np.linspace(0, len(times) - 1, ROWS_DRAWN).round().astype(np.intp))
    return to_plain({"times": times[some], "hazard": cumulative_hazard[some]})
