"""A reader follows the default fit through few files, and docs/architecture.md lists exactly these."""

import json
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import sparsenam

PACKAGE = Path(sparsenam.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
# Limits only fall. Files are those of both lists; a change is a function whose package is not that of the one before,
# in the order in which functions are first called. The goals are 28 files and 70 changes.
MOST_FILES, MOST_CHANGES, MOST_MODULES = 34, 93, 12
LISTED = re.compile(r"<!-- (default-fit|uncertainty) -->\n(.*?)<!-- /\1 -->", re.DOTALL)
ENTRY = re.compile(r"^\d+\. `([\w/]+\.py)`: \S", re.MULTILINE)

TRACED = """
import json, sys
from pathlib import Path
import numpy as np
import sparsenam

package = Path(sparsenam.__file__).parent
generator = np.random.default_rng(0)
X = generator.normal(size=(200, 5))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * generator.normal(size=200)
model, functions = sparsenam.SNAMRegressor(random_state=0), {}

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(str(package)) and code.co_name != "<module>":
        functions.setdefault((Path(code.co_filename).relative_to(package).as_posix(), code.co_qualname))

sys.setprofile(note)
model.fit(X, y)
sys.setprofile(None)
print(json.dumps(list(functions)))
"""


@cache
def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def listed_files():
    page = PAGE.read_text(encoding="utf-8")
    return {name: ENTRY.findall(text) for name, text in LISTED.findall(page)}


def test_the_default_fit_runs_through_the_files_that_the_architecture_lists():
    ran, lists = list(dict.fromkeys(name for name, _ in run(TRACED))), listed_files()
    listed = [name for files in lists.values() for name in files]
    lines = "\n".join(f"{number}. `{name}`: …" for number, name in enumerate(ran, start=1))
    advice = f"write between <!-- default-fit --> and <!-- /default-fit --> in {PAGE.name}:\n{lines}"
    assert len(listed) == len(set(listed)), "a file is listed twice"
    missing, needless = sorted(set(ran) - set(listed)), sorted(set(listed) - set(ran))
    assert not missing and not needless, f"not listed: {missing}, listed for nothing: {needless}; {advice}"
    assert len(ran) <= MOST_FILES, "too many files: merge some"


def test_the_default_fit_seldom_changes_the_package():
    # comprehensions, which some versions of Python call and others do not, and lambdas are no functions here
    packages = [name.split("/")[0] for name, function in run(TRACED) if "<" not in function.replace("<locals>", "")]
    changes = sum(first != second for first, second in pairwise(packages))
    assert changes <= MOST_CHANGES, f"{changes} changes: let packages call each other once, with what they need"


def test_listed_files_exist():
    for name in (name for files in listed_files().values() for name in files):
        assert (PACKAGE / name).is_file(), name


def test_importing_the_package_loads_few_modules_and_nothing_heavy():
    code = "import json, sys, sparsenam; print(json.dumps(sorted(sys.modules)))"
    loaded = run(code)
    heavy = {
        "torch",
        "numpy",
        "sklearn",
        "scipy",
        "pandas",
        "polars",
        "matplotlib",
        "narwhals",
        "numba",
        "typer",
        "rich",
    }
    assert not heavy & set(loaded)
    assert len([name for name in loaded if name.split(".")[0] == "sparsenam"]) <= MOST_MODULES
