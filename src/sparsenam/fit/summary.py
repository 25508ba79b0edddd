"""What a fit remembers of its data and of its course, so that it can be explained without the table."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy
import sklearn

from sparsenam.codec import Bounds, Count, Mask, Matrix, MaybeNaN, Numbers, Size, Vector, to_plain, unpack
from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.selection import Evidence
from sparsenam.selection.task import PathSummary
from sparsenam.tables.columns import Cells
from sparsenam.tables.encoder import TableEncoder, Term
from sparsenam.tables.sample import PreparedSample

Preliminary = Literal["while", "after"]
SUMMARY_ROWS_AT_ONCE = 65_536
SUMMARY_BINS = 40
FEW_DISTINCT_VALUES = 12  # a column with up to so many distinct values has one bin for each
TAIL = 0.005  # share of the rows on either side that may lie in one long bin
SAMPLE = 100_000  # values from which edges are found
Word = Annotated[str, Bounds(0, 1000)]


@dataclass(frozen=True, slots=True)
class Density:
    """How often values occur: ``edges`` (bins + 1,), ``counts`` (bins,)."""

    edges: tuple[float, ...]
    counts: Annotated[tuple[Count, ...], Bounds(1)]


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """One kept column over some rows: histogram of its numbers or rows of each level, missing cells, importance."""

    name: str
    density: Density | None
    counts: tuple[Count, ...]
    present: Count
    missing: Count
    mean_absolute: Size
    variation: Size


@dataclass(frozen=True, slots=True)
class PairSummary:
    """The importance of one pair over some rows, measured as that of a column."""

    mean_absolute: Size
    variation: Size


@dataclass(frozen=True, slots=True)
class DataSummary:
    """The number of rows that count, the kept columns, and the pairs in the order of the model."""

    rows: Count
    columns: tuple[ColumnSummary, ...]
    pairs: tuple[PairSummary, ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """What a model explains of rows left out, as a share of the empty model's loss, and its standard error.

    ``by_pairs`` is by how much it is more than that of the same columns without pairs; None where there are none.
    """

    share: MaybeNaN
    error: Annotated[float, Bounds(0.0, nan=True)]
    by_pairs: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """The training data in brief, and the course of the fit.

    ``twins`` names, for a column left out, the column that equals it in every row; ``constant`` the columns that do
    not vary over the rows that count; ``evidence`` is what held-out rows know of the choice, None where there was none.
    ``explained`` is what the model explains of rows left out, None where that is not known.
    ``out_of_time`` names the parts of the fit that ``max_seconds`` ended early; ``preliminary`` says when the user
    stopped a fit of which this is a preliminary model. Who fits may add the name of the ``target``, ``scores`` on rows
    held out, by their names, and the ``source`` of the rows, such as file and digest.
    """

    data: DataSummary
    path: PathSummary | None
    twins: dict[str, str]
    constant: tuple[str, ...]
    evidence: Evidence | None
    seconds: Size
    created: Word
    versions: dict[str, Word]
    explained: Explained | None = None
    out_of_time: tuple[str, ...] = ()
    preliminary: Preliminary | None = None
    target: str | None = None
    scores: dict[str, float | None] | None = None
    source: dict[str, str] | None = None

    @property
    def cut_short(self) -> str | None:
        """What ended the fit early, in a sentence; None where nothing did."""
        if self.preliminary is not None:
            when = f"{self.preliminary} columns were chosen"
            return f"The fit was stopped {when}: this is a preliminary model, whose effects are too small."
        if not self.out_of_time:
            return None
        *most, last = self.out_of_time
        named = f"{', '.join(most)} and {last}" if most else last
        return f"max_seconds ended {named} early: the model is the best that was reached by then."

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return to_plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the summary that ``to_dict`` wrote, before or after a passage through JSON."""
        return unpack(cls, data)


def summarize_training(
    encoder: TableEncoder,
    prepared: PreparedSample,
    model: AdditiveModel,
    encoded: Matrix,
    weights: Vector,
    path: PathSummary | None,
    evidence: Evidence | None,
) -> TrainingSummary:
    """Return the training data in brief, and what left columns out before the fit began.

    ``prepared``, the sample on the scale of the fit, names the terms that vary and those equal to others. ``encoded``
    are the terms of the training rows, shape (rows, terms); rows of weight 0 do not count.
    """
    torch = None if model.weights is None else sys.modules.get("torch")  # loaded after a network was trained
    return TrainingSummary(
        data=summarize_data(encoder, model, encoded, weights),
        path=path,
        twins=_twin_columns(encoder, prepared),
        constant=_constant_columns(encoder, prepared),
        evidence=evidence,
        seconds=0.0,
        created=datetime.now(UTC).date().isoformat(),
        versions=dict(_versions()) | ({} if torch is None else {"torch": str(torch.__version__)}),
    )


