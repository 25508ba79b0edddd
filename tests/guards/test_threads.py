"""A fit leaves the process as it found it, also when several run at once or one fails."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from sparsenam import Network, SNAMClassifier, SNAMRegressor
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


def data(seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(150, 4))
    return X, 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * generator.normal(size=150)


def fits():
    X, y = data(0)
    other, target = data(1)
    return [
        lambda: SNAMRegressor(random_state=0).fit(X, y).predict(X),
        lambda: SNAMRegressor(alpha=0.01, network=Network((8,), max_epochs=20), random_state=0).fit(X, y).predict(X),
        lambda: SNAMClassifier(n_jobs=1, random_state=0).fit(other, target > 0).decision_function(other),
        lambda: SNAMRegressor(n_jobs=2, random_state=1).fit(other, target).predict(other),
    ]


def test_fits_at_once_give_the_models_of_fits_one_after_the_other():
    alone, before = [fit() for fit in fits()], threads_now()
    start = Barrier(len(fits()))

    def together(fit):
        start.wait()
        return fit()

    with ThreadPoolExecutor(len(fits())) as executor:
        at_once = list(executor.map(together, fits()))
    for one, other in zip(alone, at_once, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)
    assert threads_now() == before


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
