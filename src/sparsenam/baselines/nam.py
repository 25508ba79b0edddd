"""Neural Additive Models (Agarwal et al., 2021): no group penalty, and NAM's regularisers in its stead."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from sparsenam.estimators.classification import AdditiveClassifier, ClassWeight
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.estimators.settings import Settings
from sparsenam.networks import Hidden
from sparsenam.tables.groups import FeatureTypes
from sparsenam.training.solvers import Schedule


@dataclass(kw_only=True, repr=False, eq=False)
class NAMParameters:
    """The parameters that both estimators have, with the regularisers of the NAM article as defaults."""

    hidden: Hidden = (100, 50)
    activation: str = "relu"
    solver: str = "adam"
    learning_rate: float | None = None
    schedule: str | Schedule = "constant"
    batch_size: int | None = 256
    max_epochs: int | None = None
    max_seconds: float | None = None
    tol: float | None = None
    patience: int = 10
    validation_fraction: float = 0.0
    dropout: float = 0.1
    feature_dropout: float = 0.05
    output_penalty: float = 0.001
    weight_decay: float = 1e-6
    standardize: bool = True
    checkpoint: str | PathLike[str] | None = None
    device: str = "auto"
    feature_types: FeatureTypes | None = None
    verbose: bool | None = None
    random_state: int | np.random.RandomState | None = None


class NAMRegressor(NAMParameters, AdditiveRegressor):
    """Neural Additive Model for regression: SNAM with α = 0, regularised by dropout and weight decay.

    The parameters and attributes are those of `sparsenam.SNAMRegressor` less the penalty's.
    """

    def _settings(self) -> Settings:
        return _without_penalty(self.get_params(deep=False))


@dataclass(kw_only=True, repr=False, eq=False)
class NAMClassifier(NAMParameters, AdditiveClassifier):
    """Neural Additive Model for classification: SNAM with α = 0, regularised by dropout and weight decay.

    The parameters and attributes are those of `sparsenam.SNAMClassifier` less the penalty's.
    """

    class_weight: ClassWeight = None

    def _settings(self) -> Settings:
        return _without_penalty(self.get_params(deep=False))


def _without_penalty(parameters: dict[str, Any]) -> Settings:
    return Settings.of({**parameters, "alpha": 0.0})
