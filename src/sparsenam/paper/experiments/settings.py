"""The settings of the experiments on the theorems, from `recipes/theory.toml`."""

from __future__ import annotations

import tomllib
from importlib import resources

from sparsenam.errors import InputError, describe
from sparsenam.paper.experiments.runner import Record


def theory_settings(name: str, *, quick: bool = False) -> Record:
    """Return the settings of one experiment; entries of its ``quick`` table replace others if ``quick``."""
    text = resources.files("sparsenam.paper").joinpath("recipes/theory.toml").read_text(encoding="utf-8")
    sections: Record = tomllib.loads(text)
    if name not in sections:
        raise InputError(describe("experiment", f"one of {sorted(sections)}", repr(name), "choose one"))
    section = dict(sections[name])
    overrides: Record = section.pop("quick", {})
    return {**section, **overrides} if quick else section
