"""The lowest versions that pyproject.toml allows, as pip constraints: `python tools/lowest.py > lowest.txt`.

A floor is a promise that nobody keeps unless it is run. `make lowest` installs these versions and runs the tests of the
library itself with them. ``--pinned NAME`` takes a package from constraints.txt instead, for a version that the index
at hand does not have.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("cli", "plots", "files", "test-core")  # what the chosen tests need besides the dependencies
FLOOR = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=(?P<version>[0-9.]+)")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)$")


def normal(name: str) -> str:
    """Return a package's name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def floors(project: dict[str, Any]) -> dict[str, str]:
    """Return the lowest version of each dependency, and of what `EXTRAS` add, by name.

    Raises
    ------
    SystemExit
        When a dependency has no floor, so that no lowest version can be tested.
    """
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(entry for extra in EXTRAS for entry in extras[extra])]
    found: dict[str, str] = {}
    for entry in wanted:
        if entry.startswith("sparsenam["):
            continue
        match = FLOOR.match(entry)
        if match is None:
            raise SystemExit(f"pyproject.toml: expected a floor such as 'numpy>=2', got {entry!r}; write one")
        found[normal(match["name"])] = match["version"]
    return found


def pins(text: str) -> dict[str, str]:
    """Return the versions that a constraints file pins, by name."""
    matches = (PIN.match(line.strip()) for line in text.splitlines())
    return {normal(match["name"]): match["version"] for match in matches if match}


def main() -> None:
    """Print the constraints, one package a line."""
    parser = argparse.ArgumentParser(description="The lowest versions that pyproject.toml allows, as pip constraints.")
    parser.add_argument("--pinned", nargs="*", default=[], metavar="NAME", help="taken from constraints.txt")
    pinned = [normal(name) for name in parser.parse_args().pinned]
    lowest = floors(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])
    known = pins((ROOT / "constraints.txt").read_text("utf-8"))
    for name, version in lowest.items():
        print(f"{name}=={known[name] if name in pinned else version}")


if __name__ == "__main__":
    main()