def summarize_data(
    encoder: TableEncoder,
    model: AdditiveModel,
    encoded: Matrix,
    weights: Vector | None = None,
    missing: Sequence[Mask] | None = None,
) -> DataSummary:
    """Return the summary of encoded rows (rows, terms) for the columns that the model keeps.

    ``weights`` (rows,) weigh the importances; rows of weight 0 do not count at all. ``missing`` says for each
    column of the table which cells are missing; without it, NaN says so, which is true of training data.
    """
    if weights is not None and not (weights > 0).all():
        present = weights > 0
        encoded, weights = encoded[present], weights[present]
        missing = None if missing is None else [mask[present] for mask in missing]
    kept = kept_columns(encoder, model)
    sizes, of_pairs = _importances(encoder, model, encoded, weights, kept)
    columns = tuple(
        _column_summary(encoder, column, encoded, None if missing is None else missing[column], importance)
        for column, importance in zip(kept, sizes, strict=True)
    )
    return DataSummary(len(encoded), columns, tuple(PairSummary(*size) for size in of_pairs))


def against_average(family: Family, effects: Matrix) -> Matrix:
    """Return effects or scores (…, outputs) as explanations show them: those of classes less their mean over classes.

    Probabilities of classes are the same for scores that all differ by one number, which training leaves anywhere;
    taken off, each score is the log odds of its class against the (geometric) average of all.
    """
    return effects - effects.mean(axis=-1, keepdims=True) if family.response == "classes" else effects


def is_split(term: Term) -> bool:
    """Return whether a term is one level of a category of several, 0 or 1, as networks need them."""
    return term.kind == "binary" and len(term.levels) == 1


def kept_columns(encoder: TableEncoder, model: AdditiveModel) -> list[int]:
    """Return the indices of the columns of which the model keeps a term, in the order of the table."""
    return sorted({encoder.terms[int(term)].column for term in model.terms})


