"""The constants that steer the default fit are few, each is measured, and its figures stand beside it."""

import json
import re
import sys
from pathlib import Path

import sparsenam

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(sparsenam.__file__).parent
MOST_STEERING = 44  # only falls: 34 before pairs, and six constants of theirs, were part of the default
sys.path.insert(0, str(ROOT / "benchmarks"))


def measured():
    return json.loads((ROOT / "benchmarks" / "results" / "constants.json").read_text())["constants"]


def test_every_constant_of_the_default_fit_is_measured():
    from constant_list import constants

    found, stored = constants(), measured()
    assert {name: value for name, (_, value) in found.items()} == {name: stored[name]["value"] for name in stored}, (
        "run `make constants` with --only and the names that are new or have another value"
    )


def test_few_constants_steer_the_default_fit():
    from constant_list import steers

    steering = [name for name, entry in measured().items() if steers(entry)]
    assert len(steering) <= MOST_STEERING, steering


def test_a_constant_that_steers_has_its_figures_beside_it():
    from constant_list import evidence, steers

    for name, entry in measured().items():
        lines = (PACKAGE / entry["file"]).read_text(encoding="utf-8").splitlines()
        place = next(n for n, line in enumerate(lines) if re.match(rf"(\w+, )*{name}\b.*=", line))
        if steers(entry):
            above = "\n".join(lines[max(place - 4, 0) : place])
            assert evidence(name, entry) in above, f"{entry['file']}: write '{evidence(name, entry)}' above {name}"
