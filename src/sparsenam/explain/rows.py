"""From a fitted model and some rows to what each column adds to their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenam.explain.cell_text import CellTexts, cell_texts
from sparsenam.explain.local import REFERENCE, Contribution, LocalExplanation, RowExplanation
from sparsenam.explain.plain import Numbers, numbers
from sparsenam.explain.story import Story
from sparsenam.tables.cells import Cells

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class KeptColumn:
    """A kept column over some rows: the text of its cells, and its effects (rows, outputs)."""

    texts: CellTexts
    effects: Matrix


def explain_rows(
    story: Story, encoded: Matrix, cells: Sequence[Cells], labels: Sequence[int | str]
) -> LocalExplanation:
    """Return what each column adds to the score of each encoded row (rows, terms).

    ``cells`` are those of every column of the table, as read; ``labels`` the names of the rows.
    """
    model = story.model
    effects = model.kept_effects(encoded)
    owners = np.array([story.table.terms[int(term)].column for term in model.terms], dtype=np.intp)
    kept = [
        KeptColumn(
            cell_texts(story.table.columns[column], cells[column]),
            effects[:, owners == column].sum(axis=1),
        )
        for column in story.columns_kept
    ]
    scores = model.scores(encoded)
    # the risk score is what a survival model predicts
    means = scores if story.task == "survival" else model.family.mean(scores)
    predictions = np.asarray(means, dtype=np.float64)
    rows = tuple(
        RowExplanation(
            row=label,
            prediction=numbers(predictions[place]),
            score=numbers(scores[place]),
            intercept=numbers(model.intercept),
            contributions=_contributions(kept, place, story.outputs),
        )
        for place, label in enumerate(labels)
    )
    return LocalExplanation(story.outputs, model.family.link, story.units, REFERENCE, rows)


def _contributions(kept: Sequence[KeptColumn], row: int, outputs: tuple[str, ...]) -> tuple[Contribution, ...]:
    found: list[Contribution] = []
    for column in kept:
        effect = numbers(column.effects[row])
        words = f"{column.texts.name} {column.texts.quoted(row)} {what_it_does(effect, outputs)}"
        found.append(Contribution(column.texts.name, column.texts.value(row), effect, words))
    return tuple(sorted(found, key=lambda own: (-max(map(abs, own.effect)), own.feature)))


def what_it_does(effect: Numbers, outputs: tuple[str, ...]) -> str:
    """Return an effect (outputs,) in words; of several outputs, the one that it moves most."""
    place = max(range(len(effect)), key=lambda output: abs(effect[output]))
    size = f"{abs(effect[place]):.3g}"
    if float(size) == 0.0:
        return "adds nothing"
    rising = effect[place] > 0
    if len(outputs) == 1:
        return f"adds +{size}" if rising else f"takes {size}"
    return f"adds +{size} to {outputs[place]!r}" if rising else f"takes {size} from {outputs[place]!r}"
