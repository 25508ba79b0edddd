"""Settings of the documentation site; `sphinx-build -W` makes every warning an error."""

import re
from importlib.metadata import version as version_of
from typing import Any

project = "sparsenam"
author = "the sparsenam developers"
project_copyright = "the sparsenam developers, BSD-3-Clause"
version = release = version_of("sparsenam")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"sparsenam {release}"
html_copy_source = False

myst_heading_anchors = 3

default_role = "code"  # docstrings write `name` for code
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True

LITERAL = re.compile(r"(`[^`]*`)")


def leave_out_scikit_learn(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Members that come from scikit-learn are documented there, in another markup with other labels."""
    plain = getattr(value, "__func__", value)
    inherited = str(getattr(plain, "__module__", "")).startswith("sklearn")
    routing = name.startswith("set_") and name.endswith("_request")
    return True if inherited or routing else None


def plain_text_to_markup(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: |x| is an absolute value, and three backquotes fence code."""
    marked: list[str] = []
    inside = False
    for line in lines:
        if line.strip().startswith("```"):
            marked += [] if inside else ["::", ""]
            inside = not inside
        elif inside:
            marked.append(f"    {line}")
        else:
            parts = LITERAL.split(line)
            marked.append("".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts))
    lines[:] = marked


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", leave_out_scikit_learn)
    app.connect("autodoc-process-docstring", plain_text_to_markup, priority=100)  # before napoleon
