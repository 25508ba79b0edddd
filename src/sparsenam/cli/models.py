"""``sparsenam predict``, ``explain``, ``report`` and ``edit``: what is done with a saved model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.display import note, plain_number, say, say_json, say_wrapped, show_table
from sparsenam.cli.options import MAX_BYTES, AsJson, Exposure, MaxBytes, ModelFile, RowNumbers, TableFile, as_list
from sparsenam.errors import InputError, describe, renamed

if TYPE_CHECKING:
    from sparsenam.cli.tables import FileTable
    from sparsenam.explain import Explanation

PREDICT_EPILOG = """\b
Examples:
  sparsenam predict sparsenam-model/model.snam new.csv
  sparsenam predict loans/model.snam new.parquet --out scored.csv.gz
  cat new.csv | sparsenam predict loans/model.snam - --out - > scored.csv
  sparsenam predict sparsenam-model/model.snam new.csv --intervals 0.9
  sparsenam predict sparsenam-model/model.snam 'trips/*.parquet'"""
EXPLAIN_EPILOG = """\b
Examples:
  sparsenam explain sparsenam-model/model.snam
  sparsenam explain sparsenam-model/model.snam houses.csv --rows 1-3
  sparsenam explain sparsenam-model/model.snam --reference setosa
  sparsenam explain sparsenam-model/model.snam --json > explanation.json"""
REPORT_EPILOG = """\b
Examples:
  sparsenam report sparsenam-model/model.snam
  sparsenam report sparsenam-model/model.snam houses.csv --rows 0,5 --out houses.html"""
EDIT_EPILOG = """\b
Examples:
  sparsenam edit model.snam --drop postcode --reason "stands for income" --out edited.snam
  sparsenam edit model.snam --increasing dose --reason "known from trials" --who "A. Ng" --out edited.snam
  sparsenam edit edited.snam --undo --out fitted.snam

