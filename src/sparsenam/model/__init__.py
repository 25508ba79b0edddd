"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel, Finished, finish, keep_terms
from sparsenam.model.curve import FittedCurve

__all__ = ["AdditiveModel", "Finished", "FittedCurve", "finish", "keep_terms"]
