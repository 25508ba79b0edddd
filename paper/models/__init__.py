"""Models of others that the paper compares with, with the library's interface: NAM and SPAM."""

from paper.models.nam import NAMClassifier, NAMRegressor
from paper.models.spam import SPAMRegressor

__all__ = ["NAMClassifier", "NAMRegressor", "SPAMRegressor"]
