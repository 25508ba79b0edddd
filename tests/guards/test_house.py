"""The manners of the house that a machine can check."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import sparsenam

PACKAGE = Path(sparsenam.__file__).parent
MOST_FILES, MOST_LINES = 250, 50_000  # a limit to meet on purpose, not by the way


@cache
def sources():
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees():
    return {name: ast.parse(text) for name, text in sources().items()}


def test_the_package_stays_small():
    lines = sum(text.count("\n") for text in sources().values())
    assert len(sources()) <= MOST_FILES
    assert lines <= MOST_LINES


def test_no_two_classes_share_a_name():
    names = [node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_every_module_has_a_docstring():
    assert [name for name, tree in trees().items() if not ast.get_docstring(tree)] == []


def writes_to_stdout(node):
    if isinstance(node, ast.Attribute):
        return node.attr in ("stdout", "__stdout__") and isinstance(node.value, ast.Name) and node.value.id == "sys"
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"):
        return False
    return not any(keyword.arg == "file" for keyword in node.keywords)


def test_only_the_command_prints():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if not name.startswith("cli/")
        for node in ast.walk(tree)
        if writes_to_stdout(node)
    ]
    assert not found


@pytest.mark.parametrize("code", ["print(1)", "sys.stdout.write('')"])
def test_printing_is_recognised(code):
    assert any(writes_to_stdout(node) for node in ast.walk(ast.parse(code)))
    assert not any(writes_to_stdout(node) for node in ast.walk(ast.parse("print(1, file=stream)")))
