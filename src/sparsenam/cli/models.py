"""``sparsenam predict``, ``explain``, ``report``, ``edit`` and ``export``: what is done with a saved model."""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsenam.cli.display import note, say, say_json, say_wrapped, show_explanation, show_rows
from sparsenam.cli.options import MAX_BYTES, AsJson, Exposure, MaxBytes, ModelFile, RowNumbers, TableFile, as_list
from sparsenam.errors import InputError, describe, renamed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sparsenam.cli.tables import FileTable
    from sparsenam.estimators import AdditiveEstimator
    from sparsenam.explain import Explanation, LocalExplanation

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
EXPORT_EPILOG = """\b
Examples:
  sparsenam export model.snam model.json
  sparsenam export model.snam model.sql --dialect duckdb --table loans --check loans.csv
  sparsenam export model.snam card.xlsx --pdo 20 --base-score 600 --base-odds 50
  sparsenam export model.snam points.csv --to scorecard --option good=paid

What the options of a target mean is said on the pages on exporting."""

WORDS = {"true": True, "false": False}
ARGUMENTS = ("to", "path", "X")  # of the method that exports, which are no options of a target
Value = str | float | None  # of an option of a target


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
        columns = _predictions(estimator, inputs.native, _exposures(estimator, whole, exposure), intervals)
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
        explanation = _explained(estimator, inputs, reference)
        say_json(explanation.to_dict()) if as_json else show_explanation(explanation)
        if estimator.stability_ is not None and not as_json:
            say_wrapped(f"stability: {estimator.stability_.finding().sentence}")
        return
    if reference is not None:
        raise InputError(describe("--reference", "whole models", "--rows", "leave one of them out"))
    local = _explain_rows(estimator, inputs, as_rows(rows, inputs.n_rows))
    say_json(local.to_dict()) if as_json else show_rows(local)


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
    edited = load_model(model).edit()
    last = edited.edits_[-1:]
    if undo:
        edited.undo()
    elif drop is not None:
        edited.drop(drop, reason=reason, who=who)
    elif increasing is not None:
        edited.make_monotone(increasing, "increasing", reason=reason, who=who)
    elif decreasing is not None:
        edited.make_monotone(decreasing, "decreasing", reason=reason, who=who)
    edited.save(out)
    (changed,) = last if undo else edited.edits_[-1:]
    say(f"{'taken back: ' if undo else ''}{changed.column or 'intercept'}: {changed.request}")
    say(f"model with {len(edited.edits_)} edit(s): {out}")


