"""Export: model files that hold data only and load to the same bits, and scorecards."""

from sparsenam.export.container import ModelFileError, ModelFileWarning
from sparsenam.export.model_file import SCHEMA, load_estimator, save_estimator
from sparsenam.export.plain_data import StoredCurve
from sparsenam.export.scorecard_build import scorecard
from sparsenam.export.scorecard_points import Scorecard

__all__ = [
    "SCHEMA",
    "ModelFileError",
    "ModelFileWarning",
    "Scorecard",
    "StoredCurve",
    "load_estimator",
    "save_estimator",
    "scorecard",
]
