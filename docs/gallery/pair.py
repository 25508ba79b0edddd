"""A pair: water helps a crop in the sun and harms it in the shade, beyond what either does alone."""

import numpy as np
import pandas as pd

from sparsenam import SNAMRegressor
from sparsenam.explain.plots import plot_pair


def draw():
    generator = np.random.default_rng(0)
    field = pd.DataFrame({"sun": generator.uniform(size=1500), "water": generator.uniform(size=1500)})
    together = 6 * (field["sun"] - 0.5) * (field["water"] - 0.5)
    crop = field["sun"] + together + 0.3 * generator.normal(size=1500)
    model = SNAMRegressor(pairs="auto", random_state=0).fit(field, crop)
    return plot_pair(model.explain())
