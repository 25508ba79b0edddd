"""California Housing: 20640 districts of the 1990 census, as scikit-learn's ``fetch_california_housing``."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from sparsenam.datasets.dataset import Dataset
from sparsenam.datasets.store import Copy, DataFile, Source, read_files

SOURCE = Source(
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
NAMES = ("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude")


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
    (content,) = read_files(SOURCE, folder)
    table = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.float64)
    longitude, latitude, age, rooms, bedrooms, population, households, income, value = table.T
    columns = (
        income,
        age,
        rooms / households,
        bedrooms / households,
        population,
        population / households,
        latitude,
        longitude,
    )
    return Dataset(np.column_stack(columns), value / 100_000.0, NAMES, "MedHouseVal", "regression")
