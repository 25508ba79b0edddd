"""A fit leaves the process as it found it, also when several run at once or one fails."""

import linecache
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, takewhile
from threading import Event, Thread, get_ident

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from fit_cases import CASES, INPUTS, mixed_table, small_blocks
from fuzz.threads import attack, cases, counts_in_a_new_thread
from sparsenam import SNAMRegressor
from sparsenam.context import one_thread, results_in_order
from sparsenam.fit import pipeline


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


def test_a_block_in_another_thread_waits_for_none_and_ends_the_limit_for_none():
    def second():
        with one_thread():
            return blas_now()

    with ThreadPoolExecutor(1) as executor:
        with one_thread():
            assert executor.submit(second).result(60) == {1}  # a wait here would be a deadlock
            assert blas_now() == {1}
        assert blas_now() == {2}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_the_order_of_their_tasks_from_so_many_threads(count):
    begun, workers = [], set()

    def task(number):
        begun.append(number)
        workers.add((get_ident(), torch.get_num_threads()))
        time.sleep(0.02 if number % 2 == 0 else 0.0)  # later tasks end before earlier ones
        return number

    taken = []
    with one_thread():
        for result in results_in_order((partial(task, number) for number in range(9)), count):
            taken.append(result)
            assert len(begun) <= len(taken) + count  # what waits for its turn takes memory
    assert taken == list(range(9))
    assert len(workers) <= count
    assert {threads_of_torch for _, threads_of_torch in workers} == {1}


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_after_an_error_no_task_begins(error):
    begun = []

    def task(number):
        begun.append(number)
        if number == 2:
            raise error

    with pytest.raises(error):
        list(results_in_order((partial(task, number) for number in range(100)), 2))
    assert len(begun) <= 5


def test_tasks_have_numpys_handling_of_errors():
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(results_in_order([lambda: np.ones(1) / np.zeros(1)], 2))


def test_a_limit_holds_in_every_thread_whoever_set_one_before():
    with ThreadPoolExecutor(1) as executor, threadpool_limits(limits=2):  # which makes this thread the one that may set

        def within():
            with one_thread():
                return blas_now()

        assert executor.submit(within).result() == {1}
        assert blas_now() == {2}


def test_a_new_thread_has_as_many_threads_of_torch_during_a_fit_as_without():
    before = counts_in_a_new_thread()[0]
    with one_thread():
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
        with one_thread():
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
    with one_thread():  # nothing waits for the interrupted ones
        assert blas_now() == {1}


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_a_fit_leaves_the_threads_as_they_were(n_jobs):
    before = threads_now()
    SNAMRegressor(alpha=0.1, n_jobs=n_jobs, random_state=0).fit(*data(0))
    assert threads_now() == before


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_fit_in_blocks_has_the_same_bits_with_two_threads(case, monkeypatch, tmp_path):
    small_blocks(monkeypatch)
    make, settings, target, others = CASES[case]
    table = mixed_table(5000)
    used = table[[*INPUTS, target, *others.values()]]
    used.to_parquet(tmp_path / "table.parquet")
    for source in (used, tmp_path / "table.parquet"):
        alone, together = (
            make(**settings, n_jobs=n_jobs, random_state=0).fit(source, target, **others) for n_jobs in (1, 2)
        )
        np.testing.assert_array_equal(together.intercept_, alone.intercept_)
        np.testing.assert_array_equal(together.effects(table[INPUTS]), alone.effects(table[INPUTS]))


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
        with one_thread():
            inside.set()
            end.wait()

    holder = Thread(target=hold)
    holder.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a process that waits
        with one_thread():
            os._exit(0)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        holder.join()
