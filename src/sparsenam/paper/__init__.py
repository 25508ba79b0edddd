"""The paper's tables and experiments, run again: TOML in, JSON out, the paper's row beside ours."""

NAMES = (
    "synthetic-regression",
    "synthetic-classification",
    "california",
    "compas",
    "superconductivity",
    "penalties",
    "theory",
)
__all__ = ["NAMES"]
