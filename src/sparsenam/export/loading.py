"""From a model file to a fitted estimator, believing nothing that is not checked and running nothing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from sparsenam.convex.certificate import Certificate
from sparsenam.errors import describe
from sparsenam.explain.summary import TrainingSummary
from sparsenam.export.checks import require
from sparsenam.export.container import read_container
from sparsenam.export.curves import read_curve
from sparsenam.export.encoders import read_encoder
from sparsenam.export.labels import read_labels
from sparsenam.export.models import Tensors, read_model
from sparsenam.export.plain_values import unpack
from sparsenam.export.problems import ModelFileError, ModelFileWarning, RefusalError, refused
from sparsenam.model import AdditiveModel
from sparsenam.survival.cox import Baseline

Estimator = TypeVar("Estimator")
Found = TypeVar("Found")
Document = dict[str, Any]

OUTPUTS_OF_CLASSES: dict[str, Callable[[int], int]] = {
    "binomial": lambda classes: 1 if classes == 2 else 0,
    "multinomial": lambda classes: classes,
    "multilabel": lambda classes: classes,
}


def load_estimator(path: str | PathLike[str], classes: Mapping[str, type[Estimator]]) -> Estimator:
    """Return the estimator that was saved; ``classes`` are those that a file may name.

    Raises
    ------
    ModelFileError
        When the file is damaged, changed, of an unknown version, or says what cannot be.
    """
    place = Path(path)
    document, tensors = read_container(place)
    schema = document.get("schema")
    if schema not in READERS or type(schema) is not int:
        expected, got = f"schema version {' or '.join(map(str, READERS))}", f"{str(schema)[:40]!r}"
        raise ModelFileError(describe(f"model file {path}", expected, got, "install a newer sparsenam"))
    try:
        name = document["estimator"]
        require(isinstance(name, str) and name in classes, f"the unknown estimator {str(name)[:40]!r}")
        settings, fitted = READERS[schema](document, tensors, classes[name])
        estimator = classes[name](**settings)
    except RefusalError as error:
        raise refused(path, str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise refused(path, f"a damaged record ({type(error).__name__}: {str(error)[:80]})") from error
    for attribute, value in fitted.items():
        setattr(estimator, attribute, value)
    _warn_of_settings(document, place)
    return estimator


def _read_first_schema(document: Document, tensors: Tensors, kind: type) -> tuple[Document, Document]:
    """Return the settings and the fitted attributes of a file of schema 1."""
    table = read_encoder(document["encoder"])
    norms = tensors.pop("norms")
    require(norms.dtype == np.float64 and norms.shape == (len(table.columns),), "norms of another table")
    fitted: Document = {"table_": table, "n_features_in_": len(table.columns), "norms_": norms}
    if table.named:
        fitted["feature_names_in_"] = np.array(table.names, dtype=object)
    fitted |= _survival(document, tensors, kind)
    model = read_model(document["model"], tensors, len(table.terms))
    intercept = model.intercept
    fitted |= _facts(document["facts"])
    fitted |= {
        "model_": model,
        "intercept_": float(intercept[0]) if intercept.size == 1 else intercept.copy(),
        "certificate_": _optional(document["certificate"], Certificate.from_dict),
        "cv_curve_": _optional(document["curve"], read_curve),
        **_target(document, model, kind),
    }
    if document["summary"] is not None:
        fitted["summary_"] = TrainingSummary.from_dict(document["summary"])
    settings: object = document["settings"]
    require(isinstance(settings, dict), "damaged settings")
    return {name: unpack(value) for name, value in cast(Document, settings).items()}, fitted


READERS = {1: _read_first_schema}


def _facts(data: Any) -> Document:
    """Return the attributes that are plain data."""
    require(isinstance(data, dict), "damaged facts of the fit")
    facts = {name: unpack(value) for name, value in cast(Document, data).items()}
    alpha, stationarity, woken = facts["alpha_"], facts["stationarity_"], facts["woken_"]
    stand_ins, history = facts["stand_ins_"], facts["history_"]
    right = (
        set(facts) == {"alpha_", "n_parameters_", "stationarity_", "history_", "woken_", "stand_ins_"}
        and type(facts["n_parameters_"]) is int
        and (type(alpha) is float or type(alpha) is int)
        and not math.isnan(alpha)
        and (stationarity is None or type(stationarity) is float)
        and isinstance(woken, tuple)
        and all(isinstance(name, str) for name in cast("tuple[Any, ...]", woken))
        and isinstance(stand_ins, dict)
        and all(isinstance(others, dict) for others in cast(Document, stand_ins).values())
        and isinstance(history, list)
        and all(isinstance(entry, dict) for entry in cast("list[Any]", history))
    )
    require(right, "damaged facts of the fit")
    return facts


def _target(document: Document, model: AdditiveModel, kind: type) -> Document:
    """Return the attributes that say what is predicted; they must fit the estimator and the family."""
    name, outputs, words = model.family.name, model.intercept.size, "an estimator that does not fit its family"
    if hasattr(kind, "predict_proba"):
        classes = read_labels(document["classes"])
        require(name in OUTPUTS_OF_CLASSES and OUTPUTS_OF_CLASSES[name](classes.size) == outputs, words)
        return {"classes_": classes}
    require(document["classes"] is None and name not in OUTPUTS_OF_CLASSES, words)
    if hasattr(kind, "predict_survival_function"):
        require(name == "poisson" and outputs == 1, words)
        return {}
    flat = document["flat_target"]
    require(type(flat) is bool and not (flat and outputs > 1), words)
    return {"_flat_target": flat}


def _survival(document: Document, tensors: Tensors, kind: type) -> Document:
    """Return baseline, event times and likelihood of a survival model; nothing for others."""
    if not hasattr(kind, "predict_survival_function"):
        return {}
    times, hazards = tensors.pop("baseline_times"), tensors.pop("baseline_hazards")
    likelihood = document["log_likelihood"]
    right = (
        times.dtype == hazards.dtype == np.float64
        and times.ndim == 1
        and times.shape == hazards.shape
        and bool((np.diff(times) > 0).all())
        and bool((np.diff(hazards, prepend=0.0) >= 0).all())
        and type(likelihood) is float
    )
    require(right, "a baseline hazard that cannot be")
    return {"baseline_": Baseline(times, hazards), "event_times_": times, "log_likelihood_": likelihood}


def _optional(data: Any, read: Callable[[Any], Found]) -> Found | None:
    return None if data is None else read(data)


def _warn_of_settings(document: Document, path: Path) -> None:
    left_out = document.get("left_out")
    if left_out:
        names = ", ".join(str(name)[:40] for name in left_out)
        message = f"settings that are no plain data are not in {path} and have their defaults: {names}."
        warnings.warn(message, ModelFileWarning, stacklevel=4)
