"""Write locked/: the pins of constraints.txt with the sha256 of every file that the index has of them.

``make lock`` runs it after constraints.txt has changed. ``make`` installs by these hashes, so that a file that was
replaced on the index is refused; torch is not among them, since its CPU and CUDA builds are different files.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = {"runtime": ("cli",), "dev": ("dev", "browser")}
UNLOCKED = {"torch"}
HEADER = "# Made by tools/lock.py (make lock) from constraints.txt and the extras {extras}; not to be edited.\n"


def pins() -> set[str]:
    """Return the names in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {normalised(line.partition("==")[0]) for line in lines if "==" in line and not line.startswith("#")}


def normalised(name: str) -> str:
    """Return the name of a package as the index writes it."""
    return re.sub(r"[-_.]+", "-", name).strip().lower()


def locked(extras: tuple[str, ...]) -> str:
    """Return the pins that the extras need, each with the hashes of its files for all platforms."""
    wanted = [part for extra in extras for part in ("--extra", extra)]
    options = ["--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "-", *wanted, *options]
    command += ["--constraint", "constraints.txt", "--quiet"]
    # what installs the package itself is locked too: hatchling, and what it needs for an editable installation
    builders = "\n".join(
        [*tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"], "editables"]
    )
    text = subprocess.run(command, cwd=ROOT, input=builders, capture_output=True, text=True, check=True).stdout
    entries = re.findall(r"^\S.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    # what is in no pin is needed on other platforms alone, or for torch's CUDA build
    kept = [entry for entry in entries if normalised(re.split(r"[=\[]", entry, maxsplit=1)[0]) in pins() - UNLOCKED]
    return "".join(kept)


def main() -> None:
    """Write both files."""
    for name, extras in FILES.items():
        text = HEADER.format(extras=" and ".join(extras)) + locked(extras)
        (ROOT / "locked" / f"{name}.txt").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
