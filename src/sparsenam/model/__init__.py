"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel, Finished, finish, keep_terms
from sparsenam.model.shapes import ShapeBank, ShapeFunction

__all__ = ["AdditiveModel", "Finished", "ShapeBank", "ShapeFunction", "finish", "keep_terms"]
