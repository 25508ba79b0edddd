import pytest
import torch
from hypothesis import settings

settings.register_profile("steady", deadline=None)  # a busy machine is no failure
settings.load_profile("steady")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small fits are faster without handing work to other threads."""
    torch.set_num_threads(1)
