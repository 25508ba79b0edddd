"""Tables: a DataFrame becomes numbers, once."""

from sparsenam.tables.sample import PreparedSample, Sample, prepare
from sparsenam.tables.scaling import Scaling

__all__ = ["PreparedSample", "Sample", "Scaling", "prepare"]
