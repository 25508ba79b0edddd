"""Explain: what a model does, as plain data, and pictures of it."""

from sparsenam.explain.build import explain_model
from sparsenam.explain.cell_text import read_cells, row_labels
from sparsenam.explain.explanation import Curve, Density, Dropped, Explanation, Feature, Level, Missing
from sparsenam.explain.local import Contribution, LocalExplanation, RowExplanation
from sparsenam.explain.rows import explain_rows
from sparsenam.explain.story import Story
from sparsenam.explain.summary import DataSummary, TrainingSummary, summarize_data

__all__ = [
    "Contribution",
    "Curve",
    "DataSummary",
    "Density",
    "Dropped",
    "Explanation",
    "Feature",
    "Level",
    "LocalExplanation",
    "Missing",
    "RowExplanation",
    "Story",
    "TrainingSummary",
    "explain_model",
    "explain_rows",
    "read_cells",
    "row_labels",
    "summarize_data",
]
