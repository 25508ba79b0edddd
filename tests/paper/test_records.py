"""Records that are there are kept, those that failed or whose recipe changed are made again."""

import json
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from paper import NAMES, records
from paper.recipe import FOLDER, load_recipe, parse_recipe
from paper.records import Reporter, Store, Work, run_all
from sparsenam.errors import InputError


class Hearer(Reporter):
    def __init__(self):
        self.messages, self.made = [], []

    def say(self, message):
        self.messages.append(message)

    def finish(self, record):
        self.made.append((record["method"], record["seed"]))


def work(method, seed, outcome, recipe="r1"):
    def job():
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome() if callable(outcome) else outcome

    return Work("", method, seed, recipe, lambda: job)


def run(path, works, time_limit=None, retry=False):
    hearer, store = Hearer(), Store(path, {"name": "n"})
    run_all(works, store, hearer, {("", work.method): work.recipe for work in works}, time_limit, retry=retry)
    return hearer, store


def test_a_second_run_makes_nothing_again(tmp_path):
    works = [work("a", seed, {"measures": {"mse": seed}}) for seed in range(3)]
    first, _ = run(tmp_path / "n.json", works)
    second, store = run(tmp_path / "n.json", works)
    assert first.made == [("a", 0), ("a", 1), ("a", 2)]
    assert second.made == []
    assert [record["measures"]["mse"] for record in store.records()] == [0, 1, 2]


def test_a_run_that_was_stopped_goes_on_where_it_stood(tmp_path):
    path = tmp_path / "n.json"
    with pytest.raises(KeyboardInterrupt):
        run(path, [work("a", 0, {}), work("a", 1, KeyboardInterrupt()), work("a", 2, {})])
    assert [record["seed"] for record in json.loads(path.read_text())["records"]] == [0]
    again, _ = run(path, [work("a", seed, {}) for seed in range(3)])
    assert again.made == [("a", 1), ("a", 2)]


def test_a_changed_recipe_runs_its_method_again_and_says_so(tmp_path):
    run(tmp_path / "n.json", [work("a", 0, {}), work("b", 0, {})])
    hearer, _ = run(tmp_path / "n.json", [work("a", 0, {}), work("b", 0, {}, recipe="r2")])
    assert hearer.made == [("b", 0)]
    assert any("changed for b" in message for message in hearer.messages)


def test_a_failure_is_recorded_stops_nobody_and_is_tried_again(tmp_path):
    broken = [work("a", 0, ImportError("no such package")), work("b", 0, {})]
    hearer, store = run(tmp_path / "n.json", broken)
    assert hearer.made == [("a", 0), ("b", 0)]
    failed = store.records()[0]
    assert (failed["status"], failed["reason"]) == ("failed", "no such package")
    again, store = run(tmp_path / "n.json", [work("a", 0, {}), work("b", 0, {})])
    assert again.made == [("a", 0)]
    assert {record["status"] for record in store.records()} == {"done"}


@pytest.mark.parametrize("error", [ArithmeticError("diverged"), TimeoutError("too long")])
def test_a_failure_that_would_come_again_is_kept_until_asked_for(tmp_path, error):
    run(tmp_path / "n.json", [work("a", 0, error)])
    again, store = run(tmp_path / "n.json", [work("a", 0, {})])
    assert again.made == []
    assert any("--retry" in message for message in again.messages)
    assert store.records()[0]["status"] == "failed"
    asked, store = run(tmp_path / "n.json", [work("a", 0, {})], retry=True)
    assert asked.made == [("a", 0)]
    assert store.records()[0]["status"] == "done"


def test_what_only_figures_need_goes_to_the_cache_and_is_made_again_where_it_is_missing(tmp_path):
    wanted = Work("", "a", 0, "r1", lambda: lambda: {"measures": {}, "drawing": {"x": [1.0]}}, drawn=True)
    first, store = run(tmp_path / "n.json", [wanted])
    assert first.made == [("a", 0)]
    assert "drawing" not in store.records()[0] and "drawing" not in (tmp_path / "n.json").read_text()
    assert store.drawing(store.records()[0]) == {"x": [1.0]}
    assert run(tmp_path / "n.json", [wanted])[0].made == []
    (tmp_path / "cache" / "r1-0.json").unlink()
    assert store.drawing(store.records()[0]) is None
    assert run(tmp_path / "n.json", [replace(wanted, drawn=False)])[0].made == []
    assert run(tmp_path / "n.json", [wanted])[0].made == [("a", 0)]


