"""Options that several commands share, and commands made of functions that take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sparsenam.cli.display import readable_errors

MAX_BYTES = 1_000_000_000  # of a table once it is unpacked, which takes up to ten times as much memory

ModelFile = Annotated[Path, typer.Argument(help="A model.snam of sparsenam fit.", show_default=False)]
TableFile = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, JSON lines, Excel or Parquet file, .gz too, or - for stdin.", show_default=False),
]
Target = Annotated[
    str, typer.Option(help="Column that the model predicts; of survival, the times.", show_default=False)
]
RowNumbers = Annotated[str | None, typer.Option(help="Rows of the table to explain, from 0: 0,5 or 1-3.")]
Event = Annotated[str | None, typer.Option(help="Column of 0/1: the event happened (survival).")]
Exposure = Annotated[str | None, typer.Option(help="Column of exposures, for rates; else 1 for every row.")]
Weights = Annotated[str | None, typer.Option(help="Column of weights of the rows; 0 leaves a row out.")]
Groups = Annotated[str | None, typer.Option(help="Columns whose values divide the rows, with commas between.")]
MaxBytes = Annotated[int, typer.Option(help="Most bytes of a table in memory, once unpacked.", min=1)]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")]


def as_list(text: str | None) -> list[str]:
    """Return the parts between commas, blanks aside."""
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each parameter, for each field of a dataclass of options, and ``--debug``.

    Required options come first. Errors become single lines, and a table that is not there is said at once.
    """
    hints = get_type_hints(function, include_extras=True)
    grouped: dict[str, type[Any]] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        if name not in grouped:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        kinds = get_type_hints(grouped[name], include_extras=True)
        for field in fields(grouped[name]):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kinds[field.name])
            )
    parameters.append(Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug))
    parameters.sort(key=lambda parameter: parameter.default is not Parameter.empty)

    @wraps(function)
    def command(*, debug: bool, **values: Any) -> None:
        table = values.get("table")
        is_here = isinstance(table, Path) and values.get("scheduler") is None  # workers may see other files
        with readable_errors(debug=debug, table=table if is_here else None):
            given = {
                name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
                for name, kind in grouped.items()
            }
            function(**given, **values)

    command.__dict__["__signature__"] = Signature(parameters)
    return command


@dataclass(frozen=True, slots=True)
class RowsOptions:
    """A table like that of a model's fit, its columns that are no inputs, and what to write."""

    table: Annotated[Path, typer.Argument(help="The table of the fit, or one like it, or -.", show_default=False)]
    event: Event = None
    exposure: Exposure = None
    weights: Weights = None
    report: Annotated[
        Path | None, typer.Option(help="HTML page to write: the model's report, with the result in it.")
    ] = None
    max_bytes: MaxBytes = MAX_BYTES
    as_json: AsJson = False
