"""Neural Additive Models (Agarwal et al., 2021): no group penalty, and NAM's regularisers in its stead."""

from __future__ import annotations

from dataclasses import dataclass, fields
from os import PathLike

import numpy as np

from sparsenam.estimators.classification import AdditiveClassifier, ClassWeight
from sparsenam.estimators.regression import AdditiveRegressor
from sparsenam.families import CustomLoss, Family
from sparsenam.fit.plan import Plan, plan_of
from sparsenam.networks.bank import Hidden
from sparsenam.tables.encoder import FeatureTypes
from sparsenam.training import Network
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

    def _network(self) -> Network:
        names = {field.name for field in fields(Network)}
        return Network(**{name: value for name, value in vars(self).items() if name in names})

    def _plan(self, family: str | Family | CustomLoss, allowed: tuple[str, ...] = ()) -> Plan:
        given = {name: getattr(self, name) for name in ("feature_types", "max_seconds", "verbose", "random_state")}
        settings = {**given, "alpha": 0.0, "penalty": "group_lasso", "network": self._network()}
        return plan_of(type(self).__name__, settings, family, allowed)


class NAMRegressor(NAMParameters, AdditiveRegressor):
    """Neural Additive Model for regression: SNAM with α = 0, regularised by dropout and weight decay.

    The parameters are those of `sparsenam.Network`, the attributes those of `sparsenam.SNAMRegressor`.
    """


@dataclass(kw_only=True, repr=False, eq=False)
class NAMClassifier(NAMParameters, AdditiveClassifier):
    """Neural Additive Model for classification: SNAM with α = 0, regularised by dropout and weight decay.

    The parameters are those of `sparsenam.Network`, the attributes those of `sparsenam.SNAMClassifier`.
    """

    class_weight: ClassWeight = None
