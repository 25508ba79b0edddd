"""Tables that the commands read and write: damaged and hostile files, rows in errors, and texts for terminals."""

import gzip
import io
import json
import os
import re
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam.cli.app import app
from sparsenam.cli.display import say, say_json
from sparsenam.cli.tables import FileTable, read_file, write_table
from sparsenam.cli.text_files import read_lines
from sparsenam.errors import InputError


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def numbers(rows=60, seed=0, **more):
    """Return columns of text of which x decides y."""
    random = np.random.default_rng(seed)
    x, z = random.normal(size=(2, rows))
    cells = {"x": x, "z": z, "y": 2 * x + 0.1 * random.normal(size=rows)}
    return {name: [f"{cell:.5f}" for cell in column] for name, column in cells.items()} | more


def as_csv(cells):
    return "\n".join([",".join(cells), *(",".join(row) for row in zip(*cells.values(), strict=True))]) + "\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('a,b\n1,2\n3,"4\n5,6\n7,8\n', "opens in line 3 and never closes"),
        ('a,b\n1,2\n"x\ny","4\n5,6\n', "opens in line 4 and never closes"),
        ('a,b\n1,2\n3,"4\n5,6\n7,"8"\n', "opens in line 3 and closes before its cell ends"),
        ('a,"b\n1,2\n', "opens in line 1 and never closes"),
        ('a,b\n"1" ,2\n"3" ,"4" x\n', "opens in line 3 and closes before its cell ends"),
        ('a,b\n"1" ,"2\n3" ,"4" \n', "got 3 in line 2"),
        ("a,b\n1,2\n3\n4,5\n", "expected 2 cells in every line, as in the header, got 1 in line 3"),
        ("a,b\n1,2\n3,4,5\n", "got 3 in line 3"),
        ("\n\na,b\r\n1,2\r\n\r\n3,4,5\r\n", "got 3 in line 6"),
        ('a,b\n"1\r\n\n",2\n"3\n4",4,5\n', "got 3 in line 5"),
        (b"a,b\n1,\xc3\xa9\n\xff,3\n", "another encoding in line 3"),
        (b"a,b\n1,2\n\xff\x00,3\n", "another encoding in line 3"),
        ("a,,b\n1,2,3\n", "a column without a name"),
    ],
)
def test_a_damaged_text_file_is_an_error_that_names_file_and_line(content, words, tmp_path):
    path = written(tmp_path / "a.csv", content)
    with pytest.raises(InputError, match=words) as caught:
        read_file(path)
    assert str(caught.value).startswith(f"{path}: expected")


@pytest.mark.parametrize(
    ("content", "cells"),
    [
        ('a,b\n"1,5","say ""hi"""\n5" pipe,x"y"\n', {"a": ["1,5", '5" pipe'], "b": ['say "hi"', 'x"y"']}),
        ('a;b\n"1\n2";""\n;"\r\n"\n', {"a": ["1\n2", ""], "b": ["", "\r\n"]}),
        ("a,b\r1,2\r3,4", {"a": ["1", "3"], "b": ["2", "4"]}),
        ("\ufeffa\tb\n\n1\t \n", {"a": ["1"], "b": [""]}),
        (b"a,b\n1,\xe9t\xe9\n2,\x80\n", {"a": ["1", "2"], "b": ["été", "€"]}),
        ("a;b\r\n1,5;ü\r\n".encode("utf-16"), {"a": ["1,5"], "b": ["ü"]}),
        ("a;b\n1,5;ü\n".encode("utf-16-be").join([b"\xfe\xff", b""]), {"a": ["1,5"], "b": ["ü"]}),
        ('a, "b, c"\n1, "x, y"\n', {"a": ["1"], "b, c": ["x, y"]}),
        (
            'a, "b" ,c\n1, "lv 3" ,2\n"x" ,"y ""z"" "   ,""  \n',
            {"a": ["1", "x"], "b": ["lv 3", 'y "z" '], "c": ["2", ""]},
        ),
        ('a;b\n"1 ; "" \n "" ; 2"  ;"3" \r\n5" ;"4"\n', {"a": ['1 ; " \n " ; 2', '5" '], "b": ["3", "4"]}),
        ("price (a, b);z\n1,5;2\n", {"price (a, b)": ["1,5"], "z": ["2"]}),
        ("a;b;\n1;2;\n", {"a": ["1"], "b": ["2"]}),
        (",a\n0,5\n1,6\n", {"": ["0", "1"], "a": ["5", "6"]}),
        ("a\n1\n\n2\n", {"a": ["1", "2"]}),
    ],
)
def test_what_a_text_file_may_hold(content, cells, tmp_path):
    table = read_file(written(tmp_path / "a.csv", content))
    assert {name: table.texts(name) for name in table.names} == cells


