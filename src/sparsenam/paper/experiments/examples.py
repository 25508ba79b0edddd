"""Small data sets on which the assumptions of Theorem 4.7 may hold together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsenam.datasets import make_regression
from sparsenam.theory import random_feature_blocks
from sparsenam.theory.blocks import Matrix, Vector

Example = tuple[list[Matrix], Vector, tuple[int, ...]]

WIDTH, FEATURES, TRUE = 3, 6, (0, 1)


def orthogonal(rows: int, *, noise: float = 0.0, false_scale: float = 1.0) -> Example:
    """Return orthogonal blocks of unit mean square, two of them true with effects of one size."""
    generator = np.random.default_rng(7)
    raw = generator.normal(size=(rows, WIDTH * FEATURES))
    columns = np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(rows)
    blocks = [columns[:, WIDTH * feature : WIDTH * (feature + 1)] for feature in range(FEATURES)]
    y = blocks[0].sum(axis=1) - blocks[1].sum(axis=1) + noise * generator.normal(size=rows)
    return [block * (1.0 if feature in TRUE else false_scale) for feature, block in enumerate(blocks)], y, TRUE


def independent(rows: int) -> Example:
    """Return independent normal blocks with a little noise."""
    generator = np.random.default_rng(8)
    blocks = [generator.normal(size=(rows, WIDTH)) for _ in range(FEATURES)]
    y = blocks[0].sum(axis=1) - blocks[1].sum(axis=1) + 0.5 * generator.normal(size=rows)
    return blocks, y, TRUE


def paper_task(rows: int, *, orthonormal: bool) -> Example:
    """Return random features of the paper's synthetic regression."""
    task = make_regression(rows, 24, seed=9)
    return random_feature_blocks(task.X, (16,), orthonormal=orthonormal, seed=0), task.y, (0, 1, 2, 3)


EXAMPLES: dict[str, Callable[[int], Example]] = {
    "orthogonal_noiseless": orthogonal,
    "orthogonal_noisy": lambda rows: orthogonal(rows, noise=0.5),
    "orthogonal_small_false_blocks": lambda rows: orthogonal(rows, noise=0.5, false_scale=0.01),
    "independent_normal": independent,
    "paper_orthonormal": lambda rows: paper_task(rows, orthonormal=True),
    "paper_raw": lambda rows: paper_task(rows, orthonormal=False),
}
