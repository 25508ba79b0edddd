"""The benchmark on real tables: recipes, losses, the runner, and verdicts."""

import importlib
import os
import time

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss, mean_gamma_deviance, mean_poisson_deviance
from sksurv.metrics import integrated_brier_score
from sksurv.util import Surv

RESERVED = {"modeldata", "ISLR", "ISLP", "openintro", "dslabs", "ggplot2", "robustbase", "causaldata", "stevedata"}
FEWEST = {"number": 25, "binary": 20, "classes": 6, "count": 6, "survival": 6}


@pytest.fixture
def real(monkeypatch, request):
    """Import a module of the benchmark from its folder."""
    monkeypatch.syspath_prepend(str(request.config.rootpath / "benchmarks"))
    return lambda name: importlib.import_module(f"real.{name}")


def test_recipes_are_complete_and_leave_the_reserved_packages_alone(real):
    tables, kinds = real("tables"), real("recipe").KINDS
    for name, recipe in tables.RECIPES.items():
        package = recipe.source.partition(":")[2].partition("/")[0]
        assert package not in RESERVED | {"sampleSelection"}, name
        assert recipe.kind in kinds and recipe.about.endswith("."), name
        assert bool(recipe.event) == (recipe.kind == "survival"), name
    problems = [(recipe.source, recipe.target) for recipe in tables.RECIPES.values()]
    assert len(set(problems)) == len(problems) >= 60
    assert not set(tables.TABLES) & set(tables.RESERVE)
    for kind, fewest in FEWEST.items():
        assert sum(recipe.kind == kind for recipe in tables.TABLES.values()) >= fewest


def test_losses_are_those_of_scikit_learn(real):
    losses, generator = real("losses"), np.random.default_rng(0)
    y, mean = generator.poisson(2.0, 50), generator.uniform(0.5, 4.0, 50)
    assert losses.row_losses("count", mean, y).mean() == pytest.approx(mean_poisson_deviance(y, mean) / 2)
    y = generator.gamma(2.0, 1.0, 50)
    assert losses.row_losses("amount", mean, y).mean() == pytest.approx(mean_gamma_deviance(y, mean) / 2)
    y, probabilities = generator.integers(0, 3, 50), generator.dirichlet(np.ones(3), 50)
    assert losses.row_losses("classes", probabilities, y).mean() == pytest.approx(log_loss(y, probabilities))


def censored(generator, rows):
    risk = generator.normal(size=rows)
    times, limits = generator.exponential(np.exp(-risk)), generator.exponential(3.0, rows)
    return risk, Surv.from_arrays(times <= limits, np.minimum(times, limits), name_event="event", name_time="time")


def test_the_brier_score_is_that_of_scikit_survival(real):
    losses, generator = real("losses"), np.random.default_rng(1)
    (_, train), (risk, test) = censored(generator, 400), censored(generator, 200)
    inside = test["time"] <= train["time"].max()  # scikit-survival refuses later times
    risk, test = risk[inside], test[inside]
    judged = losses.Brier(train, test)
    survival = np.exp(-np.exp(risk)[:, None] * judged.times)
    expected = integrated_brier_score(train, test, survival, judged.times)
    assert judged.losses(survival).mean() == pytest.approx(expected, rel=1e-6)


def test_fits_run_in_processes_of_their_own_within_their_limits(real):
    forked = real("forked")

    def burn():
        while True:
            pass

    def fine():
        with forked.Meter() as meter:
            time.sleep(0.05)
        return meter.record | {"pid": os.getpid()}

    calls = [("burns", burn), ("fails", lambda: 1 / 0), ("fine", fine)]
    records = dict(forked.run_all(calls, forked.Limits(seconds=0.5), jobs=1))
    assert records["burns"]["error"] == "no result in 0 s"
    assert records["fails"]["error"] == "ZeroDivisionError: division by zero"
    assert records["fine"]["pid"] != os.getpid() and records["fine"]["cpu_seconds"] < 0.05 <= records["fine"]["seconds"]


def test_a_difference_within_noise_is_a_tie_and_its_error_is_right(real):
    summary, generator = real("summary"), np.random.default_rng(2)
    found = []
    for _ in range(400):
        rows = generator.normal(size=(2, 200))  # losses of two methods on one split
        one, other = ({"loss": each.mean(), "blocks": each.reshape(20, 10).mean(axis=1)} for each in rows)
        found.append(summary.difference([(one, other)]))
    differences, errors = np.array(found).T
    assert stats.kstest(differences / np.sqrt(2 / 200), "norm").pvalue > 1e-3
    assert errors.mean() == pytest.approx(np.sqrt(2 / 200), rel=0.05)


def test_verdicts_count_tables_beyond_two_standard_errors(real):
    summary = real("summary")

    def entry(mine, theirs):
        def stored(loss, seconds):
            blocks = [loss + 0.01 * (-1) ** place for place in range(20)]
            return {"splits": {"0": {"loss": loss, "blocks": blocks, "cpu_seconds": seconds}}}

        theirs = stored(theirs, 4.0)
        theirs["splits"]["0"]["blocks"][0] += 0.02
        return {"kind": "number", "methods": {"ours": stored(mine, 1.0), "ebm": theirs}}

    report = {"tables": {"won": entry(0.4, 0.5), "lost": entry(0.5, 0.4), "tied": entry(0.5, 0.5005)}}
    found = summary.compare(report, "ours", "ebm")
    assert found.verdicts == (1, 1, 1) and found.median_cpu == 0.25
    assert found.loss[0] == pytest.approx((0.5 / 0.5005) ** (1 / 3))
    assert summary.worst_tables(report, "ours", ["ebm"], 1)[0][0] == "lost"
