"""The public API changes only on purpose: public_api.txt is what users may rely on.

``SPARSENAM_RENEW_API=1 python -m pytest tests/guards/test_public_api.py`` writes it anew.
"""

import difflib
import inspect
import os
import re
from importlib import import_module
from pathlib import Path

import sparsenam

SNAPSHOT = Path(__file__).with_name("public_api.txt")
ROOMS = ("penalties", "families", "selection", "explain", "export", "datasets", "interop")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def signature_of(thing):
    try:
        return ADDRESS.sub("", str(inspect.signature(thing)))
    except ValueError:  # protocols and builtins have none
        return "(…)"


def lines_of_class(name, kind):
    yield f"class {name}{signature_of(kind)}"
    for member in sorted(dir(kind)):
        if member.startswith("_") or not defined_here(kind, member):
            continue
        value = inspect.getattr_static(kind, member)
        if isinstance(value, property):
            yield f"    {name}.{member} (property)"
        elif callable(getattr(kind, member)):
            yield f"    {name}.{member}{signature_of(getattr(kind, member))}"


def defined_here(kind, member):
    """Return whether a class of ours has the member, and not only scikit-learn's, which may change."""
    return any(member in vars(base) for base in kind.__mro__ if base.__module__.startswith("sparsenam"))


def lines_of(name, thing):
    if inspect.isclass(thing):
        yield from lines_of_class(name, thing)
    elif inspect.isroutine(thing):
        yield f"def {name}{signature_of(thing)}"
    elif isinstance(thing, dict):
        yield f"{name}: {', '.join(sorted(thing))}"
    else:
        yield name


def public_api():
    lines = []
    for name in sorted(sparsenam.__all__):
        lines += lines_of(f"sparsenam.{name}", getattr(sparsenam, name))
    for room in ROOMS:
        module = import_module(f"sparsenam.{room}")
        lines += ["", f"sparsenam.{room}"]
        for name in sorted(module.__all__):
            lines += lines_of(name, getattr(module, name))
    return "\n".join(lines) + "\n"


def test_the_public_api_is_the_one_written_down():
    found = public_api()
    if os.environ.get("SPARSENAM_RENEW_API"):
        SNAPSHOT.write_text(found, encoding="utf-8")
    written = SNAPSHOT.read_text(encoding="utf-8")
    diff = "\n".join(difflib.unified_diff(written.splitlines(), found.splitlines(), "written", "found", lineterm=""))
    assert found == written, f"{diff}\nIf this is meant, run with SPARSENAM_RENEW_API=1 and commit {SNAPSHOT.name}."


def test_every_public_name_has_a_docstring():
    names = [(sparsenam, name) for name in sparsenam.__all__]
    names += [(import_module(f"sparsenam.{room}"), name) for room in ROOMS for name in _all(room)]
    things = [(name, getattr(module, name)) for module, name in names]
    things = [(name, thing) for name, thing in things if inspect.isclass(thing) or inspect.isfunction(thing)]
    assert [name for name, thing in things if not thing.__doc__] == []


def _all(room):
    return import_module(f"sparsenam.{room}").__all__
