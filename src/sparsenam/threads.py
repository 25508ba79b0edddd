"""Threads of a fit: one for the libraries, and those of ``n_jobs`` for blocks of rows."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from numbers import Integral
from threading import Lock, get_ident
from typing import Any, TypeVar, cast

import threadpoolctl

from sparsenam.errors import InputError, describe

Result = TypeVar("Result")


class _SharedLibraries:
    """The threads of libraries that have one number for the whole process, which all its Python threads share.

    The first fit sets it to one, and the last to end puts back what was there before.
    """

    def __init__(self) -> None:
        self._lock, self.torch = Lock(), Lock()  # ``torch`` is held while the number of its threads is read or set
        self._holders = dict[object, int]()  # the Python thread of each fit under way
        self._before = dict[str, tuple[Any, int]]()  # each library and its threads before these fits, by its file

    def enter(self, holder: object, libraries: Sequence[Any]) -> None:
        """Let the libraries have one thread."""
        with self._lock:
            self._holders[holder] = get_ident()
            for library in libraries:  # some may have been loaded since the first of these fits began
                self._before.setdefault(library.filepath, (library, library.num_threads))
                _set_threads(library, 1)

    def leave(self, holder: object) -> None:
        """Put back what was there before, if no other fit is under way; to leave twice changes nothing."""
        with self._lock:
            self._holders.pop(holder, None)
            if not self._holders:
                for library, number in self._before.values():
                    _set_threads(library, number)
                self._before.clear()

    def forget_other_threads(self) -> None:
        """Let go of the fits of Python threads that a forked process does not have."""
        self._lock, self.torch = Lock(), Lock()
        self._holders = {holder: thread for holder, thread in self._holders.items() if thread == get_ident()}
        self.leave(object())  # puts back what was there before, if this thread is in no fit


SHARED = ("openblas", "blis", "flexiblas")  # of these, unless they use OpenMP, all Python threads share one pool
_LIMITS = _SharedLibraries()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LIMITS.forget_other_threads)


def _libraries() -> tuple[list[Any], list[Any]]:
    """Return the loaded libraries with one number of threads for the process, and those with one a Python thread."""
    found: Any = cast(Any, threadpoolctl).ThreadpoolController()
    shared, here = list[Any](), list[Any]()
    for library in found.lib_controllers:
        is_shared = library.internal_api in SHARED and getattr(library, "threading_layer", "") != "openmp"
        (shared if is_shared else here).append(library)
    return shared, here


def _set_threads(library: Any, number: int) -> None:
    """Set a library's threads; since 3.7 threadpoolctl does nothing in any Python thread but the first that asked."""
    _let_all_set(library)
    library.set_num_threads(number)
    _let_all_set(library)


def _let_all_set(library: Any) -> None:
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


def _in_another_thread(call: Callable[..., Any], *given: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *given).result()


def _torch() -> Any:
    """Return PyTorch where it is loaded: a fit that trains a network loads it before anything else."""
    return sys.modules.get("torch")


def _torch_threads() -> int | None:
    """Return the number of torch's threads in this Python thread, None where it is not loaded."""
    with _LIMITS.torch:
        return None if _torch() is None else _torch().get_num_threads()


def _set_torch_threads(number: int | None) -> None:
    """Set torch's threads in this Python thread, and leave the number that new Python threads get as it is."""
    torch = _torch()
    if torch is None or number is None:
        return
    with _LIMITS.torch:
        torch.get_num_threads()  # when first asked in a Python thread, torch forgets what was set there before
        of_new_threads: int = _in_another_thread(torch.get_num_threads)
        try:
            torch.set_num_threads(number)
        finally:
            _in_another_thread(torch.set_num_threads, of_new_threads)


@contextmanager
def one_thread() -> Generator[None]:
    """Let libraries have one thread within the block.

    The products of a fit are many and small: with two threads of BLAS or torch one table of ten was quicker, by 15 %,
    and others took up to twice the time, beside busy neighbours twenty times, since threads that wait keep a core.
    """
    # torch's, as OpenMP's, are of this Python thread, which takes the number of new ones when first asked
    torch_threads = _torch_threads()
    holder = object()
    shared, others = _libraries()
    here = [(library, library.num_threads) for library in others]

    left = False

    def put_back() -> None:
        nonlocal left
        _LIMITS.leave(holder)
        for library, number in here:
            library.set_num_threads(number)
        _set_torch_threads(torch_threads)
        left = True

    try:
        try:
            _LIMITS.enter(holder, shared)
            for library, _ in here:
                library.set_num_threads(1)
            _set_torch_threads(1)
            yield
        finally:
            put_back()
    finally:
        if not left:  # an interrupt came in the midst of it
            put_back()


def thread_count(n_jobs: object) -> int:
    """Return how many threads ``n_jobs`` asks for: None is 1, as in scikit-learn, -1 all cores; raise for no number."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        expected = "a number of threads, or -1 for all cores"
        raise InputError(describe("n_jobs", expected, repr(n_jobs), "choose another"))
    count = int(n_jobs)
    return count if count > 0 else max(1, (os.cpu_count() or 1) + 1 + count)


def results_in_order(tasks: Iterable[Callable[[], Result]], count: int) -> Iterator[Result]:
    """Yield what each task returns, in their order, ``count`` of them at work at once: in threads, if above 1.

    After an error or an interrupt those at work end, and no other begins.
    """
    if count == 1:
        yield from (task() for task in tasks)
        return
    pool = ThreadPoolExecutor(count, "sparsenam", _let_libraries_have_one_thread)
    try:
        waiting = deque[Future[Result]]()
        for task in tasks:
            waiting.append(pool.submit(copy_context().run, task))  # numpy's handling of errors is of the context
            if len(waiting) == count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _let_libraries_have_one_thread() -> None:
    """Set the numbers of threads that are of this Python thread."""
    for library in _libraries()[1]:
        library.set_num_threads(1)
    _set_torch_threads(1)
