"""Left-out errors in a model file: tables of order statistics as tensors, the spread of errors as a model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsenam.container import Tensors
from sparsenam.export.models import model_to_parts, read_model
from sparsenam.forms import as_list, as_record, as_whole_numbers, require
from sparsenam.model.additive import AdditiveModel
from sparsenam.model.reliability import Reliability
from sparsenam.model.residuals import COARSE, FINE, ErrorTables, LevelTables, OrderStatistics, Residuals, kept_ranks

PREFIX, SPREAD = "interval_", "interval_spread_"
DAMAGE = "damaged errors of left-out rows"
FACTS = ("method", "rows", "symmetric", "whole", "inflation", "edits", "kept", "tables", "spread", "reliability")
OF_CLASSES = ("predicted", "observed", "counts", "kind", "knots", "values", "loss", "corrected", "gain_error")
MOST_COUNTED = 10**9  # rows
METHODS, KINDS = ("leave-one-out", "new rows", "folds"), ("none", "platt", "isotonic")


def residuals_to_parts(residuals: Residuals | None) -> tuple[dict[str, Any] | None, Tensors]:
    """Return what is kept of errors as a record for JSON and tensors; nothing where there is nothing."""
    if residuals is None:
        return None, {}
    both = [residuals.constant] if residuals.scaled is None else [residuals.constant, residuals.scaled]
    flat = [table for part in both for table in _in_order(part)]
    weighted = any(bool((table.ranks != np.rint(table.ranks)).any()) for table in flat)
    tensors: Tensors = {
        "interval_counts": np.array([table.count for table in flat], dtype=np.int64),
        "interval_values": np.concatenate([table.values for table in flat]),
    }
    if weighted:
        tensors["interval_ranks"] = np.concatenate([table.ranks for table in flat])
    spread = None
    if residuals.scaled is not None and residuals.scaled.spread is not None:
        spread, found = model_to_parts(residuals.scaled.spread)
        tensors |= {SPREAD + name: tensor for name, tensor in found.items()}
    reliability = residuals.reliability
    record = {
        "method": residuals.method,
        "rows": residuals.rows,
        "symmetric": residuals.symmetric,
        "whole": residuals.whole,
        "inflation": residuals.inflation,
        "edits": residuals.edits,
        "kept": [FINE, COARSE],
        "tables": [[[level.term, list(level.values)] for level in part.levels] for part in both],
        "spread": spread,
        "reliability": None if reliability is None else _reliability_to_dict(reliability),
    }
    return record, tensors


def _in_order(part: ErrorTables) -> Iterator[OrderStatistics]:
    yield from part.tables
    for level in part.levels:
        for tables in level.tables:
            yield from tables


def _reliability_to_dict(found: Reliability) -> dict[str, Any]:
    plain = {name: getattr(found, name) for name in OF_CLASSES}
    for name in ("predicted", "observed", "counts"):
        plain[name] = plain[name].tolist()
    for name in ("knots", "values"):
        plain[name] = [part.tolist() for part in plain[name]]
    return plain


def read_residuals(data: Any, tensors: Tensors, model: AdditiveModel) -> Residuals | None:
    """Return what `residuals_to_parts` wrote, given its tensors, whose names start with `PREFIX`."""
    inside = dict(tensors)
    if data is None:
        require(not inside, DAMAGE)
        return None
    record = as_record(data, FACTS, DAMAGE)
    reliability = None if record["reliability"] is None else _read_reliability(record["reliability"], model)
    method, parts = record["method"], as_list(record["tables"], DAMAGE)
    inflation = record["inflation"]
    right = (
        method in METHODS
        and all(type(record[name]) is int and record[name] >= 0 for name in ("rows", "edits"))
        and all(type(record[name]) is bool for name in ("symmetric", "whole"))
        and type(inflation) is float
        and math.isfinite(inflation)
        and 1 <= len(parts) <= 2
        and (record["spread"] is not None) == (len(parts) == 2)
    )
    require(right, DAMAGE)
    spread = None
    if record["spread"] is not None:
        parted = {name.removeprefix(SPREAD): inside.pop(name) for name in list(inside) if name.startswith(SPREAD)}
        spread = read_model(record["spread"], parted, model.n_terms + 1)
        require(spread.exact_shapes and spread.intercept.size == model.intercept.size, DAMAGE)
    both_ends = not (record["symmetric"] or reliability is not None)
    width = 1 if model.family.couples_outputs else model.intercept.size
    tables = _TableReader(inside, as_whole_numbers(record["kept"], DAMAGE, lowest=1), both_ends, width)
    spreads = (None, spread)
    found = [_read_part(part, tables, model.n_terms, each) for part, each in zip(parts, spreads, strict=False)]
    tables.check_end()
    scaled = found[1] if len(found) == 2 else None
    return Residuals(
        method,
        record["rows"],
        record["symmetric"],
        record["whole"],
        found[0],
        scaled,
        inflation,
        reliability,
        record["edits"],
    )


class _TableReader:
    """Tables one after the other, as the tensors hold them; which ranks are there follows from the count."""

    def __init__(self, inside: Tensors, kept: list[int], both_ends: bool, width: int) -> None:
        names = {PREFIX + "counts", PREFIX + "values"}
        require(names <= set(inside) <= names | {PREFIX + "ranks"} and len(kept) == 2, DAMAGE)
        self.counts, self.values = inside[PREFIX + "counts"], inside[PREFIX + "values"]
        self.ranks = inside.get(PREFIX + "ranks")
        self.kept, self.both_ends, self.width = kept, both_ends, width
        self.table, self.first = 0, 0
        right = (
            self.counts.dtype == np.int64
            and self.values.dtype == np.float64
            and self.counts.ndim == self.values.ndim == 1
            and bool(np.isfinite(self.values).all())
            and bool(((self.counts >= 1) & (self.counts <= MOST_COUNTED)).all())
        )
        if self.ranks is not None:
            right = right and self.ranks.shape == self.values.shape and bool(np.isfinite(self.ranks).all())
        require(right, DAMAGE)

    def next(self, *, of_level: bool) -> tuple[OrderStatistics, ...]:
        """Return the next tables, one for each output."""
        return tuple(self._one(self.kept[1 if of_level else 0]) for _ in range(self.width))

    def _one(self, fineness: int) -> OrderStatistics:
        require(self.table < self.counts.size, DAMAGE)
        count = int(self.counts[self.table])
        ranks = kept_ranks(count, fineness, both_ends=self.both_ends).astype(np.float64)
        part = slice(self.first, self.first + ranks.size)
        values = self.values[part]
        ranks = ranks if self.ranks is None else self.ranks[part]
        right = values.size == ranks.size and bool((np.diff(values) >= 0).all() and (np.diff(ranks) >= 0).all())
        require(right, DAMAGE)
        self.table, self.first = self.table + 1, part.stop
        return OrderStatistics(count, ranks, values)

    def check_end(self) -> None:
        """Raise where anything is left."""
        require(self.table == self.counts.size and self.first == self.values.size, DAMAGE)


def _read_part(data: Any, tables: _TableReader, n_terms: int, spread: AdditiveModel | None) -> ErrorTables:
    first = tables.next(of_level=False)
    levels: list[LevelTables] = []
    for entry in as_list(data, DAMAGE):
        pair = as_list(entry, DAMAGE)
        require(len(pair) == 2, DAMAGE)
        (term,), values = as_whole_numbers([pair[0]], DAMAGE, lowest=0), as_list(pair[1], DAMAGE)
        require(term < n_terms and all(type(value) in (int, float) for value in values), DAMAGE)
        found = tuple(tables.next(of_level=True) for _ in values)
        levels.append(LevelTables(term, tuple(float(value) for value in values), found))
    return ErrorTables(first, tuple(levels), spread)


def _read_reliability(data: Any, model: AdditiveModel) -> Reliability:
    record = as_record(data, OF_CLASSES, DAMAGE)

    def numbers(value: Any) -> Any:
        array = np.array(as_list(value, DAMAGE), dtype=np.float64)
        require(array.ndim == 1 and bool(np.isfinite(array).all()), DAMAGE)
        return array

    bins = [numbers(record[name]) for name in ("predicted", "observed", "counts")]
    knots, values = (tuple(numbers(part) for part in as_list(record[name], DAMAGE)) for name in ("knots", "values"))
    figures = [record[name] for name in ("loss", "corrected", "gain_error")]
    width = 0 if record["kind"] == "none" else model.intercept.size
    right = (
        record["kind"] in KINDS
        and bins[0].size == bins[1].size == bins[2].size
        and len(knots) == len(values) == width
        and all(
            one.size == other.size >= 1 and bool((np.diff(one) >= 0).all())
            for one, other in zip(knots, values, strict=True)
        )
        and all(type(figure) is float and math.isfinite(figure) for figure in figures)
    )
    require(right, DAMAGE)
    return Reliability(bins[0], bins[1], bins[2], record["kind"], knots, values, *figures)
