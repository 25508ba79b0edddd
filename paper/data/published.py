"""The paper's real tables, from their published files: California Housing, COMPAS, Superconductivity.

The file of COMPAS names real people, so only the columns of the model leave this module.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from paper.data.store import Copy, DataFile, Source, read_files
from sparsenam.errors import describe

Vector = NDArray[np.float64]

CALIFORNIA = Source(
    title="California Housing",
    urls=("https://ndownloader.figshare.com/files/5976036",),  # the archive that scikit-learn uses
    files=(
        DataFile(
            copies=(Copy("cal_housing.data", "a2b44dcc7e1c9091b43c4f458b25cbd1f7e8068d08edd26bc4703108d3fa6214"),),
            member="CaliforniaHousing/cal_housing.data",
            unix_lines=True,
        ),
    ),
    archive="tar.gz",
    limit=10_000_000,
)
HOUSING_COLUMNS = ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude")
COMPAS_FILE = "compas-scores-two-years.csv"
COMPAS = Source(
    title="COMPAS",
    urls=(f"https://raw.githubusercontent.com/propublica/compas-analysis/master/{COMPAS_FILE}",),
    files=(DataFile((Copy(COMPAS_FILE, "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"),)),),
    limit=10_000_000,
)
AGES = ("Less than 25", "25 - 45", "Greater than 45")
RACES = ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")
RECIDIVISM = "two_year_recid"
SUPERCONDUCTIVITY = Source(
    title="Superconductivity",
    urls=("https://archive.ics.uci.edu/static/public/464/superconductivty+data.zip",),  # spelt so there
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
CRITICAL_TEMPERATURE = "critical_temp"
LEAST_VARIANCE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """X (rows, features), y (rows,) and their names; y of a classification is 0 or 1.

    ``fit(data.frame, data.target_name)`` fits it as a table that has its names.
    """

    X: NDArray[np.float64]
    y: Vector
    feature_names: tuple[str, ...]
    target_name: str
    task: Literal["regression", "classification"]

    @property
    def frame(self) -> Any:
        """The columns of X by their names and y as the last one, as a table of pandas, else of polars or pyarrow."""
        columns = dict(zip((*self.feature_names, self.target_name), (*self.X.T, self.y), strict=True))
        for library in ("pandas", "polars", "pyarrow"):
            try:
                import_module(library)
            except ImportError:  # the next one may be there
                continue
            return nw.from_dict(columns, backend=library).to_native()
        raise ImportError(describe("frame", "pandas, polars or pyarrow", "none of them", "install one"))


def load_california(folder: str | Path | None = None) -> Dataset:
    """Return the median house value in 100,000 dollars, (20640,), and 8 features of the district, (20640, 8).

    Parameters
    ----------
    folder
        Where ``cal_housing.data`` lies. Otherwise it is looked for in the folder that SPARSENAM_DATA names, then in
        the user's cache, and is downloaded if need be.

    References
    ----------
    R. K. Pace and R. Barry, Sparse Spatial Autoregressions, Statistics and Probability Letters 33 (1997), 291-297.
    """
    (content,) = read_files(CALIFORNIA, folder)
    table = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.float64)
    longitude, latitude, age, rooms, bedrooms, population, households, income, value = table.T
    rates = (rooms / households, bedrooms / households, population, population / households)
    X = np.column_stack([income, age, *rates, latitude, longitude])
    return Dataset(X, value / 100_000.0, HOUSING_COLUMNS, "MedHouseVal", "regression")


def load_compas(folder: str | Path | None = None) -> Dataset:
    """Return whether the COMPAS score is Medium or High, (6172,), and 13 features, (6172, 13).

    The features are those of ProPublica's logistic regression, with age and race as one column a level:
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
    features, scored = _read_compas(folder)
    return _classification(features, scored, "score_not_low")


def load_compas_recidivism(folder: str | Path | None = None) -> Dataset:
    """Return whether a defendant was charged again within two years, (6172,), and 12 features, (6172, 12).

    Rows and features are those of `load_compas` without the target's column; the COMPAS score is not among them.

    Parameters
    ----------
    folder
        As in `load_compas`.
    """
    features, _ = _read_compas(folder)
    return _classification(features, features.pop(RECIDIVISM), RECIDIVISM)


def _classification(features: dict[str, Vector], y: Vector, target: str) -> Dataset:
    return Dataset(np.column_stack(list(features.values())), y, tuple(features), target, "classification")


def _read_compas(folder: str | Path | None) -> tuple[dict[str, Vector], Vector]:
    """Return the 13 features by name and the target, 1 where the score is Medium or High."""
    (content,) = read_files(COMPAS, folder)
    lines = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    header = next(lines)
    # two names come twice; the first column counts
    people = [person for line in lines if _is_kept(person := dict(zip(header[::-1], line[::-1], strict=True)))]

    def numbers(name: str) -> Vector:
        return np.array([person[name] for person in people]).astype(np.float64)

    def is_level(name: str, level: str) -> Vector:
        return np.array([person[name] == level for person in people]).astype(np.float64)

    features = {name: numbers(name) for name in ("priors_count", RECIDIVISM)}
    features |= {"sex_Female": is_level("sex", "Female"), "charge_M": is_level("c_charge_degree", "M")}
    features |= {f"age_{age}": is_level("age_cat", age) for age in AGES}
    features |= {f"race_{race}": is_level("race", race) for race in RACES}
    return features, 1.0 - is_level("score_text", "Low")


def _is_kept(person: dict[str, str]) -> bool:
    """Return whether ProPublica's filter keeps a person: screened within 30 days of an arrest, the rest known."""
    days = person["days_b_screening_arrest"]
    known = person["is_recid"] != "-1" and person["c_charge_degree"] != "O" and person["score_text"] != "N/A"
    return known and days != "" and -30 <= float(days) <= 30


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
    summaries, elements = read_files(SUPERCONDUCTIVITY, folder)
    tables = [_numeric_columns(summaries), _numeric_columns(elements)]
    columns = [(name, column) for table in tables for name, column in table.items() if name != CRITICAL_TEMPERATURE]
    kept = [(name, column) for name, column in columns if column.var() >= LEAST_VARIANCE]
    names = tuple(name for name, _ in kept)
    X = np.column_stack([column for _, column in kept])
    return Dataset(X, tables[0][CRITICAL_TEMPERATURE].copy(), names, CRITICAL_TEMPERATURE, "regression")


def _numeric_columns(content: bytes) -> dict[str, Vector]:
    """Return the columns of numbers by name, each (rows,)."""
    header = next(csv.reader([content.split(b"\r\n", 1)[0].decode("ascii")]))
    indices = [index for index, name in enumerate(header) if name != "material"]  # the only column of text
    values = np.loadtxt(
        io.BytesIO(content), delimiter=",", skiprows=1, usecols=indices, dtype=np.float64, quotechar='"'
    )
    return {header[index]: column for index, column in zip(indices, values.T, strict=True)}
