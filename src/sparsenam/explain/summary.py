"""What a fit remembers of its data and of its course, so that it can be explained without the table."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from types import UnionType
from typing import Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import scipy
import sklearn
import torch
from numpy.typing import NDArray

from sparsenam.families import Family
from sparsenam.model import AdditiveModel
from sparsenam.selection import Evidence, RegularizationPath
from sparsenam.tables import PreparedSample, TableEncoder, Term
from sparsenam.tables.notes import stray_rows_note

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
Numbers = tuple[float, ...]
Kind = TypeVar("Kind")
Preliminary = Literal["while", "after"]
ROWS_AT_ONCE = 65_536
BINS = 40
FEW = 12  # a column with up to so many distinct values has one bin for each
TAIL = 0.005  # share of the rows on either side that may lie in one long bin
SAMPLE = 100_000  # values from which edges are found


@dataclass(frozen=True, slots=True)
class Density:
    """How often values occur: ``edges`` (bins + 1,), ``counts`` (bins,)."""

    edges: Numbers
    counts: tuple[int, ...]


def plain_data(value: object) -> Any:
    """Return numbers, texts, truth values, None, lists and dictionaries; what is no finite number is None.

    Other objects, such as a penalty among the settings, become their text.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain_data(cast("object", value.tolist()))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain_data(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [plain_data(item) for item in cast("Sequence[object]", value)]
    return repr(value)


def read_plain(kind: Any, data: Any) -> Any:
    """Return the object of an annotated type that ``plain_data(asdict(...))`` wrote, or raise."""
    if is_dataclass(kind):
        given = {each.name for each in fields(kind) if (each.default, each.default_factory) == (MISSING, MISSING)}
        hints = {name: hint for name, hint in _hints(kind).items() if name in data or name in given}
        return cast("Any", kind)(**{name: read_plain(hint, data[name]) for name, hint in hints.items()})
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        if type(None) not in parts:
            return read_plain(next((part for part in parts if isinstance(data, part)), parts[0]), data)
        return None if data is None else read_plain(parts[0], data)
    if origin is Literal:
        if data not in parts:
            raise ValueError(f"{data!r} for one of {parts}")
        return data
    if kind is float:  # JSON has no NaN
        return math.nan if data is None else float(data)
    if not isinstance(data, (list, tuple) if origin is tuple else origin or kind):
        raise TypeError(f"{type(data).__name__} for {kind}")
    if origin is dict and parts[1] is not Any:
        return {str(key): read_plain(parts[1], item) for key, item in data.items()}
    return tuple(read_plain(parts[0], item) for item in data) if origin is tuple else data


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def numbers(values: Iterable[float]) -> Numbers:
    """Return values as Python floats."""
    return tuple(float(value) for value in values)


def rows_of_numbers(rows: Iterable[Iterable[float]]) -> tuple[Numbers, ...]:
    """Return a matrix as Python floats, row by row."""
    return tuple(numbers(row) for row in rows)


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """One kept column over some rows: histogram of its numbers or rows of each level, missing cells, importance."""

    name: str
    density: Density | None
    counts: tuple[int, ...]
    present: int
    missing: int
    mean_absolute: float
    variation: float


@dataclass(frozen=True, slots=True)
class PairSummary:
    """The importance of one pair over some rows, measured as that of a column."""

    mean_absolute: float
    variation: float


@dataclass(frozen=True, slots=True)
class DataSummary:
    """The number of rows that count, the kept columns, and the pairs in the order of the model."""

    rows: int
    columns: tuple[ColumnSummary, ...]
    pairs: tuple[PairSummary, ...]


@dataclass(frozen=True, slots=True)
class PathSummary:
    """Norms along the convex path, ``norms`` (points, names) at ``alphas`` (points,).

    ``names`` are the columns that entered, in the order of their entry.
    """

    alphas: Numbers
    names: tuple[str, ...]
    norms: tuple[Numbers, ...]


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """The training data in brief, and the course of the fit.

    ``twins`` names, for a column left out, the column that equals it in every row; ``constant`` the columns that do
    not vary over the rows that count; ``evidence`` is what held-out rows know of the choice, None where there was none.
    ``out_of_time`` names the parts of the fit that ``max_seconds`` ended early, ``preliminary`` says when the user
    stopped a fit of which this is a preliminary model, and ``strays`` counts by column the rows that the curves are
    fitted without. Who fits may add the name of the ``target``, ``scores`` on rows held out, by their names, and the
    ``source`` of the rows, such as file and digest.
    """

    data: DataSummary
    path: PathSummary | None
    twins: dict[str, str]
    constant: tuple[str, ...]
    evidence: Evidence | None
    seconds: float
    created: str
    versions: dict[str, str]
    out_of_time: tuple[str, ...] = ()
    preliminary: Preliminary | None = None
    strays: dict[str, int] = field(default_factory=dict[str, int])
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

    def notes(self) -> list[str]:
        """Return in sentences what the fit says of the rows that it left out."""
        return [stray_rows_note(self.strays)] if self.strays else []

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return plain_data(asdict(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the summary that ``to_dict`` wrote, before or after a passage through JSON."""
        return read_plain(cls, data)


def summarize_training(
    encoder: TableEncoder,
    prepared: PreparedSample,
    model: AdditiveModel,
    encoded: Matrix,
    weights: Vector,
    path: RegularizationPath | None,
    evidence: Evidence | None,
    seconds: float,
) -> TrainingSummary:
    """Return the training data in brief, and what left columns out before the fit began.

    Parameters
    ----------
    prepared
        The sample on the scale of the fit, which names the terms that vary and those equal to others.
    encoded
        The terms of the training rows, shape (rows, terms).
    weights
        Weights of the rows, shape (rows,); rows of weight 0 do not count.
    path
        The path by which the columns were chosen, its names and norms by column; None without one.
    evidence
        What held-out rows know of the choice; None without one.
    seconds
        How long the fit took.
    """
    return TrainingSummary(
        data=summarize_data(encoder, model, encoded, weights),
        path=None if path is None or not path.points else _path_summary(path),
        twins=_twin_columns(encoder, prepared),
        constant=_constant_columns(encoder, prepared),
        evidence=evidence,
        seconds=seconds,
        created=datetime.now(UTC).date().isoformat(),
        versions=dict(_versions()),
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
    sizes = _importances(encoder, model, encoded, weights, kept)
    columns = tuple(
        _column_summary(encoder, column, encoded, None if missing is None else missing[column], importance)
        for column, importance in zip(kept, sizes, strict=True)
    )
    return DataSummary(len(encoded), columns, _pair_importances(model, encoded, weights))


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


def reader_of(encoder: TableEncoder, model: AdditiveModel, also: Iterable[int] = ()) -> TableEncoder:
    """Return the encoder that reads what a model needs: the kept columns, and others by their indices."""
    return encoder.reading([*kept_columns(encoder, model), *also])


def interactions_of(encoder: TableEncoder, model: AdditiveModel) -> tuple[tuple[str, str], ...]:
    """Return the names of the two columns of each pair."""
    columns = [encoder.names[term.column] for term in encoder.terms]
    return tuple((columns[pair.terms[0]], columns[pair.terms[1]]) for pair in model.pairs)


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
        distinct = np.unique(seen) if distinct.size <= FEW else distinct
        edges = _edges_between(distinct) if distinct.size <= FEW else _even_edges(seen)
        edges = np.unique(np.concatenate([[min(low, edges[0])], edges, [max(high, edges[-1])]]))
    counts = np.histogram(values, edges)[0]
    return Density(numbers(edges), tuple(int(count) for count in counts))


def _even_edges(values: Vector) -> Vector:
    low, high = float(values.min()), float(values.max())
    first, last = (float(edge) for edge in np.quantile(values, (TAIL, 1.0 - TAIL)))
    if first == last:
        return np.linspace(low, high, BINS + 1)
    width = (last - first) / BINS
    # a tail shorter than two bins is no tail
    first = low if first - low < 2 * width else first
    last = high if high - last < 2 * width else last
    return np.linspace(first, last, BINS + 1)


def _edges_between(values: Vector) -> Vector:
    """Return bins that hold one value each, (values + 1,)."""
    if values.size == 1:
        return values
    middles = (values[:-1] + values[1:]) / 2
    return np.concatenate([[2 * values[0] - middles[0]], middles, [2 * values[-1] - middles[-1]]])


def _path_summary(path: RegularizationPath) -> PathSummary:
    names = path.entry_order()
    place_of = {name: place for place, name in enumerate(path.names)}
    norms = path.norms[:, [place_of[name] for name in names]]
    return PathSummary(numbers(path.alphas), tuple(names), rows_of_numbers(norms))


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
    modules = {"torch": torch, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
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
) -> list[tuple[float, float]]:
    """Return for each kept column the mean over rows and outputs of |effect|, and max - min of the effect."""
    if not kept:
        return []
    place_of = {column: place for place, column in enumerate(kept)}
    columns = [place_of[encoder.terms[int(term)].column] for term in model.terms]
    shape = (len(kept), model.intercept.size)
    total, low, high = np.zeros(shape), np.full(shape, np.inf), np.full(shape, -np.inf)
    for start in range(0, len(encoded), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        effects = against_average(model.family, model.kept_effects(encoded[part]))
        if len(columns) > len(kept):  # a column of two terms: its values and its missing cells
            by_column = np.zeros((len(effects), *shape))
            for term, column in enumerate(columns):
                by_column[:, column] += effects[:, term]
        else:
            by_column = np.empty_like(effects)
            by_column[:, columns] = effects
        low, high = np.minimum(low, by_column.min(axis=0)), np.maximum(high, by_column.max(axis=0))
        np.abs(by_column, out=by_column)
        total += by_column.sum(axis=0) if weights is None else np.tensordot(weights[part], by_column, 1)
    means = total / (len(encoded) if weights is None else weights.sum())
    return list(zip(means.mean(axis=1).tolist(), (high - low).max(axis=1).tolist(), strict=True))


def _pair_importances(model: AdditiveModel, encoded: Matrix, weights: Vector | None) -> tuple[PairSummary, ...]:
    """Return for each pair the mean over rows and outputs of |effect|, and max - min of the effect."""
    shape = (len(model.pairs), model.intercept.size)
    total, low, high = np.zeros(shape), np.full(shape, np.inf), np.full(shape, -np.inf)
    for start in range(0, len(encoded) if model.pairs else 0, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        effects = against_average(model.family, model.pair_effects(encoded[part]))
        low, high = np.minimum(low, effects.min(axis=0)), np.maximum(high, effects.max(axis=0))
        sizes = np.abs(effects)
        total += sizes.sum(axis=0) if weights is None else np.tensordot(weights[part], sizes, 1)
    means = total / (len(encoded) if weights is None else weights.sum())
    sizes = zip(means.mean(axis=1).tolist(), (high - low).max(axis=1).tolist(), strict=True)
    return tuple(PairSummary(*size) for size in sizes)
