"""Superconductivity: critical temperatures of 21263 materials and 131 of their properties."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsenam.datasets.dataset import Dataset
from sparsenam.datasets.store import Copy, DataFile, Source, read_files

SOURCE = Source(
    title="Superconductivity",
    urls=("https://archive.ics.uci.edu/static/public/464/superconductivty+data.zip",),  # the archive's own spelling
    files=(
        DataFile(
            copies=(
                Copy(
                    "superconductivity_train.csv.gz",
                    "ac6035566b9a481ec685518933ba2288fb5329829f44175b62dbaabef3e6d3a9",
                    compressed=True,
                ),
                Copy("train.csv", "4dfb6e3a1f6ffd969e5a5e42f093c4800d1e2a6c8b1e309f8fcd9f23d86952f3"),
            ),
            member="train.csv",
        ),
        DataFile(
            copies=(
                Copy(
                    "superconductivity_unique_m.csv.gz",
                    "544eb0d47f0f99e0499efcdb92e5c9a473e55f417499575177143f8a83b51e5d",
                    compressed=True,
                ),
                Copy("unique_m.csv", "b68ae6b55ea8581eff8b1ffba073a899db7e2d2f7f3b781bb0802f643f51e5f7"),
            ),
            member="unique_m.csv",
        ),
    ),
    archive="zip",
    limit=60_000_000,
)
TARGET = "critical_temp"
LEAST_VARIANCE = 0.05


def load_superconductivity(folder: str | Path | None = None) -> Dataset:
    """Return the critical temperature in kelvin, (21263,), and 131 features of the material, (21263, 131).

    The features are 81 summaries of the elements' properties and the counts of the elements; of all these, only
    columns with a raw variance of at least 0.05 stay, as in the paper: the 81 and 50 elements.
    The two files are joined by the position of the row.

    Parameters
    ----------
    folder
        Where ``train.csv`` and ``unique_m.csv`` lie, plain or as ``superconductivity_train.csv.gz`` and
        ``superconductivity_unique_m.csv.gz``. Otherwise they are looked for in the folder that SPARSENAM_DATA
        names, then in the user's cache, and are downloaded if need be.

    References
    ----------
    K. Hamidieh, A data-driven statistical model for predicting the critical temperature of a superconductor,
    Computational Materials Science 154 (2018), 346-354; doi 10.24432/C53P47, CC BY 4.0.
    """
    summaries, elements = read_files(SOURCE, folder)
    tables = [_table(summaries), _table(elements)]
    columns = [(name, column) for table in tables for name, column in table.items() if name != TARGET]
    kept = [(name, column) for name, column in columns if column.var() >= LEAST_VARIANCE]
    names = tuple(name for name, _ in kept)
    X = np.column_stack([column for _, column in kept])
    return Dataset(X, tables[0][TARGET].copy(), names, TARGET, "regression")


def _table(content: bytes) -> dict[str, NDArray[np.float64]]:
    """Return the columns of numbers by name, each (rows,)."""
    header = next(csv.reader([content.split(b"\r\n", 1)[0].decode("ascii")]))
    places = [place for place, name in enumerate(header) if name != "material"]  # the only column of words
    values = np.loadtxt(
        io.BytesIO(content), delimiter=",", skiprows=1, usecols=places, dtype=np.float64, quotechar='"'
    )
    return {header[place]: values[:, number] for number, place in enumerate(places)}
