"""The constants of the default fit, and what their measurements say; `constants.py` makes the measurements."""

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparsenam"
LISTED = re.compile(r"^\d+\. `([\w/]+\.py)`: \S", re.MULTILINE)
PACKAGES = ("convex/", "smooth/", "selection/", "fit/", "uncertainty/")
STEERS = 0.01  # relative change of a loss or a width
FACTORS = {"halved": 0.5, "doubled": 2.0}
MEASURES = ("loss", "bands", "intervals")


def constants():
    """Return the numbers at the top of the files of the default fit: by name, the file and the value."""
    page, found = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), {}
    for name in (name for name in dict.fromkeys(LISTED.findall(page)) if name.startswith(PACKAGES)):
        module = importlib.import_module("sparsenam." + name.removesuffix(".py").replace("/", "."))
        for statement in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
            for target in (each for top in targets for each in ast.walk(top)):
                if isinstance(target, ast.Name) and target.id.isupper():
                    value = getattr(module, target.id)
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        found[target.id] = (name, value)
    return found


def steers(entry):
    """Return whether a constant steers: some measure of some table changes by more than 1 %, or a fit fails."""
    return any("error" in entry[word] or largest(entry[word]) > 100.0 * STEERS for word in FACTORS)


def largest(found):
    """Return the largest change of any measure of any table, in per cent."""
    return max(abs(found[measure]["most"]) for measure in MEASURES if measure in found)


def evidence(name, entry):
    """Return the figures that stand above a constant: the mean change of the measure that changes most."""
    known = [entry[word] for word in FACTORS if "error" not in entry[word]]
    measures = [measure for measure in MEASURES if all(measure in found for found in known)]
    measure = max(measures, key=lambda each: max(abs(found[each]["most"]) for found in known))
    texts = ["fails" if "error" in found else f"{found[measure]['mean']:+.2g} %" for found in map(entry.get, FACTORS)]
    return f"make constants: {name} halved {texts[0]}, doubled {texts[1]} {measure}"
