"""Random features and the convex problem on them: exact solver, duality gap, certificate."""

from sparsenam.convex.design import GroupedDesign, grouped_design
from sparsenam.convex.newton import refit_on
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import Certificate, ConvexPoint, certify, convex_problem
from sparsenam.convex.squared import GramCache

__all__ = [
    "Certificate",
    "ConvexPoint",
    "GramCache",
    "GroupedDesign",
    "alpha_max",
    "certify",
    "convex_path",
    "convex_problem",
    "grouped_design",
    "refit_on",
]
