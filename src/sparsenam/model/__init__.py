"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel, Finished, finish, keep_terms
from sparsenam.model.curve import Curve

__all__ = ["AdditiveModel", "Curve", "Finished", "finish", "keep_terms"]
