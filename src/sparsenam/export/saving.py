"""From a fitted estimator to a model file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sparsenam.errors import describe
from sparsenam.export.container import write_container
from sparsenam.export.curves import curve_to_dict
from sparsenam.export.encoders import encoder_to_dict
from sparsenam.export.labels import labels_to_dict
from sparsenam.export.models import Tensors, model_to_parts
from sparsenam.export.plain_values import NotPlainError, pack
from sparsenam.export.problems import ModelFileError, ModelFileWarning

SCHEMA = 1
FACTS = ("alpha_", "n_parameters_", "stationarity_", "history_", "woken_", "stand_ins_")


class Saveable(Protocol):
    """A fitted estimator: its settings, and what `vars` shows."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings."""
        ...


def save_estimator(estimator: Saveable, path: str | PathLike[str]) -> None:
    """Write a fitted estimator into a file that holds data only, whole or not at all.

    Settings that are code, such as a schedule of one's own, are not in the file; a warning names them.
    """
    if type(estimator).__module__.partition(".")[0] != "sparsenam":
        expected, got = "an estimator of this library", f"the class {type(estimator).__name__} of your own"
        raise ModelFileError(describe("model to save", expected, got, "keep the estimator with pickle"))
    fitted = vars(estimator)
    settings, left_out = _settings(estimator.get_params(deep=False))
    facts, tensors = model_to_parts(fitted["model_"])
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "written_by": version("sparsenam"),
        "estimator": type(estimator).__name__,
        "settings": settings,
        "left_out": left_out,
        "encoder": encoder_to_dict(fitted["table_"]),
        "model": facts,
        "facts": {name: pack(fitted[name]) for name in FACTS},
        "certificate": _to_dict(fitted["certificate_"]),
        "curve": None if fitted["cv_curve_"] is None else curve_to_dict(fitted["cv_curve_"]),
        "summary": _to_dict(fitted.get("summary_")),
        "classes": labels_to_dict(fitted["classes_"]) if "classes_" in fitted else None,
        "flat_target": fitted.get("_flat_target"),
        "log_likelihood": fitted.get("log_likelihood_"),
    }
    tensors["norms"] = fitted["norms_"]
    write_container(Path(path), document, tensors | _baseline(fitted))
    if left_out:
        message = f"settings that are no plain data are not in {path}: {', '.join(left_out)}."
        warnings.warn(message, ModelFileWarning, stacklevel=3)


def _settings(parameters: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings as JSON has them, and the type of those that it cannot have."""
    settings: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, value in parameters.items():
        try:
            settings[name] = pack(value)
        except NotPlainError:
            left_out[name] = type(value).__name__
    return settings, left_out


def _baseline(fitted: Mapping[str, Any]) -> Tensors:
    if "baseline_" not in fitted:
        return {}
    baseline = fitted["baseline_"]
    return {
        "baseline_times": np.asarray(baseline.times, dtype=np.float64),
        "baseline_hazards": np.asarray(baseline.cumulative_hazard, dtype=np.float64),
    }


def _to_dict(value: Any) -> Any:
    return None if value is None else value.to_dict()
