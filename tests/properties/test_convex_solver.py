"""What must hold of every convex path, whatever the data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convex_cases import OUTPUTS, family_of, grouped, objective, target_of
from sparsenam.codec import unpack
from sparsenam.convex import path as path_solver
from sparsenam.convex.design import grouped_design
from sparsenam.convex.path import alpha_max, convex_path
from sparsenam.convex.problem import Certificate, certify, convex_problem, sorted_dual_norm
from sparsenam.convex.squared import GramCache
from sparsenam.errors import CertificateError, InputError
from sparsenam.penalties import AdaptiveGroupLasso, GroupBridge, GroupElasticNet, GroupLasso, GroupSLOPE

PENALTIES = {"plain": GroupLasso(), "elastic_net": GroupElasticNet(0.7), "slope": GroupSLOPE("linear")}
every_loss = pytest.mark.parametrize("case", list(OUTPUTS))
every_penalty = pytest.mark.parametrize("kind", list(PENALTIES))


def leave_out(rows, folds, weights=None):
    weights = np.ones(rows) if weights is None else weights
    labels = np.arange(rows) % folds
    return np.stack([weights] + [np.where(labels == k, 0.0, weights) for k in range(folds)])


@every_loss
@every_penalty
def test_model_is_empty_at_alpha_max_and_not_just_below(case, kind):
    design, family, penalty = grouped(), family_of(case), PENALTIES[kind]
    target, weights = target_of(case, design), np.ones((1, design.n_rows))
    top = alpha_max(convex_problem(design, target, family, weights), penalty=penalty)
    alphas = [top, 0.999 * top]
    first, second = convex_path(
        convex_problem(design, target, family, weights), penalty=penalty, alphas=alphas, tol=1e-10
    )
    assert first.supports[0].size == 0
    assert second.supports[0].size > 0


def test_alpha_max_is_exact_in_single_precision_too():
    design = grouped(groups=200, dtype=np.float32)
    family, weights = family_of("gaussian"), np.ones((1, design.n_rows))
    target = target_of("gaussian", design)
    top = alpha_max(convex_problem(design, target, family, weights))
    first, second = convex_path(convex_problem(design, target, family, weights), alphas=[top, (1 - 1e-6) * top])
    assert (first.supports[0].size, second.supports[0].size) == (0, 1)


@every_loss
@every_penalty
@settings(max_examples=5)
@given(seed=st.integers(0, 1000), share=st.floats(0.05, 0.9), tol=st.floats(1e-5, 0.3))
def test_gap_bounds_the_distance_to_the_optimum(case, kind, seed, share, tol):
    design, family, penalty = grouped(seed), family_of(case), PENALTIES[kind]
    target, weights = target_of(case, design, seed), np.ones(design.n_rows)
    alpha = share * alpha_max(convex_problem(design, target, family, weights), penalty=penalty)
    rough, exact = (
        next(convex_path(convex_problem(design, target, family, weights[None]), penalty=penalty, alphas=[alpha], tol=t))
        for t in (tol, 1e-9)
    )
    values = [
        objective(design, target, family, weights, p.theta[0], p.intercepts[0], alpha, penalty) for p in (rough, exact)
    ]
    constant = np.broadcast_to(family.best_constant(target, weights), target.shape)
    null = np.mean(family.loss(constant, target) + family.conjugate(target, target))
    assert values[0] - values[1] <= null * (rough.gaps[0] + 1e-8)


@every_loss
@every_penalty
def test_batches_are_solved_as_they_would_be_alone(case, kind):
    design, family, penalty = grouped(), family_of(case), PENALTIES[kind]
    target, weights = target_of(case, design), leave_out(design.n_rows, 3)
    alphas = alpha_max(convex_problem(design, target, family, weights), penalty=penalty) * np.array([0.5, 0.2])
    together = list(
        convex_path(convex_problem(design, target, family, weights), penalty=penalty, alphas=alphas, tol=1e-9)
    )
    for batch in range(4):
        alone = convex_path(
            convex_problem(design, target, family, weights[[batch]]), penalty=penalty, alphas=alphas, tol=1e-9
        )
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_allclose(one.theta[0], all_of_them.theta[batch], atol=1e-3)


@pytest.mark.parametrize("case", ["gaussian", "binomial", "poisson"])
def test_weights_are_repeated_rows(case):
    design, family = grouped(), family_of(case)
    target = target_of(case, design)
    counts = np.random.default_rng(3).integers(1, 4, design.n_rows)
    many = np.repeat(np.arange(design.n_rows), counts)
    repeated = replace(design, blocks=design.blocks[:, :, many])
    (weighted,) = convex_path(
        convex_problem(design, target, family, counts[None].astype(float)), alphas=[0.1], tol=1e-10
    )
    (plain,) = convex_path(
        convex_problem(repeated, target[many], family, np.ones((1, many.size))), alphas=[0.1], tol=1e-10
    )
    np.testing.assert_allclose(weighted.theta, plain.theta, atol=1e-4)


@pytest.mark.parametrize("case", ["gaussian", "binomial"])
def test_screening_changes_nothing(case, monkeypatch):
    design, family = grouped(groups=60, width=2), family_of(case)
    target, weights = target_of(case, design), leave_out(design.n_rows, 2)
    alphas = alpha_max(convex_problem(design, target, family, weights)) * np.geomspace(1, 0.2, 6)
    gram = GramCache(design, target, weights)
    gram.add(np.arange(60))
    whole = list(convex_path(convex_problem(design, target, family, weights), alphas=alphas, tol=1e-9, gram=gram))
    monkeypatch.setattr(path_solver, "SMALL_DESIGN", 0)
    screened = list(convex_path(convex_problem(design, target, family, weights), alphas=alphas, tol=1e-9))
    for one, other in zip(whole, screened, strict=True):
        np.testing.assert_allclose(one.theta, other.theta, atol=1e-3)


@every_penalty
def test_a_wrong_solution_is_refused_a_certificate(kind):
    design, family, penalty = grouped(), family_of("gaussian"), PENALTIES[kind]
    target, weights = target_of("gaussian", design), np.ones(design.n_rows)
    alpha = 0.4 * alpha_max(convex_problem(design, target, family, weights), penalty=penalty)
    (point,) = convex_path(
        convex_problem(design, target, family, weights[None]), penalty=penalty, alphas=[alpha], tol=1e-8
    )
    names = list("abcdef")

    def certificate(theta, intercept):
        return certify(convex_problem(design, target, family, weights), theta, intercept, alpha, penalty, names, 1e-6)

    theta, intercept = point.theta[0], point.intercepts[0]
    found = certificate(theta, intercept)
    assert found.gap <= 1e-6
    assert all(0 <= share <= 1 for share in found.slack.values())
    assert unpack(Certificate, found.to_dict()) == found
    dropped = theta.copy()
    dropped[point.supports[0][0]] = 0.0
    for wrong in (dropped, 1.1 * theta, np.roll(theta, 1, axis=0)):
        with pytest.raises(CertificateError):
            certificate(wrong, intercept)
    with pytest.raises(CertificateError):
        certificate(theta, intercept + 0.1)


def test_certificate_reads_well():
    certificate = Certificate(1e-5, 1e-4, 0.1, {"x7": 0.61}, ("x1",))
    assert "x7 dropped: 0.61 of the way to entering" in str(certificate)


@pytest.mark.parametrize("penalty", [GroupBridge(), AdaptiveGroupLasso()])
def test_penalties_without_a_dual_are_refused(penalty):
    design = grouped()
    with pytest.raises(InputError):
        next(
            convex_path(
                convex_problem(
                    design, target_of("gaussian", design), family_of("gaussian"), np.ones((1, design.n_rows))
                ),
                penalty=penalty,
            )
        )


def test_function_norm_is_the_root_mean_square_of_the_effect():
    generator = np.random.default_rng(0)
    raw = generator.normal(size=(3, 50, 4))
    raw[1, :, 2] = raw[1, :, 0]  # a column twice
    raw[2, :, :] = 5.0  # a constant feature
    weights = generator.uniform(0.5, 2, 50)
    calls = []

    def columns_of(j):
        calls.append(j)
        return raw[j]

    design = grouped_design(columns_of, 3, weights)
    assert calls == [0, 1, 2]
    theta = generator.normal(size=(3, 4, 1))
    effects = np.einsum("pnm,pmo->pn", raw - design.means[:, None], design.transform @ theta)
    np.testing.assert_allclose(effects, np.einsum("pmn,pmo->pn", design.blocks, theta), atol=1e-9)
    norms = np.sqrt(np.average(effects**2, axis=1, weights=weights))
    assert norms[0] == pytest.approx(np.linalg.norm(theta[0]))
    kept = np.abs(design.blocks[1]).max(axis=1) > 1e-9
    assert kept.sum() == 3
    assert norms[1] == pytest.approx(np.linalg.norm(theta[1][kept]))
    assert norms[2] == pytest.approx(0.0, abs=1e-9)


def test_groups_of_unequal_size_are_padded():
    raw = [np.random.default_rng(j).normal(size=(30, j + 1)) for j in range(4)]
    design = grouped_design(lambda j: raw[j], 4, np.ones(30), norm="parameters")
    assert design.blocks.shape == (4, 4, 30)
    for j in range(4):
        np.testing.assert_allclose(design.blocks[j, : j + 1].T, raw[j] - raw[j].mean(axis=0), atol=1e-12)
        assert not design.blocks[j, j + 1 :].any()


@every_loss
def test_a_fold_at_a_multiple_of_alpha_is_the_fold_alone_at_that_alpha(case):
    design, family = grouped(), family_of(case)
    target, weights = target_of(case, design), leave_out(design.n_rows, 3)
    scales = np.array([1.0, 1.3, 0.7, 2.0])
    alphas = [0.1, 0.05]
    together = list(convex_path(convex_problem(design, target, family, weights, scales), alphas=alphas, tol=1e-8))
    for batch in range(4):
        given = [scales[batch] * alpha for alpha in alphas]
        alone = convex_path(convex_problem(design, target, family, weights[batch : batch + 1]), alphas=given, tol=1e-8)
        for point, expected in zip(together, alone, strict=True):
            np.testing.assert_allclose(point.theta[batch], expected.theta[0], atol=2e-3)


@pytest.mark.parametrize("tol", [0.5, 0.3, 0.1])
def test_a_dropped_group_may_be_beyond_its_bound_by_the_root_of_tol_and_no_more(tol):
    """The empty model at alpha_max/s has slack s and a relative gap of (1 - 1/s)² at most, which tol excuses here."""
    design, family = grouped(), family_of("gaussian")
    target, weights = target_of("gaussian", design), np.ones(design.n_rows)
    top, names = alpha_max(convex_problem(design, target, family, weights)), list("abcdef")
    empty = np.zeros((design.n_groups, design.width, 1)), np.average(target, axis=0)

    def certificate(slack):
        return certify(convex_problem(design, target, family, weights), *empty, top / slack, GroupLasso(), names, tol)

    allowed = 1.0 + np.sqrt(tol)
    assert max(certificate(0.99 * allowed).slack.values()) == 1.0
    for slack in (1.01 * allowed, 1.1 * allowed):
        with pytest.raises(CertificateError, match="too small to enter"):
            certificate(slack)


@given(seed=st.integers(0, 10_000), size=st.integers(1, 6))
def test_the_dual_of_the_sorted_norm_bounds_every_product_and_is_reached(seed, size):
    """Σ gⱼrⱼ ≤ dual(g) Σ wᵢr₍ᵢ₎ for every r, with equality for the first k of the order of g, for some k."""
    generator = np.random.default_rng(seed)
    norms, sequence = generator.exponential(size=size), np.sort(generator.exponential(size=size))[::-1]
    dual = sorted_dual_norm(norms, sequence)
    for r in generator.exponential(size=(30, size)) ** 2:
        assert norms @ r <= dual * (sequence @ np.sort(r)[::-1]) * (1 + 1e-12)
    order = np.argsort(-norms)
    ratios = [norms[order[: k + 1]].sum() / sequence[: k + 1].sum() for k in range(size)]
    assert any(ratio == pytest.approx(dual, rel=1e-12) for ratio in ratios)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_loss
def test_an_unpenalised_group_that_is_constant_in_a_fold_says_nothing_there(case, dtype):
    raw = np.random.default_rng(0).normal(size=(4, 60, 3))
    raw[0, 2:] = 0.0  # rows 0 and 1, which batch 1 leaves out
    design = grouped_design(lambda j: raw[j], 4, np.ones(60), dtype=dtype)
    weights = np.stack([np.ones(60), np.repeat([0.0, 1.0], 30), np.repeat([1.0, 0.0], 30)])
    penalty = GroupLasso(np.array([0.0, 1.0, 1.0, 1.0]))
    path = convex_path(
        convex_problem(design, target_of(case, design), family_of(case), weights), penalty=penalty, n_alphas=5
    )
    for point in path:
        assert np.abs(point.theta[1, 0]).max() < 0.01
