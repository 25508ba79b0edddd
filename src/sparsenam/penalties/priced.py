"""Prices: what a feature costs beside what it does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsenam.errors import InputError, describe
from sparsenam.penalties.base import Penalty, Vector
from sparsenam.penalties.group_lasso import GroupLasso


def priced(penalty: Penalty, prices: Vector) -> Penalty:
    """Return the penalty with each norm's weight multiplied by a price, shape (groups,); 0 is free."""
    if np.all(prices == 1.0):
        return penalty
    if not isinstance(penalty, GroupLasso):
        got = f"{type(penalty).__name__}, whose weights are not of single features"
        raise InputError(
            describe("penalty_weights and keep", "the penalty 'group_lasso'", got, "choose that penalty")
        )
    return replace(penalty, weights=np.asarray(penalty.weights) * prices)
