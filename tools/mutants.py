"""Change formulas one at a time, in a copy of the tree, and see whether a test notices: ``make mutants``.

``python tools/mutants.py [--only TEXT] [--jobs 1|2] [--list]``; the exit code is 1 when a change lives. A change is a
text that occurs exactly once in its file, what takes its place, and the tests that are about this formula. Tests that
merely print a number of the formula are not named here, even where they would notice.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "paper", "tools", "pyproject.toml", "README.md", "CHANGELOG.md")
SAID = "said.txt"
LIBRARIES = ("cvxpy", "lifelines", "numba", "pandas", "scipy.stats", "sklearn.linear_model", "torch")
LONGEST = 900  # seconds of one change's tests, after which the change counts as noticed: it made something endless


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of ``file``: ``before`` becomes ``after``; ``tests`` are arguments of pytest."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


PENALTIES, FAMILIES = "tests/properties/test_penalties.py", "tests/properties/test_families.py"
CERTIFICATES, OPTIMUM = "tests/properties/test_convex_solver.py", "tests/oracles/test_convex_cvxpy.py"
COX, INTERVALS = "tests/properties/test_cox.py", "tests/oracles/test_intervals.py"
TESTS_OF_COLUMNS, SUMS = "tests/oracles/test_discoveries.py", "tests/oracles/test_smooth.py"
LEVELS = ("tests/properties/test_ramps.py", "-k", "rare_levels")
THEORY = ("tests/paper/test_theory.py", "-k", "slow_rate")
LASSO = "src/sparsenam/penalties.py"
REAL, COUNTS = "src/sparsenam/families/real.py", "src/sparsenam/families/positive.py"
CLASSES, AMOUNTS = "src/sparsenam/families/classes.py", "src/sparsenam/families/positive.py"
PROBLEM, PRIOR = "src/sparsenam/convex/problem.py", "src/sparsenam/smooth/design.py"
RISK = "src/sparsenam/survival.py"

MUTANTS = (
    # --- penalties
    Mutant("bridge threshold", LASSO, "threshold = 1.5 *", "threshold = 1.4 *", (PENALTIES, "-k", "bridge_goes")),
    Mutant(
        "bridge root",
        LASSO,
        "(np.pi - np.arccos(cosine)) / 3.0",
        "(np.pi + np.arccos(cosine)) / 3.0",
        (PENALTIES, "-k", "minimises_its_definition and bridge"),
    ),
    Mutant(
        "first fit by NAM", LASSO, '0.0 if self.first == "nam" else alpha', "alpha", (PENALTIES, "-k", "first_fit_of")
    ),
    Mutant(
        "alpha of the first fit",
        "src/sparsenam/fit/networks.py",
        "alpha=on_terms.first_alpha(alpha)",
        "alpha=alpha",
        (PENALTIES, "-k", "first_fit_of"),
    ),
    Mutant(
        "adaptive power",
        LASSO,
        "GroupLasso(ratios**self.power)",
        "GroupLasso(ratios)",
        (PENALTIES, "-k", "power_of_an"),
    ),
    Mutant(
        "elastic net's shrinkage",
        LASSO,
        "0.0) / (1.0 + step * ridge)",
        "0.0) / (1.0 + ridge)",
        (PENALTIES, "-k", "minimises_its_definition and elastic"),
    ),
    Mutant(
        "joint group's share",
        LASSO,
        "return high / (high + pull)",
        "return high / (high + pull.mean())",
        (PENALTIES, "-k", "joint_group"),
    ),
    Mutant(
        "SLOPE's level",
        LASSO,
        ") - allowed.sum()) / np.sum",
        ") - allowed.mean()) / np.sum",
        (PENALTIES, "-k", "isotonic"),
    ),
    Mutant("SLOPE's rank", LASSO, "before + worst + 1))", "before))", (PENALTIES, "-k", "isotonic")),
    # --- certificate and solver
    Mutant(
        "slack unchecked",
        PROBLEM,
        "    if wrong.size:\n",
        "    if wrong.size < 0:\n",
        (CERTIFICATES, "-k", "dropped_group"),
    ),
    Mutant(
        "slack × 10",
        PROBLEM,
        "1.0 + float(np.sqrt(tol))",
        "1.0 + 10.0 * float(np.sqrt(tol))",
        (CERTIFICATES, "-k", "dropped_group"),
    ),
    Mutant(
        "dual point of free groups",
        PROBLEM,
        "    if free.size:",
        "    if 0 and free.size:",
        (OPTIMUM, "-k", "empty_solution"),
    ),
    Mutant(
        "dual scaling",
        PROBLEM,
        "1.0 / np.maximum(worst, 1.0)",
        "1.0 / np.maximum(worst, 1.0) ** 0.5",
        (OPTIMUM, "-k", "smaller_gap"),
    ),
    Mutant(
        "dual of the sorted norm",
        PROBLEM,
        "np.max(sums / allowed)",
        "np.min(sums / allowed)",
        (CERTIFICATES, "-k", "dual_of_the_sorted"),
    ),
    Mutant(
        "path of unequal weights",
        "src/sparsenam/convex/path.py",
        "min(float(usable.max() / usable.min()), LONGEST_PATH)",
        "min(1.0, LONGEST_PATH)",
        ("tests/unit/test_selection.py", "-k", "adaptive or long_path"),
    ),
    # --- categories
    Mutant(
        "rare levels",
        "src/sparsenam/convex/ramps.py",
        "self.means[:parts, rare]",
        "self.overall[rare]",
        LEVELS,
    ),
    # --- families
    Mutant(
        "Gaussian noise divisor",
        "src/sparsenam/families/base.py",
        "rows - freedom, 1.0",
        "rows, 1.0",
        (FAMILIES, "-k", "noise_of_least"),
    ),
    Mutant("Huber's loss", REAL, "over - 0.5 * inner", "over - 0.4 * inner", (FAMILIES, "-k", "gradient_is and huber")),
    Mutant(
        "Huber's curvature",
        REAL,
        "bound / xp.clip(",
        "0.5 * bound / xp.clip(",
        (FAMILIES, "-k", "hessian_diagonal and huber"),
    ),
    Mutant(
        "quantile's conjugate",
        REAL,
        "slope * target - self.smoothing *",
        "slope * target - 0.5 *",
        (FAMILIES, "-k", "fenchel and quantile"),
    ),
    Mutant("softmax's bound", CLASSES, "top * (2.0 - 2.0 * top)", "top * (1.0 - top)", (FAMILIES, "-k", "softmax_has")),
    Mutant(
        "logistic curvature",
        CLASSES,
        "return mean * (1.0 - mean)",
        "return mean * (1.1 - mean)",
        (FAMILIES, "-k", "hessian_diagonal and binomial"),
    ),
    Mutant(
        "Poisson's conjugate",
        COUNTS,
        "entr(mean) + mean,",
        "entr(mean) - mean,",
        (FAMILIES, "-k", "fenchel and poisson"),
    ),
    Mutant(
        "negative binomial slope",
        COUNTS,
        "(mean - target) / (1.0 +",
        "(mean - target) / (2.0 +",
        (FAMILIES, "-k", "gradient_is and negative"),
    ),
    Mutant(
        "gamma's conjugate",
        AMOUNTS,
        "rest * (1.0 + np.log(target))",
        "rest * np.log(target)",
        (FAMILIES, "-k", "fenchel and gamma"),
    ),
    # --- survival
    Mutant(
        "Efron's ties",
        RISK,
        "at_risk[moment] - gone *",
        "at_risk[moment] - 0.5 * gone *",
        (COX, "-k", "likelihood_is_its_definition"),
    ),
    Mutant(
        "events after censoring",
        RISK,
        'time, side="right").astype',
        'time, side="left").astype',
        (COX, "-k", "likelihood_is_its_definition"),
    ),
    Mutant(
        "tied risks",
        "src/sparsenam/survival.py",
        "+ 0.5 * tied",
        "+ tied",
        (COX, "-k", "concordance_is_its"),
    ),
    # --- smooth fits, bands, judging, intervals
    Mutant(
        "Fellner-Schall",
        PRIOR,
        "- kind.traces(np.mean(",
        "- 0.9 * kind.traces(np.mean(",
        (SUMS, "-k", "slope_of_the_restricted"),
    ),
    Mutant("scatter of levels", PRIOR, "    values -= values.mean(axis=0)\n", "", (SUMS, "-k", "scatter")),
    Mutant(
        "products of knots",
        "src/sparsenam/convex/ramps.py",
        "cells + room, high - high_right",
        "cells + room, high",
        (SUMS, "-k", "sums_over_rows"),
    ),
    Mutant(
        "left-out scores",
        "src/sparsenam/uncertainty/bands.py",
        "follow / (1.0 - follow) * slopes",
        "follow * slopes",
        (INTERVALS, "-k", "left_out_scores"),
    ),
    Mutant(
        "conformal index",
        "src/sparsenam/uncertainty/residuals.py",
        "ceil((self.count + 1) * level",
        "ceil(self.count * level",
        (INTERVALS, "-k", "mapies_split or jackknife"),
    ),
    Mutant(
        "uncertainty of smoothness",
        "src/sparsenam/uncertainty/bands.py",
        "hessian += 2.0 * pulls.T @ slopes[-1]",
        "hessian += pulls.T @ slopes[-1]",
        ("tests/unit/test_bands.py", "-k", "that_of_refits"),
    ),
    Mutant(
        "stationarity of zero groups",
        "src/sparsenam/training/run.py",
        "theta = parameters.theta.double()\n",
        "problem, theta = problem.restricted_to(parameters.active), parameters.of_active.double()\n",
        ("tests/limits/test_stationarity.py", "-k", "zero"),
    ),
    # --- false discoveries
    Mutant(
        "knockoff+",
        "src/sparsenam/discover/fdr.py",
        "if 1 + np.count_nonzero",
        "if np.count_nonzero",
        (TESTS_OF_COLUMNS, "-k", "threshold_of_knockoffs"),
    ),
    Mutant(
        "Benjamini and Hochberg",
        "src/sparsenam/discover/fdr.py",
        "false_discovery_control(p_values) <=",
        "p_values <=",
        (TESTS_OF_COLUMNS, "-k", "rejections"),
    ),
    # --- threads
    Mutant(
        "limit of another thread",
        "src/sparsenam/context.py",
        "    _let_all_set(library)\n    library.set_num_threads(number)\n",
        "    library.set_num_threads(number)\n",
        ("tests/guards/test_threads.py", "-k", "whoever"),
    ),
    # --- the paper
    Mutant(
        "union over all units",
        "paper/theory/slow_rate.py",
        "2 * units.sum() / delta1",
        "2 * units.max() / delta1",
        THEORY,
    ),
    Mutant(
        "sum over features",
        "paper/theory/slow_rate.py",
        "pieces.sum() if corrected",
        "pieces.max() if corrected",
        THEORY,
    ),
    Mutant(
        "published number",
        "paper/published.toml",
        "mse = 139.7",
        "mse = 138.7",
        ("tests/paper/test_measures.py", "-k", "transcriptions"),
    ),
    Mutant(
        "synthetic f₂",
        "src/sparsenam/datasets/synthetic.py",
        "np.sin(x) * np.cos(x) + x**2",
        "np.sin(x) + np.cos(x) + x**2",
        ("tests/unit/test_datasets.py", "-k", "by_hand"),
    ),
)


def changed(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the file with the change; raise unless the text to change is there exactly once."""
    text = (root / mutant.file).read_text(encoding="utf-8")
    count = text.count(mutant.before)
    if count != 1:
        raise LookupError(f"{mutant.name}: {mutant.before!r} occurs {count} times in {mutant.file}; renew the list")
    return text.replace(mutant.before, mutant.after)


