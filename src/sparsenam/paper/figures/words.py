"""Names on figures, as the pictures of any model write them."""

from sparsenam.explain.plots.words import plain, shorten

__all__ = ["plain", "shorten"]
