"""Fitted estimators to model files and back, believing nothing that is not checked and running nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from sparsenam.container import Tensors, compact_json, parse_object
from sparsenam.convex.problem import Certificate
from sparsenam.discover.discoveries import Discoveries
from sparsenam.discover.stability import Stability
from sparsenam.errors import describe
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
from sparsenam.fit import ClassResponse, Fit, NumberResponse, SurvivalResponse
from sparsenam.fit import Response as Answer
from sparsenam.fit.summary import TrainingSummary
from sparsenam.forms import RefusalError, require
from sparsenam.model import AdditiveModel
from sparsenam.survival.cox import TIES, Baseline
from sparsenam.text import Task

Found = TypeVar("Found")
Document = dict[str, Any]

FACTS = ("alpha", "n_parameters", "stationarity", "history", "substitutes")
JOINED = " + "  # the names of columns that are kept or dropped as one
HISTORY = {"epoch", "loss", "penalty", "validation", "terms", "rate", "seconds"}
OUTPUTS_OF_CLASSES: dict[Response, Callable[[int], int]] = {
    "binary": lambda classes: 1 if classes == 2 else 0,
    "classes": lambda classes: classes,
    "labels": lambda classes: classes,
}


def save_fit(fit: Fit, path: str | PathLike[str]) -> None:
    """Write a fit into a file that holds data only, whole or not at all.

    Settings that are code, such as a custom schedule, are not in the file; a warning names them.
    """
    settings, left_out = pack_parameters(fit.settings)
    facts, tensors = model_to_parts(fit.model)
    bands, band_tensors = bands_to_parts(fit.bands)
    residuals, kept = residuals_to_parts(fit.residuals)
    response = fit.response
    document: Document = {
        "schema": SCHEMA,
        "written_by": version("sparsenam"),
        "estimator": fit.estimator,
        "settings": settings,
        "left_out": left_out,
        "encoder": fit.encoder.to_dict(),
        "model": facts,
        "facts": {name: pack(getattr(fit, name)) for name in FACTS},
        "certificate": _to_dict(fit.certificate),
        "pair_certificate": _to_dict(fit.pair_certificate),
        "curve": None if fit.curve is None else curve_to_dict(fit.curve, fit.settings.get("rule")),
        "taken": fit.taken,
        "bands": bands,
        "fdr": _to_dict(fit.discoveries),
        "edits": edits_to_list(fit.edits),
        "summary": fit.summary.to_dict(),
        "stability": _to_dict(fit.stability),
        "classes": labels_to_dict(response.classes) if isinstance(response, ClassResponse) else None,
        "flat_target": response.flat if isinstance(response, NumberResponse) else None,
        "log_likelihood": response.log_likelihood if isinstance(response, SurvivalResponse) else None,
        "residuals": residuals,
    }
    tensors |= {"norms": fit.norms} | band_tensors | kept
    if isinstance(response, SurvivalResponse):
        tensors["baseline_times"] = np.asarray(response.baseline.times, dtype=np.float64)
        tensors["baseline_hazards"] = np.asarray(response.baseline.cumulative_hazard, dtype=np.float64)
    _check_readable(document, tensors, fit)
    write_container(Path(path), document, tensors)
    if left_out:
        message = f"settings that are no plain data are not in {path}: {', '.join(left_out)}."
        warnings.warn(message, ModelFileWarning, stacklevel=4)


def _check_readable(document: Document, tensors: Tensors, fit: Fit) -> None:
    """Raise `ModelFileError` unless `load` would read this, before anything is written."""
    try:
        for name, tensor in tensors.items():
            require(bool(np.isfinite(tensor).all()), f"numbers that are not finite in {name!r}")
        said = parse_object(compact_json(document))
        check_document(said)
        _read_fit(said, dict(tensors), fit.task, fit.settings)
    except (RefusalError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        got = str(error) if isinstance(error, RefusalError) else f"{type(error).__name__}: {str(error)[:80]}"
        expected, remedy = "a model that load would read", "fit columns and targets of moderate size"
        raise ModelFileError(describe("model to save", expected, got, remedy)) from error


def _to_dict(value: Any) -> Any:
    return None if value is None else value.to_dict()


def load_fit(path: str | PathLike[str], tasks: Mapping[str, Task], parameters: ParameterClasses) -> Fit:
    """Return the fit that was saved.

    Parameters
    ----------
    path
        The file.
    tasks
        The estimators that a file may name, and what each predicts.
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
        fit = _read_document(document, tensors, tasks, parameters)
    except RefusalError as error:
        raise refused(path, str(error)) from error
    left_out = document["left_out"]
    if left_out:
        names = ", ".join(str(name)[:40] for name in left_out)
        message = f"settings that are no plain data are not in {path} and have their defaults: {names}."
        warnings.warn(message, ModelFileWarning, stacklevel=3)
    return fit


