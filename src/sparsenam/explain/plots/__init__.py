"""Pictures of explanations, on new figures or on axes of the caller's; nothing here touches pyplot's state."""

from sparsenam.explain.plots.history import plot_history
from sparsenam.explain.plots.importance import plot_importance
from sparsenam.explain.plots.path import plot_curve, plot_path
from sparsenam.explain.plots.shapes import plot_shapes
from sparsenam.explain.plots.truth import plot_truth
from sparsenam.explain.plots.waterfall import plot_local

__all__ = [
    "plot_curve",
    "plot_history",
    "plot_importance",
    "plot_local",
    "plot_path",
    "plot_shapes",
    "plot_truth",
]
