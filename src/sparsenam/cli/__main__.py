"""``python -m sparsenam.cli``."""

from sparsenam.cli.app import app

app(prog_name="sparsenam")
