"""Fitted models in the forms of other libraries: SHAP's and interpret's explanations, and MLflow's models."""

from sparsenam.interop.interpret_data import interpret_explanation
from sparsenam.interop.mlflow_flavour import load_model, log_model, save_model
from sparsenam.interop.shap_values import shap_explanation

__all__ = ["interpret_explanation", "load_model", "log_model", "save_model", "shap_explanation"]
