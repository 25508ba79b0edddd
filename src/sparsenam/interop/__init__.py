"""Fitted models in the forms of other libraries: SHAP's and interpret's explanations, and MLflow's models."""

from sparsenam.interop.explanations import interpret_explanation, shap_explanation
from sparsenam.interop.mlflow_flavour import load_model, log_model, save_model

__all__ = ["interpret_explanation", "load_model", "log_model", "save_model", "shap_explanation"]
