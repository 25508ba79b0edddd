"""Against the truth: the task is simulated, so that each curve can be laid over what made the data."""

from sparsenam import SNAMRegressor
from sparsenam.datasets import make_regression
from sparsenam.explain.plots import plot_truth


def draw():
    task = make_regression(n_rows=1000, seed=0)
    model = SNAMRegressor(random_state=0).fit(task.X, task.y)
    truth = {f"x{column}": (task.X[:, column], task.effects[:, column]) for column in range(4)}
    return plot_truth(model.explain(), truth)
