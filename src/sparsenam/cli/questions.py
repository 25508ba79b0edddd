"""Questions about a saved model and a table with its target: audit, compare, stability and alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparsenam.cli.display import note, say, say_json
from sparsenam.cli.models import inputs_of, load_model
from sparsenam.cli.options import Groups, ModelFile, RowsOptions, Target, as_list
from sparsenam.errors import InputError, describe

if TYPE_CHECKING:
    from sparsenam.cli.problem import LabelledRows, TargetRequest
    from sparsenam.cli.tables import FileTable
    from sparsenam.estimators import AdditiveEstimator
    from sparsenam.fit.response import Classes
    from sparsenam.text import Found

AUDIT_EPILOG = """\b
Examples:
  sparsenam audit model.snam loans.csv --target repaid
  sparsenam audit model.snam loans.csv --target repaid --groups sex,region --report audit.html"""
COMPARE_EPILOG = """\b
Examples:
  sparsenam compare spring.snam summer.snam loans.csv
  sparsenam compare spring.snam summer.snam loans.csv --target repaid --groups region --json"""
STABILITY_EPILOG = """\b
Examples:
  sparsenam stability model.snam houses.csv --target price
  sparsenam stability model.snam houses.csv --target price --pairs 50 --out model.snam --report report.html"""
ALTERNATIVES_EPILOG = """\b
Examples:
  sparsenam alternatives model.snam houses.csv --target price
  sparsenam alternatives model.snam houses.csv --target price --tolerance 0.05 --report report.html"""


def audit(*, model: ModelFile, target: Target, groups: Groups = None, options: RowsOptions) -> None:
    """Say which dropped columns cost which subgroups of rows, and how right the model is in each."""
    estimator, rows, inputs = _asked(model, target, options, as_list(groups))
    chosen = _groups(rows.table, inputs.names, groups)
    with rows.named():
        found = estimator.audit(inputs.native, rows.y, chosen, sample_weight=rows.weights, exposure=rows.exposure)
    _show(found, estimator, options)


def compare(
    *,
    model_a: ModelFile,
    model_b: Annotated[Path, typer.Argument(help="The later model.", show_default=False)],
    target: Annotated[str | None, typer.Option(help="Column that both predict, to compare their losses.")] = None,
    groups: Groups = None,
    options: RowsOptions,
) -> None:
    """Say what changed from one model to another: columns, curves, and predictions by subgroup."""
    import sparsenam
    from sparsenam.cli.tables import check_place, read_file

    check_place(options.report, "--report")
    if target is None and (options.event, options.exposure, options.weights) != (None, None, None):
        expected = "a column, for --event, --exposure or --weights"
        raise InputError(describe("--target", expected, "none", "name it"))
    models = [load_model(path) for path in (model_a, model_b)]
    known = None if target is None else _read(models[0], target, options)
    rows = read_file(options.table, options.max_bytes) if known is None else known.table
    names = dict.fromkeys(name for each in models for name in each.encoder_.names)
    inputs = rows.select([name for name in names if name in rows.names])
    chosen = _groups(rows, inputs.names, groups)
    more = {} if known is None else {"y": known.y, "sample_weight": known.weights, "exposure": known.exposure}
    with rows.naming_rows() if known is None else known.named():
        found = sparsenam.compare(models[0], models[1], inputs.native, groups=chosen, **more)
    _show(found, models[1], options)


def stability(
    *,
    model: ModelFile,
    target: Target,
    pairs: Annotated[int, typer.Option(help="Pairs of random halves of the rows.")] = 25,
    out: Annotated[Path | None, typer.Option(help="Model file to write, with the result in it.")] = None,
    options: RowsOptions,
) -> None:
    """Say how often half of the rows would choose each column, and which columns replace one another."""
    estimator, rows, inputs = _asked(model, target, options)
    with rows.named():
        found = estimator.stability(inputs.native, rows.y, pairs, sample_weight=rows.weights, exposure=rows.exposure)
    _show(found, estimator, options)
    if out is not None:
        estimator.save(out)
        note(f"model: {out}")


def alternatives(
    *,
    model: ModelFile,
    target: Target,
    tolerance: Annotated[
        float | None, typer.Option(help="Share of what the model explains that may be lost; else next to nothing.")
    ] = None,
    most: Annotated[int, typer.Option(help="Most models to list.")] = 20,
    options: RowsOptions,
) -> None:
    """List other sets of columns that predict about as well as those of the model."""
    estimator, rows, inputs = _asked(model, target, options)
    allowed = "auto" if tolerance is None else tolerance
    with rows.named():
        found = estimator.alternatives(
            inputs.native, rows.y, allowed, most, sample_weight=rows.weights, exposure=rows.exposure
        )
    _show(found, estimator, options)


def _asked(
    model: Path, target: str, options: RowsOptions, groups: Sequence[str] = ()
) -> tuple[AdditiveEstimator, LabelledRows, FileTable]:
    from sparsenam.cli.tables import check_place

    check_place(options.report, "--report")
    estimator = load_model(model)
    rows = _read(estimator, target, options)
    return estimator, rows, inputs_of(estimator, rows.table, options.table, beside=groups, every=True)


def _read(estimator: AdditiveEstimator, target: str, options: RowsOptions) -> LabelledRows:
    """Return the rows of a file whose target is known, with the target and exposures as the model reads them."""
    from sparsenam.cli.problem import pose
    from sparsenam.cli.tables import read_file
    from sparsenam.fit.response import ClassResponse

    problem = pose(read_file(options.table, options.max_bytes), _request(estimator, target, options))
    for sentence in problem.notes:
        note(sentence)
    response = estimator.fit_.response
    if not isinstance(response, ClassResponse):
        return problem.rows
    return replace(problem.rows, y=_as_classes(response.classes.tolist(), problem.rows.y))


def _request(estimator: AdditiveEstimator, target: str, options: RowsOptions) -> TargetRequest:
    """Return what a model says about its target; raise where an option does not go with it."""
    from sparsenam.cli.problem import TargetRequest

    event, of_times = options.event, estimator.fit_.task == "survival"
    if of_times != (event is not None):
        expected = "the column of events" if of_times else "a model of survival"
        raise InputError(describe("--event", expected, event or "none", "name it" if of_times else "leave it out"))
    family = estimator.model_.family
    # the Cox model is fitted as a sequence of Poisson problems
    task = "count" if family.response == "count" and not of_times else estimator.fit_.task
    name = family.name if family.response == "amount" else None
    return TargetRequest(target, task, name, event, options.exposure, options.weights)


def _as_classes(classes: Sequence[object], y: Classes) -> Classes:
    """Return the classes of a file (rows,), which may be text, as those of the model, which may be numbers."""
    import numpy as np

    from sparsenam.tables.text import number_key

    by_text: dict[str, object] = {}
    for label in classes:
        by_text |= {number_key(float(label)): label} if isinstance(label, int | float) else {}
        by_text[str(label)] = label
    labels: list[object] = [by_text.get(str(label), label) for label in y.tolist()]
    return np.array(labels, dtype=object if len({type(label) for label in labels}) > 1 else None)


def _groups(rows: FileTable, inputs: tuple[str, ...], groups: str | None) -> object:
    """Return names of the model's columns, or labels where some of the names are other columns of the table."""
    names = as_list(groups)
    if groups is None:
        return None
    if not names:
        raise InputError(describe("--groups", "names of columns", repr(groups), "write for example sex,region"))
    for name in names:
        rows.require(name, "--groups")
    return names if set(names) <= set(inputs) else rows.select(names).native


def _show(found: Found, estimator: AdditiveEstimator, options: RowsOptions) -> None:
    say_json(found.to_dict()) if options.as_json else say(str(found))
    if options.report is not None:
        estimator.explain().report(options.report, beside=[found])
        note(f"report: {options.report}")
