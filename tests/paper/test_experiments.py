"""The experiments on the theorems: cells, records and summaries."""

import json

import numpy as np
import pytest

from sparsenam.errors import InputError
from sparsenam.paper.experiments.records import cell_seed
from sparsenam.paper.experiments.slopes import log_log_slope
from sparsenam.paper.theory import EXPERIMENTS, experiment_of, load_settings, theory_works

every_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


def smallest(name):
    """Settings for the least that still has every kind of cell."""
    settings = load_settings(None, quick=True)[name]
    if name == "recovery":
        own = {"n": [250], "repeats": 1, "hidden": [4], "multipliers": [0.6, 0.3], "tol": 1e-4}
        few = {"examples": ["orthogonal_noisy", "paper_orthonormal"], "n_features": 6}
        return {**settings, "orthonormal": own, "raw": own, **few}
    if name == "flows":
        network = {"hidden": [4], "alpha": 0.02, "learning_rate": 0.05, "epochs": 30}
        return {**settings, "n": 150, "n_features": 5, "hidden": [6], "iterations": 300, "network": network}
    return {**settings, "n": [150, 250], "repeats": 2, "n_features": 5}


@pytest.fixture(scope="module")
def results():
    """Records and summary of every experiment, made once."""
    found = {}
    for name in EXPERIMENTS:
        settings, experiment = smallest(name), experiment_of(name)
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
def test_every_cell_has_a_record_of_its_own(name):
    settings = load_settings(None, quick=False)[name]
    assert len(recipes_of(name, settings)) == len(experiment_of(name).cells(settings))


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
    cells = experiment_of("estimation").cells({**settings, "estimators": ["network"], "repeats": 20})
    assert len({cell_seed(cell) for cell in cells}) == len(cells)


@every_experiment
def test_a_part_of_the_cells_can_be_summarised(results, name):
    settings, records, _ = results[name]
    part = experiment_of(name).summarise(records[:1], settings)
    json.dumps(part, allow_nan=False)


@every_experiment
def test_quick_settings_have_the_same_entries_as_the_full_ones(name):
    full, quick = (load_settings(None, quick=flag)[name] for flag in (False, True))
    assert set(full) == set(quick)
    for key, value in full.items():
        assert not isinstance(value, dict) or set(value) == set(quick[key])
    assert len(experiment_of(name).cells(quick)) <= len(experiment_of(name).cells(full))


def test_a_cell_gives_the_same_record_twice(results):
    settings, records, _ = results["estimation"]
    cell, experiment = records[0]["cell"], experiment_of("estimation")
    assert experiment.run_cell(cell, experiment.inputs(cell, settings)) == records[0]


def test_estimation_stays_below_the_corrected_bound_where_the_assumption_holds(results):
    _, records, summary = results["estimation"]
    own = [record for record in records if record["cell"]["estimator"] == "well_specified"]
    assert own and all(record["overfits"] for record in own)
    assert all(record["error"] <= record["corrected_bound"] for record in own)
    assert all(record["approximation"] < 1e-20 for record in own)
    assert np.shape(summary["error"]) == (2, 2) and len(summary["bound"]) == 2


def test_recovery_has_a_probability_for_each_multiplier_and_n(results):
    _, _, summary = results["recovery"]
    assert np.shape(summary["probability"]) == (2, 1)
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


def test_flows_never_fall_below_the_optimum_and_only_proximal_ones_have_zeros(results):
    _, _, summary = results["flows"]
    for flow in summary.values():
        assert min(flow["objective"]) >= flow["optimum"] * (1 - 1e-6)
    assert summary["subgradient"]["zeros"][-1] == 0
    assert summary["fista"]["zeros"][-1] == summary["fista"]["optimum_zeros"] > 0
    assert summary["network subgradient"]["zeros"][-1] == 0


def test_slope_of_a_power_is_its_exponent():
    n = [100, 200, 400, 800]
    slope, (low, high) = log_log_slope(n, [[3.0 * size**-0.7] * 2 for size in n])
    assert slope == pytest.approx(-0.7)
    assert high - low == pytest.approx(0.0, abs=1e-9)


def test_slope_interval_covers_the_truth_as_often_as_it_says():
    n, hits = [100, 200, 400, 800], 0
    for seed in range(200):
        noise = np.exp(0.3 * np.random.default_rng(seed).normal(size=(4, 3)))
        _, (low, high) = log_log_slope(n, [list(size**-0.5 * own) for size, own in zip(n, noise, strict=True)])
        hits += low <= -0.5 <= high
    assert 0.90 <= hits / 200 <= 0.99


def test_one_size_has_no_slope():
    assert log_log_slope([100], [[1.0, 2.0, 3.0]]) is None


def test_a_recipe_without_an_experiment_is_refused(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("[recovery]\n")
    with pytest.raises(InputError, match=r"a table \[estimation\]"):
        load_settings(path, quick=False)
