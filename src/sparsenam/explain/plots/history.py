"""The course of a training."""

from __future__ import annotations

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from sparsenam.errors import InputError, describe
from sparsenam.explain.explanation import Explanation
from sparsenam.explain.plots.palette import BLUE, VERMILLION
from sparsenam.explain.plots.sheet import FONT, numbers, one_panel


def plot_history(explanation: Explanation, *, ax: object | None = None) -> Figure:
    """Draw loss, and loss plus penalty where there is one, against epochs."""
    history = [epoch for epoch in explanation.history if epoch.get("loss") is not None]
    if not history:
        remedy = "explain a model that was trained, or look at plot_curve"
        raise InputError(describe("plot_history", "a history", "an explanation without one", remedy))
    epochs = numbers([epoch.get("epoch", place) for place, epoch in enumerate(history)])
    loss = numbers([epoch["loss"] for epoch in history])
    penalty = numbers([epoch.get("penalty") or 0.0 for epoch in history])
    sheet, panel = one_panel("plot_history", ax, 6.0, 3.4)
    mark = "o" if len(history) <= 12 else ""
    handles: list[Artist] = []
    labels = ["loss"]
    handles += panel.plot(epochs, loss, color=BLUE, linestyle="-", linewidth=1.4, marker=mark, markersize=4.0)
    if penalty.any():
        objective = loss + penalty
        handles += panel.plot(
            epochs, objective, color=VERMILLION, linestyle="--", linewidth=1.4, marker=mark, markersize=4.0
        )
        labels.append("loss + penalty")
    if len(history) <= 12:
        panel.set_xticks(epochs)
    panel.set_xlabel("epoch", fontsize=FONT)
    panel.set_ylabel("objective on the training rows", fontsize=FONT)
    sheet.legend(handles, labels, columns=2)
    features = history[-1].get("features")
    sheet.title("training" if features is None else f"training, {features:.0f} features at the end")
    return sheet.figure
