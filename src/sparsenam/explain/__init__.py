"""Explain: what a model does, as plain data, and drawings of it."""

from sparsenam.discover.alternatives import Alternatives, OtherModel
from sparsenam.explain.audit import Audit, Harm, SubgroupCheck
from sparsenam.explain.build import FitRecord, explain_model
from sparsenam.explain.comparison import Comparison, CurveChange, PredictionChange
from sparsenam.discover.discoveries import Discoveries, discoveries_of
from sparsenam.explain.explanation import Curve, Dropped, EditRecord, Explanation, Feature, Level, Missing
from sparsenam.explain.local import (
    Contribution,
    LocalExplanation,
    RowExplanation,
    explain_rows,
    read_cells,
    row_labels,
)
from sparsenam.explain.pairs import Pair, PairAxis
from sparsenam.explain.reference import against_class
from sparsenam.discover.stability import Replacement, Stability
from sparsenam.fit.summary import DataSummary, Density, TrainingSummary, interactions_of, reader_of, summarize_data, summarize_training
from sparsenam.text import Task, output_names, score_units
from sparsenam.explain.uncertainty import PredictionIntervals, PredictionSets, Uncertainty

__all__ = [
    "Alternatives",
    "Audit",
    "Comparison",
    "Contribution",
    "Curve",
    "CurveChange",
    "DataSummary",
    "Density",
    "Discoveries",
    "Dropped",
    "EditRecord",
    "Explanation",
    "Feature",
    "FitRecord",
    "Harm",
    "Level",
    "LocalExplanation",
    "Missing",
    "OtherModel",
    "Pair",
    "PairAxis",
    "PredictionChange",
    "PredictionIntervals",
    "PredictionSets",
    "Replacement",
    "RowExplanation",
    "Stability",
    "SubgroupCheck",
    "Task",
    "TrainingSummary",
    "Uncertainty",
    "against_class",
    "discoveries_of",
    "explain_model",
    "explain_rows",
    "interactions_of",
    "output_names",
    "read_cells",
    "reader_of",
    "row_labels",
    "score_units",
    "summarize_data",
    "summarize_training",
]
