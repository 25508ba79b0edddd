"""What can be wrong with a model file."""

from __future__ import annotations

from sparsenam.errors import InputError, describe


class ModelFileError(InputError):
    """A model file is damaged, foreign or of another version, or a model cannot be put into one."""


class ModelFileWarning(UserWarning):
    """Some settings of an estimator are not in its model file."""


class RefusalError(Exception):
    """What was found in a file instead of what should be there; whoever knows the path makes a sentence of it."""


def refused(path: object, got: str) -> ModelFileError:
    """Return the error for a file that is not as `save` writes it."""
    expected, remedy = "a whole file written by save", "save the model again or get another copy"
    return ModelFileError(describe(f"model file {path}", expected, got, remedy))
