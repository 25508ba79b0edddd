"""Fitted estimators to model files and back, believing nothing that is not checked and running nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from sklearn.base import ClassifierMixin

from sparsenam.container import Tensors, compact_json, parse_object
from sparsenam.convex.problem import Certificate
from sparsenam.errors import describe
from sparsenam.explain.discoveries import Discoveries
from sparsenam.explain.stability import Stability
from sparsenam.explain.summary import TrainingSummary, interactions_of
from sparsenam.export.bands import NAMES, bands_to_parts, read_bands
from sparsenam.export.container import ModelFileError, ModelFileWarning, read_container, refused, write_container
from sparsenam.export.document import (
    SCHEMA,
    check_document,
    check_encoder,
    check_names,
    check_settings,
    check_summary,
)
from sparsenam.export.edits import edits_to_list, read_edits
from sparsenam.export.models import model_to_parts, read_model
from sparsenam.export.plain_data import (
    ParameterClasses,
    curve_to_dict,
    labels_to_dict,
    pack,
    pack_parameters,
    read_curve,
    read_encoder,
    read_labels,
    unpack,
    unpack_parameters,
)
from sparsenam.export.residuals import PREFIX, read_residuals, residuals_to_parts
from sparsenam.families import Response
from sparsenam.forms import RefusalError, require
from sparsenam.model import AdditiveModel
from sparsenam.survival.cox import Baseline

Estimator = TypeVar("Estimator")
Found = TypeVar("Found")
Document = dict[str, Any]

FACTS = {"alpha_", "n_parameters_", "stationarity_", "history_", "substitutes_"}
JOINED = " + "  # the names of columns that are kept or dropped as one
HISTORY = {"epoch", "loss", "penalty", "validation", "terms", "rate", "seconds"}
OUTPUTS_OF_CLASSES: dict[Response, Callable[[int], int]] = {
    "binary": lambda classes: 1 if classes == 2 else 0,
    "classes": lambda classes: classes,
    "labels": lambda classes: classes,
}


class Saveable(Protocol):
    """A fitted estimator: its settings, and what `vars` shows."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings."""
        ...


def save_estimator(estimator: Saveable, path: str | PathLike[str]) -> None:
    """Write a fitted estimator into a file that holds data only, whole or not at all.

    Settings that are code, such as a custom schedule, are not in the file; a warning names them.
    """
    if type(estimator).__module__.partition(".")[0] != "sparsenam":
        expected, got = "an estimator of this library", f"the custom class {type(estimator).__name__}"
        raise ModelFileError(describe("model to save", expected, got, "keep the estimator with pickle"))
    fitted = vars(estimator)
    parameters = estimator.get_params(deep=False)
    settings, left_out = pack_parameters(parameters)
    facts, tensors = model_to_parts(fitted["model_"])
    curve = fitted["cv_curve_"]
    bands, band_tensors = bands_to_parts(fitted["bands_"])
    residuals, kept = residuals_to_parts(fitted.get("residuals_"))
    document: Document = {
        "schema": SCHEMA,
        "written_by": version("sparsenam"),
        "estimator": type(estimator).__name__,
        "settings": settings,
        "left_out": left_out,
        "encoder": fitted["encoder_"].to_dict(),
        "model": facts,
        "facts": {name: pack(fitted[name]) for name in sorted(FACTS & set(fitted))},
        "certificate": _to_dict(fitted["certificate_"]),
        "pair_certificate": _to_dict(fitted["pair_certificate_"]),
        "curve": None if curve is None else curve_to_dict(curve, parameters.get("rule")),
        "taken": fitted["_taken"],
        "bands": bands,
        "fdr": _to_dict(fitted.get("fdr_")),
        "edits": edits_to_list(fitted["edits_"]),
        "summary": fitted["summary_"].to_dict(),
        "stability": _to_dict(fitted.get("stability_")),
        "classes": labels_to_dict(fitted["classes_"]) if "classes_" in fitted else None,
        "flat_target": fitted.get("_flat_target"),
        "log_likelihood": fitted.get("log_likelihood_"),
        "residuals": residuals,
    }
    tensors |= {"norms": fitted["norms_"]} | band_tensors | kept | _baseline_tensors(fitted)
    _check_readable(document, tensors, type(estimator))
    write_container(Path(path), document, tensors)
    if left_out:
        message = f"settings that are no plain data are not in {path}: {', '.join(left_out)}."
        warnings.warn(message, ModelFileWarning, stacklevel=3)