def test_a_report_has_a_line_for_each_record(tmp_path):
    run(tmp_path / "n.json", [work("a", seed, {}) for seed in range(3)])
    lines = (tmp_path / "n.json").read_text().splitlines()
    assert sum(line.startswith('{"section"') for line in lines) == 3


def test_every_record_has_versions_and_a_date(tmp_path):
    _, store = run(tmp_path / "n.json", [work("a", 0, {})])
    (record,) = store.records()
    assert {"python", "sparsenam", "numpy", "torch", "scikit-learn"} <= set(record["versions"])
    assert record["machine"]["cores"] >= 1
    assert len(record["date"]) == len("2000-01-01")


@pytest.mark.parametrize(
    "records",
    [
        [3],
        [{"a": 1}],
        [{"section": "", "method": "a", "seed": 0, "status": "done"}],
        [{"section": "", "method": "a", "seed": "0", "recipe": "r", "status": "done"}],
        [{"section": "", "method": "a", "seed": 0, "recipe": "r", "status": "failed"}],
    ],
)
def test_a_report_with_strange_records_is_refused_and_stays(tmp_path, records):
    path = tmp_path / "n.json"
    path.write_text(json.dumps({"records": records}))
    before = path.read_text()
    with pytest.raises(InputError, match="a report of an earlier run"):
        run(path, [work("a", 0, {})])
    assert path.read_text() == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the alarm is POSIX")
def test_a_fit_that_takes_too_long_is_a_failure(tmp_path):
    _, store = run(tmp_path / "n.json", [work("slow", 0, lambda: time.sleep(5))], time_limit=0.05)
    assert "limit of 0.05 s" in store.records()[0]["reason"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_numbers_that_are_not_finite_are_a_failure(tmp_path):
    _, store = run(tmp_path / "n.json", [work("a", 0, {"measures": {"mse": float("nan")}})])
    assert store.records()[0]["status"] == "failed"


def test_data_that_cannot_be_had_end_the_run(tmp_path):
    def ready():
        raise InputError("no data")

    with pytest.raises(InputError, match="no data"):
        run(tmp_path / "n.json", [Work("", "a", 0, "r", ready)])


def test_a_damaged_report_is_not_overwritten(tmp_path):
    path = tmp_path / "n.json"
    path.write_text('{"records": [')
    with pytest.raises(InputError, match="another --out"):
        run(path, [work("a", 0, {})])
    assert path.read_text() == '{"records": ['


def test_a_failing_write_leaves_the_report_as_it_was(tmp_path):
    path = tmp_path / "n.json"
    _, store = run(path, [work("a", 0, {})])
    before = path.read_text()
    with pytest.raises(TypeError):
        store.put({"section": "", "method": "b", "seed": 0, "what": object()})
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["n.json"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "theory"])
def test_a_quick_recipe_has_fewer_splits_and_other_fingerprints(name):
    full, quick = load_recipe(name), load_recipe(name, quick=True)
    assert len(quick.seeds) == 1 < len(full.seeds)
    marks = {(s.name, m.name): s.fingerprint(m) for s in full.sections for m in s.methods}
    assert all(marks[s.name, m.name] != s.fingerprint(m) for s in quick.sections for m in s.methods)


