"""Figures of the paper, drawn from the plain numbers that a run stores."""

from sparsenam.paper.figures.effects import draw_effects
from sparsenam.paper.figures.optimizers import draw_optimizers
from sparsenam.paper.figures.saving import save_figure
from sparsenam.paper.figures.theory import draw_estimation_error, draw_flows, draw_identification, draw_recovery
from sparsenam.paper.figures.truth import draw_effects_against_truth, draw_zoo
from sparsenam.paper.figures.variation import draw_variation

__all__ = [
    "draw_effects",
    "draw_effects_against_truth",
    "draw_estimation_error",
    "draw_flows",
    "draw_identification",
    "draw_optimizers",
    "draw_recovery",
    "draw_variation",
    "draw_zoo",
    "save_figure",
]
