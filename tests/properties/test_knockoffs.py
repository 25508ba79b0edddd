"""Knockoffs are exchangeable with their columns, whatever the columns are, and statistics change sign with a swap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsenam.convex.design import RampFeatures
from sparsenam.discover import knockoffs
from sparsenam.discover.knockoffs import DoubledSample
from sparsenam.families import Gaussian
from sparsenam.penalties import GroupLasso
from sparsenam.selection.task import ConvexTask
from sparsenam.tables.sample import Sample, prepare


def chain(columns: int, rho: float) -> np.ndarray:
    place = np.arange(columns)
    return rho ** np.abs(place[:, None] - place)


def task_of(prepared):
    terms = np.arange(prepared.n_terms)
    return ConvexTask.of(prepared, Gaussian(), RampFeatures(prepared, 16), GroupLasso(), terms, tuple(map(str, terms)))


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["normal", "ties", "binary"]))
@settings(max_examples=20, deadline=None)
def test_a_copy_has_exactly_the_values_of_its_column(seed, kind):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(4, 60))
    x = {"normal": x, "ties": np.round(x), "binary": (x > 0.3).astype(float)}[kind]
    copies = knockoffs.draw_knockoffs(x, generator).x
    assert np.array_equal(np.sort(copies, axis=1), np.sort(x, axis=1))
    assert not np.array_equal(copies, x)


def test_copies_have_the_correlations_of_the_columns_and_the_distances_asked_for():
    generator, rows = np.random.default_rng(0), 40_000
    correlation = chain(5, 0.6)
    s = knockoffs.distances(correlation)
    scores = np.linalg.cholesky(correlation) @ generator.normal(size=(5, rows))
    copies = knockoffs.gaussian_copies(scores, correlation, generator)
    joint = np.cov(np.vstack([scores, copies]))
    expected = np.block([[correlation, correlation - np.diag(s)], [correlation - np.diag(s), correlation]])
    assert np.abs(joint - expected).max() < 5.0 / np.sqrt(rows)


@given(seed=st.integers(0, 10**6), columns=st.integers(1, 12))
@settings(max_examples=15, deadline=None)
def test_distances_are_feasible_and_no_worse_than_one_for_all(seed, columns):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(columns, 40)) + generator.normal(size=40)
    scores = knockoffs.normal_scores(40)[knockoffs.random_ranks(x, generator)]
    correlation = knockoffs.shrunken_correlation(scores)
    s = knockoffs.distances(correlation)
    assert (s > 0).all() and (s <= 1).all()
    assert np.linalg.eigvalsh(2 * correlation - np.diag(s))[0] > 0

    def cost(given):
        return np.sum(1 / given) + np.trace(np.linalg.inv(2 * correlation - np.diag(given)))

    equal = np.full(columns, 0.8 * min(1.0, 2 * np.linalg.eigvalsh(correlation)[0]))
    assert cost(s) <= cost(equal) * (1 + 1e-6)


def test_many_columns_share_one_distance(monkeypatch):
    monkeypatch.setattr(knockoffs, "MOST_OPTIMISED_COLUMNS", 3)
    s = knockoffs.distances(chain(6, 0.7))
    assert np.ptp(s) == 0 and np.linalg.eigvalsh(2 * chain(6, 0.7) - np.diag(s))[0] > 0


def test_swapping_columns_with_their_copies_flips_the_signs_of_their_statistics_alone():
    generator = np.random.default_rng(1)
    X = generator.normal(size=(150, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * generator.normal(size=150)
    sample = Sample(X, y[:, None], np.ones(150), [f"x{column}" for column in range(6)])
    prepared = prepare(sample, standardize=True)
    copies = knockoffs.draw_knockoffs(prepared.x, generator).x
    straight = DoubledSample.of(prepared, copies, np.random.default_rng(7))
    swapped = [0, 3, 4]
    x, others = prepared.x.copy(), copies.copy()
    x[swapped], others[swapped] = copies[swapped], prepared.x[swapped]
    crossed = DoubledSample.of(replace(prepared, x=x), others, np.random.default_rng(8))
    before, after = (each.statistics(task_of(each.prepared)) for each in (straight, crossed))
    signs = np.where(np.isin(np.arange(6), swapped), -1.0, 1.0)
    assert before[0] > 0.1 and before[1] > 0.1
    assert np.abs(after - signs * before).max() < 0.02 * np.abs(before).max()


def test_without_any_effect_a_statistic_is_as_often_negative_as_positive():
    positive, total = 0, 0
    for seed in range(6):
        generator = np.random.default_rng(seed)
        X = generator.multivariate_normal(np.zeros(15), chain(15, 0.5), size=300)
        sample = Sample(X, generator.normal(size=(300, 1)), np.ones(300), [f"x{column:02d}" for column in range(15)])
        prepared = prepare(sample, standardize=True)
        doubled = DoubledSample.of(prepared, knockoffs.draw_knockoffs(prepared.x, generator).x, generator)
        statistics = doubled.statistics(task_of(doubled.prepared))
        positive, total = positive + int((statistics > 0).sum()), total + int((statistics != 0).sum())
    assert total > 60 and abs(positive - total / 2) < 3.5 * np.sqrt(total) / 2


@pytest.mark.parametrize(("kind", "suspicious"), [("normal", False), ("t3", False), ("square", True)])
def test_dependence_beyond_a_gaussian_copula_is_seen_and_heavy_tails_are_none(kind, suspicious):
    generator = np.random.default_rng(3)
    x = generator.multivariate_normal(np.zeros(10), chain(10, 0.6), size=400).T
    if kind == "t3":
        x = x * np.sqrt(3 / generator.chisquare(3, size=400))
    if kind == "square":
        x[1] = x[0] ** 2 + 0.5 * generator.normal(size=400)
    assert (knockoffs.draw_knockoffs(x, generator).construction == "sequential") is suspicious


def test_sequential_copies_keep_a_dependence_that_no_correlation_shows():
    generator = np.random.default_rng(4)
    x = generator.normal(size=(4, 600))
    x[1] = x[0] ** 2 + 0.3 * generator.normal(size=600)
    copies = knockoffs.from_scores(knockoffs.sequential_copies(knockoffs.random_ranks(x, generator), generator), x)

    def together(one, other):
        return abs(np.corrcoef(np.abs(one), other)[0, 1])

    assert together(x[0], copies[1]) > 0.75
    assert together(x[2], copies[1]) < 0.2


def test_copies_of_rows_with_a_scale_are_large_with_their_rows():
    generator = np.random.default_rng(6)
    x = generator.standard_normal((40, 400)) * np.sqrt(3.0 / generator.chisquare(3, 400))
    copies = knockoffs.draw_knockoffs(x, generator)
    assert copies.construction == "elliptical copula"
    originals, drawn = np.log(np.abs(x)), np.log(np.abs(copies.x))
    together = np.corrcoef(np.vstack([originals, drawn]))
    apart = ~np.eye(40, dtype=bool)
    among = together[:40, :40][apart].mean()
    assert among > 0.1  # columns without a correlation, but not independent
    assert together[:40, 40:][apart].mean() > 0.85 * among and together[40:, 40:][apart].mean() > 0.85 * among


def test_rows_of_normal_columns_have_no_scale():
    generator = np.random.default_rng(7)
    shared = generator.standard_normal(300)
    x = 0.7 * generator.standard_normal((30, 300)) + 0.7 * shared
    assert knockoffs.draw_knockoffs(x, generator).construction == "gaussian copula"
