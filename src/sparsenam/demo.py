"""``python -m sparsenam.demo``: the command ``sparsenam demo``."""

from __future__ import annotations

from sparsenam.cli.demo import demo


def main() -> None:
    """Fit the embedded data and end with the path of the report."""
    demo()


if __name__ == "__main__":
    main()
