"""SNAMSurvival's defaults on simulated proportional hazards: features found, concordance, seconds.

Usage: python benchmarks/survival.py [--seeds N] [--rows N] [--out FILE]
prints JSON. ``true`` is the concordance of the true risk on the same new rows, the best that any model can expect.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

from sparsenam.datasets import make_survival
from sparsenam.estimators.survival import SNAMSurvival
from sparsenam.survival import concordance

NEW_ROWS, TRUE_FEATURES = 5000, 4


def measure(seed: int, rows: int) -> dict[str, object]:
    """Return what one seed gives."""
    task, new = make_survival(rows, seed=seed), make_survival(NEW_ROWS, seed=10_000 + seed)
    start = time.perf_counter()
    model = SNAMSurvival(random_state=seed).fit(task.X, task.y)
    seconds = time.perf_counter() - start
    support = np.flatnonzero(model.get_support()).tolist()
    ours = model.score(new.X, new.y)
    true = concordance(new.y["event"], new.y["time"], new.risk)
    return {
        "seed": seed,
        "support": support,
        "exact": support == list(range(TRUE_FEATURES)),
        "concordance": round(ours, 4),
        "true": round(true, 4),
        "lost": round(true - ours, 4),
        "gap": None if model.certificate_ is None else model.certificate_.gap,
        "seconds": round(seconds, 2),
    }


def main() -> None:
    """Measure all seeds and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    records = [measure(seed, arguments.rows) for seed in range(arguments.seeds)]
    summary = {
        "exact supports": sum(bool(record["exact"]) for record in records),
        "runs": len(records),
        "largest loss of concordance": max(record["lost"] for record in records),
        "seconds, mean": round(float(np.mean([record["seconds"] for record in records])), 2),
    }
    report = json.dumps({"summary": summary, "records": records}, indent=1)
    print(report)
    if arguments.out:
        arguments.out.write_text(report + "\n")


if __name__ == "__main__":
    main()
