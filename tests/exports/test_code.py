"""Models as plain Python, JavaScript and C say what the library says, whatever names and cells they are given."""

import ast
import math
from dataclasses import replace

import numpy as np
import pytest

from code_runs import has, run_c, run_javascript, run_python
from export_cases import HOSTILE, random_case
from sparsenam.export.exporting import TARGETS, write_export
from sparsenam.export.portable import (
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortableTable,
    number_of_level,
)
from sparsenam.export.targets.c_code import naming_of
from sparsenam.tables.text import is_marker

SEEDS, AT_ONCE = 200, 25
RUNS = {"python": run_python, "javascript": run_javascript, "c": run_c}
PROGRAMS = {"python": "", "javascript": "node", "c": "cc"}
LANGUAGES = [
    pytest.param(name, marks=pytest.mark.skipif(bool(need) and not has(need), reason=f"there is no {need}"))
    for name, need in PROGRAMS.items()
]
needs_node = pytest.mark.skipif(not has("node"), reason="there is no node")
needs_c = pytest.mark.skipif(not has("cc"), reason="there is no C compiler")


def close(found, expected, tolerance=1e-12):
    """Return whether numbers agree to a tolerance, and are NaN in the same places."""
    return np.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_code_gives_the_scores_of_the_library_to_the_bit_and_effects_and_means_that_agree(first, tmp_path):
    seeds = range(first, first + AT_ONCE)
    cases = [random_case(seed) for seed in seeds]
    for language, run in RUNS.items():
        if PROGRAMS[language] and not has(PROGRAMS[language]):
            continue
        for seed, case, answers in zip(seeds, cases, run(cases, tmp_path), strict=True):
            assert np.array_equal(answers.scores, case.scores, equal_nan=True), (language, seed)
            some = np.flatnonzero(~(np.abs(case.scores) > 1e6).any(axis=1))
            some = some[some % 5 == 0]  # the rows whose effects and means were asked for
            assert close(answers.sums[some], case.scores[some]), (language, seed)
            assert close(answers.means[::5], case.means[::5]), (language, seed)


@needs_c
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_compiler_fuses_products_with_sums(compiler, tmp_path):
    if not has(compiler):
        pytest.skip(f"there is no {compiler}")
    cases = [random_case(seed) for seed in (0, 1, 5, 9, 13)]
    for case, answers in zip(cases, run_c(cases, tmp_path, ("-O3", "-march=native"), compiler), strict=True):
        assert np.array_equal(answers.scores, case.scores, equal_nan=True)


def scored(model, rows, language, folder):
    """Return the scores of rows from files written for a language."""
    target = next(target for target in TARGETS if target.name == language)
    path = folder / f"model{target.suffixes[0]}"
    write_export(model, path, language, {})
    return target.load({}).scores(model, path, rows, {})


def small_model(*columns, **changes):
    """Return a model of one output: a straight line for each number, code + 1 for each level."""
    terms = []
    for place, column in enumerate(columns):
        if column.kind == "category":
            count = max((level.code for level in column.levels), default=0) + 1
            values = tuple((10.0**place * (code + 1.0),) for code in range(count))
            terms.append(PortableTable(place, "level", values, (0.0,)))
        else:
            terms.append(PortableCurve(place, (0.0,), (0.0, 0.0), ((1.0, 1.0),), ((0.0, 0.0),), (-1000.0,)))
    model = PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), columns, tuple(terms))
    return replace(model, **changes)


def category(name, *texts):
    levels = [PortableLevel(text, number_of_level(text), code) for code, text in enumerate(texts)]
    return PortableColumn(name, "category", tuple(levels))


ATTACKS = (
    "'); import os; os.mkdir('attacked') #", '"""', "\"\"\"; raise SystemExit(3)", "\\", "\\\"",
    "*/ #error attacked /*", "*/ int attacked( /*", "//", "??/", "??'", "`${process.exit(3)}`", "</script>",
    "@@DATA@@", "P_row", "U_MISSING", "HEADER", "ANSWER", "NAME", "\u2028", "\u2029", "\x85", "\ufeff", "a\nb",
    "#include <nothing>", "%n%n", "é", "e\u0301", "__proto__", "constructor", "hasOwnProperty", "__class__", "int",
    "class", "row", "total", "k", "x" * 4000, "(", "'",
)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_and_levels_that_look_like_code_are_data(language, tmp_path):
    texts = sorted({*HOSTILE, *ATTACKS, *(f"{one}{other}" for one in ATTACKS[:12] for other in ATTACKS[:12])})
    # levels of a fit have no blanks around them
    texts = [text for text in texts if text == text.strip() and not text.isdigit() and not is_marker(text)]
    numbers = [PortableColumn(f"number {text}", "number") for text in texts[:40]]
    model = small_model(*(category(text, *texts) for text in ATTACKS[:3]), *numbers, written_by=ATTACKS[5])
    zeros = dict.fromkeys((column.name for column in numbers), 0.0)
    rows = [
        {name: texts[(3 * index + place) % len(texts)] for place, name in enumerate(ATTACKS[:3])} | zeros
        for index in range(len(texts))
    ]
    places = [[texts.index(row[name]) + 1 for name in ATTACKS[:3]] for row in rows]
    expected = [[float(one + 10 * other + 100 * third)] for one, other, third in places]
    assert scored(model, rows, language, tmp_path).tolist() == expected
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == {"model"}


