"""The fit in a cone of shapes against a general solver of quadratic programs."""

import cvxpy
import numpy as np
import pytest
from scipy.sparse import block_diag

from sparsenam.convex.ramps import place_ramps
from sparsenam.families import Gaussian
from sparsenam.smooth.constraints import Cone, read_shape
from sparsenam.smooth.design import Layout
from sparsenam.smooth.engine import SmoothProblem, SquaredRows
from sparsenam.smooth.fit import MemoryRows

SHAPES = [
    "increasing",
    "decreasing",
    "convex",
    "concave",
    "increasing+convex",
    "increasing+concave",
    "decreasing+convex",
    "decreasing+concave",
]


def problem(names, seed):
    """Return layout, shapes, strengths, noise and the least squares of terms with these shapes and one free term."""
    generator = np.random.default_rng(seed)
    x, weights = generator.standard_normal((len(names) + 1, 150)), generator.integers(1, 3, 150).astype(float)
    target = np.sin(2.0 * x).sum(axis=0) + generator.standard_normal(150)
    layout = Layout.of([place_ramps(cells, weights, int(generator.integers(4, 14))) for cells in x])
    strengths = [10.0 ** generator.uniform(-2.0, 1.0, len(matrices)) for matrices in layout.roughness]
    rows = MemoryRows(SmoothProblem(x, target[:, None], weights, Gaussian()), layout)
    squares = SquaredRows(rows, rows.at(np.zeros((layout.size, 1)), np.zeros(1)))
    shapes = {term: read_shape(name, "test") for term, name in enumerate(names)}
    return layout, shapes, strengths, 0.7, squares


def by_general_solver(layout, shapes, hessian, moment):
    beta, limits = cvxpy.Variable(layout.size), []
    for term, shape in shapes.items():
        part = beta[layout.slices[term]]
        slopes = cvxpy.multiply(part, 1.0 / np.diff(layout.ramps[term].knots))
        limits += [shape.sign * part >= 0] if shape.sign else []
        limits += [shape.bend * cvxpy.diff(slopes) >= 0] if shape.bend else []
    root = np.linalg.cholesky(hessian).T
    cost = 0.5 * cvxpy.sum_squares(root @ beta) - moment @ beta
    cvxpy.Problem(cvxpy.Minimize(cost), limits).solve(
        solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    return beta.value


@pytest.mark.parametrize("names", [[name] for name in SHAPES] + [SHAPES[:3], SHAPES[3:6], SHAPES[5:]], ids=" ".join)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_minimum_in_a_cone_is_that_of_a_general_solver(names, seed):
    layout, shapes, strengths, noise, squares = problem(names, seed)
    moment, hessian = squares.moment[:, 0] / noise, squares.gram.matrix / noise
    for place, precision in zip(layout.slices, layout.precisions(strengths), strict=True):
        hessian[place, place] += precision
    solver = Cone(layout, shapes)
    start = np.random.default_rng(2).standard_normal(layout.size)  # b = pull + H start: any start gives the same
    found, _ = solver.minimum(0, squares.gram.matrix, strengths, noise, moment - hessian @ start, start)
    wanted = by_general_solver(layout, shapes, hessian, moment)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert solver.zeros[0].any()
    again, _ = solver.minimum(0, squares.gram.matrix, strengths, noise, moment, np.zeros(layout.size))
    assert np.allclose(again, found, atol=1e-9)


def test_covariances_are_those_of_the_free_directions():
    layout, shapes, strengths, noise, squares = problem(["increasing", "convex"], 0)
    cone = Cone(layout, shapes)
    _, face = cone.minimum(
        0, squares.gram.matrix, strengths, noise, squares.moment[:, 0] / noise, np.zeros(layout.size)
    )
    found, hessian = face.spread, squares.gram.matrix / noise
    for place, precision in zip(layout.slices, layout.precisions(strengths), strict=True):
        hessian[place, place] += precision
    directions = block_diag([term.directions.toarray() for term in cone.terms]).toarray()
    normals = np.linalg.inv(directions)[cone.zeros[0]]
    free = np.linalg.svd(normals)[2][np.linalg.matrix_rank(normals) :].T
    covariance = free @ np.linalg.inv(free.T @ hessian @ free) @ free.T
    for term, place in enumerate(layout.slices):
        assert np.allclose(found.covariances[term], covariance[place, place], atol=1e-8)
    shares = np.trace(covariance @ squares.gram.matrix / noise)
    assert np.isclose(found.degrees_of_freedom.sum(), shares, atol=1e-6)
