import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small fits are faster without handing work to other threads."""
    torch.set_num_threads(1)
