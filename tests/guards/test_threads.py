"""A fit leaves the process as it found it, also when several run at once or one fails."""

import linecache
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count, takewhile
from threading import Event, Thread

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from fuzz.threads import attack, cases, counts_in_a_new_thread
from sparsenam import SNAMRegressor
from sparsenam.context import threads
from sparsenam.fitting import pipeline


@pytest.fixture(autouse=True)
def two_threads():
    """Two threads before the fit, so that a limit left behind would show."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(limits=2):
        yield
    torch.set_num_threads(before)


def threads_now():
    return torch.get_num_threads(), [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]


def blas_now():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def data(seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(150, 4))
    return X, 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * generator.normal(size=150)


def test_fits_at_once_give_the_bits_of_fits_alone_and_leave_all_counts_as_they_were():
    names = ("regression", "random features", "network", "fista", "poisson", "predictions", "failure None", "failure 2")
    known = cases()
    assert attack(0, 16, lambda line: None, {name: known[name] for name in names}) == []


def test_a_block_in_another_thread_has_the_number_of_those_under_way_and_waits_for_none():
    def second():
        with threads(2):
            return blas_now()

    with ThreadPoolExecutor(1) as executor:
        with threads(1):
            assert executor.submit(second).result(60) == {1}  # a wait here would be a deadlock
            assert blas_now() == {1}
        assert executor.submit(second).result(60) == {2}


def test_blocks_within_a_block_of_the_same_thread_keep_its_number():
    with threads(1), threads(2):
        assert blas_now() == {1}
    assert blas_now() == {2}


def test_a_limit_holds_in_every_thread_whoever_set_one_before():
    with ThreadPoolExecutor(1) as executor, threadpool_limits(limits=2):  # which makes this thread the one that may set

        def within():
            with threads(1):
                return blas_now()

        assert executor.submit(within).result() == {1}
        assert blas_now() == {2}


def test_a_new_thread_has_as_many_threads_of_torch_during_a_fit_as_without():
    before = counts_in_a_new_thread()[0]
    with threads(1):
        assert torch.get_num_threads() == 1
        assert counts_in_a_new_thread()[0] == before


def interrupted_at(place):
    """Enter and leave a block with an interrupt at the ``place``-th line of its code; return whether there was one."""
    lines = count(1)

    def tracer(frame, event, argument):
        if not frame.f_code.co_filename.endswith("sparsenam/context.py"):
            return None
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        # Python looks for interrupts where code is called: none comes at the beginning or the exit of a block
        if event == "line" and not text.startswith(("with ", "try:")) and next(lines) == place:
            raise KeyboardInterrupt
        return tracer

    sys.settrace(tracer)
    try:
        with threads(1):
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or coverage traces")
def test_an_interrupt_at_any_line_leaves_the_threads_as_they_were():
    before, new = threads_now(), counts_in_a_new_thread()
    places = takewhile(interrupted_at, count(1))
    assert sum(threads_now() == before and counts_in_a_new_thread() == new for _ in places) >= 40
    assert (threads_now(), counts_in_a_new_thread()) == (before, new)
    with threads(2):  # nothing waits for the interrupted ones
        assert blas_now() == {2}


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_a_fit_leaves_the_threads_as_they_were(n_jobs):
    before = threads_now()
    SNAMRegressor(alpha=0.1, n_jobs=n_jobs, random_state=0).fit(*data(0))
    assert threads_now() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_fails_leaves_the_threads_as_they_were(error, monkeypatch):
    before = threads_now()

    def failing(*given):
        raise error

    monkeypatch.setattr(pipeline, "fit_terms", failing)
    with pytest.raises(error):
        SNAMRegressor(alpha=0.1, n_jobs=1, random_state=0).fit(*data(0))
    assert threads_now() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork with other threads about, which is the case here
def test_a_process_forked_during_a_fit_waits_for_no_thread_that_it_does_not_have():
    inside, end = Event(), Event()

    def hold():
        with threads(1):
            inside.set()
            end.wait()

    holder = Thread(target=hold)
    holder.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a process that waits
        with threads(2):
            os._exit(0)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        holder.join()
