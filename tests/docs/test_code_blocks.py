"""The README and the pages of docs/ are right: code runs, output is as printed, links lead somewhere."""

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>no-test|output|output: unchecked) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e-?\d+)?")  # x12 is a name
LINK = re.compile(r"\]\((?!https?://|#)(?P<target>[^)#]+)(?:#[^)]*)?\)")
RELATIVE, ABSOLUTE = 0.05, 0.03  # far above what processors and versions of the libraries round differently


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it begins in, and the mark before it.

    ``no-test`` code is not run; ``output`` is compared with what the code before it printed, numbers nearly; ``output:
    unchecked`` is an example whose figures another processor may print differently.
    """

    language: str
    text: str
    line: int
    mark: str | None


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks that begin in the first column, in order."""
    return [
        Block(found["language"], found["text"], page[: found.start("text")].count("\n"), found["mark"])
        for found in BLOCK.finditer(page)
    ]


def run_page(page: Path, **given: object) -> None:
    """Run a page's blocks in one namespace; commands only in tutorials, where they are small."""
    namespace: dict[str, object] = {"__name__": "__page__", **given}
    printed = ""
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.mark in ("no-test", "output: unchecked"):
            continue
        if block.mark == "output":
            assert same_output(printed, block.text), f"{page.name}:{block.line} says otherwise:\n{printed}"
        elif block.language == "python":
            code = compile("\n" * block.line + block.text, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(code, namespace)
            printed = stream.getvalue()
        elif block.language == "sh" and page.parent.name == "tutorials":
            printed = run_commands(block.text)


def run_commands(text: str) -> str:
    """Run lines that begin with ``sparsenam`` and return what they print on stdout."""
    from sparsenam.cli.app import app

    printed = ""
    for line in text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "sparsenam", f"only the command sparsenam is run here: {line}"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        printed += result.stdout
    return printed


def same_output(printed: str, documented: str) -> bool:
    """Return whether two texts have the same words and names, and numbers that are nearly the same."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", documented).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(documented), strict=True)
    return all(float(one) == pytest.approx(float(other), rel=RELATIVE, abs=ABSOLUTE) for one, other in pairs)


def small_table() -> tuple[pd.DataFrame, pd.Series]:
    """Return the ``df, y`` of the README: numbers, text and missing cells."""
    draw = np.random.default_rng(0)
    df = pd.DataFrame(draw.uniform(size=(300, 3)), columns=["size", "age", "noise"])
    df["district"] = draw.choice(["north", "south", "harbour"], 300)
    y = 3 * df["size"] + np.sin(4 * df["age"]) + (df["district"] == "north") + draw.normal(0, 0.2, 300)
    df.loc[draw.uniform(size=300) < 0.1, "age"] = np.nan
    return df, pd.Series(y, name="rent")


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
