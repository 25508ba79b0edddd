"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel
from sparsenam.model.build import Finished, finish, keep_terms
from sparsenam.model.shapes import ShapeBank, ShapeFunction

__all__ = ["AdditiveModel", "Finished", "ShapeBank", "ShapeFunction", "finish", "keep_terms"]
