"""The page of benchmarks shows every peer, with its result or why there is none."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def record(seconds, loss, **others):
    figures = {"megabytes": 50.0, "predict_seconds": 0.1, "row_milliseconds": 1.0, "kept": 4, "empty_loss": 9.0}
    return {"seconds": seconds, "loss": loss, "date": "2026-11-16"} | figures | others


def entry(label, *records):
    splits = {str(place): each for place, each in enumerate(records)}
    return {"label": label, "package": "package", "version": "1.0", "cores": 2, "splits": splits}


REPORT = {
    "machine": {"cpu": "a processor", "gigabytes": 16.0},
    "limits": {"seconds": 600.0, "gigabytes": 12.0},
    "tables": {
        "small": {
            "caption": "a small table",
            "kind": "regression",
            "published": "MSE 7 on a GPU",
            "peers": {
                "other": entry("Other", record(4.0, 3.0, false=2), record(60.0, 3.0, false=0)),
                "sparsenam": entry("sparsenam", record(2.0, 1.0, false=0), record(20.0, 2.0, false=0)),
                "slow": entry("Slow", {"refused": "no result in 600 s", "date": "2026-11-16"}),
                "picky": entry("Picky", {"refused": "ValueError: a | b", "date": "2026-11-16"}),
            },
        },
        "large": {
            "caption": "a large table",
            "kind": "classification",
            "published": "",
            "peers": {"sparsenam": entry("sparsenam", record(1234.5, 0.5))},
        },
    },
}


@pytest.fixture
def modules(monkeypatch):
    """Import the scripts as they import each other, from their folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {
        name: importlib.import_module(name)
        for name in ("bench", "bench_page", "bench_summary", "bench_figures", "growth")
    }


def row_with(page, words):
    return next(line for line in page.splitlines() if line.startswith(f"| {words}"))


def test_every_peer_has_a_row_in_every_table(modules):
    page = modules["bench_page"].page(REPORT, {}, {}, {})
    small, large = page.split("### ")[1:]
    for section in (small, large):
        for label in ("**sparsenam**", "Other", "Slow", "Picky"):
            assert len(re.findall(rf"^\| {re.escape(label)}[: ]", section, re.MULTILINE)) == 1
    assert row_with(small, "Slow").startswith("| Slow: no result in 600 s | – | > 55 |")
    assert "refused: ValueError: a / b" in row_with(small, "Picky")
    assert "not run" in row_with(large, "Slow")
    assert "MSE 7 on a GPU" in small
    assert "published" not in large


def test_rows_of_a_table_have_as_many_cells_as_its_head(modules):
    page = modules["bench_page"].page(REPORT, {}, {}, {})
    for section in page.split("### ")[1:]:
        assert len({line.count("|") for line in section.splitlines() if line.startswith("|")}) == 1


def test_ratios_are_of_the_splits_that_both_have(modules):
    rows = modules["bench_summary"].rows_of(REPORT["tables"]["small"], {"other": "Other", "sparsenam": "sparsenam"})
    assert [row.name for row in rows] == ["sparsenam", "other"]
    other = rows[1]
    assert other.times_seconds == pytest.approx(np.median([4 / 2, 60 / 20]))
    assert other.times_loss == pytest.approx(6 / 3)
    assert other.false == 1
    partly = json.loads(json.dumps(REPORT["tables"]["small"]))
    del partly["peers"]["sparsenam"]["splits"]["0"]
    assert modules["bench_summary"].rows_of(partly, {"other": "Other"})[0].times_seconds == 3


@pytest.mark.parametrize(
    ("version", "splits", "wanted"),
    [
        ("1.0", {}, True),
        ("1.0", {"0": {"seconds": 1.0}}, True),
        ("1.0", {"1": {"seconds": 1.0}}, False),
        ("1.0", {"0": {"refused": "no result in 600 s"}}, False),
        ("0.9", {"0": {"refused": "no result in 600 s"}, "1": {"seconds": 1.0}}, True),
    ],
)
def test_a_run_goes_on_where_it_was_stopped_and_begins_anew_for_another_version(modules, version, splits, wanted):
    bench = modules["bench"]
    peer = bench.PEERS["ebm"]
    stored = {"label": peer.label, "package": peer.package, "version": version, "cores": 2, "splits": splits}
    report = {"tables": {"weak": {"peers": {"ebm": stored}}}}
    entry = bench.entry_of(report, "weak", "ebm", "1.0", cores=2, again=False)
    assert bench.is_wanted(entry, 1) is wanted
    assert bench.is_wanted(bench.entry_of(report, "weak", "ebm", "1.0", cores=2, again=True), 1)


def test_tables_and_peers_stand_in_one_order_however_they_were_measured(modules):
    bench = modules["bench"]
    peers = {"ebm": {}, "sparsenam": {}}
    ordered = bench.in_order({"tables": {"weak": {"peers": peers}, "regression": {"peers": peers}}})["tables"]
    assert list(ordered) == ["regression", "weak"]
    assert all(list(found["peers"]) == ["sparsenam", "ebm"] for found in ordered.values())


def test_an_exponent_is_that_of_the_largest_sizes(modules):
    points = [{"size": size, "seconds": 5.0 + 1e-3 * size**1.5} for size in (1, 10_000, 100_000, 1_000_000)]
    assert modules["growth"].exponent([*points, {"size": 10**7, "refused": "more than 18 GB"}], "seconds") == 1.5
    assert modules["growth"].exponent(points[:1], "seconds") is None


def test_growth_shows_sizes_without_a_result_too(modules):
    points = [
        {"size": 1000, "seconds": 1.0, "megabytes": 5.0, "kept": 8},
        {"size": 10_000, "refused": "more than 12 GB"},
    ]
    axis = {"fixed": {"columns": 20, "n_true": 8}, "points": points, "exponents": {"seconds": 0.5, "megabytes": None}}
    axis |= {"cores": 2, "date": "2026-11-16"}
    page = modules["bench_page"].page(REPORT, {"axes": {"rows": axis}}, {}, {})
    assert "| 10,000 | more than 12 GB |" in page
    assert "| **exponent** | 0.5 | – |" in page


def test_the_same_figures_make_the_same_picture(modules, tmp_path):
    for name in ("first", "second"):
        modules["bench_figures"].draw_ratios(REPORT, "times_seconds", tmp_path / f"{name}.svg")
    first = (tmp_path / "first.svg").read_bytes()
    assert first == (tmp_path / "second.svg").read_bytes()
    assert b"Other" in first
    assert b"2.5" in first


@pytest.mark.parametrize(
    ("value", "words"), [(None, "–"), (0.01234, "0.0123"), (1.5, "1.5"), (123.4, "123"), (1234.5, "1,230"), (0, "0")]
)
def test_numbers_have_three_digits(modules, value, words):
    assert modules["bench_page"].number(value) == words
