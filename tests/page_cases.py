"""Fenced blocks of a Markdown page, run in order: for the tests of the pages and the check of the built package."""

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from math import isclose
from pathlib import Path

import numpy as np
import pandas as pd

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>no-test|output|output: unchecked) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e-?\d+)?")  # x12 is a name
RELATIVE, ABSOLUTE = 0.05, 0.03  # far above what processors and versions of the libraries round differently
COMMANDS_RUN_IN = ("tutorials", "guides", "command.md")  # whose tables are small


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
    """Run a page's blocks in one namespace; commands only in some folders, where they are small."""
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
        elif block.language == "sh" and {page.parent.name, page.name} & set(COMMANDS_RUN_IN):
            printed = run_commands(block.text)


def run_commands(text: str) -> str:
    """Run lines that begin with ``sparsenam`` and return what they print on stdout."""
    from typer.testing import CliRunner

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
    return all(isclose(float(one), float(other), rel_tol=RELATIVE, abs_tol=ABSOLUTE) for one, other in pairs)


def small_table() -> tuple[pd.DataFrame, pd.Series]:
    """Return the ``df, y`` of the README: numbers, text and missing cells."""
    draw = np.random.default_rng(0)
    df = pd.DataFrame(draw.uniform(size=(300, 3)), columns=["size", "age", "noise"])
    df["district"] = draw.choice(["north", "south", "harbour"], 300)
    y = 3 * df["size"] + np.sin(4 * df["age"]) + (df["district"] == "north") + draw.normal(0, 0.2, 300)
    df.loc[draw.uniform(size=300) < 0.1, "age"] = np.nan
    return df, pd.Series(y, name="rent")
