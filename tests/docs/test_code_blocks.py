"""README and the pages of docs/ are right: their code runs, and prints what they say it prints."""

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
    r"^(?:<!-- (?P<mark>no-test|output) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
RELATIVE, ABSOLUTE = 0.05, 0.03  # other versions of the libraries round differently


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it begins in, and the mark before it."""

    language: str
    text: str
    line: int
    mark: str | None


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks that begin in the first column, in order."""
    found = BLOCK.finditer(page)
    return [
        Block(block["language"], block["text"], page[: block.start("text")].count("\n"), block["mark"])
        for block in found
    ]


def run_page(page: Path, **given: object) -> None:
    """Run a page's blocks in one namespace, which begins with what is given; commands only in tutorials."""
    namespace: dict[str, object] = {"__name__": "__page__", **given}
    printed = ""
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.mark == "no-test":
            continue
        if block.mark == "output":
            assert same_text(printed, block.text), f"{page.name}:{block.line} says otherwise:\n{printed}"
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
        program, *words = shlex.split(line, comments=True)
        assert program == "sparsenam", f"only the command sparsenam is run here: {line}"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        printed += result.stdout
    return printed


def same_text(printed: str, written: str) -> bool:
    """Return whether two texts are the same but for spaces, with numbers that are nearly the same."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", written).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(written), strict=True)
    return all(float(one) == pytest.approx(float(other), rel=RELATIVE, abs=ABSOLUTE) for one, other in pairs)


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "```python\n" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


def small_table():
    """A table of people like that of README's examples: numbers, a category, and a target y."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": generator.uniform(20, 80, 300).round(),
            "income": generator.lognormal(10, 0.5, 300),
            "dose": generator.normal(size=300),
            "city": generator.choice(["north", "south", "west"], 300),
        }
    )
    y = 0.05 * table.age + np.sin(2 * table.dose) + (table.city == "west") + 0.3 * generator.normal(size=300)
    return table, y


def test_the_code_of_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table, y = small_table()
    run_page(ROOT / "README.md", df=table, X=table, y=y, groups=np.arange(len(table)) % 5)


def write_page(folder: Path, *parts: str) -> Path:
    page = folder / "page.md"
    page.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return page


def test_a_page_whose_code_fails_is_found(tmp_path):
    page = write_page(tmp_path, "```python", "x = 1", "```", "words", "```python", "assert x == 2", "```")
    with pytest.raises(AssertionError):
        run_page(page)


def test_a_page_that_says_another_output_is_found(tmp_path):
    code = ("```python", "print('four', 4.0)", "```")
    run_page(write_page(tmp_path, *code, "<!-- output -->", "```text", "four 4.1", "```"))
    for written in ("four 5.0", "five 4.0", "four"):
        with pytest.raises(AssertionError, match="says otherwise"):
            run_page(write_page(tmp_path, *code, "<!-- output -->", "```text", written, "```"))


def test_a_block_marked_no_test_is_left_out(tmp_path):
    run_page(write_page(tmp_path, "<!-- no-test -->", "```python", "raise ValueError", "```"))
