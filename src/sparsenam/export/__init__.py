"""Export: model files that hold data only, and load to the same bits."""

from sparsenam.export.container import ModelFileError, ModelFileWarning
from sparsenam.export.model_file import SCHEMA, load_estimator, save_estimator
from sparsenam.export.plain_data import StoredCurve

__all__ = ["SCHEMA", "ModelFileError", "ModelFileWarning", "StoredCurve", "load_estimator", "save_estimator"]
