"""The joint effect of two columns as plain data: a surface over the nodes of a grid, and the columns' effects alone."""

from __future__ import annotations

from dataclasses import dataclass

from sparsenam.codec import MaybeNaN, Numbers
from sparsenam.text import MISSING, FeatureKind, date_text, pair_text


@dataclass(frozen=True, slots=True)
class PairAxis:
    """One column of a pair: the nodes along its axis, and what the column adds there alone.

    Numbers and dates have their nodes at ``x`` (nodes,), with straight lines in between; categories and ordered ones
    have ``levels`` (nodes,). Where ``missing``, one more node follows, that of missing cells. ``main``
    (nodes, outputs) is the column's effect without the pair.
    """

    name: str
    kind: FeatureKind
    x: Numbers | None
    levels: tuple[str, ...] | None
    missing: bool
    main: tuple[Numbers, ...]

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.x or self.levels or ()) + self.missing

    def text_at(self, node: int) -> str:
        """Return the value at a node as text."""
        if self.missing and node == self.size - 1:
            return MISSING
        if self.levels is not None:
            return self.levels[node]
        x = (self.x or ())[node]
        return date_text(x) if self.kind == "date" else f"{x:.6g}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The joint effect of two columns, beyond what either does alone.

    ``effect`` (nodes of ``one``, nodes of ``other``, outputs) is bilinear between nodes of numbers. ``share``
    (nodes of ``one``, nodes of ``other``) is the share of the training rows at each node, each row shared among the
    four about it: over these shares the effect has mean 0 along each row and each column. `total` adds both columns'
    effects: the summed surface, to look at where the two columns depend on each other so strongly that their effects
    and that of the pair cancel. ``mean_absolute`` and ``variation`` are measured as those of a feature. ``deviation``
    has the standard deviations of ``effect``, None where they are not known.
    """

    one: PairAxis
    other: PairAxis
    mean_absolute: MaybeNaN
    variation: MaybeNaN
    effect: tuple[tuple[Numbers, ...], ...]
    share: tuple[Numbers, ...]
    reason: str
    deviation: tuple[tuple[Numbers, ...], ...] | None = None

    @property
    def name(self) -> str:
        """The names of both columns."""
        return pair_text(self.one.name, self.other.name)

    @property
    def total(self) -> tuple[tuple[Numbers, ...], ...]:
        """The pair's effect and both columns' effects together, in the shape of ``effect``."""
        return tuple(
            tuple(
                tuple(sum(parts) for parts in zip(cell, first, second, strict=True))
                for cell, second in zip(row, self.other.main, strict=True)
            )
            for row, first in zip(self.effect, self.one.main, strict=True)
        )

    def fault(self, outputs: int) -> str | None:
        """Return which parts do not have the shape that the nodes ask for, or None."""
        rows, columns = self.one.size, self.other.size
        for axis in (self.one, self.other):
            if (axis.x is None) == (axis.levels is None) or len(axis.main) != axis.size:
                return f"{len(axis.main)} effects for {axis.size} nodes of {axis.name!r}"
        for part in (self.effect, self.share):
            if len(part) != rows or any(len(row) != columns for row in part):
                return f"another shape than the {rows} × {columns} nodes of {self.name!r}"
        effects = [*self.one.main, *self.other.main, *(effect for row in self.effect for effect in row)]
        wrong = next((len(effect) for effect in effects if len(effect) != outputs), None)
        return None if wrong is None else f"{wrong} numbers for {outputs} outputs in {self.name!r}"
