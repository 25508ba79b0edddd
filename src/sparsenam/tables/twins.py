"""Columns that say the same, up to unit and sign."""

from __future__ import annotations

import numpy as np

from sparsenam.tables.scaling import Matrix

SAME = 1e-6  # less than this from a correlation of 1: a thousandth of a standard deviation apart
PROJECTIONS, NEAR = 3, 0.01  # equal columns have equal products with random vectors; few others have


def equal_columns(columns: Matrix) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, of equal columns (rows, k) of mean 0 and variance 1, sorted.

    Cells that are NaN must be NaN in both. All pairs of 10,000 columns would be too many to compare: only those are
    whose products with three random vectors agree.
    """
    absent = np.isnan(columns)
    filled = np.where(absent, 0.0, columns)
    counts = np.maximum((~absent).sum(axis=0), 1)
    random = np.random.default_rng(0).normal(size=(columns.shape[0], PROJECTIONS))
    products = filled.T @ random / np.sqrt(counts)[:, None]
    products *= np.where(products[:, :1] < 0, -1.0, 1.0)  # a column and its negative are one
    order = np.argsort(products[:, 0], kind="stable")
    ranked, pairs = products[order], list[tuple[int, int]]()
    for apart in range(1, len(order)):
        gaps = ranked[apart:] - ranked[:-apart]
        if gaps[:, 0].min() > NEAR:
            break
        for place in np.flatnonzero(np.abs(gaps).max(axis=1) <= NEAR):
            one, other = sorted((int(order[place]), int(order[place + apart])))
            together = abs(float(filled[:, one] @ filled[:, other])) / counts[one]
            if together >= 1.0 - SAME and np.array_equal(absent[:, one], absent[:, other]):
                pairs.append((one, other))
    return sorted(pairs)
