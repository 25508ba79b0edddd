"""Explain: what a model does, as plain data, and drawings of it."""

from sparsenam.audit.audit import Audit, SubgroupCheck
from sparsenam.audit.compare import Comparison, CurveChange, PredictionChange
from sparsenam.audit.harm import Harm
from sparsenam.discover.alternatives import Alternatives, OtherModel
from sparsenam.discover.fdr import Discoveries
from sparsenam.discover.stability import Replacement, Stability
from sparsenam.explain.build import explain, explain_model
from sparsenam.explain.explanation import (
    Curve,
    Dropped,
    EditRecord,
    Explanation,
    Feature,
    Level,
    Missing,
    Pair,
    PairAxis,
)
from sparsenam.explain.local import Contribution, LocalExplanation, RowExplanation, explain_rows
from sparsenam.explain.reference import against_class
from sparsenam.fit.summary import DataSummary, Density, TrainingSummary
from sparsenam.text import Task
from sparsenam.uncertainty.results import PredictionIntervals, PredictionSets, Uncertainty

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
    "explain",
    "explain_model",
    "explain_rows",
]