def test_notes_do_not_make_a_recipe_another():
    content = dict(load_recipe("compas").content)
    content["methods"] = [{**method, "note": "another note"} for method in content["methods"]]
    one, other = load_recipe("compas").sections[0], parse_recipe("compas", content).sections[0]
    assert [one.fingerprint(m) for m in one.methods] == [other.fingerprint(m) for m in other.methods]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": []}, "whole numbers as seeds"),
        ({"title": 3}, "'title' as str"),
        ({"colour": "red"}, "colour"),
        ({"methods": [{"name": "a", "kind": "snam"}] * 2}, "one table for each method"),
        ({"methods": [{"name": "a"}]}, "'kind' as str"),
        ({"methods": [{"name": "a", "kind": "snam", "note": 3}]}, "'note' as str"),
        ({"methods": [{"name": "a", "kind": "snam", "settings": 3}]}, "'settings' as dict"),
        ({"time_limit": "x"}, "'time_limit' in seconds"),
        ({"time_limit": -1}, "'time_limit' in seconds"),
        ({"measures": ["mse", "beauty"]}, "beauty"),
        ({"measures": [3]}, "list of texts"),
        ({"notes": 3}, "'notes' as list"),
        ({"notes": [3]}, "list of texts"),
        ({"optimizers": {"lambda": 1.0, "max_epochs": 3}}, "'solvers' as list"),
    ],
)
def test_a_recipe_with_a_mistake_says_which(change, message):
    content = {"title": "t", "seeds": [0], "task": {}, "measures": [], "methods": []}
    with pytest.raises(InputError, match=message):
        parse_recipe("mine", {**content, **change})


@pytest.mark.parametrize(
    "quick", ["task = 3", "methods = 3", "[quick.methods]\na = 3", "leave_out = 3", "optimizers = 3"]
)
def test_quick_overrides_with_a_mistake_are_refused(quick, tmp_path):
    path = tmp_path / "mine.toml"
    whole = 'title = "t"\nseeds = [0]\nmeasures = ["mse"]\n[task]\ndataset = "compas"\n'
    path.write_text(f'{whole}[[methods]]\nname = "a"\nkind = "snam"\n[quick]\n{quick}\n')
    with pytest.raises(InputError):
        load_recipe("compas", quick=True, file=path)


def test_the_recipe_of_figure_2_has_the_papers_settings():
    recipe = load_recipe("california", file=FOLDER / "figure-2.toml")
    printed = {"solvers": ["gd", "sgd", "adam"], "lambda": 1.0, "learning_rate": 1e-6, "max_epochs": 300}
    assert printed.items() <= recipe.optimizers.items()


def test_more_splits_than_the_recipe_has_count_on():
    assert load_recipe("california").with_splits(5).seeds == (1, 2, 3, 4, 5)
    assert load_recipe("california").with_splits(1).seeds == (1,)


# --- commits ---


def git(folder, *words):
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one file of code, where the records look for their commit."""
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "code.py").write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    monkeypatch.setattr(records, "ROOT", folder)
    records.code_commit.cache_clear()
    yield folder
    records.code_commit.cache_clear()


def test_a_record_names_the_commit_of_its_code(repository, tmp_path):
    _, store = run(tmp_path / "n.json", [work("a", 0, {}), work("b", 0, ArithmeticError("diverged"))])
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True)
    for record in store.records():
        assert len(record["commit"]) >= 12 and head.stdout.startswith(record["commit"])


def test_a_record_of_code_that_is_not_committed_says_so_and_results_are_no_code(repository, tmp_path):
    (repository / "results.json").write_text("{}")
    assert "changes" not in records.code_commit()
    records.code_commit.cache_clear()
    (repository / "src" / "code.py").write_text("x = 2\n")
    assert records.code_commit().endswith("with changes")


def test_a_record_made_outside_git_names_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    records.code_commit.cache_clear()
    try:
        assert records.code_commit() is None
    finally:
        records.code_commit.cache_clear()


def test_renew_makes_again_what_is_asked_for_and_leaves_the_rest(tmp_path):
    run(tmp_path / "n.json", [work("a", 0, {"x": 1}), work("b", 0, {"x": 1})])
    store, current = Store(tmp_path / "n.json", {"name": "n"}), {("", "a"): "r1", ("", "b"): "r1"}
    run_all([work("a", 0, {"x": 2})], store, Hearer(), current, renew=True)
    assert {record["method"]: record["x"] for record in store.records()} == {"a": 2, "b": 1}
