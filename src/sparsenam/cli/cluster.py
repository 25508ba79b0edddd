"""The connection of a command to a cluster of Dask."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

from sparsenam.errors import ClusterError, InputError, describe

CONNECTING = 10  # seconds to wait for a scheduler


@contextmanager
def connected(scheduler: str | None) -> Generator[None]:
    """Let the scheduler at an address work on all passes within the block; None for no cluster."""
    if scheduler is None:
        yield
        return
    try:
        distributed = import_module("distributed")
        import_module("dask.dataframe")
    except ImportError as error:
        remedy = 'install it with pip install "sparsenam[dask]"'
        raise InputError(describe("--scheduler", "the library dask", "none installed", remedy)) from error
    try:
        client = distributed.Client(scheduler, timeout=CONNECTING)
    except (OSError, TimeoutError, ValueError) as error:
        expected, got = "the address of a Dask scheduler", f"no answer from {scheduler!r}"
        raise ClusterError(describe("--scheduler", expected, got, "start it or correct the address")) from error
    with client:
        yield
