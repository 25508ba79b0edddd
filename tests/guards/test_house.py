"""The manners of the house that a machine can check."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

import sparsenam

PACKAGE = Path(sparsenam.__file__).parent
# Limits only fall: what is added is paid for by what is removed.
MOST_FILES, MOST_LINES = 179, 41_303
BESIDE_THE_CORE, MOST_CORE_LINES = ("explain", "export", "interop", "cli"), 27_043
MOST_CASTS, MOST_ANY = 19, 156  # calls of cast, and uses of Any
MOST_CLASSES = 5  # of ours in the method resolution order of an estimator
PARAMETERS, MOST_WITH_MORE = 8, 1  # of a function, and functions that have more: a command


@cache
def sources():
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def trees():
    return {name: ast.parse(text) for name, text in sources().items()}


def test_the_package_stays_small():
    lines = sum(text.count("\n") for text in sources().values())
    core = [text for name, text in sources().items() if name.split("/")[0] not in BESIDE_THE_CORE]
    assert len(sources()) <= MOST_FILES
    assert lines <= MOST_LINES
    assert sum(text.count("\n") for text in core) <= MOST_CORE_LINES


def n_parameters(function):
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(given) - (given[:1] != [] and given[0].arg in ("self", "cls"))


def test_few_functions_have_many_parameters():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and n_parameters(node) > PARAMETERS
    ]
    assert len(found) <= MOST_WITH_MORE, f"put what belongs together into a dataclass: {found}"


def test_any_is_used_less():
    uses = sum(len(re.findall(r"\bAny\b", text)) for text in sources().values())
    assert uses <= MOST_ANY, f"Any is used {uses} times: say what the value is"


def test_an_estimator_is_made_of_few_classes():
    for name in ("SNAMRegressor", "SNAMClassifier", "SNAMSurvival", "RandomFeatureSNAMRegressor", "FDRSelector"):
        ours = [kind for kind in getattr(sparsenam, name).__mro__ if kind.__module__.startswith("sparsenam")]
        assert len(ours) <= MOST_CLASSES, ours


def test_casts_become_fewer():
    calls = [node.func for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    casts = sum(isinstance(called, ast.Name) and called.id == "cast" for called in calls)
    assert casts <= MOST_CASTS, f"{casts} casts: declare the type where the value comes from"


def test_no_two_classes_share_a_name():
    names = [node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def assigned(statement):
    """Yield the names that a statement assigns and the expression of each; tuples are taken apart."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield statement.target, statement.value
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=True)
        else:
            yield target, statement.value


ARITHMETIC = (ast.Constant, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator, ast.Name, ast.expr_context)


def numeric_constants(tree):
    """Return the numbers in upper case at the top of a module, by name; sums and products of others count."""
    known = {}
    for target, value in (pair for statement in tree.body for pair in assigned(statement)):
        if not (isinstance(target, ast.Name) and target.id.isupper()):
            continue
        nodes = list(ast.walk(value))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        if names <= known.keys() and all(isinstance(node, ARITHMETIC) for node in nodes):
            number = eval(compile(ast.Expression(value), target.id, "eval"), {}, known)
            if isinstance(number, int | float) and not isinstance(number, bool):
                known[target.id] = number
    return known


def names_of_two_numbers(modules):
    values = defaultdict(set)
    for tree in modules:
        for name, number in numeric_constants(tree).items():
            values[name].add(number)
    return sorted(name for name, numbers in values.items() if len(numbers) > 1)


def test_no_constant_has_two_values():
    assert names_of_two_numbers(trees().values()) == [], "name each by what it is, or import one from the other"


@pytest.mark.parametrize("code", ["A = 2", "A: int = 2", "B, A = 1, 2", "B = 1\nA = B + 1", "A = 2**1", "A = -2"])
def test_a_second_value_of_a_constant_is_recognised(code):
    assert names_of_two_numbers([ast.parse("A = 1"), ast.parse(code)]) == ["A"]


@pytest.mark.parametrize("code", ["A = 1.0", "A = True", "A = 'text'", "a = 2", "def f():\n    A = 2"])
def test_other_assignments_are_no_second_value(code):
    assert names_of_two_numbers([ast.parse("A = 1"), ast.parse(code)]) == []


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


def is_family_name(node):
    if not (isinstance(node, ast.Attribute) and node.attr == "name"):
        return False
    of = node.value
    return (of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")).endswith("family")


def asks_for_a_family(node):
    """Return whether the node compares the name of a family with a text, or with several in brackets."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    constants = [part for side in sides for part in (getattr(side, "elts", None) or [side])]
    texts = [part for part in constants if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return bool(texts) and any(is_family_name(side) for side in sides)


def test_only_families_know_their_names():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if not name.startswith("families/")
        for node in ast.walk(tree)
        if asks_for_a_family(node)
    ]
    assert not found, "ask for what the family declares, such as its response"


@pytest.mark.parametrize(
    "code",
    [
        "family.name == 'gamma'",
        "'gamma' != self.model_.family.name",
        "family.name not in ('gamma', 'tweedie')",
        "first_family.name in {'gamma'}",
    ],
)
def test_a_comparison_of_a_family_with_a_name_is_recognised(code):
    assert asks_for_a_family(ast.parse(code, mode="eval").body)


@pytest.mark.parametrize("code", ["family.response == 'count'", "family.name in taken", "column.name == 'gamma'"])
def test_other_comparisons_are_not_taken_for_that_of_a_family(code):
    assert not asks_for_a_family(ast.parse(code, mode="eval").body)


@pytest.mark.parametrize("code", ["print(1)", "sys.stdout.write('')"])
def test_printing_is_recognised(code):
    assert any(writes_to_stdout(node) for node in ast.walk(ast.parse(code)))
    assert not any(writes_to_stdout(node) for node in ast.walk(ast.parse("print(1, file=stream)")))
