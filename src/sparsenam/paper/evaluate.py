"""One fit, judged on its test rows."""

from __future__ import annotations

import numpy as np

from sparsenam.paper import measures as formulas
from sparsenam.paper.methods.fitted import FittedMethod
from sparsenam.paper.tasks import Split


def measure(fitted: FittedMethod, split: Split) -> dict[str, float]:
    """Return all measures that the task and the method allow, on the test rows."""
    X, y = split.test.X, split.test.y
    measures: dict[str, float] = {"features": float(len(fitted.support))}
    if fitted.n_parameters is not None:
        measures["parameters"] = float(fitted.n_parameters)
    answers = fitted.predict(X)
    if split.kind == "regression":
        measures |= {
            "mse": formulas.mean_squared_error(y, answers),
            "mae": formulas.mean_absolute_error(y, answers),
            "r2": formulas.explained_share(y, answers),
        }
    else:
        measures |= {
            "cross_entropy": formulas.cross_entropy(y, answers),
            "accuracy": formulas.accuracy(y, answers),
            "auc": formulas.area_under_curve(y, answers),
            "auc_of_labels": formulas.area_under_curve(y, (answers > 0.5).astype(np.float64)),
        }
    if split.true_support is not None:
        measures["precision"] = formulas.precision(fitted.support, split.true_support)
        measures["recall"] = formulas.recall(fitted.support, split.true_support)
    if split.truth_of is not None and fitted.effects is not None:
        measures["identification"] = formulas.identification_error(fitted.effects(X), split.truth_of(X))
    return measures
