from itertools import count
from types import SimpleNamespace

import pytest
import torch
from hypothesis import settings

from sparsenam import context

settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")


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
