"""The command line's watcher of a fit: it draws progress, and keeps what a stopped fit needs to go on."""

from __future__ import annotations

from sparsenam.cli.display import FitProgress
from sparsenam.cli.stage import StageFile, Stored
from sparsenam.estimators.watching import Step
from sparsenam.selection.choose import ConvexTask, FeatureChoice


class KeepingWatcher:
    """Writes the stage as soon as features are chosen, and gives back one that was read before."""

    def __init__(self, stage: StageFile, stored: Stored | None, progress: FitProgress) -> None:
        self.choices: list[FeatureChoice] = []
        self._stage = stage
        self._stored = stored
        self._progress = progress

    @property
    def alpha(self) -> float | None:
        """The alpha of the last choice, None before there is one."""
        return self.choices[-1].alpha if self.choices else None

    def recall(self, task: ConvexTask) -> FeatureChoice | None:
        """Return the stored choice whose turn it is."""
        choice = None if self._stored is None else self._stored.choice(len(self.choices), task)
        if choice is None:
            self._stored = None  # from here on the fit goes its own way
        return choice

    def keep(self, choice: FeatureChoice) -> None:
        """Write the stage, unless this choice was read from it."""
        recalled = self._stored is not None
        self.choices.append(choice)
        self._progress.chosen(int(choice.support.size), recalled=recalled)
        if not recalled:
            self._stage.write(self.choices)

    def step(self, step: Step, done: int, most: int) -> None:
        """Draw how far the fit is."""
        self._progress.step(step, done, most)
