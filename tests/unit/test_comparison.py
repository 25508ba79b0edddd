"""Two models side by side: differences change sign with the order, and models of different things are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import sparsenam
from sparsenam import RandomFeatureSNAMRegressor, SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.cli.app import app
from sparsenam.errors import InputError
from sparsenam.uncertainty.bands import Bands

ROWS = 400


def flats(seed: int, levels: str = "abc") -> tuple[pd.DataFrame, np.ndarray]:
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"size": draw.normal(size=ROWS), "age": draw.normal(size=ROWS), "noise": draw.normal(size=ROWS)}
    )
    table["zone"] = draw.choice(list(levels), ROWS)
    y = np.sin(2 * table["size"]) + 0.8 * (table["zone"] == "a") + (0.7 * table["age"] if seed else 0.0)
    return table, (y + 0.3 * draw.normal(size=ROWS)).to_numpy()


@pytest.fixture(scope="module")
def models():
    (first, y), (second, z) = flats(0), flats(1, "abcd")
    later = RandomFeatureSNAMRegressor(random_state=0).fit(second[["zone", "age", "noise", "size"]], z)
    return SNAMRegressor(random_state=0).fit(first, y), later, second, z


@pytest.fixture(scope="module")
def comparison(models):
    earlier, later, table, y = models
    with pytest.warns(UserWarning, match="never seen"):  # zone d is new to the earlier model
        return sparsenam.compare(earlier, later, table.assign(more=1.0), y)


def test_columns_curves_and_predictions_are_those_of_the_models(models, comparison) -> None:
    earlier, later, table, y = models
    assert comparison.only_first == () and "age" in comparison.only_second
    assert set(comparison.both) == {"size", "zone"}
    size = next(curve for curve in comparison.curves if curve.column == "size")
    effects = [model.effects(table)[:, list(model.feature_names_in_).index("size")] for model in quiet(earlier, later)]
    gap = np.subtract(*[effect - effect.mean() for effect in effects[::-1]])
    assert size.mean_absolute == pytest.approx(np.abs(gap).mean())
    assert size.largest == pytest.approx(np.abs(gap).max())
    assert float(size.where.replace("−", "-")) == pytest.approx(table["size"][np.abs(gap).argmax()], rel=1e-3)
    whole = comparison.predictions[0]
    before, after = (model.predict(table) for model in quiet(earlier, later))
    assert whole.mean[0] == pytest.approx((after - before).mean())
    assert whole.mean_absolute == pytest.approx(np.abs(after - before).mean())
    losses = [0.5 * (y - each) ** 2 / y.var() for each in (before, after)]
    assert whole.losses == pytest.approx([loss.mean() for loss in losses])
    assert whole.difference_error == pytest.approx(np.std(losses[1] - losses[0], ddof=1) / np.sqrt(ROWS))
    levels = next(curve for curve in comparison.curves if curve.column == "zone")
    assert set(levels.levels) == {"a", "b", "c"} and len(levels.first) == 3


def quiet(*models):
    """Yield models, warnings of new levels aside."""
    import warnings

    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield model


def test_swapped_models_have_differences_of_the_other_sign(models, comparison) -> None:
    earlier, later, table, y = models
    with pytest.warns(UserWarning, match="never seen"):
        swapped = sparsenam.compare(later, earlier, table, y, groups=["zone"])
    assert (swapped.only_first, swapped.only_second) == (comparison.only_second, comparison.only_first)
    assert swapped.predictions[0].mean[0] == pytest.approx(-comparison.predictions[0].mean[0])
    assert swapped.predictions[0].difference == pytest.approx(-comparison.predictions[0].difference)
    assert {change.label for change in swapped.predictions} == {"", "a", "b", "c", "d"}


def test_a_model_beside_itself_has_not_changed(models) -> None:
    _, later, table, _ = models
    same = sparsenam.compare(later, later, table)
    assert all(change.mean_absolute == 0 for change in same.predictions)
    assert all(curve.largest == 0 for curve in same.curves)
    assert same.predictions[0].losses is None and "loss" not in same.finding().sentence
    assert json.loads(json.dumps(same.to_dict()))["rows"] == ROWS


def test_bands_tell_changes_from_chance_where_both_models_have_them(models, monkeypatch) -> None:
    @dataclass
    class Known:
        size: float
        verdict: str = "shown"

        def deviations(self, terms, outputs):
            return np.full((*terms.shape, outputs), self.size)

    _, later, table, _ = models
    earlier = SNAMRegressor(random_state=0).fit(*flats(1, "abcd"))
    again = SNAMRegressor(random_state=0).fit(*flats(2, "abcd"))
    assert any(curve.beyond is not None for curve in sparsenam.compare(earlier, again, table).curves)
    for unknown in (None, Bands("few rows", 1.0)):
        monkeypatch.setattr(earlier, "fit_", replace(earlier.fit_, bands=unknown))
        assert all(curve.beyond is None for curve in sparsenam.compare(earlier, later, table).curves)
    for size, share in ((100.0, 0.0), (1e-9, 1.0)):
        for model in (earlier, later):
            monkeypatch.setattr(model, "fit_", replace(model.fit_, bands=Known(size)))
        found = sparsenam.compare(earlier, later, table)
        assert next(curve.beyond for curve in found.curves if curve.column == "size") == pytest.approx(share, abs=0.02)
        assert "not known" not in str(found)


def test_models_of_different_things_and_tables_without_their_columns_are_refused(models) -> None:
    earlier, later, table, y = models
    classifier = SNAMClassifier(alpha=0.1, random_state=0).fit(table, y > 0)
    others = SNAMClassifier(alpha=0.1, random_state=0).fit(table, np.where(y > 0, "yes", "no"))
    counts = SNAMRegressor(alpha=0.1, family="poisson", random_state=0).fit(table, np.round(np.exp(y)))
    for pair, said in (
        ((earlier, classifier), "task"),
        ((classifier, others), "outputs"),
        ((later, counts), "link"),
        ((later, "model"), "fitted models"),
    ):
        with pytest.raises(InputError, match=said):
            sparsenam.compare(*pair, table)
    with pytest.raises(InputError, match="the columns that either model keeps"):
        sparsenam.compare(later, later, table.drop(columns="age"))
    with pytest.raises(InputError, match="y where there is an exposure"):
        sparsenam.compare(later, later, table, exposure=np.ones(ROWS))


def test_classes_that_change_are_counted_and_survival_is_compared_by_its_events(models) -> None:
    _, _, table, y = models
    labels = y > 0
    first = SNAMClassifier(random_state=0).fit(table, labels)
    second = SNAMClassifier(random_state=0, max_features=1).fit(table, labels)
    found = sparsenam.compare(first, second, table, labels, groups="zone").predictions[0]
    assert found.changed == pytest.approx(np.mean(first.predict(table) != second.predict(table)))
    assert found.difference > 0
    times = survival_target(labels, np.random.default_rng(0).exponential(size=ROWS) * np.exp(-y))
    cox = [SNAMSurvival(alpha=alpha, random_state=0).fit(table, times) for alpha in (0.05, 0.2)]
    whole = sparsenam.compare(*cox, table, times, groups="zone").predictions[0]
    assert whole.rows == labels.sum() and whole.losses is not None


def test_the_commands_print_write_reports_and_json(models, tmp_path) -> None:
    _, later, table, y = models
    path = tmp_path / "rows.csv"
    table.assign(y=y, office=np.where(np.arange(ROWS) % 2, "east", "west")).to_csv(path, index=False)
    small = SNAMRegressor(random_state=0, max_features=2).fit(table, y)
    small.save(tmp_path / "a.snam")
    later.save(tmp_path / "b.snam")

    def run(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.stdout

    page = tmp_path / "audit.html"
    words = ("audit", tmp_path / "a.snam", path, "--target", "y", "--groups", "office")
    assert "office = east" in run(*words, "--report", page) and "What dropping cost" in page.read_text("utf-8")
    direct = small.audit(table, y, {"office": np.where(np.arange(ROWS) % 2, "east", "west")})
    assert json.loads(run(*words, "--json"))["dropped"] == list(direct.dropped)
    words = ("compare", tmp_path / "a.snam", tmp_path / "b.snam", path)
    assert "Changed curves" in run(*words, "--report", tmp_path / "compared.html")
    assert json.loads(run(*words, "--target", "y", "--json"))["predictions"][0]["losses"]
    wrong = CliRunner().invoke(app, [str(word) for word in (*words, "--groups", "nowhere")])
    assert wrong.exit_code == 2 and "--groups" in wrong.output