def test_an_unclosed_quotation_mark_fits_nothing(tmp_path):
    lines = as_csv(numbers(400)).splitlines()
    lines[81] = '"' + lines[81]
    result = invoke("fit", written(tmp_path / "a.csv", "\n".join(lines)), "--target", "y", "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert "line 82" in result.stderr and not (tmp_path / "m").exists()


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_in_memory(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 5_000_000, compresslevel=1))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"at most 200,000 bytes once unpacked.*--max-bytes"):
            read_file(path, 200_000)
        assert tracemalloc.get_traced_memory()[1] < 15e6
    finally:
        tracemalloc.stop()
    result = invoke("fit", path, "--target", "b", "--max-bytes", "1000000", "--out", tmp_path / "m")
    assert result.exit_code == 2 and "bomb.csv.gz" in result.stderr and "--max-bytes" in result.stderr


def test_equal_cells_share_their_memory(tmp_path):
    read = read_lines(tmp_path / "a.csv", b"a,b\n" + b"12.5,\n" * 20_000, None)
    repeated, empty = read.columns
    assert read.names == ["a", "b"] and len({id(cell) for cell in repeated}) == 1 and set(empty) == {None}


def test_a_parquet_file_is_refused_by_the_number_of_its_cells(tmp_path):
    path = tmp_path / "bomb.parquet"
    pl.select(pl.repeat(1, 1_000_000).alias("a")).write_parquet(path)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=r"at most 1,000,000 bytes once unpacked, got 8,000,000; raise --max-bytes"):
        read_file(path, 1_000_000)
    assert read_file(path).n_rows == 1_000_000


def test_a_limit_that_is_reached_but_not_passed_is_no_error(tmp_path):
    content = b"a\n1\n2\n"
    for name, packed in (("a.csv", content), ("a.csv.gz", gzip.compress(content))):
        assert read_file(written(tmp_path / name, packed), len(content)).n_rows == 2
        with pytest.raises(InputError):
            read_file(tmp_path / name, len(content) - 1)


