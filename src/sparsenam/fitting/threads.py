"""A limit on the threads of PyTorch and BLAS while a fit runs."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

import torch
from threadpoolctl import threadpool_limits

from sparsenam.errors import InputError, describe

FEW_CELLS = 100_000  # rows × terms up to which one thread is as fast as two


class _ProcessLimits:
    """The limits that are in force in this process, whose number of threads all its Python threads share.

    The lowest limit of the fits under way holds; the last to end puts back what was there before the first.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._active: list[int] = []
        self._before = 1
        self._pools: threadpool_limits | None = None

    def enter(self, limit: int) -> None:
        with self._lock:
            if not self._active:
                self._before = torch.get_num_threads()
            self._active.append(limit)
            self._apply()

    def leave(self, limit: int) -> None:
        with self._lock:
            self._active.remove(limit)
            self._apply()

    def _apply(self) -> None:
        if self._pools is not None:
            self._pools.restore_original_limits()
            self._pools = None
        torch.set_num_threads(min(self._active, default=self._before))
        if self._active:
            self._pools = threadpool_limits(limits=min(self._active))


_LIMITS = _ProcessLimits()


@contextmanager
def threads(n_jobs: int | None) -> Generator[None]:
    """Use ``n_jobs`` threads within the block; None changes nothing, -1 takes all cores.

    All folds of a cross-validation are solved together in one batch, so cores are shared by the linear algebra below
    and not by fold.
    """
    if n_jobs is None:
        yield
        return
    if n_jobs == 0:
        raise InputError(describe("n_jobs", "a number of threads, or -1 for all cores", "0", "choose another"))
    limit = n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    _LIMITS.enter(limit)
    try:
        yield
    finally:
        _LIMITS.leave(limit)


def threads_for(n_rows: int, n_terms: int) -> AbstractContextManager[None]:
    """Return a limit to one thread for a small fit, which waiting threads slow down on a busy machine."""
    return threads(1 if n_rows * n_terms <= FEW_CELLS else None)