Python has more edits: see model.edit()."""

TABLE_WIDTH = 80
MOST_NEAR_NAMED = 20  # named in one line


def predict(
    model: ModelFile,
    table: TableFile,
    out: Annotated[
        Path | None,
        typer.Option(help="CSV, TSV or Parquet file, or -; predictions.csv, or .parquet for several files."),
    ] = None,
    exposure: Exposure = None,
    intervals: Annotated[float | None, typer.Option(help="Level, such as 0.9, of intervals or sets.")] = None,
    quote_formulas: Annotated[
        bool,
        typer.Option("--quote-formulas", help="An apostrophe before texts such as =1+1, for spreadsheets (CSV, TSV)."),
    ] = False,
    max_bytes: MaxBytes = MAX_BYTES,
) -> None:
    """Predict each row of a table: the table again, with a column of predictions and one for each probability.

    A survival model gives log hazard ratios: the higher, the riskier. With --intervals there are two more columns, the
    ends of an interval, or one with the classes that the row may have. Parquet files, a folder or a pattern such as
    'big/*.parquet' are read block by block where a Parquet file is written.
    """
    from sparsenam.cli.large import is_in_blocks, predict_blocks
    from sparsenam.cli.tables import PARQUET, STREAM, check_writable, read_file, write_table

    if out is None:
        out = Path("predictions.parquet" if is_in_blocks(table) else "predictions.csv")
    asked = {"--exposure": exposure, "--intervals": intervals, "--quote-formulas": quote_formulas or None}
    given = [name for name, value in asked.items() if value is not None]
    is_parquet = out.suffix.lower() in PARQUET and table.suffix.lower() in PARQUET
    if is_in_blocks(table) or (is_parquet and not given):
        count = predict_blocks(load_model(model), table, out, given, partial(knowing_levels, path=table))
        say(f"{count} predictions: {out}")
        return
    check_writable(out)
    estimator = load_model(model)
    whole = read_file(table, max_bytes)
    for sentence in whole.notes:
        note(sentence)
    inputs = inputs_of(estimator, whole, table, beside=() if exposure is None else (exposure,))
    with whole.naming_rows(), knowing_levels(estimator, table):
        units = _exposures(estimator, whole, exposure)
        columns = _predictions(estimator, inputs, units)
        columns |= {} if intervals is None else _intervals(estimator, inputs, units, intervals)
    write_table(out, whole, columns, quote_formulas=quote_formulas)
    (note if out == STREAM else say)(f"{whole.n_rows} predictions: {out}")


def explain(
    model: ModelFile,
    table: Annotated[Path | None, typer.Argument(help="Rows to explain; else those of the fit.")] = None,
    rows: RowNumbers = None,
    reference: Annotated[str | None, typer.Option(help="Of several classes, the one to compare with.")] = None,
    max_bytes: MaxBytes = MAX_BYTES,
    as_json: AsJson = False,
) -> None:
    """Say which columns a model uses and how much each matters; with --rows, what each adds to single rows."""
    estimator, inputs = _model_and_inputs(model, table, rows, max_bytes)
    if rows is None or inputs is None:
        more = {} if reference is None else {"reference": _class_of(estimator, reference)}
        explanation = _explained(estimator, inputs, **more)
        say_json(explanation.to_dict()) if as_json else _show_columns(explanation)
        stability = getattr(estimator, "stability_", None)
        if stability is not None and not as_json:
            say_wrapped(f"stability: {stability.finding().sentence}")
        return
    if reference is not None:
        raise InputError(describe("--reference", "whole models", "--rows", "leave one of them out"))
    indices = as_rows(rows, inputs.n_rows)
    local = _explain_rows(estimator, inputs, indices).to_dict()
    for index, record in zip(indices, local["rows"], strict=True):
        record["row"] = index  # the row's number in the file, not among those explained
    say_json(local) if as_json else _show_rows(local)


def report(
    model: ModelFile,
    table: Annotated[Path | None, typer.Argument(help="Rows to show; else those of the fit.")] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    rows: RowNumbers = None,
    max_bytes: MaxBytes = MAX_BYTES,
) -> None:
    """Write a page that shows what the model does with each column; it opens without a network."""
    from sparsenam.cli.run import SHOWN_ROWS, findings_of
    from sparsenam.cli.tables import check_place

    check_place(out, "--out")
    estimator, inputs = _model_and_inputs(model, table, rows, max_bytes)
    local = None
    if inputs is not None:
        first = list(range(min(SHOWN_ROWS, inputs.n_rows)))
        local = _explain_rows(estimator, inputs, first if rows is None else as_rows(rows, inputs.n_rows))
    _explained(estimator, inputs).report(out, local, findings_of(estimator))
    say(f"report: {out}")


def edit(
    model: ModelFile,
    out: Annotated[Path, typer.Option(help="Model file to write.", show_default=False)],
    drop: Annotated[str | None, typer.Option(help="Column to take out.")] = None,
    increasing: Annotated[str | None, typer.Option(help="Column whose effect shall never fall.")] = None,
    decreasing: Annotated[str | None, typer.Option(help="Column whose effect shall never rise.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the last edit back.")] = False,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    who: Annotated[str | None, typer.Option(help="Who wants it, for the log.")] = None,
) -> None:
    """Change a saved model: one edit, with a reason, written into the log that the new file holds."""
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


def as_rows(text: str, n_rows: int) -> list[int]:
    """Return the numbers of rows, from 0, of a table with so many."""
    remedy, parts = "write for example 0,5 or 1-3", as_list(text)
    if not parts:
        raise InputError(describe("--rows", "at least one number", repr(text), remedy))
    rows = list[int]()
    for part in parts:
        found = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part, re.ASCII)
        first, last = (0, -1) if found is None else (int(found[1]), int(found[2] or found[1]))
        if not first <= last < n_rows:
            expected = f"numbers from 0 to {n_rows - 1}, with commas between, or first-last"
            raise InputError(describe("--rows", expected, repr(part), remedy))
        rows += range(first, last + 1)
    return rows


def load_model(path: Path) -> Any:
    """Return the estimator in a file."""
    import sparsenam
    from sparsenam.cli.run import ModelFolder

    if not path.is_file():
        got = "a folder" if path.is_dir() else "none of that name"
        remedy = "give the model.snam that sparsenam fit wrote"
        raise InputError(describe(str(path), "a file", got, remedy))
    estimator = sparsenam.load(path)
    folder = ModelFolder(path.parent)
    if path.name == folder.model.name and folder.is_preliminary:
        note("A preliminary model of a fit that was stopped; sparsenam fit --resume would finish it.")
    return estimator


def inputs_of(
    estimator: Any, whole: FileTable, path: Path, *, beside: Sequence[str] = (), every: bool = False
) -> FileTable:
    """Return a table's columns for the model; others are not used, which is said.

    Those that the model keeps are needed, with ``every`` also those that it dropped.
    """
    from sparsenam.tables.text import listed

    names = [str(name) for name in estimator.encoder_.names]
    needed = names if every else estimator.fit_.kept_names
    present, wanted = frozenset(whole.names), {*names, *beside}
    unused = [name for name in whole.names if name and name not in wanted]
    lacking = [name for name in needed if name not in present]
    if lacking:
        expected = f"the {len(needed)} columns {'of' if every else 'that'} the model{'' if every else ' keeps'}"
        remedy = renamed(lacking, unused, "add or rename these columns")
        raise InputError(describe(str(path), expected, f"none of {listed(lacking)}", remedy))
    if unused:
        note(f"Not used by the model: {', '.join(unused[:8])}{' …' if len(unused) > 8 else ''}.")
    return whole.select([name for name in names if name in present] or whole.names[:1])


@contextmanager
def knowing_levels(estimator: Any, path: Path) -> Generator[None]:
    """Raise at the end where a kept column held no level of the fit at all; other warnings are given as they came."""
    from sparsenam.tables.text import UnseenColumnWarning

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        yield
    kept = set(estimator.get_feature_names_out())
    for warning in said:
        if isinstance(warning.message, UnseenColumnWarning) and warning.message.column in kept:
            remedy = "is it another column, or written in another way? Mend the column"
            raise InputError(f"{path}: {str(warning.message).removesuffix('.')}; {remedy}.")
    for warning in said:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _model_and_inputs(
    model: Path, table: Path | None, rows: str | None, max_bytes: int
) -> tuple[Any, FileTable | None]:
    """Return a saved model, and its columns of a table where one is named."""
    from sparsenam.cli.tables import read_file

    if rows is not None and table is None:
        raise InputError(describe("--rows", "a table to take the rows from", "none", "name it after the model"))
    estimator = load_model(model)
    return estimator, None if table is None else inputs_of(estimator, read_file(table, max_bytes), table)


def _explain_rows(estimator: Any, inputs: FileTable, indices: list[int]) -> Any:
    import numpy as np

    with inputs.naming_rows(indices):
        return estimator.explain_local(inputs.take(np.array(indices, dtype=np.intp)).native)


def _explained(estimator: Any, inputs: FileTable | None, **more: Any) -> Explanation:
    if inputs is None:
        return estimator.explain(**more)
    with inputs.naming_rows():
        return estimator.explain(inputs.native, **more)


def _class_of(estimator: Any, reference: str) -> str:
    """Return the class to compare with; raise for models without classes."""
    if not hasattr(estimator, "classes_"):
        got, remedy = "a model of numbers or times", "leave --reference out"
        raise InputError(describe("--reference", "a model of classes", got, remedy))
    return reference


def _exposures(estimator: Any, whole: FileTable, name: str | None) -> dict[str, Any]:
    """Return the column of exposures (rows,) as predictions take it, nothing where there is none."""
    from sparsenam.cli.problem import numbers_of

    if name is None:
        source: dict[str, str] = estimator.summary_.source or {}
        if "exposure" in source:
            taken = f"--exposure {source['exposure']} would take the column of the fit"
            note(f"Predictions are for an exposure of 1; {taken}.")
        return {}
    if hasattr(estimator, "classes_") or hasattr(estimator, "event_times_"):
        got, remedy = "a model of classes or of times", "leave --exposure out"
        raise InputError(describe("--exposure", "a model of rates", got, remedy))
    return {"exposure": numbers_of(whole.cells(whole.require(name, "--exposure")), "--exposure")}


def _predictions(estimator: Any, inputs: FileTable, more: dict[str, Any]) -> dict[str, list[str] | list[float]]:
    """Return the new columns by name: the prediction, and the probability of each class."""
    if hasattr(estimator, "classes_"):
        probabilities = estimator.predict_proba(inputs.native)
        classes = [str(label) for label in estimator.classes_.tolist()]
        columns: dict[str, list[str] | list[float]] = {
            "prediction": [classes[int(index)] for index in probabilities.argmax(axis=1)]
        }
        for name, column in zip(classes, probabilities.T, strict=True):
            columns[f"probability of {name}"] = column.tolist()
        return columns
    return {"prediction": estimator.predict(inputs.native, **more).tolist()}


def _intervals(
    estimator: Any, inputs: FileTable, more: dict[str, Any], level: float
) -> dict[str, list[str] | list[float]]:
    """Return the columns of an interval's ends, or of the classes in a set; say what they promise."""
    if hasattr(estimator, "classes_"):
        sets = estimator.predict_set(inputs.native, level)
        note(sets.guarantee)
        return {"prediction set": [" | ".join(map(str, labels)) for labels in sets.labels()]}
    found = estimator.predict_interval(inputs.native, level, **more)
    note(found.guarantee)
    return {"prediction_lower": found.lower.tolist(), "prediction_upper": found.upper.tolist()}


