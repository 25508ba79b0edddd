"""The facts of a run that someone who compares numbers needs: versions, cores and threads."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

PACKAGES = ("sparsenam", "numpy", "torch", "scikit-learn", "scipy", "interpret-core")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # an extra that is not installed
    return found


def machine() -> dict[str, int]:
    """Return how many cores there are and how many threads PyTorch uses."""
    return {"cores": os.cpu_count() or 1, "threads": torch.get_num_threads()}
