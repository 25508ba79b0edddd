"""Additive models as tensors: shapes where sub-networks are piecewise linear, parameters where they are smooth."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsenam.container import Tensors
from sparsenam.errors import InputError, describe
from sparsenam.export.container import ModelFileError
from sparsenam.export.plain_data import family_to_dict, read_family
from sparsenam.forms import FARTHEST, RefusalError, as_record, as_whole_numbers, require
from sparsenam.model import AdditiveModel, Curve
from sparsenam.model.additive import SubNetworks
from sparsenam.model.pairs import PairFunction
from sparsenam.networks import ACTIVATION_NAMES, MLPBank
from sparsenam.tables import Scaling

FACTS = ("family", "n_terms", "kind")
MOST_LAYERS = 64
WIDEST = 1 << 24
SHAPES = {"terms", "intercept", "absent", "sizes", "knots", "values", "left_slopes", "right_slopes"}
NETWORK = {"terms", "intercept", "absent", "theta", "widths", "center", "scale", "offsets", "target_scale"}
PAIRS = {"pair_terms", "pair_sizes", "pair_knots", "pair_values", "pair_weights"}  # of a model that has pairs


def model_to_parts(model: AdditiveModel) -> tuple[dict[str, Any], Tensors]:
    """Return a model as a record for JSON and tensors."""
    facts: dict[str, Any] = {"family": family_to_dict(model.family), "n_terms": model.n_terms}
    tensors: Tensors = {"terms": model.terms.astype(np.int64), "intercept": model.intercept}
    tensors |= _pair_tensors(model)
    networks = model.functions
    if not isinstance(networks, SubNetworks):
        return facts | {"kind": "shapes"}, tensors | _curve_tensors(networks, model.intercept.size)
    bank = networks.bank
    if type(bank) is not MLPBank:
        expected, got = "sub-networks that this library builds", f"those of {type(bank).__name__}"
        raise ModelFileError(describe("model to save", expected, got, "keep the estimator with pickle"))
    kept = (model.terms.size, len(bank.hidden))
    widths = np.broadcast_to(np.array(bank.hidden, dtype=np.int64), kept) if bank.widths is None else bank.widths
    facts |= {"kind": "network", "hidden": list(bank.hidden), "activation": bank.activation}
    facts |= {"padded": bank.widths is not None}
    return facts, tensors | {
        "theta": networks.theta,
        "widths": widths.astype(np.int64),
        "center": networks.scaling.center,
        "scale": networks.scaling.scale,
        "offsets": networks.offsets,
        "target_scale": networks.unit,
        "absent": networks.absent,
    }


def read_model(facts: Any, tensors: Tensors, n_terms: int) -> AdditiveModel:
    """Return the model that `model_to_parts` took apart, of a table with so many terms."""
    by_shapes = "hidden" not in facts
    record = as_record(facts, FACTS if by_shapes else (*FACTS, "hidden", "activation", "padded"), "a damaged model")
    require(record["kind"] == ("shapes" if by_shapes else "network"), "a model of an unknown kind")
    expected = (SHAPES if by_shapes else NETWORK) | (PAIRS if PAIRS & set(tensors) else set[str]())
    require(set(tensors) == expected, "other tensors than those of a model")
    for name, tensor in tensors.items():
        require(float(np.abs(tensor).max(initial=0.0)) <= FARTHEST, f"numbers out of range in the tensor {name!r}")
    terms, intercept = tensors["terms"], tensors["intercept"]
    require(terms.dtype == np.int64 and intercept.dtype == np.float64, "tensors of a wrong type")
    require(terms.ndim == 1 and intercept.ndim == 1 and intercept.size >= 1, "tensors of wrong shapes")
    require(record["n_terms"] == n_terms, "a model of another table")
    inside = bool(((terms >= 0) & (terms < n_terms)).all()) and np.unique(terms).size == terms.size
    require(inside, "terms that the table does not have")
    family = read_family(record["family"])
    functions = _read_curves(tensors) if by_shapes else _read_networks(record, tensors)
    pairs = _read_pairs(tensors) if set(tensors) >= PAIRS else ()
    return AdditiveModel(family, terms.astype(np.intp), n_terms, functions, intercept, pairs)


def _pair_tensors(model: AdditiveModel) -> Tensors:
    """Return the pairs one after the other, nodes row by row; nothing where there are none."""
    pairs = model.pairs
    if not pairs:
        return {}
    return {
        "pair_terms": np.array([pair.terms for pair in pairs], dtype=np.int64),
        "pair_sizes": np.array([[knots.size for knots in pair.knots] for pair in pairs], dtype=np.int64),
        "pair_knots": np.concatenate([knots for pair in pairs for knots in pair.knots]),
        "pair_values": np.concatenate([pair.values.reshape(-1, model.intercept.size) for pair in pairs]),
        "pair_weights": np.concatenate([pair.weights.ravel() for pair in pairs]),
    }


def _read_pairs(tensors: Tensors) -> tuple[PairFunction, ...]:
    """Return the pairs that `_pair_tensors` wrote down; they must be of kept terms and fill their grids."""
    terms, sizes, knots = tensors["pair_terms"], tensors["pair_sizes"], tensors["pair_knots"]
    values, weights, total = tensors["pair_values"], tensors["pair_weights"], int(knots.size)
    _check(tensors, "pair_terms", (len(terms), 2), np.int64)
    _check(tensors, "pair_sizes", (len(terms), 2), np.int64)
    _check(tensors, "pair_knots", (total,))
    listed = [(int(one), int(other)) for one, other in terms]
    kept = bool(np.isin(terms, tensors["terms"]).all()) and all(one != other for one, other in listed)
    require(kept and len({frozenset(pair) for pair in listed}) == len(listed), "pairs of terms that cannot be")
    fitting = bool(((sizes >= 2) & (sizes <= total)).all()) and sum(sizes.ravel().tolist()) == total
    require(fitting, "numbers of knots that do not match the knots of pairs")
    nodes = sum((int(one) + 1) * (int(other) + 1) for one, other in sizes)
    _check(tensors, "pair_values", (nodes, tensors["intercept"].size))
    _check(tensors, "pair_weights", (nodes,))
    require(bool((weights >= 0).all()), "weights of pairs below 0")
    found: list[PairFunction] = []
    first, node = 0, 0
    for pair, (rows, columns) in zip(listed, sizes.tolist(), strict=True):
        axes = knots[first : first + rows], knots[first + rows : first + rows + columns]
        require(all(bool((np.diff(axis) > 0).all()) for axis in axes), "knots of a pair that do not ascend")
        part, shape = slice(node, node + (rows + 1) * (columns + 1)), (rows + 1, columns + 1)
        found.append(PairFunction(pair, axes, values[part].reshape(*shape, -1), weights[part].reshape(shape)))
        first, node = first + rows + columns, part.stop
    return tuple(found)


def _curve_tensors(curves: tuple[Curve, ...], outputs: int) -> Tensors:
    none, nothing = np.zeros(0), np.zeros((0, outputs))
    return {
        "sizes": np.array([curve.knots.size for curve in curves], dtype=np.int64),
        "knots": np.concatenate([none, *(curve.knots for curve in curves)]),
        "values": np.concatenate([nothing, *(curve.values for curve in curves)]),
        "left_slopes": np.concatenate([nothing, *(curve.left_slope[None] for curve in curves)]),
        "right_slopes": np.concatenate([nothing, *(curve.right_slope[None] for curve in curves)]),
        "absent": np.concatenate([nothing, *(curve.absent[None] for curve in curves)]),
    }


def _read_curves(tensors: Tensors) -> tuple[Curve, ...]:
    """Return the curves that `_curve_tensors` wrote down."""
    kept, outputs = tensors["terms"].size, tensors["intercept"].size
    sizes, knots = tensors["sizes"], tensors["knots"]
    _check(tensors, "sizes", (kept,), np.int64)
    total = int(knots.size)
    _check(tensors, "knots", (total,))
    _check(tensors, "values", (total, outputs))
    for name in ("left_slopes", "right_slopes", "absent"):
        _check(tensors, name, (kept, outputs))
    fitting = bool(((sizes >= 1) & (sizes <= total)).all()) and sum(sizes.tolist()) == total
    require(fitting, "numbers of knots that do not match the knots")
    curves: list[Curve] = []
    ends = np.cumsum(sizes)
    with np.errstate(all="ignore"):
        steep = np.abs(np.diff(tensors["values"], axis=0)) / np.diff(knots)[:, None]
    within = np.setdiff1d(np.arange(max(total - 1, 0)), ends - 1)  # not from the last knot of a term to the next term's
    require(bool((steep[within] <= FARTHEST).all()), "a shape that is too steep")
    try:
        for index, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
            left, right, absent = (tensors[name][index] for name in ("left_slopes", "right_slopes", "absent"))
            curves.append(Curve(knots[start:end], tensors["values"][start:end], left, right, absent))
    except InputError as error:
        raise RefusalError(f"a shape that cannot be ({error})") from error
    return tuple(curves)


def _read_networks(record: dict[str, Any], tensors: Tensors) -> SubNetworks:
    """Return the sub-networks of a record and its tensors."""
    kept, outputs = tensors["terms"].size, tensors["intercept"].size
    layers, activation = as_whole_numbers(record["hidden"], "damaged hidden layers", lowest=1), record["activation"]
    require(len(layers) <= MOST_LAYERS and max(layers, default=1) <= WIDEST, "damaged hidden layers")
    require(activation in ACTIVATION_NAMES and type(record["padded"]) is bool, "an unknown activation")
    _check(tensors, "widths", (kept, len(layers)), np.int64)
    widths = tensors["widths"].astype(np.intp)
    require(bool(((widths >= 1) & (widths <= np.array(layers, dtype=np.intp))).all()), "damaged hidden layers")
    bank = MLPBank(tuple(layers), outputs, str(activation), widths if record["padded"] else None)
    _check(tensors, "theta", (kept, bank.size))
    for name, shape in {
        "center": (kept,),
        "scale": (kept,),
        "offsets": (kept, outputs),
        "absent": (kept, outputs),
        "target_scale": (outputs,),
    }.items():
        _check(tensors, name, shape)
    require(bool((tensors["scale"] > 0).all()), "a scale that is not above 0")
    scaling = Scaling(tensors["center"], tensors["scale"])
    return SubNetworks(bank, tensors["theta"], scaling, tensors["offsets"], tensors["target_scale"], tensors["absent"])


def _check(tensors: Tensors, name: str, shape: tuple[int, ...], kind: type[np.generic] = np.float64) -> None:
    tensor = tensors[name]
    require(tensor.shape == shape and tensor.dtype == kind, f"a tensor {name!r} of another shape or type")
