"""README's code and the command line, with the package as it was installed: run by tools/package.py.

It runs with ``python -I`` in a folder outside the checkout, whose path is the one argument and from which only the
README and the reader of its blocks are taken.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def command(*words: str) -> str:
    """Run the installed program and return what it printed."""
    program = shutil.which("sparsenam", path=str(Path(sys.executable).parent))
    if program is None:
        raise SystemExit("package: the program sparsenam was not installed")
    return subprocess.run([program, *words], check=True, capture_output=True, text=True, encoding="utf-8").stdout


def main() -> None:
    """Run the README, then the commands that go from a table to predictions."""
    checkout = Path(sys.argv[1]).resolve()
    sys.path.append(str(checkout / "tests"))
    import pandas as pd

    import sparsenam
    from page_cases import run_page, small_table

    installed = Path(sparsenam.__file__).resolve()
    if not installed.is_relative_to(Path(sys.prefix).resolve()):
        raise SystemExit(f"package: expected sparsenam of this environment, got {installed}")
    df, y = small_table()
    run_page(checkout / "README.md", df=df, y=y)
    df.assign(rent=y).to_csv("flats.csv", index=False)
    command("fit", "flats.csv", "--target", "rent", "--out", "flats")
    command("predict", "flats/model.snam", "flats.csv", "--out", "predictions.csv")
    command("explain", "flats/model.snam", "flats.csv", "--rows", "0")
    if len(pd.read_csv("predictions.csv")) != len(df):
        raise SystemExit("package: sparsenam predict wrote another number of rows than it was given")
    if sparsenam.__version__ not in command("--version"):
        raise SystemExit("package: sparsenam --version says another version than the package")
    command("demo")
    print(f"package: sparsenam {sparsenam.__version__} works from {installed.parent}")


if __name__ == "__main__":
    main()
