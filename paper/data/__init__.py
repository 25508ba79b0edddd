"""The paper's real tables, downloaded once and used only with the right checksum."""

from paper.data.published import (
    Dataset,
    load_california,
    load_compas,
    load_compas_recidivism,
    load_superconductivity,
)

__all__ = [
    "Dataset",
    "load_california",
    "load_compas",
    "load_compas_recidivism",
    "load_superconductivity",
]
