"""Squared loss from streamed sums gives the path of the whole table."""

import numpy as np
import pytest

from sparsenam.convex.design import orthonormal_design
from sparsenam.convex.path_solver import convex_path
from sparsenam.convex.ramps import place_ramps
from sparsenam.convex.streaming import RowSums
from sparsenam.errors import InputError
from sparsenam.families import Gaussian


@pytest.mark.parametrize("outputs", [1, 2])
def test_streamed_rows_give_the_path_of_the_whole_table(outputs):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(6, 500))
    x[5] = x[5] > 0
    target = 100 + np.stack([np.sin(2 * x[0]) + 0.5 * x[5], x[1] ** 2], axis=1)[:, :outputs]
    target = target + 0.3 * generator.normal(size=target.shape)
    weights = generator.uniform(0.5, 2, size=500)
    ramps = [place_ramps(column, weights, 8) for column in x]
    sums = RowSums(ramps, outputs)
    for rows in np.array_split(np.arange(500), 7):
        sums.add(x[:, rows], target[rows], weights[rows])
    design, small, small_weights = sums.table()
    assert small.shape[0] <= 2 * (sum(own.size for own in ramps) + outputs)
    whole = orthonormal_design(lambda j: ramps[j].columns(x[j]), 6, weights)
    settings = {"n_alphas": 12, "tol": 1e-10}
    in_memory = list(convex_path(whole, target, Gaussian(), weights[None], **settings))
    streamed = list(convex_path(design, small, Gaussian(), small_weights[None], **settings))
    for one, other in zip(in_memory, streamed, strict=True):
        assert other.alpha == pytest.approx(one.alpha, rel=1e-8)
        np.testing.assert_array_equal(one.supports[0], other.supports[0])
        expected, found = whole.original(one.theta[0]), design.original(other.theta[0])
        np.testing.assert_allclose(found, expected, atol=1e-4)
        np.testing.assert_allclose(other.intercepts[0] + sums.target_means, one.intercepts[0], atol=1e-6)


def test_sums_over_nothing_are_refused():
    with pytest.raises(InputError, match="at least one block"):
        RowSums([place_ramps(np.arange(5.0), np.ones(5), 2)]).table()
