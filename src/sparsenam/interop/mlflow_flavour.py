"""An MLflow flavour over the model file: models are logged, served as ``pyfunc``, and loaded again, without pickle."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsenam.codec import Plain
from sparsenam.errors import describe
from sparsenam.estimators import AdditiveEstimator, load
from sparsenam.estimators.classification import AdditiveClassifier
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.estimators.survival import AdditiveSurvival
from sparsenam.export import ModelFileError
from sparsenam.interop.explanations import library

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

FLAVOUR, FILE, LOADER = "sparsenam", "model.snam", "sparsenam.interop.mlflow_flavour"
PARAMETERS = {"probabilities": False}  # of predict, with their defaults


def save_model(model: AdditiveEstimator, path: str | PathLike[str], *, X: Any = None, **settings: Any) -> None:
    """Write a fitted estimator as an MLflow model into a folder.

    Parameters
    ----------
    model : fitted estimator
    path : path
        A folder that is not there yet.
    X : table, optional
        Rows like those to predict: the signature is inferred from them, and the first five are the input example.
    **settings
        Of ``mlflow.pyfunc.save_model``, such as ``pip_requirements``, ``signature`` or ``metadata``.
    """
    pyfunc = library("mlflow.pyfunc", "sparsenam[mlflow]", "save_model")
    with TemporaryDirectory() as folder:
        pyfunc.save_model(path=str(path), **_arguments(model, Path(folder), X, settings))


def log_model(model: AdditiveEstimator, name: str, *, X: Any = None, **settings: Any) -> Any:
    """Log a fitted estimator with MLflow's active run; return MLflow's ``ModelInfo``.

    Parameters
    ----------
    model : fitted estimator
    name : str
        The model's name in MLflow.
    X : table, optional
        As for `save_model`.
    **settings
        Of ``mlflow.models.Model.log``, such as ``registered_model_name``, and those of `save_model`.
    """
    models = library("mlflow.models", "sparsenam[mlflow]", "log_model")
    # MLflow calls save_model of the module that it is given
    return models.Model.log(None, flavor=import_module(LOADER), name=name, model=model, X=X, **settings)


def load_model(model_uri: str) -> AdditiveEstimator:
    """Return the estimator itself of an MLflow model that `save_model` or `log_model` wrote."""
    artifacts = library("mlflow.artifacts", "sparsenam[mlflow]", "load_model")
    models = library("mlflow.models", "sparsenam[mlflow]", "load_model")
    folder = Path(artifacts.download_artifacts(str(model_uri)))
    flavours: Mapping[str, Mapping[str, str]] = models.Model.load(str(folder)).flavors
    if FLAVOUR not in flavours:
        got, remedy = f"the flavours {sorted(flavours)}", "load it with the library that wrote it"
        raise ModelFileError(describe(f"MLflow model {model_uri}", f"the flavour {FLAVOUR!r}", got, remedy))
    return load(folder / flavours[FLAVOUR]["data"])


class ServedModel:
    """What ``mlflow.pyfunc.load_model`` calls: predictions as a pandas table."""

    def __init__(self, estimator: AdditiveEstimator) -> None:
        self.estimator = estimator

    def predict(self, model_input: ArrayLike, params: Mapping[str, object] | None = None) -> object:
        """Return the predictions (rows,), and with the parameter ``probabilities`` a column for each class.

        A survival model gives log hazard ratios; several numbers for a row are the columns ``prediction 0`` and so on.
        """
        pandas = library("pandas", "sparsenam[mlflow]", "predict")
        estimator = self.estimator
        assert isinstance(estimator, AdditiveRegressor | AdditiveClassifier | AdditiveSurvival)
        predicted = estimator.predict(model_input)
        columns: dict[str, NDArray[np.generic]] = {"prediction": predicted}
        if predicted.ndim == 2:
            columns = {f"prediction {index}": column for index, column in enumerate(predicted.T)}
        if (params or PARAMETERS).get("probabilities") and isinstance(estimator, AdditiveClassifier):
            probabilities = estimator.predict_proba(model_input)
            for label, column in zip(estimator.classes_.tolist(), probabilities.T, strict=True):
                columns[f"probability of {label}"] = column
        return pandas.DataFrame(columns, index=getattr(model_input, "index", None))


def _load_pyfunc(path: str) -> ServedModel:  # pyright: ignore[reportUnusedFunction] MLflow calls it by this name
    return ServedModel(load(path))


def _arguments(model: AdditiveEstimator, folder: Path, X: Any, settings: Plain) -> Plain:
    models = library("mlflow.models", "sparsenam[mlflow]", "save_model")
    model.save(folder / FILE)
    described = settings.get("mlflow_model") or models.Model()
    described.add_flavor(FLAVOUR, sparsenam_version=version("sparsenam"), data=f"data/{FILE}")
    arguments: Plain = {"loader_module": LOADER, "data_path": str(folder / FILE), "mlflow_model": described}
    if "conda_env" not in settings:
        arguments["pip_requirements"] = [f"sparsenam[mlflow]=={version('sparsenam')}"]
    if X is not None:
        parameters = PARAMETERS if isinstance(model, AdditiveClassifier) else None
        answer = ServedModel(model).predict(X)
        arguments["signature"] = models.infer_signature(X, answer, params=parameters)
        arguments["input_example"] = X[:5]
    return arguments | settings
