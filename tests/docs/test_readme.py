"""What README shows works as it says: the line with networks, and the table of real tables."""

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from sparsenam import Network, SNAMRegressor
from sparsenam.datasets import make_regression

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PUBLISHED = 10.61  # test MSE of the paper's SNAM on its synthetic regression


def test_the_line_with_networks_finds_the_four_true_features_and_beats_the_paper():
    (line,) = re.findall(r"^(SNAMRegressor\(.*network=Network\(.*\)\))  #", README, flags=re.MULTILINE)
    for seed in (40, 41):
        task = make_regression(seed=seed)
        X, X_test, y, y_test = train_test_split(task.X, task.y, test_size=0.2, random_state=seed)
        model = eval(line, {"SNAMRegressor": SNAMRegressor, "Network": Network}).set_params(random_state=seed).fit(X, y)
        assert np.flatnonzero(model.get_support()).tolist() == [0, 1, 2, 3]
        assert np.mean((model.predict(X_test) - y_test) ** 2) < 0.6 * PUBLISHED


@pytest.fixture
def page(monkeypatch):
    """Import the script that writes the page of real tables, from its folder."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("real_page")


def test_page_and_readme_have_the_figures_of_the_record(page):
    report = json.loads(page.JSON.read_text(encoding="utf-8"))
    assert page.PAGE.read_text(encoding="utf-8") == page.page(report), "run benchmarks/real_page.py"
    assert page.with_part(README, page.readme_part(report)) == README, "run benchmarks/real_page.py"


def test_every_fit_of_ours_has_a_result_of_one_version(page):
    report = json.loads(page.JSON.read_text(encoding="utf-8"))
    stored = [entry["methods"][name] for entry in report["tables"].values() for name in page.OURS]
    assert len({each["version"] for each in stored}) == 1
    assert all("loss" in record for each in stored for record in each["splits"].values())
    assert all(len(each["splits"]) == report["splits"] for each in stored)


def test_the_table_of_the_ablation_has_the_figures_of_its_record(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    ablate = importlib.import_module("ablate")
    text = ablate.PAGE.read_text(encoding="utf-8")
    content = json.loads(ablate.RESULTS.read_text(encoding="utf-8"))
    assert ablate.with_part(text, ablate.summary(content), ablate.MARKS) == text, "run benchmarks/ablate.py --summary"
