"""Fits to model files and back: the codec's document and tensors in a container, read by checks and running nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

from sparsenam.codec import Bounds, pack, unpack
from sparsenam.container import (
    MOST_DATA,
    MOST_HEADER,
    MOST_VALUES,
    ForeignFileError,
    Json,
    Tensors,
    compact_json,
    packed,
    parse_object,
    unpacked,
)
from sparsenam.errors import InputError, RefusalError, describe, require
from sparsenam.export.checks import check_fit, check_settings
from sparsenam.export.settings import pack_parameters, unpack_parameters
from sparsenam.families import FAMILIES
from sparsenam.files import said_by, write_atomically
from sparsenam.fit.pipeline import Fit
from sparsenam.model import AdditiveModel
from sparsenam.model.networks import SubNetworks
from sparsenam.networks.bank import MLPBank
from sparsenam.selection.curve import StoredCurve
from sparsenam.text import Task

SCHEMA = 1


class ModelFileError(InputError):
    """A model file is damaged, foreign or of another version, or a model cannot be put into one."""


class ModelFileWarning(UserWarning):
    """Some settings of an estimator are not in its model file."""


def refused(path: object, got: str) -> ModelFileError:
    """Return the error for a file that is not as `save` writes it."""
    expected, remedy = "a whole file written by save", "save the model again or get another copy"
    return ModelFileError(describe(f"model file {path}", expected, got, remedy))


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says of itself: its schema, who wrote it, and the types of settings that no file can hold."""

    schema: Literal[1]
    written_by: Annotated[str, Bounds(0, 100)]
    left_out: dict[str, Annotated[str, Bounds(0, 1000)]]


HEAD = [field.name for field in fields(Head)]


def save_fit(fit: Fit, path: str | PathLike[str]) -> None:
    """Write a fit into a file that holds data only, whole or not at all.

    Settings that are code, such as a custom schedule, are not in the file; a warning names them.
    """
    _check_model(fit.model)
    settings, left_out = pack_parameters(fit.settings)
    curve = None if fit.curve is None else StoredCurve.of(fit.curve, fit.settings.get("rule"))
    head = Head(SCHEMA, version("sparsenam"), left_out)
    try:
        document, tensors = pack(replace(fit, settings=settings, curve=curve))
    except InputError as error:  # such as labels of a type that JSON does not have
        raise ModelFileError(str(error)) from error
    document = pack(head)[0] | document
    try:  # whether load would read this, before anything is written
        _read(parse_object(compact_json(document)), tensors, {str(document["estimator"]): fit.task})
    except RefusalError as error:
        expected, remedy = "a model that load would read", "fit columns and targets of moderate size"
        raise ModelFileError(describe("model to save", expected, str(error), remedy)) from error
    write_container(Path(path), document, tensors)
    if left_out:
        message = f"settings that are no plain data are not in {path}: {', '.join(left_out)}."
        warnings.warn(message, ModelFileWarning, stacklevel=4)


def _check_model(model: AdditiveModel) -> None:
    remedy = "keep the estimator with pickle"
    if type(model.family) not in FAMILIES.values():
        expected = f"one of {sorted(FAMILIES)}, since a model file holds no code"
        got = f"a custom loss ({model.family.name})"
        raise ModelFileError(describe("family of the model to save", expected, got, remedy))
    if isinstance(model.functions, SubNetworks) and type(model.functions.bank) is not MLPBank:
        expected, got = "sub-networks that this library builds", f"those of {type(model.functions.bank).__name__}"
        raise ModelFileError(describe("model to save", expected, got, remedy))


def load_fit(path: str | PathLike[str], tasks: Mapping[str, Task]) -> Fit:
    """Return the fit that was saved.

    Parameters
    ----------
    path
        The file.
    tasks
        The estimators that a file may name, and what each predicts.

    Raises
    ------
    ModelFileError
        When the file is damaged, changed, of another version, or says what cannot be.
    """
    document, tensors = read_container(Path(path))
    schema = document.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        remedy = "install the version of sparsenam that wrote it, or fit and save again"
        raise ModelFileError(describe(f"model file {path}", f"schema {SCHEMA}", f"{str(schema)[:40]!r}", remedy))
    try:
        head, fit = _read(document, tensors, tasks)
        settings = unpack_parameters(fit.settings)
        check_settings(settings, fit.encoder, fit.curve if isinstance(fit.curve, StoredCurve) else None)
    except RefusalError as error:
        raise refused(path, str(error)) from error
    if head.left_out:
        names = ", ".join(name[:40] for name in head.left_out)
        message = f"settings that are no plain data are not in {path} and have their defaults: {names}."
        warnings.warn(message, ModelFileWarning, stacklevel=3)
    return replace(fit, settings=settings)


def _read(document: dict[str, Json], tensors: Tensors, tasks: Mapping[str, Task]) -> tuple[Head, Fit]:
    """Return the head of a document, and its fit with packed settings; raise `RefusalError` for what cannot be."""
    head = unpack(Head, {name: document[name] for name in HEAD if name in document})
    rest = {name: value for name, value in document.items() if name not in HEAD}
    fit = unpack(Fit, rest, tensors)
    require(fit.estimator in tasks, f"the unknown estimator {fit.estimator[:40]!r}")
    check_fit(fit, tasks[fit.estimator])
    return head, fit


def write_container(path: Path, document: Mapping[str, Json], tensors: Tensors) -> None:
    """Write a document and tensors of float64, int64, float32 or uint8 into a file, whole or not at all."""
    try:
        parts = packed(document, tensors)
    except RefusalError as error:
        expected = f"a model of at most {MOST_HEADER} bytes and {MOST_VALUES} values of names and settings, and of "
        expected += f"{MOST_DATA} bytes of finite numbers"
        remedy = "leave out columns of unique texts"
        raise ModelFileError(describe(f"model file {path}", expected, str(error), remedy)) from error
    try:
        write_atomically(path, *parts, make_folder=False)
    except OSError as error:
        expected, remedy = "a path that can be written to", "make the folder or name another"
        raise ModelFileError(describe(f"model file {path}", expected, said_by(error), remedy)) from error


def read_container(path: Path) -> tuple[dict[str, Json], Tensors]:
    """Return the document and the tensors of a file; raise `ModelFileError` unless it is whole and plain."""
    if not path.is_file():
        expected, got = "a file written by save", "a folder or device" if path.exists() else "nothing there"
        raise ModelFileError(describe(f"model file {path}", expected, got, "correct the path"))
    try:
        return unpacked(path)
    except ForeignFileError as error:
        expected, got = "a file written by save", f"{error}, which is no model file"
        remedy = "give the file that save wrote, or a copy"
        raise ModelFileError(describe(f"model file {path}", expected, got, remedy)) from error
    except (RefusalError, OSError) as error:
        raise refused(path, str(error)) from error
