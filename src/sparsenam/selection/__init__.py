"""Selection: paths, cross-validation, rules for choosing."""

from sparsenam.selection.choose import Evidence
from sparsenam.selection.curve import FDR, RULES, Best, Compact, CVCurve, OneSE, Rule, RuleName, as_rule
from sparsenam.selection.task import PathPoint, RegularizationPath

__all__ = [
    "FDR",
    "RULES",
    "Best",
    "CVCurve",
    "Compact",
    "Evidence",
    "OneSE",
    "PathPoint",
    "RegularizationPath",
    "Rule",
    "RuleName",
    "as_rule",
]
