"""``sparsenam predict``: a table in, the same table with predictions out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparsenam.cli.errors import readable_errors

if TYPE_CHECKING:
    from sparsenam.cli.table import Table

PREDICTIONS = Path("predictions.csv")
EPILOG = """\b
Examples:
  sparsenam predict sparsenam-model/model.snam new.csv
  sparsenam predict loans/model.snam new.parquet --out scored.csv.gz"""


def predict(
    model: Annotated[Path, typer.Argument(help="A model.snam of sparsenam fit.", show_default=False)],
    table: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet file, .gz too.", show_default=False)],
    out: Annotated[Path, typer.Option(help="CSV or TSV file to write, .gz too.")] = PREDICTIONS,
    exposure: Annotated[str | None, typer.Option(help="Column of exposures; else 1 for every row.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole trace of an error.")] = False,
) -> None:
    """Predict each row of a table: the table again, with a column of predictions and one for each probability.

    A survival model gives log hazard ratios: the higher, the riskier.
    """
    with readable_errors(debug=debug):
        from sparsenam.cli.display import say
        from sparsenam.cli.loading import load_model, read_for
        from sparsenam.cli.writing import check_writable, write_table

        check_writable(out)
        estimator = load_model(model)
        whole, own = read_for(estimator, table, beside=() if exposure is None else (exposure,))
        columns = predicted_columns(estimator, own, exposures(estimator, whole, exposure))
        write_table(out, whole, columns)
        say(f"{whole.rows} predictions: {out}")


def exposures(estimator: Any, whole: Table, name: str | None) -> Any:
    """Return the column of exposures (rows,), None where there is none."""
    from sparsenam.cli.task import numbers_of
    from sparsenam.errors import InputError, describe

    if name is None:
        return None
    if hasattr(estimator, "classes_") or hasattr(estimator, "event_times_"):
        got, remedy = "a model of classes or of times", "leave --exposure out"
        raise InputError(describe("--exposure", "a model of rates", got, remedy))
    return numbers_of(whole.cells(whole.require(name, "--exposure")), "--exposure")


def predicted_columns(estimator: Any, own: Table, exposure: Any) -> dict[str, list[str]]:
    """Return the new columns by name: the prediction, and the probability of each class."""
    native = own.native
    if hasattr(estimator, "classes_"):
        chances = estimator.predict_proba(native)
        classes = [str(each) for each in estimator.classes_.tolist()]
        best = chances.argmax(axis=1)
        columns = {"prediction": [classes[int(place)] for place in best]}
        for place, name in enumerate(classes):
            columns[f"probability of {name}"] = [repr(float(value)) for value in chances[:, place]]
        return columns
    values = estimator.predict(native) if exposure is None else estimator.predict(native, exposure=exposure)
    return {"prediction": [repr(float(value)) for value in values]}
