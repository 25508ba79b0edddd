"""In what units an effect is read, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Task = Literal["regression", "classification", "survival"]


def output_names(task: Task, family: str, classes: Sequence[object], outputs: int) -> tuple[str, ...]:
    """Return the name of each output: the class whose score it is, or y."""
    if task == "classification":
        return tuple(str(name) for name in (classes[1:] if family == "binomial" else classes))
    return ("y",) if outputs == 1 else tuple(f"y{place}" for place in range(outputs))


def score_units(task: Task, family: str, link: str, outputs: Sequence[str]) -> str:
    """Return the units of scores and effects."""
    if task == "survival":
        return "log hazard ratio"
    if task == "classification":
        if family == "binomial":
            return f"log odds of {outputs[0]!r}"
        if family == "multilabel":
            return "log odds of each label"
        return "log probability of each class, up to a constant"
    if link == "identity":
        return "units of y"
    return "log of the expected y" if link == "log" else f"{link} of the expected y"


def response_units(task: Task, link: str, outputs: Sequence[str]) -> str:
    """Return the units of predictions, which are scores through the inverse link."""
    if task == "survival":
        return "hazard ratio"
    if task == "classification":
        return f"probability of {outputs[0]!r}" if len(outputs) == 1 else "probability of each class"
    return "units of y" if link == "identity" else "expected y"
