"""Names, weights, quantiles, ranges of rows and advice: what the command is told, and what it says."""

import json
from html import unescape

import numpy as np
import polars as pl
import pytest

import sparsenam
from cli_cases import houses_table, invoke, write_csv
from sparsenam.cli import run
from sparsenam.cli.display import plain_number
from sparsenam.cli.measure import candidate
from sparsenam.cli.models import as_rows
from sparsenam.errors import InputError, describe, nearest


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    cells = houses_table()
    cells["persons"] = [str(value) for value in np.random.default_rng(1).integers(0, 3, 120)]
    return write_csv(tmp_path_factory.mktemp("names") / "houses.csv", cells)


@pytest.fixture(scope="module")
def weighted(houses):
    folder = houses.parent / "weighted"
    result = invoke("fit", houses, "--target", "price", "--weights", "persons", "--out", folder)
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("--target", "Price"), "price"),
        (("--target", "prise"), "price"),
        (("--target", "price", "--weights", "person"), "persons"),
        (("--target", "price", "--task", "regresion"), "regression"),
        (("--target", "price", "--family", "gama"), "gamma"),
        (("--target", "price", "--family", "posson"), "poisson"),
        (("--target", "price", "--rule", "compct"), "compact"),
        (("--target", "price", "--heredity", "stron"), "strong"),
        (("--target", "price", "--keep", "sise"), "size"),
        (("--target", "price", "--types", "zonee=category"), "zone"),
        (("--target", "price", "--types", "zone=categry"), "category"),
        (("--target", "price", "--shape", "agee=increasing"), "age"),
        (("--target", "price", "--shape", "age=incresing"), "increasing"),
        (("--target", "price", "--pair", "size,agee"), "age"),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else value,
)
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(words, meant, houses, tmp_path):
    result = invoke("fit", houses, *words, "--out", tmp_path)
    assert result.exit_code == 2, result.output
    assert f"did you mean {meant!r}?" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_table_that_lacks_a_kept_column_is_answered_with_the_one_that_was_meant(weighted, houses, tmp_path):
    cells = houses_table()
    renamed = write_csv(tmp_path / "renamed.csv", {name.replace("size", "Size "): cells[name] for name in cells})
    result = invoke("predict", weighted / "model.snam", renamed, "--out", tmp_path / "out.csv")
    assert result.exit_code == 2 and "did you mean 'Size' for 'size'?" in result.stderr
    lacking = write_csv(tmp_path / "lacking.csv", {name: cells[name] for name in cells if name != "size"})
    result = invoke("predict", weighted / "model.snam", lacking, "--out", tmp_path / "out.csv")
    assert result.exit_code == 2 and "got none of 'size'; add or rename these columns." in result.stderr


@pytest.mark.parametrize("words", [("--intervals", "90"), ("--intervals", "95.5")])
def test_a_level_in_per_cent_is_answered_with_the_share_that_was_meant(words, weighted, houses, tmp_path):
    result = invoke("predict", weighted / "model.snam", houses, *words, "--out", tmp_path / "out.csv")
    share = float(words[1]) / 100
    assert result.exit_code == 2 and f"write {share:g} for {words[1]} %." in result.stderr
    assert not (tmp_path / "out.csv").exists()


def test_a_fit_names_what_it_dropped_the_first_few_of_many(houses, tmp_path):
    cells = houses_table() | {f"noise {index}": houses_table(seed=index + 1)["noise"] for index in range(9)}
    cells["code"] = [f"id {row}" for row in range(120)]
    words = ("--target", "price", "--out", tmp_path / "many", "--max-features", "2")
    result = invoke("fit", write_csv(tmp_path / "many.csv", cells), *words)
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("dropped: ")]
    assert line.startswith("dropped: 12 (") and line.endswith(" …)") and line.count(",") == 7
    assert "--types code=category would keep it" in result.stderr
    result = invoke("fit", houses, "--target", "price", "--drop", "persons", "--out", tmp_path / "few")
    assert "dropped: 1 (noise)" in result.stdout.splitlines()


def test_settings_are_named_as_the_options_that_they_are(houses, tmp_path):
    for words, said in (
        (("--keep", "sise"), "--keep: expected names"),
        (("--shape", "sise=increasing"), "--shape: expected names"),
        (("--types", "sise=number"), "--types: expected names"),
        (("--max-features", "0"), "--max-features: expected a whole number"),
    ):
        result = invoke("fit", houses, "--target", "price", *words, "--out", tmp_path)
        assert result.exit_code == 2 and f"sparsenam: {said}" in result.stderr


def test_a_few_whole_numbers_may_be_classes_measures_or_counts(tmp_path):
    cells = houses_table(300)
    cells["price"] = [str(value) for value in np.random.default_rng(0).poisson(1.5, 300).clip(0, 4)]
    result = invoke("fit", write_csv(tmp_path / "counts.csv", cells), "--target", "price", "--out", tmp_path / "out")
    assert "--task regression if they measure, --task count if they count" in result.stdout


