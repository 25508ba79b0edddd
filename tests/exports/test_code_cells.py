"""What exported code takes as cells and gives as predictions, and what it refuses in a sentence."""

import datetime
import json
import math
import runpy
import subprocess
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from code_runs import has
from export_cases import random_case
from sparsenam import SNAMSurvival
from sparsenam.export.exporting import write_export
from sparsenam.export.portable import (
    ExportError,
    PortableAxis,
    PortableColumn,
    PortableCurve,
    PortableLevel,
    PortableModel,
    PortablePair,
    PortableTable,
)
from sparsenam.tables.text import date_in

needs_node = pytest.mark.skipif(not has("node"), reason="there is no node")
needs_c = pytest.mark.skipif(not has("cc"), reason="there is no C compiler")
PROGRAMS = {".py": "python", ".mjs": "node", ".h": "cc"}


def line_of(kind):
    """Return a model whose score is the number of its column "x"; -1000 where it is missing."""
    curve = PortableCurve(0, (0.0,), (0.0, 0.0), ((1.0, 1.0),), ((0.0, 0.0),), (-1000.0,))
    column = PortableColumn("x", kind)
    return PortableModel("regression", "gaussian", "identity", ("y",), (), (0.0,), (column,), (curve,))


def python_of(model, folder):
    (path,) = write_export(model, folder / "model.py", None, {})
    return runpy.run_path(str(path))


def javascript_says(model, folder, *expressions):
    """Return the values of expressions of JavaScript in which m is the module; of an error its message."""
    path, _ = write_export(model, folder / "model.mjs", None, {})
    tried = ", ".join(f"() => ({expression})" for expression in expressions)
    script = f"""import * as m from {json.dumps(path.as_uri())};
const shown = (value) => (value instanceof Map ? [...value] : value);
const answer = (ask) => {{
  try {{ return shown(ask()); }} catch (error) {{ return `${{error.name}}: ${{error.message}}`; }}
}};
console.log(JSON.stringify([{tried}].map(answer)));"""
    done = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


def c_says(model, folder, statements):
    """Return what statements of C print, after the header of a model named m."""
    write_export(model, folder / "m.h", None, {})
    (folder / "say.c").write_text(f'#include <stdio.h>\n#include "m.h"\nint main(void) {{ {statements} return 0; }}\n')
    subprocess.run(["cc", "-std=c99", str(folder / "say.c"), "-o", str(folder / "say"), "-lm"], check=True, timeout=60)
    return subprocess.run([str(folder / "say")], capture_output=True, check=True, timeout=60, text=True).stdout


NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
DAYS = 19782.5


@pytest.mark.parametrize(
    ("kind", "cell", "number"),
    [
        ("number", 3, 3.0), ("number", True, 1.0), ("number", " 1e3 ", 1000.0), ("number", "007", 7.0),
        ("number", Decimal("2.5"), 2.5), ("number", np.float32(0.5), 0.5), ("number", np.int64(4), 4.0),
        ("number", None, -1000.0), ("number", math.nan, -1000.0), ("number", " NA ", -1000.0),
        ("number", pd.NA, -1000.0), ("number", np.float32("nan"), -1000.0), ("number", Decimal("nan"), -1000.0),
        ("number", math.inf, math.nan), ("number", "-inf", math.nan), ("number", 10**400, math.nan),
        ("date", DAYS, DAYS), ("date", NOON, DAYS), ("date", NOON.replace(tzinfo=None), DAYS),
        ("date", datetime.date(2024, 2, 29), 19782.0), ("date", "2024-02-29", 19782.0),
        ("date", "2024-02-29T12:00:00Z", DAYS), ("date", "2024-02-29 14:00:00+02:00", DAYS),
        ("date", pd.Timestamp(NOON), DAYS), ("date", pd.NaT, -1000.0), ("date", "", -1000.0),
        ("duration", datetime.timedelta(minutes=1.5), 90.0), ("duration", 90, 90.0), ("duration", "90", 90.0),
        ("duration", datetime.time(0, 1, 30), 90.0), ("duration", np.timedelta64(90, "s"), 90.0),
        ("duration", np.timedelta64(90_000_000_000, "ns"), 90.0), ("duration", np.timedelta64(90_000_000, "us"), 90.0),
        ("duration", np.timedelta64(2, "D"), 172_800.0), ("duration", np.timedelta64(1500, "ms"), 1.5),
        ("duration", pd.Timedelta("90s"), 90.0), ("duration", np.timedelta64("NaT", "ns"), -1000.0),
    ],
)  # fmt: skip
def test_python_takes_a_cell_as_python_programs_have_it(kind, cell, number, tmp_path):
    assert python_of(line_of(kind), tmp_path)["predict"]({"x": cell}) == pytest.approx(number, abs=0.0, nan_ok=True)


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("number", "1_000"), ("number", "many"), ("number", [1]), ("number", NOON), ("number", 1j), ("number", "1,5"),
        ("date", "2024-02-30"), ("date", "29.2.2024"), ("date", "19782"), ("date", True), ("duration", NOON),
        ("duration", True), ("duration", np.timedelta64(1, "M")), ("number", np.timedelta64(1, "s")),
        ("date", np.timedelta64(1, "ns")), ("category", np.timedelta64(1, "s")),
        ("category", NOON), ("category", b"a"), ("category", ("a",)),
    ],
)  # fmt: skip
def test_python_refuses_a_cell_that_is_none_of_its_kind(kind, cell, tmp_path):
    model = line_of(kind)
    if kind == "category":
        table = PortableTable(0, "level", ((1.0,),), (0.0,))
        model = replace(model, terms=(table,), columns=(PortableColumn("x", kind, (PortableLevel("a", None, 0),)),))
    with pytest.raises(ValueError, match=r"column 'x': expected .*, got .* of type"):
        python_of(model, tmp_path)["predict"]({"x": cell})


