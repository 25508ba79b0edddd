"""The paper's tables and experiments, run again: TOML in, JSON out, the paper's row beside ours.

Run from the repository's root: ``python -m paper NAME [--quick] [--figures] [--out DIR]``.
"""

NAMES = (
    "synthetic-regression",
    "synthetic-classification",
    "california",
    "compas",
    "superconductivity",
    "penalties",
    "joint-penalties",
    "notebook",
    "theory",
)
__all__ = ["NAMES"]
