"""Sums at knots are those of the columns written out."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsenam.convex import ramps as module
from sparsenam.convex.design import GroupedFeatures, RampFeatures, grouped_design
from sparsenam.convex.knots import knot_design
from sparsenam.convex.ramps import PlacedRows, Ramps, place_ramps
from sparsenam.convex.squared import GramCache
from sparsenam.tables.sample import Grouping, Sample, prepare


def hats(ramps, x):
    """Return H written out, shape (rows, knots)."""
    parts = []
    for each, cells in zip(ramps, x, strict=True):
        present = ~np.isnan(cells)
        at = np.where(present, np.clip(cells, each.knots[0], each.knots[-1]), each.knots[0])
        unit = np.eye(each.knots.size)
        parts.append(np.stack([np.interp(at, each.knots, row) for row in unit], axis=1) * present[:, None])
    return np.hstack(parts)


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(3, 60),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    ties=st.booleans(),
    gaps=st.booleans(),
    loops=st.sampled_from(["few_rows", "kernels"]),
)
def test_gram_sums_and_effects_are_those_of_hat_functions_written_out(seed, rows, sizes, ties, gaps, loops):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((len(sizes), rows))
    if ties:
        x = np.round(x)
    if gaps:
        x[generator.random(x.shape) < 0.3] = np.nan
    x[0] = 1.0  # a constant column
    ramps = [Ramps(np.sort(generator.standard_normal(size + 1)) + np.arange(size + 1) * 1e-3) for size in sizes]
    weights = generator.random(rows) * (generator.random(rows) > 0.2)
    written = hats(ramps, x)
    values, at = generator.standard_normal((rows, 2)), generator.standard_normal((written.shape[1], 3))
    scale = max(1.0, weights.sum())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW_PRODUCTS", 0 if loops == "kernels" else module.FEW_PRODUCTS)
        placed = PlacedRows.of(ramps, x)
        assert np.abs(placed.gram(weights) - written.T @ (weights[:, None] * written)).max() <= 1e-13 * scale
        assert np.allclose(placed.sums(values), written.T @ values, rtol=0, atol=1e-12)
        assert np.allclose(placed.times(at), written @ at, rtol=0, atol=1e-12)


def mixed_features(rows=300, classes=1):
    """Return the ramps of a table of numbers, absent cells, few and many levels, and one group of two terms."""
    generator = np.random.default_rng(5)
    terms = generator.standard_normal((rows, 6))
    terms[:, 1] = np.round(terms[:, 1])
    terms[generator.random(rows) < 0.2, 2] = np.nan
    terms[:, 3] = generator.integers(0, 4, rows)
    terms[:, 4] = np.minimum(generator.geometric(0.1, rows), 30)
    target = np.sin(2 * terms[:, [0]]) + 0.1 * terms[:, [4]] + generator.standard_normal((rows, classes))
    weights = generator.random(rows) + 0.5
    members = (np.array([0]), np.array([1, 5]), np.array([2]), np.array([3]), np.array([4]))
    sample = Sample(
        terms,
        target,
        weights,
        list("abcdef"),
        levels=np.array([False, False, False, True, True, False]),
        grouping=Grouping(members, np.ones(5)),
    )
    prepared = prepare(sample, standardize=True)
    features = RampFeatures(prepared, 12)
    return prepared, features, GroupedFeatures.of(features, prepared.grouping)


@pytest.mark.parametrize("classes", [1, 2])
def test_a_design_at_knots_is_the_design_of_the_columns(classes):
    prepared, features, grouped = mixed_features(classes=classes)
    freedoms = np.array([grouped.freedom(group) for group in range(5)])
    given = {"roughness_of": grouped.roughness, "freedoms": freedoms}
    dense = grouped_design(grouped.columns, 5, prepared.weights, **given)
    knots = knot_design(grouped, features, prepared.weights, freedoms)
    everything = np.arange(5)
    for group in everything:  # a direction's sign is arbitrary, and so is a basis among equally rough ones
        one, other = (design.exact(np.array([group])) for design in (dense, knots))
        assert np.allclose(one.T @ one, other.T @ other, atol=1e-8)
    columns, vectors = knots.exact(everything), np.random.default_rng(1).standard_normal((3, knots.n_rows))
    shape = (5, knots.width, -1)
    assert np.allclose(knots.products(vectors), (columns @ vectors.T).reshape(shape), atol=1e-10)
    some, theta = np.array([3, 1]), np.random.default_rng(2).standard_normal((2, 2 * knots.width))
    assert np.allclose(knots.combined(some, theta), theta @ knots.exact(some), atol=1e-10)
    assert np.allclose(knots.columns(some), knots.exact(some), atol=1e-5)


def test_the_cache_of_a_design_at_knots_holds_the_products_of_its_columns_in_every_fold():
    prepared, features, grouped = mixed_features()
    freedoms = np.array([grouped.freedom(group) for group in range(5)])
    design = knot_design(grouped, features, prepared.weights, freedoms)
    fold = np.arange(design.n_rows) % 3
    batches = np.stack([prepared.weights, *(prepared.weights * (fold != k) for k in range(3))])
    gram = GramCache(design, prepared.target, batches)
    gram.add(np.array([2, 0]))
    gram.add(np.array([4, 1, 3]))
    columns = design.exact(np.array(gram.groups))
    for batch, weights in enumerate(batches / batches.sum(axis=1, keepdims=True)):
        centred = columns - (columns @ weights)[:, None]
        size = gram.size
        assert np.allclose(gram.hessian[batch, :size, :size], (centred * weights) @ centred.T, atol=1e-10)
        target = prepared.target - weights @ prepared.target
        assert np.allclose(gram.linear[batch], (columns * weights @ target).T, atol=1e-10)


def test_sums_over_all_groups_copy_no_cells():
    prepared, features, grouped = mixed_features(rows=40_000)
    freedoms = np.array([grouped.freedom(group) for group in range(5)])
    design = knot_design(grouped, features, prepared.weights, freedoms)
    everything, cells = np.arange(5), design.placed.places.nbytes + design.placed.shares.nbytes
    theta, working = np.ones((1, 5 * design.width)), design.working(everything)
    work = {
        "combined": lambda: design.combined(everything, theta),
        "products": lambda: design.products(prepared.weights[None]),
        "second_moments": lambda: working.second_moments(prepared.weights),
    }
    for name, call in work.items():
        call()  # what is compiled or imported with the first call is no copy
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.8 * cells, name


def test_knots_of_one_ramp_and_of_two_values_are_placed():
    ramps = [place_ramps(np.array([0.0, 1.0, 1.0]), np.ones(3), 8), Ramps(np.array([0.0, 2.0]))]
    placed = PlacedRows.of(ramps, np.array([[0.0, 1.0, 1.0], [-1.0, 1.0, 5.0]]))
    assert np.allclose(placed.sums(np.ones((3, 1)))[:, 0], [1.0, 2.0, 1.5, 1.5])
