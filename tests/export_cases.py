"""Random models for exports, made without a fit: every family, odd names and levels, missing cells, pairs, and rows.

A case has the portable model, rows as other programs would give them, and what the library says of them. Where a number
that the model reads is infinite the library refuses the row; exports answer NaN there.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sparsenam.export.portable import PortableCurve, PortableModel, Target, portable_model
from sparsenam.families import FAMILIES
from sparsenam.model import AdditiveModel, FittedCurve
from sparsenam.model.pairs import PairFunction
from sparsenam.tables.encoder import TableEncoder

HOSTILE = (
    "plain", "two words", 'dou"ble', "sin'gle", "back`tick", "semi;colon -- drop", "/* comment */", "*/ end",
    "new\nline", "tab\there", "emoji 😀", "ünï©ödé", "select", "ORDER", "null ", "${code}", "{{braces}}",
    "\\back\\slash", "%s %d", "a,b", "<tag>&amp;", "1abc", "x" * 300, "__proto__", "constructor", "toString", "]]>",
    "$$", "?:@", "'); DROP TABLE rows; --", "carriage\rreturn", "\u2028line separator", "-- ", "class", "None ",
    "trailing ", " leading", "0x10", "007", "1_000",
)  # fmt: skip
KINDS = (
    "number",
    "number",
    "whole",
    "text",
    "text",
    "codes",
    "truth",
    "ordered",
    "date",
    "duration",
    "texts of numbers",
)


@dataclass(frozen=True, eq=False)
class Case:
    """``rows`` are dictionaries of cells (None, float, str, bool) of all columns of the table."""

    portable: PortableModel
    encoder: TableEncoder
    model: AdditiveModel
    frame: pd.DataFrame
    rows: list[dict[str, object]]
    scores: np.ndarray  # (rows, outputs), NaN where a number read is infinite
    means: np.ndarray  # (rows, outputs)


def random_case(seed: int, rows: int = 1000, family: str | None = None) -> Case:
    """Return a case of a seed; its family is one of all in turn, unless given."""
    generator = np.random.default_rng(seed)
    names = [str(name) for name in generator.choice(HOSTILE, generator.integers(1, 7), replace=False)]
    makers = {name: str(generator.choice(KINDS)) for name in names}
    train = pd.DataFrame({name: _cells(kind, 90, generator) for name, kind in makers.items()})
    types = {name: "category" for name, kind in makers.items() if kind == "codes"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder, _ = TableEncoder.fit(
            train, types, max_levels=int(generator.integers(3, 9)), split_levels=bool(generator.random() < 0.2)
        )
    family = family or sorted(FAMILIES)[seed % len(FAMILIES)]
    model = random_model(encoder, train, family, generator)
    frame = pd.DataFrame({name: _cells(kind, rows, generator, fresh=True) for name, kind in makers.items()})
    portable = portable_model(model, encoder, target_of(family, model.intercept.size, seed), "sparsenam test")
    _put_knots(portable, frame, makers, generator)
    return with_answers(portable, encoder, model, frame)


def target_of(family: str, outputs: int, seed: int) -> Target:
    """Return what a model of a family predicts; labels are texts, whole numbers, numbers or truth values in turn."""
    if family == "multilabel":
        return Target("labels", np.arange(outputs))
    if family in ("binomial", "multinomial"):
        count = 2 if family == "binomial" else outputs
        kinds = [
            np.array(HOSTILE[:count]),
            np.arange(count),
            np.arange(count) + 0.5,
            np.array(["a'b", 'c"d', "e", "f"][:count]),
        ]
        if count == 2:
            kinds.append(np.array([False, True]))
        return Target("classes", kinds[seed // len(FAMILIES) % len(kinds)])
    if family == "poisson" and seed % 2:
        return Target("survival", baseline=(np.array([1.0, 2.5]), np.array([0.1, 0.4])))
    return Target()


def random_model(
    encoder: TableEncoder, train: pd.DataFrame, family: str, generator: np.random.Generator
) -> AdditiveModel:
    """Return shapes at random for some of the encoder's terms, and sometimes pairs."""
    outputs = {"gaussian": int(generator.integers(1, 4)), "multinomial": int(generator.integers(3, 5)), "multilabel": 3}
    width = outputs.get(family, 1)
    encoded = encoder.encode(train)
    count = int(generator.integers(0 if len(encoder.terms) > 1 else 1, len(encoder.terms) + 1))
    kept = (
        np.sort(generator.choice(len(encoder.terms), max(count, 1), replace=False))
        if encoder.terms
        else np.zeros(0, int)
    )
    curves = [_shape(encoded[:, term], encoder, int(term), width, generator) for term in kept]
    split = [term.kind == "binary" and len(term.levels) == 1 for term in encoder.terms]  # levels that are in no pair
    values = [term for term in kept if encoder.terms[term].kind != "missing" and not split[term]]
    pairs = []
    for _ in range(int(generator.integers(0, 3)) if len(values) > 1 else 0):
        one, other = generator.choice(values, 2, replace=False)
        if encoder.terms[one].column != encoder.terms[other].column:
            pairs.append(_pair(encoded, encoder, (int(one), int(other)), width, generator))
    return AdditiveModel(
        family=FAMILIES[family](),
        terms=kept.astype(np.intp),
        n_terms=len(encoder.terms),
        functions=tuple(curves),
        intercept=generator.standard_normal(width),
        pairs=tuple(pairs),
    )


