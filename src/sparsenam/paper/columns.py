"""The measures that a table can show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """Heading of a measure, and the factor that takes ours to the unit shown."""

    heading: str
    factor: float = 1.0


COLUMNS: dict[str, Column] = {
    "mse": Column("MSE"),
    "mae": Column("MAE"),
    "r2": Column("R²"),
    "cross_entropy": Column("cross-entropy"),
    "accuracy": Column("accuracy %", 100.0),
    "auc": Column("AUC of probabilities"),
    "auc_of_labels": Column("AUC of labels"),
    "precision": Column("precision"),
    "recall": Column("recall"),
    "identification": Column("identification error"),
    "features": Column("features"),
    "parameters": Column("parameters"),
    "alpha": Column("α"),
    "seconds": Column("seconds"),
}