def _check_readable(document: Document, tensors: Tensors, kind: type[Any]) -> None:
    """Raise `ModelFileError` unless `load` would read this, before anything is written."""
    try:
        for name, tensor in tensors.items():
            require(bool(np.isfinite(tensor).all()), f"numbers that are not finite in {name!r}")
        said = parse_object(compact_json(document))
        check_document(said)
        _read_fitted(said, dict(tensors), kind)
    except (RefusalError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        got = str(error) if isinstance(error, RefusalError) else f"{type(error).__name__}: {str(error)[:80]}"
        expected, remedy = "a model that load would read", "fit columns and targets of moderate size"
        raise ModelFileError(describe("model to save", expected, got, remedy)) from error


def _baseline_tensors(fitted: Mapping[str, Any]) -> Tensors:
    if "baseline_" not in fitted:
        return {}
    baseline = fitted["baseline_"]
    return {
        "baseline_times": np.asarray(baseline.times, dtype=np.float64),
        "baseline_hazards": np.asarray(baseline.cumulative_hazard, dtype=np.float64),
    }


def _to_dict(value: Any) -> Any:
    return None if value is None else value.to_dict()


def load_estimator(
    path: str | PathLike[str],
    classes: Mapping[str, type[Estimator]],
    parameters: ParameterClasses | None = None,
) -> Estimator:
    """Return the estimator that was saved.

    Parameters
    ----------
    path
        The file.
    classes
        The estimators that a file may name.
    parameters
        The classes of objects that settings may hold, such as ``{"Network": Network}``.

    Raises
    ------
    ModelFileError
        When the file is damaged, changed, of another version, or says what cannot be.
    """
    document, tensors = read_container(Path(path))
    _check_schema(path, document.get("schema"))
    try:
        estimator = _read_estimator(document, tensors, classes, parameters or {})
    except RefusalError as error:
        raise refused(path, str(error)) from error
    left_out = document["left_out"]
    if left_out:
        names = ", ".join(str(name)[:40] for name in left_out)
        message = f"settings that are no plain data are not in {path} and have their defaults: {names}."
        warnings.warn(message, ModelFileWarning, stacklevel=3)
    return estimator


def _read_estimator(
    document: Document, tensors: Tensors, classes: Mapping[str, type[Estimator]], parameters: ParameterClasses
) -> Estimator:
    """Return the estimator of a document and its tensors; raise `RefusalError` for what no estimator can be."""
    try:
        check_document(document)
        name = document["estimator"]
        require(name in classes, f"the unknown estimator {name[:40]!r}")
        fitted = _read_fitted(document, tensors, classes[name])
        settings = unpack_parameters(document["settings"], parameters)
        check_settings(settings, fitted["encoder_"], fitted["cv_curve_"])
        estimator = classes[name](**settings)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise RefusalError(f"a damaged record ({type(error).__name__}: {str(error)[:80]})") from error
    for attribute, value in fitted.items():
        setattr(estimator, attribute, value)
    return estimator


def _check_schema(path: str | PathLike[str], schema: object) -> None:
    if type(schema) is not int or schema != SCHEMA:
        remedy = "install the version of sparsenam that wrote it, or fit and save again"
        raise ModelFileError(describe(f"model file {path}", f"schema {SCHEMA}", f"{str(schema)[:40]!r}", remedy))


def _read_fitted(document: Document, tensors: Tensors, kind: type[Any]) -> Document:
    """Return the fitted attributes; they must fit each other and the estimator's class."""
    encoder = read_encoder(document["encoder"])
    check_encoder(encoder)
    norms = tensors.pop("norms")
    require(norms.dtype == np.float64 and norms.shape == (len(encoder.columns),), "norms of another table")
    fitted: Document = {"encoder_": encoder, "n_features_in_": len(encoder.columns), "norms_": norms}
    if encoder.named:
        fitted["feature_names_in_"] = np.array(encoder.names, dtype=object)
    fitted |= _survival(document, tensors, kind)
    parts = {name: tensors.pop(name) for name in NAMES & set(tensors)}
    kept = {name: tensors.pop(name) for name in list(tensors) if name.startswith(PREFIX)}
    model = read_model(document["model"], tensors, len(encoder.terms))
    bands = read_bands(document["bands"], parts, model)
    intercept = model.intercept
    fitted |= _facts(document["facts"], encoder.names)
    fitted |= {
        "model_": model,
        "intercept_": float(intercept[0]) if intercept.size == 1 else intercept.copy(),
        "certificate_": _optional(document["certificate"], Certificate.from_dict),
        "interactions_": interactions_of(encoder, model),
        "pair_certificate_": _optional(document["pair_certificate"], Certificate.from_dict),
        "fdr_": _optional(document["fdr"], Discoveries.from_dict),
        "cv_curve_": _optional(document["curve"], read_curve),
        "path_": None,
        "_taken": _taken(document),
        "bands_": bands,
        "residuals_": read_residuals(document["residuals"], kept, model),
        "edits_": read_edits(document["edits"], encoder, model),
        "_session": None,
        "stability_": _optional(document["stability"], Stability.from_dict),
        **_target(document, model, kind),
    }
    columns = [encoder.terms[term].column for pair in model.pairs for term in pair.terms]
    require(all(one != other for one, other in zip(columns[::2], columns[1::2], strict=True)), "a pair of one column")
    summary = TrainingSummary.from_dict(document["summary"])
    check_summary(summary, encoder, model, fitted["edits_"])
    check_names(encoder, fitted["fdr_"], fitted["stability_"])
    return fitted | {"summary_": summary, "evidence_": summary.evidence}


def _facts(data: Document, names: tuple[str, ...]) -> Document:
    """Return the attributes that are plain data; they speak of columns by name."""
    facts = {name: unpack(value) for name, value in data.items()}
    alpha, stationarity = facts["alpha_"], facts.get("stationarity_")
    require(type(alpha) in (int, float) and alpha >= 0.0, "damaged facts of the fit")
    require(stationarity is None or type(stationarity) is float, "damaged facts of the fit")
    known = set(names)
    substitutes, history = facts["substitutes_"], facts.get("history_", [])
    require(isinstance(substitutes, dict) and isinstance(history, list), "damaged facts of the fit")
    parts = {part for name in names for part in name.split(JOINED)}  # a name may hold what joins those of a group
    for name, found in cast(Document, substitutes).items():
        require(name in known and isinstance(found, dict), "damaged facts of the fit")
        others = cast("dict[str, Any]", found)
        require(all(parts.issuperset(other.split(JOINED)) for other in others), "damaged facts of the fit")
        require(all(type(share) is float and 0.0 <= share <= 2.0 for share in others.values()), "damaged facts")
    for entry in cast("list[Any]", history):
        require(isinstance(entry, dict) and set(cast(Document, entry)) == HISTORY, "a damaged history")
        figures = cast(Document, entry).values()
        require(all(figure is None or type(figure) in (int, float) for figure in figures), "a damaged history")
    return facts


def _taken(document: Document) -> int | None:
    """Return the index of the point of the curve that the fit took."""
    taken, curve = document["taken"], document["curve"]
    inside = type(taken) is int and curve is not None and 0 <= taken < len(curve["rows"])
    require(taken is None or inside, "a point that is not on the curve")
    return taken


def _target(document: Document, model: AdditiveModel, kind: type[Any]) -> Document:
    """Return the attributes that say what is predicted; they must fit the estimator and the family."""
    family, outputs, damage = model.family, model.intercept.size, "an estimator that does not fit its family"
    if issubclass(kind, ClassifierMixin):
        classes = read_labels(document["classes"])
        expected = OUTPUTS_OF_CLASSES.get(family.response)
        require(expected is not None and expected(classes.size) == outputs, damage)
        return {"classes_": classes}
    require(document["classes"] is None and family.response not in OUTPUTS_OF_CLASSES, damage)
    if _predicts_survival(kind):
        # counts with the cumulative hazard as exposure
        require(family.response == "count" and family.exposure_power is not None and outputs == 1, damage)
        return {}
    flat = document["flat_target"]
    require(type(flat) is bool and not (flat and outputs > 1), damage)
    return {"_flat_target": flat}


def _survival(document: Document, tensors: Tensors, kind: type[Any]) -> Document:
    """Return baseline, event times and likelihood of a survival model; nothing for others."""
    if not _predicts_survival(kind):
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


def _predicts_survival(kind: object) -> bool:
    return hasattr(kind, "predict_survival_function")


def _optional(data: Any, read: Callable[[Any], Found]) -> Found | None:
    return None if data is None else read(data)
