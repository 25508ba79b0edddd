"""Bands as tensors of a model file, and back."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sparsenam.container import Tensors
from sparsenam.forms import require
from sparsenam.model import AdditiveModel
from sparsenam.model.bands import LEVELS, Bands, TermBand, Verdict

DAMAGE = "bands that cannot be"
SHORT = {"float32", "float64"}  # single precision, unless the numbers are beyond its range
NAMES = {"band_terms", "band_sizes", "band_knots", "band_deviations", "band_maxima", "band_pairs"}


def bands_to_parts(bands: Bands | None) -> tuple[dict[str, Any] | None, Tensors]:
    """Return bands as a record for JSON, and tensors in single precision where that is all they have."""
    if bands is None:
        return None, {}
    information = bands.information if np.isfinite(bands.information) else None
    facts = {
        "verdict": bands.verdict,
        "reason": bands.reason,
        "information": information,
        "without": {str(term): why for term, why in bands.without.items()},
    }
    if not bands.terms and not bands.pairs:
        return facts, {}
    outputs = (bands.terms[0].deviations if bands.terms else bands.pairs[0]).shape[-1]
    none = np.zeros((0, outputs))
    tensors: Tensors = {
        "band_terms": np.array([band.term for band in bands.terms], dtype=np.int64),
        "band_sizes": np.array([band.knots.size for band in bands.terms], dtype=np.int64),
        "band_knots": np.concatenate([np.zeros(0), *(band.knots for band in bands.terms)]),
        "band_deviations": _short(np.concatenate([none, *(band.deviations for band in bands.terms)])),
        "band_maxima": _short(np.concatenate([none, *(band.maxima for band in bands.terms)])),
        "band_pairs": _short(np.concatenate([none, *(each.reshape(-1, outputs) for each in bands.pairs)])),
    }
    return facts, tensors


def _short(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return the values in single precision where that is all they have; not those beyond its range."""
    with np.errstate(over="ignore", under="ignore"):
        short = values.astype(np.float32)
    return short if np.array_equal(short, values) else values


def read_bands(facts: Any, tensors: Tensors, model: AdditiveModel) -> Bands | None:
    """Return the bands of a model; None for a file that has none, a refusal for one that cannot be."""
    found = {name: tensors.pop(name) for name in NAMES if name in tensors}
    if facts is None:
        require(not found, DAMAGE)
        return None
    record = cast("dict[str, Any]", facts)
    verdict, reason, information = record["verdict"], record["reason"], record["information"]
    without = {int(term): why for term, why in record["without"].items()}
    right = (
        verdict in ("shown", "approximate", "refused")
        and isinstance(reason, str)
        and (information is None or type(information) is float)
        and all(isinstance(why, str) and 0 <= term < model.n_terms for term, why in without.items())
        and (not found or set(found) == NAMES)
    )
    require(right, DAMAGE)
    known = float("nan") if information is None else cast(float, information)
    if not found:
        require(not model.pairs or verdict == "refused", DAMAGE)
        return Bands(cast(Verdict, verdict), reason, known, without=without)
    terms, pairs = _term_bands(found, model), _pair_bands(found["band_pairs"], model)
    return Bands(cast(Verdict, verdict), reason, known, terms, without, pairs)


def _term_bands(found: Tensors, model: AdditiveModel) -> tuple[TermBand, ...]:
    terms, sizes, knots = found["band_terms"], found["band_sizes"], found["band_knots"]
    deviations, maxima, outputs = found["band_deviations"], found["band_maxima"], model.intercept.size
    right = (
        terms.dtype == sizes.dtype == np.int64
        and terms.ndim == sizes.ndim == knots.ndim == 1
        and knots.dtype == np.float64
        and {deviations.dtype.name, maxima.dtype.name} <= SHORT
        and terms.shape == sizes.shape
        and bool(((terms >= 0) & (terms < model.n_terms)).all())
        and np.unique(terms).size == terms.size
        and bool((sizes > 0).all())
        and int(sizes.sum()) == knots.size
        and deviations.shape == (knots.size, outputs)
        and maxima.shape == (terms.size * LEVELS.size, outputs)
        and all(bool((each >= 0).all() and np.isfinite(each).all()) for each in (deviations, maxima))
    )
    require(right, DAMAGE)
    ends = np.cumsum(sizes)
    bands: list[TermBand] = []
    for index, term in enumerate(terms.tolist()):
        rows = slice(int(ends[index] - sizes[index]), int(ends[index]))
        require(bool((np.diff(knots[rows]) > 0).all()), DAMAGE)
        quantiles = maxima[index * LEVELS.size : (index + 1) * LEVELS.size]
        bands.append(TermBand(int(term), knots[rows], deviations[rows].astype(float), quantiles.astype(float)))
    return tuple(bands)


def _pair_bands(values: NDArray[Any], model: AdditiveModel) -> tuple[NDArray[np.float64], ...]:
    shapes = [pair.values.shape for pair in model.pairs]
    sizes = [shape[0] * shape[1] for shape in shapes]
    require(values.dtype.name in SHORT and values.shape == (sum(sizes), model.intercept.size), DAMAGE)
    require(bool((values >= 0).all() and np.isfinite(values).all()), DAMAGE)
    parts = np.split(values.astype(np.float64), np.cumsum(sizes)[:-1]) if sizes else []
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
