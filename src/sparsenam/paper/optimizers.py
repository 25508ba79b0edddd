"""Loss per epoch under several solvers with the same settings (the paper's figure of optimizers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from sklearn.preprocessing import StandardScaler

from sparsenam.estimators import SNAMRegressor
from sparsenam.paper.methods.fitted import as_arguments
from sparsenam.paper.recipe import Words, fingerprint
from sparsenam.paper.runner import Job, Work
from sparsenam.paper.tasks import Task

SECTION = "optimizers"
PAPER_EPOCHS = 300  # of the paper's figure


def optimizer_recipes(words: Words, task: Words) -> dict[tuple[str, str], str]:
    """Return the fingerprint of every solver's training."""
    rest = {key: value for key, value in words.items() if key != "solvers"}
    solvers = cast("Sequence[str]", words["solvers"])
    return {(SECTION, solver): fingerprint({"task": task, "solver": solver, **rest}) for solver in solvers}


def optimizer_works(words: Words, task: Words, seed: int, folder: Path | None) -> Iterator[Work]:
    """Yield a training history to make for each solver, on the training rows of one split."""
    table = Task(task, folder)
    for (section, solver), recipe in optimizer_recipes(words, task).items():
        yield Work(section, solver, seed, recipe, lambda solver=solver: _job(words, table, solver, seed))


def _job(words: Words, table: Task, solver: str, seed: int) -> Job:
    split = table.split(seed)

    def job() -> Mapping[str, object]:
        settings = as_arguments(words)
        penalty = float(settings.pop("lambda"))
        settings.pop("solvers")
        columns = split.train.X
        if settings.pop("columns", "raw") == "standardised":
            columns = StandardScaler().fit(columns).transform(columns)
        settings |= {"alpha": penalty / 2, "solver": solver, "patience": settings["max_epochs"]}
        model = SNAMRegressor(**settings, standardize=False, verbose=False, random_state=seed)
        model.fit(columns, split.train.y)
        wanted = ("epoch", "loss", "penalty", "features", "seconds")
        return {"history": [{key: point[key] for key in wanted} for point in model.history_]}

    return job
