"""What tests of smooth fits share."""

from dataclasses import replace

import numpy as np


def scores_of(fit, x):
    """Return the scores (rows, outputs) of a smooth fit at x (terms, rows); an absent term adds its mean."""
    scores = np.tile(fit.intercept, (x.shape[1], 1))
    for curve, mean, cells in zip(fit.functions(), fit.mean_effects, x, strict=True):
        scores += replace(curve, absent=mean)(cells)
    return scores
