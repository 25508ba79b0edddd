"""Selection: paths, cross-validation, rules for choosing."""

from sparsenam.selection.curve import RULES, CVCurve, Rule
from sparsenam.selection.path import PathPoint, RegularizationPath

__all__ = ["RULES", "CVCurve", "PathPoint", "RegularizationPath", "Rule"]
