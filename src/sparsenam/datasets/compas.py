"""COMPAS: ProPublica's 6172 defendants of Broward County, and two questions about them.

The file names real people, so only the columns of the model leave this module.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsenam.datasets.dataset import Dataset
from sparsenam.datasets.store import Copy, DataFile, Source, read_files

NAME = "compas-scores-two-years.csv"
SOURCE = Source(
    title="COMPAS",
    urls=(f"https://raw.githubusercontent.com/propublica/compas-analysis/master/{NAME}",),
    files=(DataFile((Copy(NAME, "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"),)),),
    limit=10_000_000,
)
AGES = ("Less than 25", "25 - 45", "Greater than 45")
RACES = ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")
RECIDIVISM = "two_year_recid"


def load_compas(folder: str | Path | None = None) -> Dataset:
    """Return whether the COMPAS score is Medium or High, (6172,), and 13 features, (6172, 13).

    The features are those of ProPublica's own logistic regression, with age and race as one column a level:
    prior counts, recidivism within two years, sex, degree of the charge, age (3 columns), race (6 columns).

    Parameters
    ----------
    folder
        Where ``compas-scores-two-years.csv`` lies. Otherwise it is looked for in the folder that SPARSENAM_DATA
        names, then in the user's cache, and is downloaded if need be.

    References
    ----------
    J. Angwin, J. Larson, S. Mattu and L. Kirchner, Machine Bias, ProPublica, 2016.
    """
    features, scored = _read(folder)
    return _dataset(features, scored, "score_not_low")


def load_compas_recidivism(folder: str | Path | None = None) -> Dataset:
    """Return whether a defendant was charged again within two years, (6172,), and 12 features, (6172, 12).

    Rows and features are those of `load_compas` without the target's column; the COMPAS score is not among them.

    Parameters
    ----------
    folder
        As in `load_compas`.
    """
    features, _ = _read(folder)
    repeated = features.pop(RECIDIVISM)
    return _dataset(features, repeated, RECIDIVISM)


def _dataset(features: dict[str, NDArray[np.float64]], y: NDArray[np.float64], target: str) -> Dataset:
    return Dataset(np.column_stack(list(features.values())), y, tuple(features), target, "classification")


def _read(folder: str | Path | None) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Return the 13 features by name and the target, 1 where the score is Medium or High."""
    (content,) = read_files(SOURCE, folder)
    lines = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    header = next(lines)
    place = {name: header.index(name) for name in header}  # two names come twice; the first column counts
    people = [line for line in lines if _is_kept(line, place)]

    def column(name: str) -> NDArray[np.str_]:
        return np.array([line[place[name]] for line in people])

    features = {
        "priors_count": column("priors_count").astype(np.float64),
        RECIDIVISM: column(RECIDIVISM).astype(np.float64),
        "sex_Female": (column("sex") == "Female").astype(np.float64),
        "charge_M": (column("c_charge_degree") == "M").astype(np.float64),
    }
    features |= {f"age_{age}": (column("age_cat") == age).astype(np.float64) for age in AGES}
    features |= {f"race_{race}": (column("race") == race).astype(np.float64) for race in RACES}
    return features, (column("score_text") != "Low").astype(np.float64)


def _is_kept(line: list[str], place: dict[str, int]) -> bool:
    """Tell whether ProPublica's filter keeps a line: screened within 30 days of an arrest, and the rest known."""
    days = line[place["days_b_screening_arrest"]]
    return (
        days != ""
        and -30 <= float(days) <= 30
        and line[place["is_recid"]] != "-1"
        and line[place["c_charge_degree"]] != "O"
        and line[place["score_text"]] != "N/A"
    )
