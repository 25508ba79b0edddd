"""The experiments on the theorems: cells, records and summaries."""

import json

import numpy as np
import pytest

from paper.experiments import EXPERIMENTS, load_settings, summaries_of, theory_works
from paper.experiments.cells import cell_seed, log_log_slope
from sparsenam.errors import InputError

every_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


def smallest(name):
    """Settings for the least that still has every kind of cell."""
    settings = load_settings(None, quick=True)[name]
    if name == "recovery":
        design = {"n": [250], "repeats": 1, "hidden": [4], "multipliers": [0.6, 0.3], "tol": 1e-4}
        few = {"examples": ["orthogonal_noisy", "paper_orthonormal"], "n_features": 6}
        return {**settings, "orthonormal": design, "raw": design, **few}
    if name == "flows":
        network = {"hidden": [4], "alpha": 0.02, "learning_rate": 0.05, "epochs": 30}
        return {**settings, "n": 150, "n_features": 5, "hidden": [6], "iterations": 300, "network": network}
    if name == "consistency":
        return {**settings, "n": [150, 250], "fresh_rows": 400, "n_features": 5}
    return {**settings, "n": [150, 250], "repeats": 2, "n_features": 5}


@pytest.fixture(scope="module")
def results():
    """Records and summary of every experiment, made once."""
    found = {}
    for name in EXPERIMENTS:
        settings, experiment = smallest(name), EXPERIMENTS[name]
        cells = experiment.cells(settings)
        records = [experiment.run_cell(cell, experiment.inputs(cell, settings)) for cell in cells]
        found[name] = settings, records, experiment.summarise(records, settings)
    return found


@every_experiment
def test_records_and_summaries_are_plain_json(results, name):
    _, records, summary = results[name]
    for value in (records, summary):
        assert json.loads(json.dumps(value, allow_nan=False)) == value


def recipes_of(name, settings):
    return {work.key: work.recipe for work in theory_works({name: settings})}


@every_experiment
def test_every_cell_has_one_record(name):
    settings = load_settings(None, quick=False)[name]
    assert len(recipes_of(name, settings)) == len(EXPERIMENTS[name].cells(settings))


@pytest.mark.parametrize("name", ["estimation", "identification"])
def test_another_repeat_or_size_leaves_the_records_of_the_other_cells(name):
    settings = smallest(name)
    before = recipes_of(name, settings)
    after = recipes_of(name, {**settings, "n": [100, *settings["n"]], "repeats": 3})
    assert before.items() < after.items()


def test_another_repeat_of_a_design_leaves_the_records_of_the_other_cells():
    settings = smallest("recovery")
    more = {**settings, "orthonormal": {**settings["orthonormal"], "repeats": 2}}
    assert recipes_of("recovery", settings).items() < recipes_of("recovery", more).items()


def test_a_setting_makes_another_record_of_the_cells_it_concerns_and_of_no_others():
    settings = smallest("flows")
    before = recipes_of("flows", settings)
    after = recipes_of("flows", {**settings, "network": {**settings["network"], "epochs": 31}})
    assert {key for key in before if before[key] != after[key]} == {key for key in before if "network" in key[1]}


def test_no_two_cells_share_their_data():
    settings = load_settings(None, quick=False)["estimation"]
    cells = EXPERIMENTS["estimation"].cells({**settings, "estimators": ["network"], "repeats": 20})
    assert len({cell_seed(cell) for cell in cells}) == len(cells)


@every_experiment
def test_a_part_of_the_cells_can_be_summarised(results, name):
    settings, records, _ = results[name]
    part = EXPERIMENTS[name].summarise(records[:1], settings)
    json.dumps(part, allow_nan=False)


@every_experiment
def test_quick_settings_have_the_same_entries_as_the_full_ones(name):
    full, quick = (load_settings(None, quick=flag)[name] for flag in (False, True))
    assert set(full) == set(quick)
    for key, value in full.items():
        assert not isinstance(value, dict) or set(value) == set(quick[key])
    assert len(EXPERIMENTS[name].cells(quick)) <= len(EXPERIMENTS[name].cells(full))


def test_a_cell_gives_the_same_record_twice(results):
    settings, records, _ = results["estimation"]
    cell, experiment = records[0]["cell"], EXPERIMENTS["estimation"]
    assert experiment.run_cell(cell, experiment.inputs(cell, settings)) == records[0]


