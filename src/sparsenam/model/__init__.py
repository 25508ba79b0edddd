"""Model: the fitted, pruned, immutable additive model."""

from sparsenam.model.additive import AdditiveModel

__all__ = ["AdditiveModel"]
