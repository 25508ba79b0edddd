"""``python -m sparsenam.cli``."""

from sparsenam.cli import main

main()
