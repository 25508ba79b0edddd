"""Other models as good as the chosen one, as plain data: which columns all of them need, which can be exchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenam.selection.alternatives import JudgedSet, SearchResult, Units
from sparsenam.tables.text import listed
from sparsenam.text import Finding, FindingTable, Found, count_text, number_text


@dataclass(frozen=True, slots=True)
class OtherModel:
    """The columns of another good model, and how it differs from the chosen one.

    ``explained`` is the share of the empty model's loss that it explains in rows held out, ``behind`` how much
    less that is than the chosen model explains, ``error`` the standard error of this difference, row by row.
    """

    columns: tuple[str, ...]
    dropped: tuple[str, ...]
    added: tuple[str, ...]
    explained: float
    behind: float
    error: float

    @property
    def change(self) -> str:
        """What is done to the chosen model, in words."""
        without, more = ", ".join(self.dropped), ", ".join(self.added)
        if self.dropped and self.added:
            return f"{more} for {without}"
        return f"without {without}" if self.dropped else f"with {more}"


@dataclass(frozen=True, slots=True)
class Alternatives(Found):
    """Sets of columns that predict about as well as those that the model keeps, the smallest first.

    ``needed`` are the columns of the model that every good model found has, ``spare`` those that can be dropped
    without another in their place, ``exchangeable`` those that one other column can replace, be it dropped or kept
    beside them, with how far the model is behind then. ``tolerance`` is the share of what is explained that may be
    lost, None for two standard errors and at most 3 % of it. ``tried`` counts the sets that were judged; ``in_time``
    is False where the time ran out.
    """

    columns: tuple[str, ...]
    explained: float
    models: tuple[OtherModel, ...]
    needed: tuple[str, ...]
    spare: tuple[str, ...]
    exchangeable: dict[str, dict[str, float]]
    tolerance: float | None
    tried: int
    in_time: bool = True

    def finding(self) -> Finding:
        """Return the result in words and tables."""
        count = len(self.models)
        if not self.columns:
            sentence = "the model keeps no column, and no column lowers the loss of rows held out for certain."
        elif count:
            sentence = f"{count_text(count, 'other model')} of these columns predict{'s' if count == 1 else ''} as well"
            sentence += f", of {self.tried} tried; " + (
                f"all of them need {listed(list(self.needed))}." if self.needed else "no column is in all of them."
            )
        else:
            sentence = f"none of {self.tried} other models tried predicts as well: every column is needed."
        if not self.columns and count:
            sentence = f"the model keeps no column; {count_text(count, 'other model')} may be as good."
        tables = [*self._models_table(), *self._exchange_table()]
        return Finding("Other models as good", sentence, tuple(tables), tuple(self._notes()))

    def _notes(self) -> list[str]:
        if self.tolerance is None:
            margin = "two standard errors of the chosen model, and 3 % of what it explains"
        else:
            margin = f"{number_text(100 * self.tolerance, 3)} % of what the chosen model explains"
        notes = [
            f"As good means within {margin}, in rows held out by the folds of the choice.",
            "These rows took part in the choice, so that what is explained is a little too good, for all models alike.",
        ]
        if self.spare:
            notes.append(f"Can be dropped without another in its place: {listed(list(self.spare))}.")
        if not self.in_time:
            notes.append("max_seconds ended the search: there may be more.")
        return notes

    def _models_table(self) -> list[FindingTable]:
        chosen = ("chosen", str(len(self.columns)), _points(self.explained), "", "")
        rows = [
            (model.change, str(len(model.columns)), *map(_points, (model.explained, model.behind, model.error)))
            for model in self.models
        ]
        heads = ("model", "columns", "explained", "behind", "±")
        return [FindingTable("Models, in per cent of the empty model's loss", heads, (chosen, *rows))]

    def _exchange_table(self) -> list[FindingTable]:
        rows = [
            (column, other, _points(behind))
            for column, others in self.exchangeable.items()
            for other, behind in others.items()
        ]
        heads = ("column", "exchangeable for", "behind")
        return [FindingTable("Columns that one other can replace", heads, tuple(rows))] if rows else []


def _points(share: float) -> str:
    return number_text(100 * round(share, 5), 3)


def alternatives_of(
    found: SearchResult, names: tuple[str, ...], twins: Mapping[str, Mapping[str, float]], tolerance: float | None
) -> Alternatives:
    """Return a search in names of columns; ``twins`` of a kept column equal it in every row."""
    units, unit_loss = found.units, max(abs(found.null_loss), 1e-300)
    chosen = found.chosen.units

    def columns(inside: Units) -> tuple[str, ...]:
        return tuple(sorted(names[int(column)] for unit in inside for column in units.columns[unit]))

    def other(judged: JudgedSet) -> OtherModel:
        return OtherModel(
            columns=columns(judged.units),
            dropped=columns(chosen - judged.units),
            added=columns(judged.units - chosen),
            explained=(found.null_loss - found.loss - judged.behind) / unit_loss,
            behind=judged.behind / unit_loss,
            error=judged.error / unit_loss,
        )

    needed, spare, loss_without = chosen - units.free, list[str](), dict[int, float]()
    exchangeable: dict[str, dict[str, float]] = {name: dict.fromkeys(others, 0.0) for name, others in twins.items()}
    for judged in found.good:
        needed &= judged.units
        gone, new = chosen - judged.units, judged.units - chosen
        if len(gone) == 1 and not new:
            spare += columns(gone)
            loss_without[min(gone)] = judged.behind / unit_loss
        if len(gone) == len(new) == 1:
            places = exchangeable.setdefault(" + ".join(columns(gone)), {})
            places[" + ".join(columns(new))] = judged.behind / unit_loss
    for pair in found.either:
        for one, partner in (pair, pair[::-1]):
            places = exchangeable.setdefault(" + ".join(columns(frozenset({one}))), {})
            places[" + ".join(columns(frozenset({partner})))] = loss_without.get(one, 0.0)
    return Alternatives(
        columns=columns(chosen),
        explained=(found.null_loss - found.loss) / unit_loss,
        models=tuple(map(other, found.good)),
        needed=tuple(name for name in columns(needed) if name not in twins),
        spare=tuple(sorted(spare)),
        exchangeable={name: exchangeable[name] for name in sorted(exchangeable)},
        tolerance=tolerance,
        tried=found.tried,
        in_time=found.in_time,
    )
