"""Build wheel and sdist, and use the wheel as a stranger would: `make package`.

The wheel is made from the sdist, so that a file which the sdist lacks is missed. It is installed into an empty
environment with the pinned versions; README's code and the command line run there, in a folder outside the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "package"
EXTRAS = "cli,plots"
LARGEST_SDIST = 5_000_000  # bytes


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Run a program and stop here when it fails; what is set for the checkout does not reach it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    print("+", *words, flush=True)
    subprocess.run([str(word) for word in words], cwd=cwd, env=environment, check=True)


def require(condition: bool, sentence: str) -> None:
    """Stop with a sentence where the package is not as it should be."""
    if not condition:
        raise SystemExit(f"package: {sentence}")


def look_inside(wheel: Path, sdist: Path) -> None:
    """Check that both archives hold what belongs into them, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    strangers = sorted({name.split("/")[0] for name in names if not name.startswith("sparsenam")})
    require(not strangers, f"expected only sparsenam in the wheel, got {strangers}")
    require("sparsenam/py.typed" in names, "the wheel has no py.typed, so that its types are not used")
    require(any(name.endswith("licenses/LICENSE") for name in names), "the wheel has no LICENSE")
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    missing = sorted(modules - set(names))
    require(not missing, f"the wheel lacks {missing}")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "constraints.txt"):
        require(name in inside, f"the sdist lacks {name}")
    size = sdist.stat().st_size
    require(size <= LARGEST_SDIST, f"expected an sdist of at most {LARGEST_SDIST} bytes, got {size}")


def main() -> None:
    """Build, check, install and use the package."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    dist = FOLDER / "dist"
    run(sys.executable, "-m", "build", "--outdir", dist)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    look_inside(wheel, sdist)
    venv.create(FOLDER / "venv", with_pip=True)
    programs = FOLDER / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = programs / ("python.exe" if os.name == "nt" else "python")
    pip = (
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--constraint",
        ROOT / "constraints.txt",
    )
    run(*pip, f"sparsenam[{EXTRAS}] @ {wheel.as_uri()}", "pandas")
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as outside:
        run(python, "-I", ROOT / "tools" / "installed.py", ROOT, cwd=Path(outside))
    print(f"package: {wheel.name} and {sdist.name} ({sdist.stat().st_size:,} bytes) are good to publish")


if __name__ == "__main__":
    main()