def test_fit_opens_the_file_once(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv", as_csv(numbers()))
    usual, opened = io.open, []

    def counting(file, *more, **options):
        opened.append(str(file))
        return usual(file, *more, **options)

    monkeypatch.setattr(io, "open", counting)
    result = invoke("fit", path, "--target", "y", "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert opened.count(str(path)) == 1


@pytest.mark.parametrize("test", ["0", "0.5"])
def test_an_error_names_the_row_in_the_file_and_the_file(test, tmp_path):
    cells = numbers()
    cells["y"][3] = cells["y"][8] = ""
    cells["x"][50] = "inf"
    path = written(tmp_path / "a.csv", as_csv(cells))
    result = invoke("fit", path, "--target", "y", "--test", test, "--out", tmp_path / "m")
    assert result.exit_code == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("sparsenam: ")]
    assert line.startswith(f"sparsenam: {path}: column 'x'") and "in row 50" in line


@pytest.mark.parametrize("test", ["0", "0.2"])
def test_a_warning_names_the_row_in_the_file(test, tmp_path):
    cells = numbers()
    cells["y"][3] = cells["y"][8] = ""
    for index in range(50, 60):  # some of them are in the training part
        cells["x"][index] = f"1e{index}"
    path = written(tmp_path / "a.csv", as_csv(cells))
    before = warnings.showwarning
    result = invoke("fit", path, "--target", "y", "--test", test, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    found = re.search(r"warning: cells beyond reason: 1e\+(\d+) in row (\d+) of column 'x'", result.stderr)
    assert found is not None, result.stderr
    assert found[1] == found[2]
    assert warnings.showwarning is before


def test_an_error_at_prediction_names_the_row_in_the_file(tmp_path):
    path = written(tmp_path / "a.csv", as_csv(numbers()))
    assert invoke("fit", path, "--target", "y", "--out", tmp_path).exit_code == 0
    cells = numbers()
    cells["x"][50] = "much"
    bad, model = written(tmp_path / "bad.csv", as_csv(cells)), tmp_path / "model.snam"
    for words in (
        ("predict", model, bad, "--out", tmp_path / "p.csv"),
        ("explain", model, bad, "--rows", "7,50"),
        ("audit", model, bad, "--target", "y"),
        ("report", model, bad, "--out", tmp_path / "r.html"),
    ):
        result = invoke(*words)
        assert result.exit_code == 2, result.output
        assert f"{bad}: column 'x'" in result.stderr and "in row 50" in result.stderr, words


def test_one_text_among_numeric_targets_is_an_error_with_its_row(tmp_path):
    cells = numbers(81)
    cells["y"][5], cells["y"][70] = "", "abc"
    path = written(tmp_path / "a.csv", as_csv(cells))
    for words, expected in (((), "numbers, or classes"), (("--task", "regression"), "numbers")):
        result = invoke("fit", path, "--target", "y", "--out", tmp_path / "m", *words)
        assert result.exit_code == 2
        assert f"expected {expected}, got the text 'abc' in row 70" in result.stderr
        assert str(path) in result.stderr
    cells["y"] = [f"2024-01-{1 + index % 28:02}" for index in range(80)] + ["soon"]
    result = invoke("fit", written(path, as_csv(cells)), "--target", "y", "--out", tmp_path / "m")
    assert result.exit_code == 2 and "the text 'soon' in row 80" in result.stderr


def test_classes_that_look_like_numbers_beside_texts_stay_classes(tmp_path):
    cells = numbers(80)
    cells["y"] = (["1", "2", "3", "4+"] * 20)[:80]
    result = invoke("fit", written(tmp_path / "a.csv", as_csv(cells)), "--target", "y", "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "the target holds 4 classes" in result.stdout


def test_no_name_level_or_label_commands_the_terminal(tmp_path):
    evil = "\x1b[31m\x9b2Jred\u202e\x07"
    cells = numbers(80)
    high = np.array(cells["y"], dtype=float) > 0
    cells[evil] = [evil if value else "calm" for value in high]
    cells["label"] = [evil if value else "no" for value in high]
    del cells["y"]
    path, out = written(tmp_path / "a.csv", as_csv(cells)), tmp_path / "m"
    results = [invoke("fit", path, "--target", "label", "--alpha", "0.1", "--keep", evil, "--out", out)]
    model = out / "model.snam"
    results += [
        invoke("explain", model),
        invoke("explain", model, "--json"),
        invoke("explain", model, path, "--rows", "0"),
    ]
    results += [invoke("predict", model, path, "--target", evil), invoke("fit", path, "--target", evil + "x")]
    results += [invoke("explain", model, path, "--rows", "0", "--json"), invoke("predict", model, tmp_path / evil)]
    assert [result.exit_code for result in results[:4]] == [0, 0, 0, 0], [result.output for result in results]
    for result in results:
        assert not set(result.output) & set("\x1b\x9b\u202e\x07"), result.output
    assert "\\x1b[31m\\x9b2Jred\\u202e" in results[0].output
    names = [feature["name"] for feature in json.loads(results[2].stdout)["features"]]
    assert evil in names  # in JSON it is an escape, and the name is the same when it is read


def test_lines_and_json_are_written_without_commands(capsys):
    say("a\x1bb\nc\td")
    say_json({"\x7f": "\u2066\x85"})
    shown = capsys.readouterr().out
    assert shown.startswith("a\\x1bb\nc\td\n")
    assert '"\\u007f": "\\u2066\\u0085"' in shown


def test_labels_that_a_spreadsheet_would_run_are_quoted_where_that_is_asked_for(tmp_path):
    table = FileTable({"=1+1": ["-3.5", "@sum", "+"], "b": ["", "a=1", "-x"]})
    for quoted in (False, True):
        write_table(tmp_path / "p.csv", table, {"prediction": ["=2", "1e5", "\tx"]}, quote_formulas=quoted)
        found = read_file(tmp_path / "p.csv")
        mark = "'" if quoted else ""
        assert found.names == (f"{mark}=1+1", "b", "prediction")
        assert found.texts(f"{mark}=1+1") == ["-3.5", f"{mark}@sum", f"{mark}+"]
        assert found.texts("b") == ["", "a=1", f"{mark}-x"]
        assert found.texts("prediction") == [f"{mark}=2", "1e5", f"{mark}\tx"]


def test_predict_quotes_formulas_with_a_flag(tmp_path):
    cells = numbers(80)
    cells["y"] = ["=1+1" if float(cell) > 0 else "no" for cell in cells["y"]]
    path = written(tmp_path / "a.csv", as_csv(cells))
    assert invoke("fit", path, "--target", "y", "--out", tmp_path).exit_code == 0
    words = ("predict", tmp_path / "model.snam", path, "--out", tmp_path / "p.csv")
    for more, labels in (((), {"=1+1", "no"}), (("--quote-formulas",), {"'=1+1", "no"})):
        assert invoke(*words, *more).exit_code == 0
        assert set(read_file(tmp_path / "p.csv").texts("prediction")) == labels


def test_a_new_model_never_stands_beside_an_older_report(tmp_path, monkeypatch):
    path, out = written(tmp_path / "a.csv", as_csv(numbers())), tmp_path / "m"
    assert invoke("fit", path, "--target", "y", "--out", out).exit_code == 0
    older, usual = (out / "model.snam").read_bytes(), os.replace
    out.chmod(0o750)
    (out / "model.snam").chmod(0o640)

    def stopped(source, target):
        if Path(target).name == "report.html":
            raise KeyboardInterrupt
        usual(source, target)

    monkeypatch.setattr(os, "replace", stopped)
    result = invoke("fit", path, "--target", "y", "--out", out, "--seed", "1")
    assert result.exit_code == 130 and "is complete, its report is not" in result.stderr
    assert (out / "model.snam").read_bytes() != older
    assert (out / "model.snam").stat().st_mode & 0o777 == 0o640
    assert not (out / "report.html").exists() and not (out / "metrics.json").exists()
    assert not [file for file in out.iterdir() if file.name.endswith(".part")]
    assert sparsenam.load(out / "model.snam").random_state == 1


def test_rows_that_are_taken_are_read_as_if_they_were_the_table():
    columns = {"a": ["x", "NA", "y", None, " x", "z"], "b": ["1", "2", "", "4", "5", "6"]}
    rows = np.array([5, 1, 2, 4, 5], dtype=np.intp)
    expected = FileTable({name: [cells[row] for row in rows] for name, cells in columns.items()})
    whole = FileTable(columns)
    frame = whole.native
    for taken in (FileTable(columns).take(rows), whole.take(rows), whole.select(["b", "a"]).take(rows)):
        for name in columns:
            found, cells = taken.cells(name), expected.cells(name)
            assert found.values == cells.values and found.codes.tolist() == cells.codes.tolist()
    assert frame.shape == (6, 2) and frame[rows].shape == (5, 2) and frame[1:3].shape == (2, 2)
    assert frame[rows].columns[0].values == expected.cells("a").values
