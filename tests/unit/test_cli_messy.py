"""Messy files through the commands: as they come from spreadsheets, databases and pipes."""

import io
import json

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam.cli.app import app
from sparsenam.cli.tables import read_file
from sparsenam.errors import InputError

ROWS = 240


def invoke(*words, given=None):
    return CliRunner().invoke(app, [str(word) for word in words], input=given)


def comma(values, digits=2, unit=""):
    """Return numbers as they are written in Berlin."""
    return [f"{value:,.{digits}f}{unit}".translate(str.maketrans(",.", ".,")) for value in values]


def messy(seed=0):
    """Return columns of text: an index, an identifier, blanks, decimal commas, dates, a currency and missing cells."""
    random = np.random.default_rng(seed)
    size, income = random.uniform(40.0, 200.0, ROWS), random.uniform(900.0, 9000.0, ROWS)
    zone = random.choice(["north", "south", "east"], ROWS)
    day = np.datetime64("2023-01-01") + random.integers(0, 600, ROWS)
    price = 3.0 * size + 80.0 * (zone == "north") + income / 100.0 + random.normal(size=ROWS)
    cells = {
        "": [str(row) for row in range(ROWS)],
        "ref": [f"K-{7 * row:05}" for row in range(ROWS)],
        " size ": comma(size),
        "zone": [f" {name}" if row % 3 else f"{name} " for row, name in enumerate(zone)],
        "income": comma(income, unit=" €"),
        "sold": [f"{one.astype(object).day}.{one.astype(object).month}.{one.astype(object).year}" for one in day],
    }
    for name in (" size ", "zone", "income", "sold"):
        for row in random.choice(ROWS, ROWS // 10, replace=False):
            cells[name][row] = random.choice(["", " ", "NA"])
    return cells | {"price": comma(price)}


def written(path, cells, separator=";", encoding="utf-8"):
    lines = [separator.join(cells), *(separator.join(row) for row in zip(*cells.values(), strict=True))]
    path.write_bytes("\n".join([*lines, ""]).encode(encoding))
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messy")
    path = written(folder / "a.csv", messy(), encoding="cp1252")
    result = invoke("fit", path, "--target", "price", "--drop", "ref", "--out", folder / "m")
    assert result.exit_code == 0, result.output
    return folder, path, result


def test_a_messy_file_is_fitted_in_one_command(fitted):
    folder, _, result = fitted
    assert "The first column, without a name, numbers the rows: left out." in result.stderr
    assert "Not UTF-8: read as Latin-1" in result.stderr
    metrics = json.loads((folder / "m" / "metrics.json").read_text())
    assert {"size", "zone", "income"} <= set(metrics["kept"]) and metrics["columns"] == 4
    assert metrics["test"]["r2"] > 0.8
    columns = {column.name: column for column in sparsenam.load(folder / "m" / "model.snam").encoder_.columns}
    assert {name: (column.kind, column.writing) for name, column in columns.items()} == {
        "size": ("number", "comma"),
        "zone": ("category", "plain"),
        "income": ("number", "comma"),
        "sold": ("date", "day first"),
    }
    assert set(columns["zone"].levels) == {"north", "south", "east"}


def test_a_stray_text_is_found_before_the_fit_in_every_row_and_nothing_is_left_behind(tmp_path):
    for row, words in ((5, ()), (100, ()), (170, ("--test", "0.5")), (200, ("--types", "income=number"))):
        cells = messy()
        cells["income"][row] = "unknown"
        path = written(tmp_path / "a.csv", cells)
        result = invoke("fit", path, "--target", "price", "--drop", "ref", "--out", tmp_path / "m", *words)
        assert result.exit_code == 2 and not (tmp_path / "m").exists()
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("sparsenam: ")]
        assert f"{path}: column 'income'" in line and f"the text 'unknown' in row {row}" in line
        assert "--types income=category" in line and "feature_types" not in line
    result = invoke("fit", path, "--target", "price", "--drop", "ref,income", "--alpha", "0.5", "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output


def test_a_stray_text_leaves_an_older_model_as_it_was(fitted, tmp_path):
    folder, _, _ = fitted
    before = {file.name: file.read_bytes() for file in (folder / "m").iterdir()}
    cells = messy()
    cells["income"][9] = "much"
    bad = written(tmp_path / "bad.csv", cells)
    assert invoke("fit", bad, "--target", "price", "--drop", "ref", "--out", folder / "m").exit_code == 2
    assert {file.name: file.read_bytes() for file in (folder / "m").iterdir()} == before


@pytest.mark.parametrize("kind", ["utf-16", "utf-8-sig", "tsv", "jsonl", "xlsx", "parquet", "stdin"])
def test_every_kind_of_file_predicts_the_same(kind, fitted, tmp_path):
    folder, path, _ = fitted
    cells = messy()
    stripped = {name.strip(): column for name, column in cells.items() if name}
    given = None
    if kind in ("utf-16", "utf-8-sig"):
        file = written(tmp_path / "b.csv", cells, encoding=kind)
    elif kind == "tsv":
        file = written(tmp_path / "b.tsv", cells, "\t")
    elif kind == "jsonl":
        file = tmp_path / "b.jsonl"
        rows = [dict(zip(stripped, row, strict=True)) for row in zip(*stripped.values(), strict=True)]
        file.write_text("\n".join(json.dumps(row) for row in rows))
    elif kind == "xlsx":
        file, book = tmp_path / "b.xlsx", openpyxl.Workbook()
        for row in (list(cells), *zip(*cells.values(), strict=True)):
            book.active.append([cell or None for cell in row])
        book.save(file)
    elif kind == "parquet":
        file = tmp_path / "b.parquet"
        pl.DataFrame({f" {name}": column for name, column in stripped.items()}).write_parquet(file)
    else:
        file, given = "-", path.read_bytes()
    expected = _predictions(folder / "m" / "model.snam", path, tmp_path / "p.csv")
    assert _predictions(folder / "m" / "model.snam", file, tmp_path / "q.csv", given) == expected


def _predictions(model, file, out, given=None):
    result = invoke("predict", model, file, "--out", out, given=given)
    assert result.exit_code == 0, result.output
    assert "Not used by the model: ref" in result.stderr
    return read_file(out).texts("prediction")


def test_predictions_go_to_stdout_and_to_parquet_with_numbers(fitted, tmp_path):
    folder, path, _ = fitted
    model, out = folder / "m" / "model.snam", tmp_path / "p.parquet"
    result = invoke("predict", model, "-", "--out", "-", given=path.read_bytes())
    assert result.exit_code == 0 and f"{ROWS} predictions: -" in result.stderr
    piped = pd.read_csv(io.StringIO(result.stdout))
    assert invoke("predict", model, path, "--out", out, "--intervals", "0.9").exit_code == 0
    table = pl.read_parquet(out)
    np.testing.assert_allclose(table["prediction"], piped["prediction"])
    assert (
        table.schema["size"] == pl.Float64 and table.schema["ref"] == pl.String and "prediction_lower" in table.columns
    )
    again = tmp_path / "q.parquet"
    for words in ((), ("--intervals", "0.9")):
        assert invoke("predict", model, out, "--out", again, *words).exit_code == 0
        np.testing.assert_allclose(pl.read_parquet(again)["prediction_"], table["prediction"])


def test_a_column_without_any_known_level_is_an_error_and_some_unseen_are_a_warning(fitted, tmp_path):
    folder, _, _ = fitted
    cells = messy()
    cells["zone"] = [f"{cell.strip()}ern" for cell in cells["zone"]]
    path, out = written(tmp_path / "a.csv", cells), tmp_path / "p.csv"
    result = invoke("predict", folder / "m" / "model.snam", path, "--out", out)
    assert result.exit_code == 2 and not out.exists()
    assert "column 'zone': all" in result.stderr and "'northern'" in result.stderr and "'north'" in result.stderr
    cells = messy()
    cells["zone"][:2] = ["west", " west "]
    result = invoke("predict", folder / "m" / "model.snam", written(path, cells), "--out", out)
    assert result.exit_code == 0
    assert "column 'zone': 1 level(s) never seen during the fit contribute nothing: 'west', in 2 of" in result.stderr


def test_drop_leaves_columns_out_of_fit_and_path_and_must_name_them(fitted, tmp_path):
    _, path, _ = fitted
    result = invoke("path", path, "--target", "price", "--drop", "ref, sold", "--json")
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["entry_order"]) <= {"size", "zone", "income"}
    for words, message in (
        (("--drop", "reff"), "'reff'"),
        (("--drop", "price"), "--drop: expected columns that are not used"),
        (("--drop", "ref,zone", "--keep", "zone"), "--drop"),
    ):
        for command in ("fit", "path"):
            more = ("--out", tmp_path / "m") if command == "fit" else ()
            result = invoke(command, path, "--target", "price", *words, *more)
            assert result.exit_code == 2 and message in result.stderr
    assert not (tmp_path / "m").exists()


