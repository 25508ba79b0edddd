"""A limit on the threads of PyTorch and BLAS while a fit runs."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

import torch
from threadpoolctl import threadpool_limits

from sparsenam.errors import InputError, describe


@contextmanager
def threads(n_jobs: int | None) -> Generator[None]:
    """Use ``n_jobs`` threads within the block; None changes nothing, -1 takes all cores.

    All folds of a cross-validation are solved together in one batch, so cores are shared out by the linear
    algebra below and not by fold.
    """
    if n_jobs is None:
        yield
        return
    if n_jobs == 0:
        raise InputError(describe("n_jobs", "a number of threads, or -1 for all cores", "0", "choose another"))
    wanted = n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    before = torch.get_num_threads()
    torch.set_num_threads(wanted)
    try:
        with threadpool_limits(limits=wanted):
            yield
    finally:
        torch.set_num_threads(before)


FEW_CELLS = 100_000  # rows × features up to which one thread is as fast as two


def threads_for(n_rows: int, n_features: int) -> AbstractContextManager[None]:
    """Return a limit to one thread for a small convex fit, which waiting threads slow down on a busy machine."""
    return threads(1 if n_rows * n_features <= FEW_CELLS else None)