def _read_document(
    document: Document, tensors: Tensors, tasks: Mapping[str, Task], parameters: ParameterClasses
) -> Fit:
    """Return the fit of a document and its tensors; raise `RefusalError` for what no fit can be."""
    try:
        check_document(document)
        name = document["estimator"]
        require(name in tasks, f"the unknown estimator {name[:40]!r}")
        settings = unpack_parameters(document["settings"], parameters)
        fit = _read_fit(document, tensors, tasks[name], settings)
        check_settings(settings, fit.encoder, document["curve"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise RefusalError(f"a damaged record ({type(error).__name__}: {str(error)[:80]})") from error
    return fit


def _check_schema(path: str | PathLike[str], schema: object) -> None:
    if type(schema) is not int or schema != SCHEMA:
        remedy = "install the version of sparsenam that wrote it, or fit and save again"
        raise ModelFileError(describe(f"model file {path}", f"schema {SCHEMA}", f"{str(schema)[:40]!r}", remedy))


def _read_fit(document: Document, tensors: Tensors, task: Task, settings: Mapping[str, Any]) -> Fit:
    """Return the fit; its parts must fit each other and what the estimator predicts."""
    encoder = read_encoder(document["encoder"])
    check_encoder(encoder)
    norms = tensors.pop("norms")
    require(norms.dtype == np.float64 and norms.shape == (len(encoder.columns),), "norms of another table")
    baseline = _baseline(document, tensors) if task == "survival" else None
    parts = {name: tensors.pop(name) for name in NAMES & set(tensors)}
    kept = {name: tensors.pop(name) for name in list(tensors) if name.startswith(PREFIX)}
    model = read_model(document["model"], tensors, len(encoder.terms))
    summary = TrainingSummary.from_dict(document["summary"])
    fit = Fit(
        estimator=document["estimator"],
        settings=settings,
        encoder=encoder,
        response=_response(document, model, task, baseline, settings),
        model=model,
        norms=norms,
        summary=summary,
        **_facts(document["facts"], encoder.names),
        certificate=_optional(document["certificate"], Certificate.from_dict),
        pair_certificate=_optional(document["pair_certificate"], Certificate.from_dict),
        curve=_optional(document["curve"], read_curve),
        taken=_taken(document),
        discoveries=_optional(document["fdr"], Discoveries.from_dict),
        bands=read_bands(document["bands"], parts, model),
        residuals=read_residuals(document["residuals"], kept, model),
        stability=_optional(document["stability"], Stability.from_dict),
        edits=read_edits(document["edits"], encoder, model),
    )
    columns = [encoder.terms[term].column for pair in model.pairs for term in pair.terms]
    require(all(one != other for one, other in zip(columns[::2], columns[1::2], strict=True)), "a pair of one column")
    check_summary(summary, encoder, model, fit.edits)
    check_names(encoder, fit.discoveries, fit.stability)
    return fit


def _facts(data: Document, names: tuple[str, ...]) -> Document:
    """Return the attributes that are plain data; they speak of columns by name."""
    facts = {name: unpack(value) for name, value in data.items()}
    alpha, stationarity = facts["alpha"], facts["stationarity"]
    require(type(alpha) in (int, float) and alpha >= 0.0, "damaged facts of the fit")
    require(stationarity is None or type(stationarity) is float, "damaged facts of the fit")
    known = set(names)
    substitutes, history = facts["substitutes"], facts["history"] or []
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


def _response(
    document: Document, model: AdditiveModel, task: Task, baseline: Baseline | None, settings: Mapping[str, Any]
) -> Answer:
    """Return what is predicted; it must fit the estimator and the family."""
    family, outputs, damage = model.family, model.intercept.size, "an estimator that does not fit its family"
    if task == "classification":
        classes = read_labels(document["classes"])
        expected = OUTPUTS_OF_CLASSES.get(family.response)
        require(expected is not None and expected(classes.size) == outputs, damage)
        return ClassResponse(classes)
    require(document["classes"] is None and family.response not in OUTPUTS_OF_CLASSES, damage)
    if baseline is not None:
        # counts with the cumulative hazard as exposure
        require(family.response == "count" and family.exposure_power is not None and outputs == 1, damage)
        ties = settings.get("ties")
        require(ties in TIES, damage)
        return SurvivalResponse(baseline, document["log_likelihood"], ties)
    flat = document["flat_target"]
    require(type(flat) is bool and not (flat and outputs > 1), damage)
    return NumberResponse(flat)


def _baseline(document: Document, tensors: Tensors) -> Baseline:
    """Return the baseline hazard of a survival model."""
    times, hazards = tensors.pop("baseline_times"), tensors.pop("baseline_hazards")
    right = (
        times.dtype == hazards.dtype == np.float64
        and times.ndim == 1
        and times.shape == hazards.shape
        and bool((np.diff(times) > 0).all())
        and bool((np.diff(hazards, prepend=0.0) >= 0).all())
        and type(document["log_likelihood"]) is float
    )
    require(right, "a baseline hazard that cannot be")
    return Baseline(times, hazards)


def _optional(data: Any, read: Callable[[Any], Found]) -> Found | None:
    return None if data is None else read(data)
