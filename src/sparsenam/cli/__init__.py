"""The command ``sparsenam``."""

from sparsenam.cli.app import app

__all__ = ["app"]