def read_cells(encoder: TableEncoder, X: object) -> tuple[Cells, ...]:
    """Return the cells of a table like that of the fit, column by column; those of absent columns are missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever encodes the table has warned already
        return encoder.columns_of(X).columns


def density_of(values: Vector) -> Density | None:
    """Return the histogram of finite values (rows,); None without any.

    Bins are even over the middle 99 % of the values; what lies farther out has one more bin on each side, so that a
    single far value does not press all others into one bin.
    """
    if not values.size:
        return None
    seen = values if values.size <= SAMPLE else values[:: values.size // SAMPLE]
    low, high = float(values.min()), float(values.max())
    if low == high:
        edges = np.array([low - 0.5 * (abs(low) or 1.0), low + 0.5 * (abs(low) or 1.0)])
    else:
        distinct = np.unique(seen[:1000])
        distinct = np.unique(seen) if distinct.size <= FEW_DISTINCT_VALUES else distinct
        edges = _edges_between(distinct) if distinct.size <= FEW_DISTINCT_VALUES else _even_edges(seen)
        edges = np.unique(np.concatenate([[min(low, edges[0])], edges, [max(high, edges[-1])]]))
    counts = np.histogram(values, edges)[0]
    return Density(numbers(edges), tuple(int(count) for count in counts))


def _even_edges(values: Vector) -> Vector:
    low, high = float(values.min()), float(values.max())
    first, last = (float(edge) for edge in np.quantile(values, (TAIL, 1.0 - TAIL)))
    if first == last:
        return np.linspace(low, high, SUMMARY_BINS + 1)
    width = (last - first) / SUMMARY_BINS
    # a tail shorter than two bins is no tail
    first = low if first - low < 2 * width else first
    last = high if high - last < 2 * width else last
    return np.linspace(first, last, SUMMARY_BINS + 1)


def _edges_between(values: Vector) -> Vector:
    """Return bins that hold one value each, (values + 1,)."""
    if values.size == 1:
        return values
    middles = (values[:-1] + values[1:]) / 2
    return np.concatenate([[2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]])


def _twin_columns(encoder: TableEncoder, prepared: PreparedSample) -> dict[str, str]:
    """Return, for each column whose values equal those of another in every row, the name of the other."""
    column_of = {term.name: term.column for term in encoder.terms}
    twin_of = {twin: name for name, twins in prepared.twins.items() for twin in twins}
    found: dict[str, str] = {}
    terms_of: dict[int, list[Term]] = {}
    for term in encoder.terms:
        terms_of.setdefault(term.column, []).append(term)
    for index, column in enumerate(encoder.columns):
        terms = terms_of.get(index, [])
        # equal gaps alone do not make columns equal
        values = [term.name for term in terms if term.kind != "missing"] or [term.name for term in terms]
        if values and all(name in twin_of for name in values):
            other = column_of[twin_of[values[0]]]
            if other != index:
                found[column.name] = encoder.columns[other].name
    return found


def _constant_columns(encoder: TableEncoder, prepared: PreparedSample) -> tuple[str, ...]:
    """Return the columns that have terms, none of which varies over the rows that count."""
    varying = {*prepared.names, *(twin for twins in prepared.twins.values() for twin in twins)}
    some = {term.column for term in encoder.terms if term.name in varying}
    none = {term.column for term in encoder.terms} - some
    return tuple(encoder.columns[column].name for column in sorted(none))


@cache  # looking them up takes longer than all the rest
def _versions() -> tuple[tuple[str, str], ...]:
    modules = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    found = {name: str(module.__version__) for name, module in modules.items()}
    return tuple({"python": platform.python_version(), "sparsenam": version("sparsenam"), **found}.items())


def _column_summary(
    encoder: TableEncoder, column: int, encoded: Matrix, missing: Mask | None, importance: tuple[float, float]
) -> ColumnSummary:
    described = encoder.columns[column]
    index = next((i for i, term in enumerate(encoder.terms) if term.column == column and term.kind != "missing"), None)
    values = None if index is None else encoded[:, index]
    if missing is not None:
        absent = missing
    elif values is not None:
        absent = np.isnan(values)
    else:  # a constant column: only its missing cells are a term
        absent = encoded[:, [term.name for term in encoder.terms].index(described.missing_term)] == 1.0
    n_missing = int(np.count_nonzero(absent))
    density, counts = None, ()
    if values is not None:
        present = values[~np.isnan(values)]
        if index is not None and is_split(encoder.terms[index]):
            # the encoder has a term for each level, in their order
            split = [i for i, term in enumerate(encoder.terms) if term.column == column and is_split(term)]
            counts = tuple(int(np.count_nonzero(encoded[:, i] == 1.0)) for i in split)
        elif described.levels:
            counts = tuple(np.bincount(present.astype(np.intp), minlength=len(described.levels)).tolist())
        else:
            density = density_of(present)
    return ColumnSummary(described.name, density, counts, len(encoded) - n_missing, n_missing, *importance)


def _importances(
    encoder: TableEncoder, model: AdditiveModel, encoded: Matrix, weights: Vector | None, kept: list[int]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return for each kept column, and for each pair, the mean of |effect| and max - min of the effect.

    Means are over rows and outputs.
    """
    place_of = {column: place for place, column in enumerate(kept)}
    columns = [place_of[encoder.terms[int(term)].column] for term in model.terms]
    n_columns = len(kept)
    shape = (n_columns + len(model.pairs), model.intercept.size)
    total, low, high = np.zeros(shape), np.full(shape, np.inf), np.full(shape, -np.inf)
    for start in range(0, len(encoded) if shape[0] else 0, SUMMARY_ROWS_AT_ONCE):
        part = slice(start, start + SUMMARY_ROWS_AT_ONCE)
        effects = np.zeros((len(encoded[part]), *shape))
        for column, of_term in zip(columns, np.moveaxis(model.kept_effects(encoded[part]), 1, 0), strict=True):
            effects[:, column] += of_term  # a column may have two terms: its values and its missing cells
        if model.pairs:
            effects[:, n_columns:] = model.pair_effects(encoded[part])
        effects = against_average(model.family, effects)
        low, high = np.minimum(low, effects.min(axis=0)), np.maximum(high, effects.max(axis=0))
        np.abs(effects, out=effects)
        total += effects.sum(axis=0) if weights is None else np.tensordot(weights[part], effects, 1)
    means = total / (len(encoded) if weights is None else weights.sum())
    sizes = list(zip(means.mean(axis=1).tolist(), (high - low).max(axis=1).tolist(), strict=True))
    return sizes[:n_columns], sizes[n_columns:]


def numbers(values: Iterable[float]) -> Numbers:
    """Return values as Python floats."""
    return tuple(float(value) for value in values)


def rows_of_numbers(rows: Iterable[Iterable[float]]) -> tuple[Numbers, ...]:
    """Return a matrix as Python floats, row by row."""
    return tuple(numbers(row) for row in rows)
