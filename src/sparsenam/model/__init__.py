"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel
from sparsenam.model.finish import Finished, finish, keep_features
from sparsenam.model.shape import ShapeFunction
from sparsenam.model.shape_bank import ShapeBank

__all__ = ["AdditiveModel", "Finished", "ShapeBank", "ShapeFunction", "finish", "keep_features"]
