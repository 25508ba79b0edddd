"""The exponential of the logarithmic links, kept within the floating-point numbers."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

# e to these still leaves room for a factor of 1e47 (double) or 1e12 (single precision)
HIGHEST_DOUBLE, HIGHEST_SINGLE = 600.0, 60.0


def bounded_exp(exponent: Any) -> Any:
    """Return eˣ, constant beyond x = 600 in double and x = 60 in single precision, so never infinite."""
    xp = array_namespace(exponent)
    is_double = float(xp.finfo(exponent.dtype).max) > 1e100
    return xp.exp(xp.clip(exponent, max=HIGHEST_DOUBLE if is_double else HIGHEST_SINGLE))
