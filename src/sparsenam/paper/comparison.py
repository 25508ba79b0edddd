"""The records of a table: every method of a section on every split."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsenam.paper.curves import densities, effect_curves, largest
from sparsenam.paper.evaluate import measure
from sparsenam.paper.measures import variations
from sparsenam.paper.methods import KINDS, method_of
from sparsenam.paper.recipe import MethodRecipe, Recipe, Section, check_known
from sparsenam.paper.runner import Job, Work, whatever
from sparsenam.paper.store import Record
from sparsenam.paper.tasks import Split, Task

Matrix = NDArray[np.float64]
SHOWN, SHOWN_WITH_TRUTH = 16, 8  # features that are drawn


def comparison_works(recipe: Recipe, folder: Path | None) -> Iterator[Work]:
    """Yield a record to make for each section, seed and method; the first seed's records have curves."""
    for section in recipe.sections:
        task = Task(section.task, folder)
        check_known([method.kind for method in section.methods], list(KINDS), f"kinds of methods of {recipe.name}")
        for seed in recipe.seeds:
            for method in section.methods:
                yield _work(section, task, method, seed, with_curves=seed == recipe.seeds[0])


def _work(section: Section, task: Task, method: MethodRecipe, seed: int, *, with_curves: bool) -> Work:
    def ready() -> Job:
        split = task.split(seed)
        return lambda: compare(method, split, seed, with_curves=with_curves)

    return Work(
        section.name,
        method.name,
        seed,
        section.fingerprint(method),
        ready,
        _has_curves if with_curves else whatever,
    )


def _has_curves(record: Record) -> bool:
    """Tell whether a record has the curves that its method has: other splits are stored without them."""
    return "curves" in record or "variation" not in record


def compare(method: MethodRecipe, split: Split, seed: int, *, with_curves: bool) -> dict[str, object]:
    """Fit one method on one split; return its measures, kept features, chosen settings and curves."""
    fit = method_of(method.kind)
    started = time.perf_counter()
    fitted = fit(split, method.settings, seed)
    seconds = time.perf_counter() - started
    record: dict[str, object] = {
        "measures": {**measure(fitted, split), "seconds": seconds},
        "support": [split.names[place] for place in fitted.support],
        "support_rule": fitted.support_rule,
        "chosen": dict(fitted.chosen),
    }
    if fitted.effects is not None:
        everyone = np.concatenate([split.train.X, split.test.X])
        record["variation"] = variations(fitted.effects(everyone), split.names)
        if with_curves:
            record |= _drawable(fitted.effects, split)
    return record


def _drawable(effects_of: Callable[[Matrix], Matrix], split: Split) -> dict[str, object]:
    """Return curves of the first features where the truth is known, else of those that vary most."""
    if split.truth_of is None:
        curves = largest(effect_curves(effects_of, split.train.X, split.names), SHOWN)
        return {"curves": curves, "density": densities(curves, split.train.X, split.names)}
    shown = range(min(SHOWN_WITH_TRUTH, len(split.names)))
    return {"curves": effect_curves(effects_of, split.train.X, split.names, split.truth_of, features=shown)}