def export(
    model: ModelFile,
    path: Annotated[Path, typer.Argument(help="File to write; its suffix says the target.", show_default=False)],
    to: Annotated[str | None, typer.Option(help="Target, where the suffix does not say it.")] = None,
    check: Annotated[Path | None, typer.Option(help="Table of rows on which to compare what was written.")] = None,
    dialect: Annotated[str | None, typer.Option(help="SQL: the dialect.")] = None,
    table: Annotated[str | None, typer.Option(help="SQL: the table to read.")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of numbers, where a target has a choice.")] = None,
    pdo: Annotated[float | None, typer.Option(help="Scorecard: points to double the odds.")] = None,
    base_score: Annotated[float | None, typer.Option(help="Scorecard: the score at the base odds.")] = None,
    base_odds: Annotated[
        float | None, typer.Option(help="Scorecard: the odds, good to bad, at the base score.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="Any other option, as name=value.")] = None,
    max_bytes: MaxBytes = MAX_BYTES,
) -> None:
    """Write a saved model for the place where predictions run: code, SQL, ONNX, PMML, a scorecard.

    With --check the largest difference between the scores of what was written and those of the model is said, over the
    rows of a table and as a share of the largest score, or of 1 where that is less.
    """
    from sparsenam.cli.tables import read_file
    from sparsenam.export.exporting import target_for

    named = {"dialect": dialect, "table": table, "precision": None if precision is None else _value(precision)}
    named |= {"pdo": pdo, "base_score": base_score, "base_odds": base_odds}
    options = options_of(option or [], {name: value for name, value in named.items() if value is not None})
    for read, what in ((model, "the model file"), (check, "the table to check on")):
        if read is not None and path.exists() and read.exists() and path.samefile(read):
            raise InputError(describe(f"path {path}", "a file to write", what, "name another"))
    estimator = load_model(model)
    rows = None if check is None else inputs_of(estimator, read_file(check, max_bytes), check)
    if rows is not None:  # what speaks against the check is said before anything is written
        target_for(path, to).load(options).require_engine(path, options)
        with rows.naming_rows():
            estimator.fit_.reader().encode(rows.native)
    for file in estimator.export(path, to=to, **options):
        say(f"written: {file}")
    if rows is not None:
        difference = estimator.export_difference(path, rows.native, to=to, **options)
        say(f"largest difference of the score over its scale: {difference:.3g}")


def options_of(texts: list[str], named: dict[str, Value]) -> dict[str, Value]:
    """Return the options of a target: those with a name on the command line, and the others, name=value each."""
    options = dict(named)
    for text in texts:
        name, mark, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not mark or not name.isidentifier():
            raise InputError(describe("--option", "name=value", repr(text), "write for example dialect=duckdb"))
        if name in options or name in ARGUMENTS:
            raise InputError(describe("--option", "an option of the target, once", repr(name), "leave it out"))
        options[name] = value if name == "good" else _value(value)  # a class's name stays text
    return options


def _value(text: str) -> Value:
    """Return a text as a number or a truth value where it writes one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return WORDS.get(text.lower(), text)


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


def load_model(path: Path) -> AdditiveEstimator:
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
    estimator: AdditiveEstimator, whole: FileTable, path: Path, *, beside: Sequence[str] = (), every: bool = False
) -> FileTable:
    """Return a table's columns for the model; others are not used, which is said.

    Those that the model keeps are needed, with ``every`` also those that it dropped.
    """
    from sparsenam.tables.text import listed

    names = estimator.encoder_.names
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
def knowing_levels(estimator: AdditiveEstimator, path: Path) -> Generator[None]:
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
) -> tuple[AdditiveEstimator, FileTable | None]:
    from sparsenam.cli.tables import read_file

    if rows is not None and table is None:
        raise InputError(describe("--rows", "a table to take the rows from", "none", "name it after the model"))
    estimator = load_model(model)
    return estimator, None if table is None else inputs_of(estimator, read_file(table, max_bytes), table)


def _explain_rows(estimator: AdditiveEstimator, inputs: FileTable, indices: list[int]) -> LocalExplanation:
    """Return the explanation of some rows by their numbers in the file."""
    import numpy as np

    with inputs.naming_rows(indices):
        local = estimator.explain_local(inputs.take(np.array(indices, dtype=np.intp)).native)
    numbered = (replace(row, row=index) for row, index in zip(local.rows, indices, strict=True))
    return replace(local, rows=tuple(numbered))


def _explained(estimator: AdditiveEstimator, inputs: FileTable | None, reference: str | None = None) -> Explanation:
    from sparsenam.explain import against_class

    if reference is not None and estimator.fit_.task != "classification":
        got, remedy = "a model of numbers or times", "leave --reference out"
        raise InputError(describe("--reference", "a model of classes", got, remedy))
    with nullcontext() if inputs is None else inputs.naming_rows():
        explanation = estimator.explain(None if inputs is None else inputs.native)
    return explanation if reference is None else against_class(explanation, reference)


def _exposures(estimator: AdditiveEstimator, whole: FileTable, name: str | None) -> ArrayLike | None:
    """Return the column of exposures (rows,), None where predictions are for an exposure of 1."""
    from sparsenam.cli.problem import numbers_of

    if name is None:
        source = estimator.summary_.source or {}
        if "exposure" in source:
            taken = f"--exposure {source['exposure']} would take the column of the fit"
            note(f"Predictions are for an exposure of 1; {taken}.")
        return None
    if estimator.fit_.task != "regression":
        got, remedy = "a model of classes or of times", "leave --exposure out"
        raise InputError(describe("--exposure", "a model of rates", got, remedy))
    return numbers_of(whole.cells(whole.require(name, "--exposure")), "--exposure")


def _predictions(
    estimator: AdditiveEstimator, X: ArrayLike, exposure: ArrayLike | None, level: float | None
) -> dict[str, list[str] | list[float]]:
    """Return the new columns by name: the prediction, each class's probability, and with a level an interval or set."""
    from sparsenam.estimators.classification import AdditiveClassifier
    from sparsenam.estimators.regression import AdditiveRegressor
    from sparsenam.estimators.survival import AdditiveSurvival

    columns: dict[str, list[str] | list[float]] = {}
    if isinstance(estimator, AdditiveClassifier):
        probabilities = estimator.predict_proba(X)
        classes = [str(label) for label in estimator.classes_.tolist()]
        columns["prediction"] = [classes[int(index)] for index in probabilities.argmax(axis=1)]
        columns |= {f"probability of {name}": probabilities[:, place].tolist() for place, name in enumerate(classes)}
        if level is not None:
            sets = estimator.predict_set(X, level)
            note(sets.guarantee)
            columns["prediction set"] = [" | ".join(map(str, labels)) for labels in sets.labels()]
    elif isinstance(estimator, AdditiveRegressor):
        columns["prediction"] = estimator.predict(X, exposure).tolist()
        if level is not None:
            found = estimator.predict_interval(X, level, exposure=exposure)
            note(found.guarantee)
            columns |= {"prediction_lower": found.lower.tolist(), "prediction_upper": found.upper.tolist()}
    elif isinstance(estimator, AdditiveSurvival):
        columns["prediction"] = estimator.predict(X).tolist()
        if level is not None:
            estimator.predict_interval(X, level)  # which says that there are none
    return columns
