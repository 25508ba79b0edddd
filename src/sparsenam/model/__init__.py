"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel
from sparsenam.model.finish import finish, keep_features, mean_absolute_effects

__all__ = ["AdditiveModel", "finish", "keep_features", "mean_absolute_effects"]