def test_a_column_that_is_read_must_be_in_the_row_and_others_need_not(tmp_path):
    module = python_of(line_of("number"), tmp_path)
    assert module["score"]({"x": 1.0, "others": object()}) == 1.0
    with pytest.raises(ValueError, match="column 'x': expected a cell, got a row without it"):
        module["score"]({"others": 1.0})


@needs_node
def test_javascript_takes_numbers_dates_and_durations_and_refuses_others(tmp_path):
    ask = "m.predict({{x: {}}})".format
    cells = ["3", "true", "' 1e3 '", "null", "NaN", "'NA'", "Infinity", "'0x10'", "[1]", "undefined", "new Date()"]
    found = javascript_says(line_of("number"), tmp_path, *map(ask, cells), "m.predict(new Map([['x', 2]]))")
    assert found[:6] == [3, 1, 1000, -1000, -1000, -1000]
    assert found[6] is None  # NaN in JSON
    assert all(text.startswith('TypeError: column "x": expected a') for text in found[7:11])
    assert found[11] == 2
    cells = ["new Date('2024-02-29T12:00:00Z')", "19782.5", "'2024-02-29T12:00'", "'2024-02-29 14:00:00.000+02:00'"]
    refused = ["'2024-02-30'", "'19782'", "true", "new Date('never')", "'2024-02-29T25:00'"]
    found = javascript_says(
        line_of("date"), tmp_path, *map(ask, cells + refused), ask("'2024-02-29'"), ask("'0001-01-01'")
    )
    assert found[:4] == [DAYS] * 4
    assert all(text.startswith('TypeError: column "x": expected a Date') for text in found[4:9])
    assert found[9:] == [19782, -719162]
    assert javascript_says(line_of("duration"), tmp_path, ask("90"), ask("'1.5'")) == [90, 1.5]


MOMENTS = [
    f"2023-05-05{sign}{time}{zone}"
    for sign in "T x"
    for time in ("12", "12:34", "1234", "12:34:56", "123456", "12:34:56,5", "123456.123456789")
    for zone in ("", "Z", "+01", "-0130", "+05:45", "-23:59", "+01:02:03", "-010203.5", "+00:00:01.123456789")
]
MOMENTS += [
    "2023-05-05",
    "2023-05-05T23:59:59.999999999",
    "0001-01-01T00:00+01:00",
    "9999-12-31T23:59:59-05:00",
    " 2024-02-29T12\n",
    "1969-12-31T23:59",
]
NO_MOMENTS = [
    "2023-05-05Z", "2023-05-05T", "2023-05-05T1", "2023-05-05T12:", "2023-05-05T12+", "2023-05-05T12:0000",
    "2023-05-05T1200:00", "2023-05-05T12:00:00.", "2023-05-05T25:00", "2023-05-05T12:60", "2023-05-05T12:00:60",
    "2023-05-05T12:00-24:00", "2023-05-05T12:00+0130:15", "2023-05-05T12:00z", "2023-02-30T12", "0000-01-01",
    "2023-05-0512:00", "2023-5-05",
]  # fmt: skip


