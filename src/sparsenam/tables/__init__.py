"""Tables: a DataFrame becomes numbers, once."""

from sparsenam.tables.scaling import Scaling

__all__ = ["Scaling"]