def _show_columns(explanation: Explanation) -> None:
    """Print what is kept, largest first, the dropped columns with the reason, and what to know of the choice."""
    from sparsenam.text import count_text

    kept, dropped, card = explanation.features, explanation.dropped, explanation.card
    pairs = f" and {count_text(len(explanation.pairs), 'pair')}" if explanation.pairs else ""
    if explanation.target is not None:
        rows = "" if card.get("rows") is None else f", {card['rows']} rows"
        say(f"{explanation.task} of {explanation.target} ({card.get('family')}{rows})")
    units = f"effects are in {explanation.units}."
    say_wrapped(f"{count_text(len(kept), 'column')}{pairs} kept, {len(dropped)} dropped; {units}")
    if explanation.explained is not None:
        fitted = ", before the edits" if explanation.edits else ""
        say(f"Explained in rows held out{fitted}: {explanation.explained} of the loss.")
    scores: dict[str, Any] = card.get("scores") or {}
    for name, value in scores.items() if explanation.target is not None else ():
        say(f"{name}: {'unknown' if value is None else plain_number(value)}")
    for edit in explanation.edits:
        say_wrapped(f"edited {edit.sentence}")
    _show_kept(explanation)
    near = [column for column in dropped if column.by_penalty]
    if near:
        named = [f"{column.name} {column.slack:.2f}" for column in near[:MOST_NEAR_NAMED]]
        more = f" and {len(near) - MOST_NEAR_NAMED} more (--json has all)" if len(near) > MOST_NEAR_NAMED else ""
        say_wrapped(f"dropped, with the share of the gradient that would let each in: {', '.join(named)}{more}")
    for column in dropped:
        if column not in near:
            say_wrapped(f"dropped {column.name}: {column.reason}")
    for sentence in explanation.notes:
        say_wrapped(f"note: {sentence}")