def test_python_reads_the_moments_that_the_library_reads(tmp_path):
    predict = python_of(line_of("date"), tmp_path)["predict"]
    assert {text: predict({"x": text}) for text in MOMENTS} == {text: date_in(text) for text in MOMENTS}
    for text in NO_MOMENTS:
        assert date_in(text) is None
        with pytest.raises(ValueError, match="column 'x': expected a date"):
            predict({"x": text})


@needs_node
def test_javascript_reads_the_moments_that_the_library_reads(tmp_path):
    asked = [f"m.predict({{x: {json.dumps(text)}}})" for text in MOMENTS + NO_MOMENTS]
    found = dict(zip(MOMENTS + NO_MOMENTS, javascript_says(line_of("date"), tmp_path, *asked), strict=True))
    assert {text: found[text] for text in MOMENTS} == {text: date_in(text) for text in MOMENTS}
    assert all(str(found[text]).startswith('TypeError: column "x": expected a Date') for text in NO_MOMENTS)


@needs_node
def test_names_that_objects_have_anyway_are_columns_like_others(tmp_path):
    model = replace(line_of("number"), columns=(PortableColumn("__proto__", "number"),))
    asked = ["m.score({})", "m.score(JSON.parse('{\"__proto__\": 2}'))", "m.effects(new Map([['__proto__', 3]]))"]
    found = javascript_says(model, tmp_path, *asked)
    assert found[0].startswith('TypeError: column "__proto__": expected a cell')
    assert found[1:] == [2, [["__proto__", 3]]]


def test_a_pair_named_like_a_column_has_an_effect_of_its_own(tmp_path):
    names = ("a", "b", "a × b", "a × b (2)")
    curves = tuple(replace(line_of("number").terms[0], column=column) for column in range(4))
    sides = tuple(PortableAxis(column, "number", (0.0, 1.0)) for column in (0, 1))
    pair = PortablePair(sides, (((100.0,),) * 3,) * 3)
    columns = tuple(PortableColumn(name, "number") for name in names)
    model = replace(line_of("number"), columns=columns, terms=curves, pairs=(pair, pair))
    row = dict(zip(names, (1.0, 2.0, 3.0, 4.0), strict=True))
    expected = row | {"a × b (3)": 100.0, "a × b (4)": 100.0}
    assert python_of(model, tmp_path)["effects"](row) == expected
    if has("node"):
        assert dict(javascript_says(model, tmp_path, f"m.effects({json.dumps(row)})")[0]) == expected


@needs_c
def test_c_counts_days_as_python_does(tmp_path):
    days = [datetime.date(*ymd) for ymd in [(1970, 1, 1), (2024, 2, 29), (1, 1, 1), (1900, 3, 1), (9999, 12, 31)]]
    asked = " ".join(f'printf("%.1f ", m_days({day.year}, {day.month}, {day.day}));' for day in days)
    found = [float(text) for text in c_says(line_of("date"), tmp_path, asked).split()]
    assert found == [float(day.toordinal() - 719163) for day in days]


@needs_c
def test_c_refuses_to_compile_where_nan_is_not_a_number_that_counts(tmp_path):
    write_export(line_of("number"), tmp_path / "m.h", None, {})
    command = ["cc", "-ffast-math", "-fsyntax-only", "-x", "c", str(tmp_path / "m.h")]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert b"missing cells are NaN" in done.stderr


CLASSED = [seed for seed in range(60) if random_case(seed, rows=30).portable.classes]


@pytest.mark.parametrize("seed", CLASSED)
def test_the_predicted_class_is_the_first_of_the_most_probable(seed, tmp_path):
    case = random_case(seed, rows=60)
    module, classes = python_of(case.portable, tmp_path), case.portable.classes
    for row, means in zip(case.rows, case.means, strict=True):
        found = module["predict"](row)
        if np.isnan(means).any():
            assert found is None
        elif case.portable.task == "labels":
            assert found == [int(mean > 0.5) for mean in means]
        else:
            shares = [1.0 - means[0], means[0]] if means.size == 1 else means
            assert module["probabilities"](row) == pytest.approx(shares, abs=1e-12)
            assert found == classes[int(np.argmax(shares))]
            assert type(found) is type(classes[0])


@needs_node
@needs_c
def test_classes_are_predicted_alike_in_javascript_and_c(tmp_path):
    model = replace(line_of("number"), task="classes", link="logit", outputs=("yes",), classes=("no", "yes"))
    asked = [f"m.predict({{x: {cell}}})" for cell in ("-2", "0", "2", "Infinity")]
    assert javascript_says(model, tmp_path, *asked) == ["no", "no", "yes", None]
    said = "".join(f'row.x = {x}; printf("%d ", m_predict(&row));' for x in ("-2", "0", "2", "INFINITY"))
    assert c_says(model, tmp_path, "m_row row;" + said) == "0 0 1 -1 "


