"""Tables: a DataFrame becomes numbers, once."""

from sparsenam.tables.columns import OTHER_LEVELS, Column
from sparsenam.tables.encoder import TableEncoder, Term
from sparsenam.tables.frame import check_target_not_inside
from sparsenam.tables.sample import PreparedSample, Sample, Scaling, prepare
from sparsenam.tables.text import CellTypeError, UnseenLevelWarning, UnseenMissingWarning

__all__ = [
    "OTHER_LEVELS",
    "CellTypeError",
    "Column",
    "PreparedSample",
    "Sample",
    "Scaling",
    "TableEncoder",
    "Term",
    "UnseenLevelWarning",
    "UnseenMissingWarning",
    "check_target_not_inside",
    "prepare",
]