def with_answers(portable: PortableModel, encoder: TableEncoder, model: AdditiveModel, frame: pd.DataFrame) -> Case:
    """Return the case with what the library says of the rows."""
    parts = [term for term in portable.terms if isinstance(term, PortableCurve)]
    parts += [axis for pair in portable.pairs for axis in pair.axes]
    read = {portable.columns[part.column].name for part in parts}
    infinite = np.zeros(len(frame), dtype=bool)
    finite = frame.copy()
    for name in frame:
        if frame[name].dtype.kind == "f":
            endless = np.isinf(frame[name].to_numpy())
            finite.loc[endless, name] = 0.0
            if name in read:
                infinite |= endless
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = model.scores(encoder.encode(finite))
    scores[infinite] = np.nan
    means = scores if portable.task == "survival" else np.asarray(model.family.mean(scores))
    columns = {str(name): [_plain(cell) for cell in frame[name]] for name in frame}
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return Case(portable, encoder, model, frame, rows, scores, means)


def _plain(cell: object) -> object:
    """Return a cell as other programs would give it: dates as days since 1970, durations as seconds, texts trimmed."""
    if cell is None or cell is pd.NaT or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, pd.Timestamp):
        return (cell - pd.Timestamp(0)) / pd.Timedelta(days=1)
    if isinstance(cell, pd.Timedelta):
        return cell.total_seconds()
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    return cell.strip() if isinstance(cell, str) else float(cell)


