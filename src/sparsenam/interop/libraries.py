"""Libraries that are only needed where a model is handed to them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sparsenam.errors import describe


class LibraryError(ImportError):
    """A library that a model shall be handed to is not installed."""


def library(name: str, package: str, where: str) -> Any:
    """Return a module of a library; one sentence says what to install where it is not there."""
    try:
        return import_module(name)
    except ImportError as error:
        remedy = f'pip install "{package}"'
        raise LibraryError(describe(where, f"the package {package}", "an environment without it", remedy)) from error