def test_an_index_that_pandas_wrote_and_read_again_is_left_out_unless_it_is_no_index(tmp_path):
    frame = pd.DataFrame({"Unnamed: 0": range(5, 8), "a": list("xyz")})
    frame.to_csv(tmp_path / "a.csv", index=False)
    table = read_file(tmp_path / "a.csv", used=("a",))
    assert table.names == ("a",) and "'Unnamed: 0', numbers the rows" in table.notes[0]
    assert read_file(tmp_path / "a.csv", used=("a", "Unnamed: 0")).names == ("Unnamed: 0", "a")
    assert read_file(tmp_path / "a.csv").names == ("Unnamed: 0", "a")
    frame.assign(**{"Unnamed: 0": [1, 1, 2]}).to_csv(tmp_path / "a.csv", index=False)
    assert read_file(tmp_path / "a.csv", used=()).names == ("Unnamed: 0", "a")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"a": 1}\n[1]\n', "something else in line 2"),
        ('{"a": 1}\n{"a": \n', "something else in line 2"),
        ('{"a": {"b": 1}}\n', "several under 'a' in line 1"),
        ('{"a": 1, " a": 2}\n', "'a' twice in line 1"),
        ("", "no rows"),
    ],
)
def test_damaged_json_lines_are_an_error_that_names_the_line(content, words, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(InputError, match=words):
        read_file(path)


def test_json_lines_keep_numbers_as_written_and_miss_what_is_not_there(tmp_path):
    path = tmp_path / "a.ndjson"
    path.write_text('{"a": 1.50, "b": "007", "c": true}\n\n{"b": null, "a": 2, "d": "x"}\n')
    table = read_file(path)
    assert {name: table.texts(name) for name in table.names} == {
        "a": ["1.50", "2"],
        "b": ["007", ""],
        "c": ["True", ""],
        "d": ["", "x"],
    }


def test_a_workbook_has_its_types_as_text_and_its_first_sheet(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["a", "day", None])
    book.active.append([1.0, pd.Timestamp("2024-01-31").to_pydatetime(), None])
    book.active.append([2.5, None, None])
    book.create_sheet("more")
    book.save(tmp_path / "a.xlsx")
    table = read_file(tmp_path / "a.xlsx")
    assert {name: table.texts(name) for name in table.names} == {"a": ["1", "2.5"], "day": ["2024-01-31", ""]}
    assert table.notes == ("Of 2 sheets the first, 'Sheet', was read.",)
    (tmp_path / "b.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    with pytest.raises(InputError, match="an Excel workbook"):
        read_file(tmp_path / "b.xlsx")
    with pytest.raises(InputError, match="--max-bytes"):
        read_file(tmp_path / "a.xlsx", 3000)


@pytest.mark.parametrize(("before", "after"), [("sep=;\n", ""), ("", "   \n"), ("", "\x1a"), ("\n", "\n\n")])
def test_lines_that_hold_no_row_are_passed_over(tmp_path, before, after):
    path = tmp_path / "table.csv"
    path.write_text(before + "a;b\n1;2\n3;4\n" + after, encoding="utf-8")
    read = read_file(path)
    assert read.names == ("a", "b") and read.n_rows == 2


def test_a_target_of_texts_that_are_nearly_all_different_is_no_set_of_classes(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,y\n" + "".join(f"{row},x{row}.5\n" for row in range(60)), encoding="utf-8")
    result = invoke("fit", path, "--target", "y", "--out", tmp_path / "out")
    assert result.exit_code == 2 and "60 different texts in 60 rows" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_column_that_is_the_target_under_another_name_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    labels = ["yes" if row % 3 else "no" for row in range(60)]
    path.write_text("a,again,y\n" + "".join(f"{row},{label},{label}\n" for row, label in enumerate(labels)))
    result = invoke("fit", path, "--target", "y", "--out", tmp_path / "out")
    assert result.exit_code == 2 and "got y itself as 'again'" in result.stderr
