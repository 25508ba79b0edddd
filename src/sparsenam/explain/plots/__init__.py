"""Pictures of explanations, on new figures or on the caller's own axes; nothing here touches pyplot's state."""

from sparsenam.explain.plots.pairs import plot_pair
from sparsenam.explain.plots.panels import plot_curve, plot_history, plot_importance, plot_local, plot_path
from sparsenam.explain.plots.shapes import plot_shapes, plot_truth

__all__ = [
    "plot_curve",
    "plot_history",
    "plot_importance",
    "plot_local",
    "plot_pair",
    "plot_path",
    "plot_shapes",
    "plot_truth",
]
