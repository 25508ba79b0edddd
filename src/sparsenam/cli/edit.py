"""``sparsenam edit``: a saved model changed with a reason, and saved again with its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsenam.cli.display import readable_errors, say
from sparsenam.cli.models import Debug, ModelFile, load_model
from sparsenam.errors import InputError, describe

EDIT_EPILOG = """\b
Examples:
  sparsenam edit model.snam --drop postcode --reason "stands for income" --out edited.snam
  sparsenam edit model.snam --increasing dose --reason "known from trials" --who "A. Ng" --out edited.snam
  sparsenam edit edited.snam --undo --out fitted.snam

Python has more edits: see model.edit()."""


def edit(
    model: ModelFile,
    out: Annotated[Path, typer.Option(help="Model file to write.", show_default=False)],
    drop: Annotated[str | None, typer.Option(help="Column to take out.")] = None,
    increasing: Annotated[str | None, typer.Option(help="Column whose effect shall never fall.")] = None,
    decreasing: Annotated[str | None, typer.Option(help="Column whose effect shall never rise.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last edit back.")] = False,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    who: Annotated[str | None, typer.Option(help="Who wants it, for the log.")] = None,
    debug: Debug = False,
) -> None:
    """Change a saved model: one edit, with a reason, written into the log that the new file holds."""
    with readable_errors(debug=debug):
        asked = {"--drop": drop, "--increasing": increasing, "--decreasing": decreasing, "--undo": undo or None}
        given = [name for name, value in asked.items() if value is not None]
        if len(given) != 1:
            expected = f"one of {', '.join(asked)}"
            raise InputError(describe("edit", expected, " and ".join(given) or "none", "give one"))
        edited: Any = load_model(model).edit()
        last = edited.edits_[-1:]
        if undo:
            edited.undo()
        elif drop is not None:
            edited.drop(drop, reason=reason, who=who)
        else:
            column, direction = (increasing, "increasing") if increasing is not None else (decreasing, "decreasing")
            edited.make_monotone(column, direction, reason=reason, who=who)
        edited.save(out)
        (changed,) = last if undo else edited.edits_[-1:]
        say(f"{'taken back: ' if undo else ''}{changed.column or 'intercept'}: {changed.request}")
        say(f"model with {len(edited.edits_)} edit(s): {out}")
