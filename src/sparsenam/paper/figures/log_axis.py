"""Log axes, as the pictures of any model have them."""

from sparsenam.explain.plots.log_axis import PlainLog, use_log

__all__ = ["PlainLog", "use_log"]