def test_estimation_stays_below_the_corrected_bound_where_the_assumption_holds(results):
    _, records, summary = results["estimation"]
    found = [record for record in records if record["cell"]["estimator"] == "well_specified"]
    assert found and all(record["overfits"] for record in found)
    assert all(record["error"] <= record["corrected_bound"] for record in found)
    assert all(record["approximation"] < 1e-20 for record in found)
    points = summary["by_estimator"]["well_specified"]
    assert np.shape(points["error"]) == (2, 2) and len(points["bound"]) == 2


def test_recovery_has_a_probability_for_each_multiplier_and_n(results):
    _, _, summary = results["recovery"]
    assert np.shape(summary["by_design"]["orthonormal"]["probability"]) == (2, 1)
    verdicts = {(row["example"], row["version"]): row for row in summary["examples"]}
    assert verdicts["orthogonal_noisy", "corrected"]["assumptions_hold"]
    assert verdicts["orthogonal_noisy", "corrected"]["recovered"]
    assert not verdicts["orthogonal_noisy", "with_the_usual_norm"]["assumptions_hold"]
    assert not verdicts["paper_orthonormal", "corrected"]["assumptions_hold"]


def test_identification_adds_up(results):
    _, records, _ = results["identification"]
    for record in records:
        parts = {name: value for name, value in record["error"].items() if name != "total"}
        assert sum(parts.values()) == pytest.approx(record["error"]["total"])


def test_consistency_is_judged_on_fresh_rows_and_shares_fall_with_epsilon(results):
    settings, records, summary = results["consistency"]
    assert {record["cell"]["estimator"] for record in records} == set(settings["estimators"])
    for record in records:
        assert record["share"] == sorted(record["share"], reverse=True)
        assert record["fresh_error"] != record["train_error"]
        # a constant more can only help
        assert record["whole"] <= record["share"][settings["epsilons"].index(settings["effect_epsilon"])]
    assert np.shape(summary["by_estimator"]["default"]["share"]) == (2, len(settings["epsilons"]))


def test_consistency_where_the_assumptions_hold_stays_below_the_corrected_bound(results):
    _, records, _ = results["consistency"]
    found = [record for record in records if record["cell"]["estimator"] == "well_specified"]
    for record in found:
        assert all(share <= bound for share, bound in zip(record["share"], record["corrected_bound"], strict=True))
        shares = zip(record["train_share"], record["printed_bound"], strict=True)
        assert all(share <= bound for share, bound in shares)  # Markov's inequality, on the training rows


def test_flows_never_fall_below_the_optimum_and_only_proximal_ones_have_zeros(results):
    _, _, summary = results["flows"]
    for flow in summary.values():
        assert flow["lowest"] >= flow["optimum"] * (1 - 1e-6)
    assert summary["subgradient"]["zeros"] == 0
    assert summary["fista"]["zeros"] == summary["fista"]["optimum_zeros"] > 0
    assert summary["network subgradient"]["zeros"] == 0


def test_a_report_without_summaries_gives_the_same_ones(results):
    settings, found, summary = results["flows"]
    works = list(theory_works({"flows": settings}))
    records = [
        {"section": work.section, "method": work.method, "seed": work.seed, "status": "done", "result": result}
        for work, result in reversed(list(zip(works, found, strict=True)))  # the order of the cells is restored
    ]
    assert summaries_of({"recipe": {"flows": settings}, "records": records}) == {"flows": summary}
    assert list(summaries_of({"recipe": {"flows": settings}, "records": records})["flows"]) == list(summary)


def test_slope_of_a_power_is_its_exponent():
    n = [100, 200, 400, 800]
    slope, (low, high) = log_log_slope(n, [[3.0 * size**-0.7] * 2 for size in n])
    assert slope == pytest.approx(-0.7)
    assert high - low == pytest.approx(0.0, abs=1e-9)


def test_slope_interval_covers_the_truth_as_often_as_it_says():
    n, hits = [100, 200, 400, 800], 0
    for seed in range(200):
        noise = np.exp(0.3 * np.random.default_rng(seed).normal(size=(4, 3)))
        _, (low, high) = log_log_slope(n, [list(size**-0.5 * row) for size, row in zip(n, noise, strict=True)])
        hits += low <= -0.5 <= high
    assert 0.90 <= hits / 200 <= 0.99


def test_one_size_has_no_slope():
    assert log_log_slope([100], [[1.0, 2.0, 3.0]]) is None


def test_a_recipe_without_an_experiment_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[recovery]\n")
    with pytest.raises(InputError, match=r"a table \[estimation\]"):
        load_settings(path, quick=False)