def _cells(kind: str, rows: int, generator: np.random.Generator, fresh: bool = False) -> pd.Series:
    """Return a column with missing cells, at times; fresh rows also have what no training row had."""
    gaps = generator.random(rows) < (0.15 if fresh or generator.random() < 0.5 else 0.0)
    if kind in ("number", "whole"):
        x = generator.standard_normal(rows) * 10.0 ** generator.integers(-3, 5)
        x = np.round(x) if kind == "whole" else x
        if fresh:
            x[:2], x[2:4] = [np.inf, -np.inf], [1e300, -1e300]
        x[gaps] = np.nan
        if not fresh:
            x[:2] = [0.0, 1.0]
        return pd.Series(x)
    if kind == "codes":
        x = generator.integers(0, 9 if fresh else 7, rows) / 2.0
        return pd.Series(np.where(gaps, np.nan, x))
    if kind == "truth":
        x = generator.random(rows) < 0.4
        x[:2] = [False, True]
        if fresh and x.sum() % 3 == 0:  # as a CSV file has them; no draw, so that all else of a seed stays as it was
            words = [("0", "False", "0.0", "00", "-0"), ("1", "True", "1.0", "2", " 1e0 ")]
            texts = [None if gap else words[int(x[row])][row % 5] for row, gap in enumerate(gaps)]
            return pd.Series(texts, dtype=object)
        if not gaps.any():
            return pd.Series(x)
        return pd.Series([None if gap else bool(value) for gap, value in zip(gaps, x, strict=True)], dtype=object)
    if kind == "date":
        return pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 90_000, rows), "h")).mask(
            gaps
        )
    if kind == "duration":
        return pd.Series(pd.to_timedelta(generator.integers(0, 5_000, rows), "s")).mask(gaps)
    if kind == "ordered":
        levels = ["low", "mid'dle", "high", "very high"]
        texts = generator.choice(levels, rows).astype(object)
        texts[gaps] = None
        return pd.Series(pd.Categorical(texts, categories=levels, ordered=True))
    pool = list(HOSTILE[:12]) if kind == "text" else ["1", "2.0", "3e0", "4", "05 ", "6", "seven"]
    shares = 1.0 / np.arange(1, len(pool) + 1) ** 1.2
    texts = generator.choice(pool, rows, p=shares / shares.sum()).astype(object)
    if not fresh:
        texts[: 2 * len(pool[:3])] = pool[:3] * 2
    else:
        texts[generator.random(rows) < 0.05] = "never seen '\""
        texts[generator.random(rows) < 0.03] = "NA"
    texts[gaps] = None
    return pd.Series(texts, dtype=object)


def _shape(
    cells: np.ndarray, encoder: TableEncoder, term: int, width: int, generator: np.random.Generator
) -> FittedCurve:
    present = cells[~np.isnan(cells)]
    if encoder.terms[term].kind == "number" and not encoder.terms[term].levels:
        knots = np.unique(np.quantile(present, np.sort(generator.random(int(generator.integers(1, 30))))))
    else:
        codes = encoder.terms[term].levels
        knots = np.arange(max(len(codes), 2), dtype=float)
    slopes = generator.standard_normal((2, width)) / (1.0 + np.ptp(present)) * (generator.random() < 0.5)
    absent = generator.standard_normal(width) * (generator.random() < 0.5)
    return FittedCurve(knots, generator.standard_normal((knots.size, width)), slopes[0], slopes[1], absent)


def _pair(
    encoded: np.ndarray, encoder: TableEncoder, terms: tuple[int, int], width: int, generator: np.random.Generator
) -> PairFunction:
    knots = []
    for term in terms:
        cells, levels = encoded[:, term], encoder.terms[term].levels
        if encoder.terms[term].kind == "number" and not levels:
            nodes = np.unique(np.quantile(cells[~np.isnan(cells)], np.linspace(0, 1, int(generator.integers(2, 7)))))
        else:
            nodes = np.arange(max(len(levels), 2), dtype=float)
        knots.append(nodes if nodes.size > 1 else np.array([nodes[0], nodes[0] + 1.0]))
    shape = (knots[0].size + 1, knots[1].size + 1)
    values = generator.standard_normal((*shape, width))
    return PairFunction(terms, (knots[0], knots[1]), values, np.ones(shape))


def _put_knots(
    portable: PortableModel, frame: pd.DataFrame, makers: dict[str, str], generator: np.random.Generator
) -> None:
    """Put knots, their neighbours and the ends of curves into fresh rows of numbers."""
    for term in portable.terms:
        name = portable.columns[term.column].name
        if makers[name] not in ("number", "whole") or not hasattr(term, "knots"):
            continue
        knots = np.array(term.knots)
        points = np.concatenate([knots, np.nextafter(knots, np.inf), np.nextafter(knots, -np.inf)])[: len(frame) // 4]
        where = 4 + generator.choice(len(frame) - 4, points.size, replace=False)
        frame.loc[where, name] = points
