"""Export: model files that hold data only, and load to the same bits."""

from sparsenam.export.curves import StoredCurve
from sparsenam.export.loading import load_estimator
from sparsenam.export.problems import ModelFileError, ModelFileWarning
from sparsenam.export.saving import SCHEMA, save_estimator

__all__ = ["SCHEMA", "ModelFileError", "ModelFileWarning", "StoredCurve", "load_estimator", "save_estimator"]
