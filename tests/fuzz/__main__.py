"""Run attacks: ``python -m fuzz [NAME …] [--seed N] [--count N] [--json FILE]``, or ``make fuzz``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path

# attacks and how many cases `make fuzz` tries of each: minutes in all; each is a module of this folder with
# attack(seed: int, count: int, say: Callable[[str], None]) -> list[str], one sentence for each thing that did not hold
ATTACKS = {"threads": 138}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", default=[], help=f"attacks, all by default: {', '.join(ATTACKS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=None, help="cases of each attack")
    parser.add_argument("--json", type=Path, default=None, help="file for what was found")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    results = {}
    for name in asked.names or ATTACKS:
        count, started = asked.count or ATTACKS[name], time.monotonic()
        findings = import_module(f"fuzz.{name}").attack(asked.seed, count, lambda line: print(line, flush=True))
        seconds = round(time.monotonic() - started, 1)
        results[name] = {"seed": asked.seed, "cases": count, "seconds": seconds, "findings": findings}
        print(f"{name}: {count} cases, {len(findings)} findings, {seconds} s", flush=True)
        for finding in findings:
            print(f"  {finding}", flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(result["findings"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
