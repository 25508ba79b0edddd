"""Whether a tag, pyproject.toml, CITATION.cff and CHANGELOG.md say one version: `python tools/version.py v0.1.0`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def versions(root: Path) -> dict[str, str | None]:
    """Return the version that each file says, the changelog's newest one; None where a file says none."""
    citation = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    changelog = re.search(r"^## \[(\d\S*)\]", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"],
        "CITATION.cff": citation and citation[1],
        "CHANGELOG.md": changelog and changelog[1],
    }


def main() -> None:
    """Stop with one sentence where a file says another version than the tag."""
    tag = sys.argv[1]
    wrong = {name: found for name, found in versions(ROOT).items() if f"v{found}" != tag}
    if wrong:
        raise SystemExit(f"expected the version of the tag {tag} everywhere, got {wrong}; release none of it")


if __name__ == "__main__":
    main()