@needs_node
@needs_c
def test_survival_curves_are_those_of_the_estimator(tmp_path):
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"dose": draw.uniform(0, 1, 150), "noise": draw.uniform(0, 1, 150)})
    time = draw.exponential(np.exp(-2 * X["dose"])) + 0.01
    y = np.array(list(zip(draw.random(150) < 0.8, time, strict=True)), dtype=[("event", bool), ("time", float)])
    model = SNAMSurvival(random_state=0, alpha=1e-3).fit(X, y)
    times = [0.0, float(np.quantile(time, 0.3)), float(time.max()) + 1.0]
    expected = model.predict_survival_function(X.iloc[:3], times).ravel().tolist()
    rows, portable = X.iloc[:3].to_dict("records"), model.portable()
    module = python_of(portable, tmp_path)
    assert [module["survival"](row, moment) for row in rows for moment in times] == pytest.approx(expected, abs=1e-12)
    asked = [f"m.survival({json.dumps(row)}, {moment})" for row in rows for moment in times]
    assert javascript_says(portable, tmp_path, *asked) == pytest.approx(expected, abs=1e-12)
    members = [column.name for column in portable.columns]
    set_rows = ["".join(f"row.{name} = {row[name]!r};" for name in members) for row in rows]
    said = "".join(f'{put} printf("%.17g ", m_survival(&row, {moment!r}));' for put in set_rows for moment in times)
    found = [float(text) for text in c_says(portable, tmp_path, "m_row row = m_missing_row();" + said).split()]
    assert found == pytest.approx(expected, abs=1e-12)
    for suffix in PROGRAMS:
        model.export(tmp_path / f"m{suffix}")
        assert model.export_difference(tmp_path / f"m{suffix}", X) == 0.0


@pytest.mark.parametrize("suffix", PROGRAMS)
def test_an_unknown_option_is_refused_and_nothing_is_written(suffix, tmp_path):
    with pytest.raises(ExportError, match=r"got the option\(s\) \['colour'\]"):
        write_export(line_of("number"), tmp_path / f"m{suffix}", None, {"colour": "red"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prefix", ["", "1a", "a b", "a-b", "a;", 3, "ä"])
def test_a_prefix_that_is_no_name_of_c_is_refused(prefix, tmp_path):
    with pytest.raises(ExportError, match="prefix: expected a name of letters"):
        write_export(line_of("number"), tmp_path / "m.h", None, {"prefix": prefix})


def test_levels_that_c_cannot_hold_are_refused(tmp_path):
    for text in ("a\0b", "\ud800"):
        column = PortableColumn("x", "category", (PortableLevel(text, None, 0),))
        terms = (PortableTable(0, "level", ((1.0,),), (0.0,)),)
        with pytest.raises(ExportError, match="names and levels that C's texts can hold"):
            write_export(replace(line_of("number"), columns=(column,), terms=terms), tmp_path / "m.h", None, {})
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    for suffix in PROGRAMS:
        with pytest.raises(ExportError, match="expected finite numbers"):
            write_export(replace(line_of("number"), intercept=(math.inf,)), tmp_path / f"m{suffix}", None, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".mjs", ".h"])
def test_a_check_without_the_program_says_which_is_wanted(suffix, tmp_path, monkeypatch):
    model = line_of("number")
    write_export(model, tmp_path / f"m{suffix}", None, {})
    monkeypatch.setenv("PATH", str(tmp_path))
    from sparsenam.export.exporting import largest_difference

    with pytest.raises(ExportError, match=rf"the program {PROGRAMS[suffix]}"):
        largest_difference(model, tmp_path / f"m{suffix}", None, {}, [{"x": 1.0}], np.ones((1, 1)))


def test_types_lie_beside_javascript_under_the_name_that_typescript_looks_for(tmp_path):
    model = replace(line_of("number"), task="classes", link="logit", outputs=("True",), classes=(False, True))
    for suffix, types in ((".mjs", ".d.mts"), (".js", ".d.ts")):
        module, declared = write_export(model, tmp_path / f"m{suffix}", None, {})
        assert declared == module.with_suffix(types)
        assert "export type Prediction = boolean | null;" in declared.read_text("utf-8")
