"""Neural Additive Models (Agarwal et al., 2021): no group penalty, NAM's own regularisers."""

from __future__ import annotations

from os import PathLike

import numpy as np

from sparsenam.estimators.classification import AdditiveClassifier, ClassWeight
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.estimators.settings import Settings
from sparsenam.networks import Hidden
from sparsenam.tables.groups import FeatureTypes
from sparsenam.training.solvers import Schedule


class NAMRegressor(AdditiveRegressor):
    """Neural Additive Model for regression: SNAM with α = 0, regularised by dropout and weight decay.

    The parameters and attributes are those of `sparsenam.SNAMRegressor` less the penalty's.
    """

    def __init__(
        self,
        *,
        hidden: Hidden = (100, 50),
        activation: str = "relu",
        solver: str = "adam",
        learning_rate: float | None = None,
        schedule: str | Schedule = "constant",
        batch_size: int | None = 256,
        max_epochs: int | None = None,
        max_seconds: float | None = None,
        tol: float | None = None,
        patience: int = 10,
        validation_fraction: float = 0.0,
        dropout: float = 0.1,
        feature_dropout: float = 0.05,
        output_penalty: float = 0.001,
        weight_decay: float = 1e-6,
        standardize: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        device: str = "auto",
        feature_types: FeatureTypes | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.solver = solver
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.tol = tol
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.dropout = dropout
        self.feature_dropout = feature_dropout
        self.output_penalty = output_penalty
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.checkpoint = checkpoint
        self.device = device
        self.feature_types = feature_types
        self.verbose = verbose
        self.random_state = random_state

    def _settings(self) -> Settings:
        return Settings.of({**self.get_params(deep=False), "alpha": 0.0})


class NAMClassifier(AdditiveClassifier):
    """Neural Additive Model for classification: SNAM with α = 0, regularised by dropout and weight decay.

    The parameters and attributes are those of `sparsenam.SNAMClassifier` less the penalty's.
    """

    def __init__(
        self,
        *,
        class_weight: ClassWeight = None,
        hidden: Hidden = (100, 50),
        activation: str = "relu",
        solver: str = "adam",
        learning_rate: float | None = None,
        schedule: str | Schedule = "constant",
        batch_size: int | None = 256,
        max_epochs: int | None = None,
        max_seconds: float | None = None,
        tol: float | None = None,
        patience: int = 10,
        validation_fraction: float = 0.0,
        dropout: float = 0.1,
        feature_dropout: float = 0.05,
        output_penalty: float = 0.001,
        weight_decay: float = 1e-6,
        standardize: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        device: str = "auto",
        feature_types: FeatureTypes | None = None,
        verbose: bool | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.class_weight = class_weight
        self.hidden = hidden
        self.activation = activation
        self.solver = solver
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.tol = tol
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.dropout = dropout
        self.feature_dropout = feature_dropout
        self.output_penalty = output_penalty
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.checkpoint = checkpoint
        self.device = device
        self.feature_types = feature_types
        self.verbose = verbose
        self.random_state = random_state

    def _settings(self) -> Settings:
        return Settings.of({**self.get_params(deep=False), "alpha": 0.0})