def test_two_python_modules_differ_in_literals_alone(tmp_path):
    def skeleton(model, name):
        (path,) = write_export(model, tmp_path / name, None, {})
        tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 9))
        for node in tree.body:
            if isinstance(node, ast.Assign) and node.targets[0].id.isupper() and not node.targets[0].id.startswith("_"):
                literal = node.value.args[0] if isinstance(node.value, ast.Call) else node.value
                ast.literal_eval(literal)
                node.value = ast.Constant(0)
        return ast.dump(tree)

    plain = skeleton(small_model(PortableColumn("x", "number")), "plain.py")
    for place, text in enumerate(ATTACKS):
        attacked = small_model(category(text, *ATTACKS), outputs=(text,), written_by=text)
        assert skeleton(attacked, f"attacked{place}.py") == plain


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_of_numbers_are_the_levels_of_these_numbers(language, tmp_path):
    model = small_model(category("c", "1", "2.5", "0", "100000", "007", "0x10", "inf", "1_000", "1e999", "True"))
    known = {
        "1": 1, "1.0": 1, " 1 ": 1, "+1": 1, "1.": 1, "10e-1": 1, "\u00a01\u2003": 1, "1\u200b": 0, "\t1\r\n": 1,
        "\x1c1\x1f": 1, "2.5": 2, "25E-1": 2, ".25e1": 2, "0": 3, "-0": 3, "0.000": 3, "0e5": 3, "00": 0, "1e5": 4,
        "1E+05": 4, "100000.0": 4, "007": 5, "7": 0, " 007": 5, "0x10": 6, "16": 0, "inf": 7, "Infinity": 0,
        "1_000": 8, "1000": 0, "1e999": 9, "True": 10, "true": 0, "NA": 0, " nan ": 0, "": 0, "-": 0, "+": 0, ".": 0,
        "e5": 0, "1e": 0, "1e+": 0, "--1": 0, "1 1": 0, "1,0": 0, "1" * 2000: 0,
        "0." + "0" * 400 + "1e401": 1, "1" + "0" * 400 + "e-400": 1,
    }  # fmt: skip
    cells = [*known, 1.0, 2.5, -0.0, 1e5, 7.0, math.inf, True, False, None]
    expected = [*known.values(), 1, 2, 3, 4, 0, 0, 0, 0, 0]
    assert scored(model, [{"c": cell} for cell in cells], language, tmp_path)[:, 0].tolist() == expected


@needs_node
@needs_c
def test_three_languages_read_any_text_alike(tmp_path):
    draw = np.random.default_rng(0)
    signs = list("0123456789+-.eE _xnaNIif\u00a0\u3000\x85\x1d\n?/")
    texts = ["".join(draw.choice(signs, draw.integers(0, 6))) for _ in range(5000)]
    levels = sorted({text for text in texts[:400] if text.strip()} - {"0", "1"})
    column = category("c", *levels)
    model = small_model(column)
    rows = [{"c": text} for text in texts]
    found = [scored(model, rows, language, tmp_path) for language in RUNS]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert np.unique(found[0]).size > 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_that_reads_nothing_gives_its_intercept(language, tmp_path):
    model = small_model(intercept=(0.25,))
    assert scored(model, [{}, {}], language, tmp_path).tolist() == [[0.25], [0.25]]


@needs_c
def test_members_of_a_row_in_c_are_names_that_c_allows_and_differ(tmp_path):
    names = [
        "int",
        "Int",
        "INT",
        "a b",
        "a-b",
        "a_b",
        "a_b_2",
        "1",
        "",
        "ä",
        "P_x",
        "p_x",
        "U_x",
        "linux",
        "NULL",
        "_x",
        "x",
    ]
    model = small_model(*(PortableColumn(name, "number") for name in names))
    rows = [{name: float(2**place) for place, name in enumerate(names)}]
    assert scored(model, rows, "c", tmp_path).tolist() == [[2.0 ** len(names) - 1.0]]
    members = naming_of(model, tmp_path / "model.h", {}).members
    assert len(set(members)) == len(names)
    assert all(member.isascii() and member.isidentifier() for member in members)