def _show_kept(explanation: Explanation) -> None:
    """Print kept columns and pairs as a table of at most 80 characters a line, names broken where they are long."""
    from sparsenam.text import share_text

    kept = explanation.features
    parts = [*kept, *explanation.pairs]
    if not parts:
        return
    cells: dict[str, list[str]] = {
        "kept": [part.name for part in parts],
        "kind": [*(column.kind_and_form for column in kept), *("pair" for _ in explanation.pairs)],
        "mean size": [plain_number(part.mean_absolute) for part in parts],
        "range": [plain_number(part.variation) for part in parts],
        "entered": ["" if column.entry is None else str(column.entry) for column in kept],
        "in folds": ["" if column.kept_in is None else share_text(column.kept_in) for column in kept],
        "in halves": ["" if column.stability is None else share_text(column.stability) for column in kept],
    }
    order = sorted(range(len(parts)), key=lambda place: -parts[place].mean_absolute)
    shown = {name: [*column, *[""] * (len(parts) - len(column))] for name, column in cells.items() if any(column)}
    show_table(list(shown), [[column[place] for column in shown.values()] for place in order], width=TABLE_WIDTH)
    legend = {
        "mean size": "mean absolute effect",
        "range": "largest less smallest effect",
        "entered": "order of entry",
        "in folds": "share of folds that keep it",
        "in halves": "share of half-samples that keep it",
    }
    say_wrapped("; ".join(f"{name}: {meaning}" for name, meaning in legend.items() if name in shown))


def _show_rows(local: dict[str, Any]) -> None:
    """Print what each column adds to each row."""
    from sparsenam.text import prediction_label

    say_wrapped(f"Effects are in {local['units']}, from {local['reference']}.")
    label = prediction_label(local["units"], local["outputs"])
    for row in local["rows"]:
        values = [plain_number(value) for value in row["prediction"]]
        if len(values) > 1:  # one alone is explained by the units
            values = [f"{name} {value}" for name, value in zip(local["outputs"], values, strict=True)]
        say()
        say_wrapped(f"row {row['row']}: {label} {', '.join(values)}")
        for contribution in row["contributions"]:
            say(f"  {contribution['text']}")
