"""The README and the pages of docs/ are right: code runs, output is as printed, links lead somewhere."""

import re
from pathlib import Path

import pytest

from page_cases import run_page, small_table
from sparsenam.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#]+)(?:#[^)]*)?\)")
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "```python\n" in page.read_text(encoding="utf-8")]
LINKED = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    df, y = small_table()
    run_page(ROOT / "README.md", df=df, y=y)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_files_that_are_there(page):
    targets = [found["target"] for found in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_command_has_an_example_on_the_page_of_the_command():
    page = (DOCS / "command.md").read_text(encoding="utf-8")
    shown = {words.split()[0] for words in re.findall(r"^sparsenam (.+)$", page, re.MULTILINE)}
    assert shown == {command.name or command.callback.__name__ for command in app.registered_commands}


def write_page(folder: Path, *parts: str) -> Path:
    page = folder / "page.md"
    page.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return page


def test_a_page_whose_code_fails_is_found(tmp_path):
    page = write_page(tmp_path, "```python", "x = 1", "```", "text", "```python", "assert x == 2", "```")
    with pytest.raises(AssertionError):
        run_page(page)


def test_a_page_that_documents_another_output_is_found(tmp_path):
    code = ("```python", "print('x4', 4.0)", "```")
    run_page(write_page(tmp_path, *code, "<!-- output -->", "```text", "x4 4.1", "```"))
    for documented in ("x4 5.0", "x5 4.0", "x4"):
        with pytest.raises(AssertionError, match="says otherwise"):
            run_page(write_page(tmp_path, *code, "<!-- output -->", "```text", documented, "```"))


def test_output_marked_unchecked_is_an_example_of_code_that_runs(tmp_path):
    documented = ("<!-- output: unchecked -->", "```text", "5.0", "```")
    run_page(write_page(tmp_path, "```python", "print(4.0)", "```", *documented))
    with pytest.raises(ZeroDivisionError):
        run_page(write_page(tmp_path, "```python", "print(1 / 0)", "```", *documented))


def test_a_block_marked_no_test_is_left_out(tmp_path):
    run_page(write_page(tmp_path, "<!-- no-test -->", "```python", "raise ValueError", "```"))