def copied(mutant: Mutant, folder: Path) -> None:
    """Put a copy of the tree with the change into ``folder``; compiled code is copied too, as it stays valid."""
    text = changed(mutant)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)
    (folder / mutant.file).write_text(text, encoding="utf-8")


def started(mutant: Mutant, folder: Path) -> int:
    """Run the tests of a change in another process, which has the libraries loaded already; return its id."""
    process = os.fork()
    if process:
        return process
    said = os.open(folder / SAID, os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    signal.alarm(LONGEST)
    os.chdir(folder)
    sys.path.insert(0, str(folder / "src"))
    os.environ["PYTHONPATH"] = str(folder / "src")  # of processes that tests start
    options = ["-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    code = 3
    try:
        code = int(pytest.main([*options, *mutant.tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def lives(mutant: Mutant, folder: Path, status: int, seconds: float) -> bool:
    """Say what came of a change whose tests have ended with ``status``; return whether they passed."""
    said = (folder / SAID).read_text(encoding="utf-8", errors="replace")
    code = -1 if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
    if code not in (-1, 0, 1):  # neither passed nor failed: no test was found, or none could be read
        raise RuntimeError(f"{mutant.name}: pytest ended with {code}\n{said[-3000:]}")
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    test = failed[0].split(" - ")[0].split("::")[-1] if failed else ""
    print(
        f"{'dies' if code else 'LIVES':6}{mutant.name:32}{seconds:6.1f} s  {test or 'no end' * (code < 0)}", flush=True
    )
    return code == 0


def try_all(chosen: list[Mutant], jobs: int) -> int:
    """Try changes, so many at once; return how many live."""
    waiting, running, survivors = list(chosen), dict[int, tuple[Mutant, Path, float]](), 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        while waiting or running:
            while waiting and len(running) < jobs:
                mutant = waiting.pop(0)
                folder = Path(place) / str(len(waiting))
                folder.mkdir()
                copied(mutant, folder)
                running[started(mutant, folder)] = mutant, folder, time.monotonic()
            process, status = os.wait()
            mutant, folder, since = running.pop(process)
            survivors += lives(mutant, folder, status, time.monotonic() - since)
            shutil.rmtree(folder)
    return survivors


def main() -> int:
    """Try the changes that were asked for."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="changes whose name or file has this text")
    parser.add_argument("--jobs", type=int, choices=(1, 2), default=1, help="changes tried at once")
    parser.add_argument("--list", action="store_true", help="show the changes and try none")
    asked = parser.parse_args()
    chosen = [each for each in MUTANTS if asked.only in each.name or asked.only in each.file]
    for each in chosen:
        changed(each)  # the whole list first, before minutes are spent
    if asked.list:
        for each in chosen:
            print(f"{each.name}: {each.file}: {each.before.strip()!r} → {each.after.strip()!r}")
        return 0
    os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "mutants"}
    for library in LIBRARIES:  # loaded once: of most tests this is the longest part
        importlib.import_module(library)
    survivors = try_all(chosen, asked.jobs)
    print(f"{len(chosen)} changes, {survivors} live")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
