"""Makes the environments of the peers that cannot live beside sparsenam, with the versions of benchmarks/peers/*.txt.

    python benchmarks/bench_environments.py [NAME …] [--renew]

An environment is made once and again when its file changes. They lie in build/peers, or in the folder SPARSENAM_PEERS.
``--renew`` installs the newest versions of what the file's first line names and writes the file anew.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench_process import ENVIRONMENTS

PINS = Path(__file__).resolve().parent / "peers"
QUIET = ("install", "-q", "--disable-pip-version-check")
COMMON = "numpy pandas scipy scikit-learn"


def packages_of(pins):
    """Return what is asked for, named in the first line of the file: ``# lassonet torch==2.13.0``."""
    return pins.read_text().splitlines()[0].removeprefix("#").split()


def pip(folder, *arguments):
    done = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def make(pins, renew):
    """Make an environment unless it is there already; return whether it had to be made."""
    folder = ENVIRONMENTS / pins.stem
    stamp = folder / "pins.txt"
    if not renew and stamp.exists() and stamp.read_text() == pins.read_text():
        return False
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    if renew:
        asked = packages_of(pins)
        pip(folder, *QUIET, *asked, *COMMON.split())
        freeze(folder, pins, asked)
    else:
        pip(folder, *QUIET, "-r", pins)
    stamp.write_text(pins.read_text())
    return True


def freeze(folder, pins, asked):
    """Write what an environment has to the file; a local label such as +cpu is not part of a released version."""
    lines = pip(folder, "freeze", "--all", "--exclude", "pip", "--exclude", "setuptools").splitlines()
    pins.write_text("\n".join([f"# {' '.join(asked)}", *(line.partition("+")[0] for line in lines)]) + "\n")


def main():
    files = {path.stem: path for path in sorted(PINS.glob("*.txt"))}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(files))
    parser.add_argument("--renew", action="store_true")
    wanted = parser.parse_args()
    if unknown := set(wanted.names) - set(files):
        parser.error(f"no file in {PINS} for {', '.join(sorted(unknown))}: there are {', '.join(files)}")
    for name in wanted.names or files:
        print(f"{name}: {'made' if make(files[name], wanted.renew) else 'is there'}", flush=True)


if __name__ == "__main__":
    main()
