"""Tables say what the JSON says."""

from paper.fitted import BY_THRESHOLD
from paper.tables import MISSING, Table, comparison_tables, shown


def record(method, seed, status="done", **measures):
    key = {"section": "", "method": method, "seed": seed, "status": status, "chosen": {"alpha": 0.5}}
    return {**key, "measures": measures, "support_rule": "rule", "reason": "it broke"}


def report(records, name="synthetic-regression", quick=False):
    methods = [{"name": method, "kind": "snam", "note": "a note"} for method in ("lasso", "snam-paper", "ebm")]
    recipe = {
        "title": "t",
        "seeds": [0, 1],
        "task": {"dataset": name},
        "methods": methods,
        "measures": ["mse", "accuracy", "alpha"],
    }
    return {"name": name, "quick": quick, "seeds": [0, 1], "recipe": recipe, "records": records}


def rows_of(table):
    return {row[0]: row[1:] for row in table.rows}


def test_cells_are_means_with_standard_deviations_over_splits():
    (table,) = comparison_tables(report([record("lasso", 0, mse=1.0), record("lasso", 1, mse=3.0)]))
    assert rows_of(table)["lasso"][0] == "2 ± 1.4"


def test_records_of_other_seeds_are_not_shown():
    records = [record("lasso", 1, mse=3.0), record("lasso", 7, mse=100.0), record("ebm", 7, status="failed")]
    (table,) = comparison_tables(report(records))
    assert rows_of(table)["lasso"][0] == "3"
    assert "ebm" not in rows_of(table)
    assert any(note.startswith("lasso: 1 split;") for note in table.notes)


def test_seconds_and_the_threshold_are_explained_once():
    records = [record("lasso", 0, mse=1.0), record("ebm", 0, mse=1.0) | {"support_rule": BY_THRESHOLD}]
    whole = report(records)
    whole["recipe"]["measures"] += ["seconds"]
    (table,) = comparison_tables(whole)
    assert sum("search for the tuned settings" in note for note in table.notes) == 1
    assert sum("notebook's" in note for note in table.notes) == 1


def test_records_of_several_versions_have_a_note():
    records = [record("lasso", seed, mse=1.0) | {"versions": {"numpy": f"{seed + 1}.0"}} for seed in (0, 1)]
    (table,) = comparison_tables(report(records))
    assert any("numpy 1.0, 2.0" in note for note in table.notes)
    assert not any("versions" in note for note in comparison_tables(report(records[:1]))[0].notes)


def test_a_solver_that_failed_has_a_row_and_its_reason():
    point = {"epoch": 3, "loss": 1.0, "penalty": 0.5, "features": 2, "seconds": 0.1}
    solvers = [
        {"section": "optimizers", "method": "adam", "seed": 0, "status": "done", "end": point},
        {"section": "optimizers", "method": "gd", "seed": 0, "status": "failed", "reason": "diverged"},
    ]
    whole = report(solvers)
    whole["recipe"]["optimizers"] = {"solvers": ["adam", "gd"], "lambda": 1.0, "max_epochs": 3}
    _, table = comparison_tables(whole)
    assert rows_of(table) == {"adam": ("3", "1.5", "2", "0.1"), "gd": (MISSING,) * 4}
    assert any("gd" in note and "diverged" in note for note in table.notes)
    assert any("3 epochs; the paper's figure has 300" in note for note in table.notes)


def test_one_split_has_no_deviation_and_percent_is_percent():
    (table,) = comparison_tables(report([record("lasso", 0, mse=1.0, accuracy=0.756)]))
    assert rows_of(table)["lasso"] == ("1", "75.6", "0.5")


def test_the_papers_row_stands_below_ours_and_is_the_papers():
    (table,) = comparison_tables(report([record("snam-paper", 0, mse=1.0), record("lasso", 0, mse=2.0)]))
    names = [row[0] for row in table.rows]
    assert names[:4] == ["lasso", "paper: LASSO", "snam-paper", "paper: SNAM"]
    assert rows_of(table)["paper: SNAM"] == ("10.61", MISSING, MISSING)
    assert {"paper: SPAM", "paper: ℓ1 SVM"} <= set(names)


def test_a_failed_method_has_dashes_and_a_footnote_with_the_reason():
    (table,) = comparison_tables(report([record("ebm", 0, status="failed")]))
    assert rows_of(table)["ebm"] == (MISSING, MISSING, MISSING)
    assert any(note.startswith("ebm") and "it broke" in note for note in table.notes)


def test_a_method_that_failed_on_one_split_shows_the_others_and_says_so():
    (table,) = comparison_tables(report([record("ebm", 0, mse=4.0), record("ebm", 1, status="failed")]))
    assert rows_of(table)["ebm"][0] == "4"
    assert any("failed on 1 of 2 splits" in note for note in table.notes)


def test_a_quick_table_says_that_it_is_one():
    assert "quick run" in comparison_tables(report([], quick=True))[0].notes[0]
    assert not any("quick run" in note for note in comparison_tables(report([]))[0].notes)


def test_markdown_has_a_line_for_each_row_and_keeps_bars_out_of_cells():
    text = Table("t", ("a", "b"), (("x|y", "1"), ("z", "2")), ("n",)).markdown()
    assert text.splitlines() == ["## t", "", "| a | b |", "| --- | ---: |", "| x\\|y | 1 |", "| z | 2 |", "", "- n"]


def test_a_table_in_the_terminal_has_aligned_columns_and_its_notes():
    text = Table("t", ("method", "b"), (("x", "1"), ("long name", "22")), ("n",)).text()
    assert text.splitlines() == ["t", "method      b", "x           1", "long name  22", "· n"]
    assert Table("Notes", (), (), ("n",)).text().splitlines() == ["Notes", "· n"]


def test_numbers_have_four_digits():
    assert [shown(value) for value in (127201.0, 0.0123456, 10.61, 0.0)] == ["127201", "0.01235", "10.61", "0"]


def test_every_row_names_the_commit_of_its_records_and_old_ones_say_that_they_name_none():
    records = [record("lasso", 0, mse=1.0) | {"commit": "abc"}, record("lasso", 1, mse=1.0), record("ebm", 0, mse=1.0)]
    notes = comparison_tables(report(records))[0].notes
    assert any(note.startswith("lasso") and "commit: abc, not recorded" in note for note in notes)
    assert any(note.startswith("ebm") and "commit: not recorded" in note for note in notes)