def test_texts_of_hardly_any_rows_each_are_classes_only_where_that_is_said(tmp_path):
    cells = houses_table(120)
    cells["price"] = [f"{row % 50} mg" for row in range(120)]
    table, words = write_csv(tmp_path / "units.csv", cells), ("--target", "price", "--out", tmp_path / "out")
    result = invoke("fit", table, *words)
    assert result.exit_code == 2 and "50 different texts in 120 rows, such as '0 mg'" in result.stderr
    cells["price"] = [f"{row % 40} mg" for row in range(120)]
    result = invoke("fit", write_csv(table, cells), *words, "--max-seconds", "1")
    assert result.exit_code == 0 and "40 classes that are no numbers" in result.stdout


def test_classes_that_differ_by_capitals_only_are_said(tmp_path):
    cells = houses_table(300)
    cells["price"] = [["yes", "No", "YES", "no", "maybe"][row % 5] for row in range(300)]
    result = invoke("fit", write_csv(tmp_path / "spelt.csv", cells), "--target", "price", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Classes of 'price' that differ by capitals only: 'No' and 'no', 'YES' and 'yes'." in result.stderr


def test_a_fit_names_fill_values_and_rows_of_two_classes_have_probabilities(tmp_path):
    cells = houses_table(300)
    cells["size"] = ["-999" if row % 3 == 0 else cell for row, cell in enumerate(cells["size"])]
    cells["price"] = [str(float(cell) > 350) for cell in cells["price"]]
    table = write_csv(tmp_path / "dear.csv", cells)
    result = invoke("fit", table, "--target", "price", "--out", tmp_path)
    assert "note: Values far from all others of their column: 'size' has -999 in " in result.stdout
    assert "Probability of price = 'True': " in unescape((tmp_path / "report.html").read_text())
    result = invoke("explain", tmp_path / "model.snam", table, "--rows", "0")
    assert "row 0: probability of price = 'True' 0." in result.stdout


def test_predictions_of_rates_without_their_exposure_are_said_to_be_for_one(tmp_path):
    random, cells = np.random.default_rng(0), houses_table(300)
    cells["years"] = [f"{value:.2f}" for value in random.uniform(0.2, 2, 300)]
    cells["price"] = [str(value) for value in random.poisson([2 * float(value) for value in cells["years"]])]
    table = write_csv(tmp_path / "rates.csv", cells)
    words = ("--target", "price", "--task", "count", "--exposure", "years", "--out", tmp_path / "out")
    assert invoke("fit", table, *words).exit_code == 0
    result = invoke("predict", tmp_path / "out" / "model.snam", table, "--out", tmp_path / "p.csv")
    assert "Predictions are for an exposure of 1; --exposure years would take the column of the fit." in result.stderr
    words = ("--exposure", "years", "--out", tmp_path / "p.csv")
    result = invoke("predict", tmp_path / "out" / "model.snam", table, *words)
    assert result.exit_code == 0 and "exposure of 1" not in result.stderr


def test_a_name_like_no_other_gets_the_usual_advice():
    assert nearest("qqq", ["price", "size"], "correct the name") == "correct the name"
    assert nearest(3, ["3"], "correct the name") == "correct the name"
    assert describe("rule", "one", "two", "did you mean 'best'?").endswith("'best'?")


def test_weights_count_rows_in_the_fit_and_in_the_test_error(houses, weighted):
    metrics = json.loads((weighted / "metrics.json").read_text(encoding="utf-8"))
    model = sparsenam.load(weighted / "model.snam")
    assert "persons" not in model.feature_names_in_
    assert model.summary_.data.rows < metrics["rows"]["fit"]  # rows of weight 0 do not count
    doubled = write_csv(
        houses.parent / "twice.csv",
        {
            name: [cell for cell, count in zip(cells, persons_of(houses), strict=True) for _ in range(count)]
            for name, cells in houses_table().items()
        },
    )
    out = houses.parent / "twice"
    given = ("--target", "price", "--alpha", "0.01", "--test", "0")
    assert invoke("fit", doubled, *given, "--out", out).exit_code == 0
    assert invoke("fit", houses, *given, "--weights", "persons", "--out", weighted.parent / "fixed").exit_code == 0
    one, other = (sparsenam.load(folder / "model.snam") for folder in (out, weighted.parent / "fixed"))
    assert list(one.get_feature_names_out()) == list(other.get_feature_names_out())


def persons_of(houses):
    lines = houses.read_text(encoding="utf-8").splitlines()
    return [int(line.split(",")[-1]) for line in lines[1:]]


@pytest.mark.parametrize("command", ["stability", "alternatives", "audit"])
def test_weights_are_told_to_the_commands_that_ask_about_a_table(command, houses, weighted, monkeypatch):
    seen, usual = {}, getattr(sparsenam.SNAMRegressor, command)

    def watched(self, *given, **more):
        seen.update(more)
        return usual(self, *given, **more)

    monkeypatch.setattr(sparsenam.SNAMRegressor, command, watched)
    more = ("--pairs", "2") if command == "stability" else ("--most", "2") if command == "alternatives" else ()
    words = (command, weighted / "model.snam", houses, "--target", "price", "--weights", "persons", *more)
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert seen["sample_weight"].tolist() == persons_of(houses)


def test_a_negative_weight_is_named_with_its_row(tmp_path):
    cells = houses_table(40) | {"w": ["1"] * 7 + ["-2"] + ["1"] * 32}
    result = invoke("fit", write_csv(tmp_path / "a.csv", cells), "--target", "price", "--weights", "w")
    assert result.exit_code == 2
    assert "-2 in row 7" in result.stderr


def test_a_quantile_is_above_its_share_of_the_rows(tmp_path):
    random = np.random.default_rng(0)
    x, noise = random.uniform(size=400), random.exponential(size=400)
    table = write_csv(tmp_path / "a.csv", {"x": [f"{v:.4f}" for v in x], "y": [f"{v:.4f}" for v in 3 * x + noise]})
    result = invoke("fit", table, "--target", "y", "--quantile", "0.9", "--alpha", "0", "--out", tmp_path / "q")
    assert result.exit_code == 0, result.output
    metrics = json.loads((tmp_path / "q" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["test"]["measure"] == "pinball loss at 0.9"
    assert metrics["test"]["baseline_is"] == "the 0.9 quantile"
    model = sparsenam.load(tmp_path / "q" / "model.snam")
    assert model.model_.family.level == 0.9
    assert 0.85 < np.mean(3 * x + noise < model.predict(pl.DataFrame({"x": x}))) < 0.95


@pytest.mark.parametrize("words", [("--quantile", "1.5"), ("--quantile", "0.9", "--family", "gamma")])
def test_a_quantile_that_cannot_be_is_refused(words, houses):
    result = invoke("fit", houses, "--target", "price", *words)
    assert result.exit_code == 2
    assert "--quantile: expected" in result.stderr


def test_rows_are_numbers_and_ranges():
    assert as_rows("1-3", 5) == [1, 2, 3]
    assert as_rows("4, 0-1,2-2", 5) == [4, 0, 1, 2]
    for text in ("3-1", "1-5", "-1", "1-", "1-2-3", "a", "1--2", "²"):
        with pytest.raises(InputError, match="--rows: expected numbers from 0 to 4"):
            as_rows(text, 5)


def test_explain_has_a_table_of_eighty_columns_whatever_the_names(tmp_path):
    cells = houses_table()
    cells["a_name_" + 20 * "long_" + "age"] = cells.pop("age")
    out = tmp_path / "m"
    assert invoke("fit", write_csv(tmp_path / "a.csv", cells), "--target", "price", "--out", out).exit_code == 0
    lines = invoke("explain", out / "model.snam").stdout.splitlines()
    assert lines[0].startswith("regression of price (gaussian, ")
    first = next(index for index, line in enumerate(lines) if line.strip().startswith("kept "))
    last = next(index for index, line in enumerate(lines) if line.startswith("mean size:"))
    assert any("a_name" in line and "\N{HORIZONTAL ELLIPSIS}" in line for line in lines[first:last])
    assert last > first + 3
    assert max(len(line) for line in lines[first:last]) <= 80


@pytest.mark.parametrize(
    ("family", "draw"),
    [
        ("gamma", lambda random: random.lognormal(0.0, 1.0, 400)),
        ("poisson", lambda random: random.poisson(3.0, 400)),
        ("tweedie", lambda random: random.lognormal(0.0, 1.0, 400) * (random.uniform(size=400) < 0.5)),
        (None, lambda random: random.normal(10.0, 1.0, 400)),
        (None, lambda random: random.normal(0.0, 1.0, 400)),
        (None, lambda random: np.ones(400)),
    ],
)
def test_the_values_of_a_target_suggest_a_family(family, draw):
    suggested = candidate(np.asarray(draw(np.random.default_rng(0)), dtype=np.float64))
    assert (None if suggested is None else suggested[0]) == family


def test_advice_is_given_where_held_out_rows_confirm_it_and_only_there(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ADVICE_SECONDS", 1e9)
    random = np.random.default_rng(3)
    x = random.normal(size=(400, 3))
    score = 0.6 * np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + 0.7 * x[:, 2]
    counts, flat = random.poisson(np.exp(1 + score)), random.poisson(20 + 2 * x[:, 0])
    inputs = {name: [f"{value:.4f}" for value in cells] for name, cells in zip("abc", x.T, strict=True)}
    for name, y, advised in (("counts", counts, True), ("flat", flat, False)):
        table = write_csv(tmp_path / f"{name}.csv", inputs | {"y": [str(int(value)) for value in y]})
        words = ("fit", table, "--target", "y", "--task", "regression", "--out", tmp_path / name)
        result = invoke(*words)
        assert result.exit_code == 0, result.output
        advice = json.loads((tmp_path / name / "metrics.json").read_text(encoding="utf-8"))["advice"]
        assert (advice is not None) == advised
        assert ("--family poisson would predict better" in result.stdout) == advised


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (53_810.4, "53810"),
        (9999.6, "10000"),
        (9999.4, "9999"),
        (0.12345, "0.1235"),
        (-84_935.2, "-84935"),
        (3e15, "3e+15"),
    ],
)
def test_numbers_are_written_to_the_unit_or_to_four_digits(value, text):
    assert plain_number(value) == text
