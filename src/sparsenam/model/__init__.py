"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel
from sparsenam.model.finish import Finished, finish, keep_features

__all__ = ["AdditiveModel", "Finished", "finish", "keep_features"]
