"""Model files: the container of all files, under the names and in the sentences of `save` and `load`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sparsenam.container import MOST_DATA, MOST_HEADER, MOST_VALUES, ForeignFileError, Tensors, packed, unpacked
from sparsenam.errors import InputError, RefusalError, describe
from sparsenam.files import said_by, write_atomically


class ModelFileError(InputError):
    """A model file is damaged, foreign or of another version, or a model cannot be put into one."""


class ModelFileWarning(UserWarning):
    """Some settings of an estimator are not in its model file."""


def refused(path: object, got: str) -> ModelFileError:
    """Return the error for a file that is not as `save` writes it."""
    expected, remedy = "a whole file written by save", "save the model again or get another copy"
    return ModelFileError(describe(f"model file {path}", expected, got, remedy))


def write_container(path: Path, document: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
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


def read_container(path: Path) -> tuple[dict[str, Any], Tensors]:
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
