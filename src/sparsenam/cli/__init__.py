"""The command ``sparsenam``; it needs the extra ``cli``, which brings typer and rich."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command; without typer or rich, say what to install and exit with 1."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        remedy = 'install them with: pip install "sparsenam[cli]"'
        sys.exit(f"sparsenam: expected the packages typer and rich, got no {' and no '.join(missing)}; {remedy}.")
    from sparsenam.cli.app import app

    app(prog_name="sparsenam")
