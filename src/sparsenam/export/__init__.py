"""Export: model files that hold data only and load to the same bits, and scorecards."""

from sparsenam.export.model_file import SCHEMA, ModelFileError, ModelFileWarning, load_fit, save_fit
from sparsenam.export.scorecard_build import scorecard
from sparsenam.export.scorecard_points import Scorecard
from sparsenam.selection.curve import StoredCurve

__all__ = [
    "SCHEMA",
    "ModelFileError",
    "ModelFileWarning",
    "Scorecard",
    "StoredCurve",
    "load_fit",
    "save_fit",
    "scorecard",
]
