"""The loss of each row under a prediction, and under the model without any feature.

Numbers: squared error. Classes: log loss. Counts and amounts: half the unit deviance of Poisson and Gamma. Survival:
the Brier score, integrated over time and weighted by the inverse probability of censoring (Graf, Schmoor, Sauerbrei
and Schumacher, 1999).
"""

import numpy as np

LEAST = 1e-12  # of a probability or a mean: a prediction of 0 costs much, not infinitely much
GRID = 100  # times at which the Brier score is taken


def row_losses(kind, predicted, y):
    """Return the loss of each row, shape (rows,).

    ``predicted`` are means (rows,), probabilities (rows, classes) with ``y`` the index of the class, or survival
    probabilities (rows, times) with ``y`` as `Brier` makes it.
    """
    predicted = np.asarray(predicted, float)
    if not np.isfinite(predicted).all():
        raise ValueError("predictions are not finite")
    if kind == "number":
        return (predicted - y) ** 2
    if kind in ("binary", "classes"):
        return -np.log(np.maximum(predicted[np.arange(len(y)), y], LEAST))
    if kind == "survival":
        return y.losses(predicted)
    mean = np.maximum(predicted, LEAST)
    if kind == "count":
        return np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0) / mean), 0.0) - y + mean
    return y / mean - 1.0 - np.log(y / mean)


class Brier:
    """The times and weights of a Brier score: training rows estimate the censoring, test rows are judged.

    The grid ends at the 80 % quantile of the test rows' times, or where fewer than a tenth of the rows are uncensored:
    beyond it single rows would have weights of ten and more.
    """

    def __init__(self, train, test):
        from sksurv.nonparametric import CensoringDistributionEstimator

        censoring = CensoringDistributionEstimator().fit(train)
        last = min(np.quantile(test["time"], 0.8), 0.999 * train["time"].max())
        grid = np.linspace(test["time"].min(), last, GRID + 1)[1:]
        kept = censoring.predict_proba(grid)
        self.times = grid[kept >= 0.1]
        self.censored_after = kept[kept >= 0.1]
        seen = np.minimum(test["time"], self.times[-1])
        at_event = np.maximum(censoring.predict_proba(seen), 0.1)
        event, time = test["event"], test["time"]
        dead = (time[:, None] <= self.times) & event[:, None]
        alive = time[:, None] > self.times
        self.weights = np.where(dead, 1.0 / at_event[:, None], np.where(alive, 1.0 / self.censored_after, 0.0))
        self.alive = alive.astype(float)

    def losses(self, survival):
        """Return the mean over times of the weighted squared errors, shape (rows,)."""
        squares = self.weights * (self.alive - np.clip(survival, 0.0, 1.0)) ** 2
        return np.trapezoid(squares, self.times, axis=1) / (self.times[-1] - self.times[0])


def empty_prediction(kind, y_train, judged):
    """Return the prediction of the model without features for each row that is judged."""
    if kind in ("binary", "classes"):
        return np.tile(np.bincount(y_train) / len(y_train), (len(judged), 1))
    if kind == "survival":
        from sksurv.functions import StepFunction
        from sksurv.nonparametric import kaplan_meier_estimator

        curve = StepFunction(*kaplan_meier_estimator(y_train["event"], y_train["time"]))
        at = np.clip(judged.times, curve.x[0], curve.x[-1])
        return np.tile(np.where(judged.times < curve.x[0], 1.0, curve(at)), (len(judged.alive), 1))
    return np.full(len(judged), y_train.mean())
