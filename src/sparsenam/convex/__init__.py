"""Random features and the convex problem on them: exact solver, duality gap, certificate."""

from sparsenam.convex.certificate import Certificate, certify
from sparsenam.convex.descent import GramCache
from sparsenam.convex.design import GroupedDesign, orthonormal_design
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import ConvexPoint
from sparsenam.convex.relaxed import RelaxedFits, refit_on, relaxed_scores

__all__ = [
    "Certificate",
    "ConvexPoint",
    "GramCache",
    "GroupedDesign",
    "RelaxedFits",
    "alpha_max",
    "certify",
    "convex_path",
    "orthonormal_design",
    "refit_on",
    "relaxed_scores",
]
