"""``python -m sparsenam``: the command."""

from sparsenam.cli import main

main()
