import os
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from hypothesis import Phase, settings

from sparsenam import context

# a busy machine is no failure; the same examples in every run: what fails here failed before it was committed.
# `make explore` draws new ones
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=500, print_blob=True)
# `make mutants` wants to know that something fails, not the simplest example of it
settings.register_profile("mutants", deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small fits are faster without handing work to other threads."""
    torch.set_num_threads(1)


@pytest.fixture
def ticking(monkeypatch):
    """A clock of fits that goes on by one second whenever it is read, so that no test waits for a real one."""
    ticks = count()
    monkeypatch.setattr(context, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    return ticks
