"""How columns are chosen: 4 of 24 matter, and the path shows them entering before all others."""

import matplotlib.pyplot as plt

from sparsenam import SNAMRegressor
from sparsenam.datasets import make_regression
from sparsenam.explain.plots import plot_curve, plot_path


def draw():
    task = make_regression(n_rows=1000, seed=0)
    explanation = SNAMRegressor(random_state=0).fit(task.X, task.y).explain()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    plot_path(explanation, labels=4, ax=left)
    plot_curve(explanation, ax=right)
    return figure
