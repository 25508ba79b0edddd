"""Write docs/capabilities.md anew: ``make capabilities``."""

from matrix.page import PAGE, page

PAGE.write_text(page(), encoding="utf-8")
