"""Uses of a fitted model, each with a check of its numbers.

A check takes a fitted model and a folder, and returns how many numbers it compared: a check that compared none is none.
"""

import json
import math
import re
import runpy
import shutil
import warnings
from html.parser import HTMLParser
from importlib.util import find_spec

import numpy as np
import pytest

from matrix.scenarios import fitted
from sparsenam import compare, load
from sparsenam.explain import Explanation
from sparsenam.export import scorecard
from sparsenam.export.portable_file import read_portable

LEVEL = 0.9
N_PAIRS = 3
BETWEEN_SCORES = 1e-9  # sums of the same numbers in another order
EXPORT_ERROR = 1e-12  # what the page on exporting promises
REASON = "a check of the matrix"


def close(one, other, error=BETWEEN_SCORES):
    """Assert that two arrays of numbers agree; return how many numbers they have."""
    one, other = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    assert one.shape == other.shape
    assert np.isfinite(other).all()
    np.testing.assert_allclose(one, other, rtol=error, atol=error)
    return one.size


def same_bits(one, other):
    """Assert that two arrays are equal to the bit; return how many cells they have."""
    one, other = np.asarray(one), np.asarray(other)
    assert (one.shape, one.dtype) == (other.shape, other.dtype)
    assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    return one.size


def predicts_from_kept_columns(fit, folder):
    """Rows of the kept columns alone, in another order, have the predictions of whole rows."""
    assert 0 < len(fit.kept) < fit.X.shape[1], "a check of kept columns needs dropped ones"
    alone = fit.X[fit.kept[::-1]]
    return same_bits(fit.scores(alone), fit.scores()) + same_bits(fit.model.predict(alone), fit.model.predict(fit.X))


def weighing(fit):
    """Return weights and exposure, for methods that take no groups."""
    return {name: values for name, values in fit.rows.items() if name != "groups"}


def parts_of(fit, model=None):
    """Return intercept, effects and pair effects, whose sum is the score, as (rows, outputs) each."""
    model = model or fit.model
    effects = model.effects(fit.X).sum(axis=1).reshape(len(fit.X), -1)
    pairs = model.interaction_effects(fit.X).sum(axis=1).reshape(len(fit.X), -1)
    return np.atleast_1d(model.intercept_), effects, pairs


def effects_sum_to_the_score(fit, folder):
    """Intercept, effects of columns and effects of pairs add up to the score of every row."""
    names = [str(name) for name in fit.X.columns]
    effects = fit.model.effects(fit.X)
    moving = {name for place, name in enumerate(names) if np.ptp(effects[:, place], axis=0).max() > 0}
    assert moving <= set(fit.kept)
    return close(sum(parts_of(fit)), fit.scores())


def bands_hold_the_effects(fit, folder):
    """Every kept column has finite limits about its effect; whole curves have wider ones, dropped columns none."""
    bands, whole = fit.model.effect_bands(fit.X), fit.model.effect_bands(fit.X, simultaneous=True)
    compared = close(bands.effect, fit.model.effects(fit.X)) + close(
        bands.pair_effect, fit.model.interaction_effects(fit.X)
    )
    for place, name in enumerate(fit.X.columns):
        lower, effect, upper = (part[:, place] for part in (bands.lower, bands.effect, bands.upper))
        if name in bands.without:
            assert np.isnan(lower).all() and np.isnan(upper).all()
            warnings.warn(f"no limits for {name}: {bands.without[name]}", stacklevel=2)
        elif name in fit.kept:
            known = ~np.isnan(lower)
            assert known.mean() > 0.8
            assert (lower < effect)[known].all() and (effect < upper)[known].all()
            assert (whole.upper - whole.lower)[:, place][known].mean() > (upper - lower)[known].mean()
        else:
            assert not lower.any() and not upper.any()
    assert set(bands.without) < set(fit.kept)
    return compared


def intervals_cover(fit, folder, model=None):
    """Intervals hold the prediction, sets of classes the most probable one, and both cover the rows at the level."""
    model = model or fit.model
    if fit.has_classes:
        sets, probable = model.predict_set(fit.X, level=LEVEL), fit.means().argmax(axis=1)
        assert sets.members[np.arange(len(fit.X)), probable].all()
        outcome = np.searchsorted(fit.model.classes_, fit.y)
        covered = sets.members[np.arange(len(fit.X)), outcome]
    else:
        more = {} if fit.exposure is None else {"exposure": fit.exposure}
        intervals = model.predict_interval(fit.X, level=LEVEL, **more)
        predicted, whole = model.predict(fit.X, **more), float(fit.exposure is not None)  # counts have whole ends
        assert (intervals.lower <= predicted + whole).all() and (predicted - whole <= intervals.upper).all()
        covered = intervals.covers(fit.y)
    assert covered.mean() >= LEVEL - 0.05
    return covered.size


def calibrated_intervals_cover(fit, folder):
    """The same with errors of rows given to ``calibrate``, which leaves predictions as they are."""
    calibrated = fit.model.calibrate(fit.X, fit.y, **weighing(fit))
    return intervals_cover(fit, folder, calibrated) + same_bits(fit.scores(model=calibrated), fit.scores())


def explains(fit, folder):
    """The explanation has the model's curves and levels; those of rows add up; both survive JSON."""
    explanation = fit.model.explain()
    assert {feature.name for feature in explanation.features} == set(fit.kept)
    assert Explanation.from_dict(json.loads(json.dumps(explanation.to_dict()))) == explanation
    compared = 0
    for feature in explanation.features:
        x, expected = (
            ([level.name for level in feature.levels], [level.effect for level in feature.levels])
            if (feature.curve is None)
            else (feature.curve.x, feature.curve.effect)
        )
        table = fit.X[fit.kept].iloc[[0] * len(x)].assign(**{feature.name: list(x)})
        place = fit.X.columns.get_loc(feature.name)
        found = fit.model.effects(table.reindex(columns=fit.X.columns, fill_value=0.0))[:, place].reshape(len(x), -1)
        compared += close(against_average(fit, found), expected, 1e-6)
    local = fit.model.explain_local(fit.X[:10])
    for place, row in enumerate(local.rows):
        together = np.sum([part.effect for part in row.contributions], axis=0) + row.intercept
        compared += close(together, row.score) + close(row.prediction, fit.means()[place][-len(row.prediction) :])
    return compared


def against_average(fit, effects):
    """Return effects as explanations show them: those of three classes or more less their mean over the classes."""
    return effects - effects.mean(axis=1, keepdims=True) if fit.has_classes and effects.shape[1] > 1 else effects


class Words(HTMLParser):
    """The visible text of a page and the names of its elements that are still open."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr", "col"})

    def __init__(self, page):
        super().__init__()
        self.open, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def reports(fit, folder):
    """The report is one well-formed file with every kept column, and no number that is none."""
    path = folder / "report.html"
    fit.model.explain(fit.X).report(path)
    words = Words(path.read_text("utf-8"))
    assert words.open == []
    text = " ".join(words.text)
    assert not re.search(r"\b(nan|NaN|undefined|inf)\b", text)
    assert all(name in text for name in fit.kept)
    return len(fit.kept)


def saves_and_loads(fit, folder):
    """The loaded model has the same scores, effects and predictions to the bit, and is saved to the same bytes."""
    first, second, third = (folder / f"{name}.snam" for name in ("first", "second", "third"))
    fit.model.save(first)
    loaded = load(first)
    with warnings.catch_warnings(record=True) as left_out:
        loaded.save(second)
    assert not left_out, "the file holds all that the loaded model has"
    load(second).save(third)
    assert second.read_bytes() == third.read_bytes()
    compared = same_bits(fit.scores(model=loaded), fit.scores())
    compared += same_bits(loaded.effects(fit.X), fit.model.effects(fit.X))
    return compared + same_bits(loaded.predict(fit.X), fit.model.predict(fit.X))


def cells_of(X):
    """Return the rows as other programs would give them."""
    return [
        {name: None if isinstance(cell, float) and math.isnan(cell) else cell for name, cell in row.items()}
        for row in X.to_dict("records")
    ]


def exports_json(fit, folder):
    """The JSON is read back as the model's portable form, whose scores by Python are those of the model."""
    (path,) = fit.model.export(folder / "model.json")
    portable = fit.model.portable()
    assert read_portable(path.read_bytes()) == portable
    columns = [column["name"] for column in json.loads(path.read_text("utf-8"))["columns"]]
    assert set(columns) == set(fit.kept)
    return len(columns) + exports_python(fit, folder)


def exports_python(fit, folder):
    """The module's scores are those of the model, by its own functions and by ``export_difference``."""
    (path,) = fit.model.export(folder / "model.py")
    module = runpy.run_path(str(path))
    found = [module["score"](row) for row in cells_of(fit.X)]
    compared = close(np.asarray(found).reshape(len(fit.X), -1), fit.scores())
    assert fit.model.export_difference(path, fit.X) == 0.0
    return compared


def runner_of(suffix, engine, error, **options):
    """Return a check that exports to a suffix and runs the file where its engine is found."""

    def check(fit, folder):
        path = folder / f"model{suffix}"
        files = fit.model.export(path, **options)
        assert path in files and all(file.stat().st_size for file in files)
        if missing := engine():
            pytest.skip(f"{missing} is not here to run what was exported")
        assert fit.model.export_difference(path, fit.X, **options) <= error
        return len(fit.X)

    return check


def program(name):
    return lambda: None if shutil.which(name) else name


def module(*names, program=None):
    return lambda: next(
        (name for name in names if find_spec(name) is None), program if program and not shutil.which(program) else None
    )


def exports_scorecard(fit, folder):
    """The points of each row, turned back into log odds, are the score up to the error that the card states."""
    path = folder / "card.csv"
    fit.model.export(path, to="scorecard")
    card = scorecard(fit.model.portable())
    for row, score in zip(cells_of(fit.X), fit.scores()[:, 0], strict=True):
        assert abs(card.scale.model_score(card.points(row)) - score) * card.scale.factor <= card.largest_error + 1e-6
    assert len(path.read_text("utf-8").splitlines()) > len(fit.kept)
    return len(fit.X)


def edits(fit, folder):
    """A curve made flat is flat, effects still add up, ``undo`` brings back the bits, and the model itself stays."""
    before, changed = fit.scores(), fit.model.edit()
    logged = len(changed.edits_)
    changed.flatten("dose", 0.3, 0.7, reason=REASON)
    inside = fit.X["dose"].between(0.3, 0.7).to_numpy()
    flat = changed.effects(fit.X)[inside][:, fit.X.columns.get_loc("dose")]
    compared = close(flat, np.broadcast_to(flat[:1], flat.shape))
    compared += close(sum(parts_of(fit, changed)), fit.scores(model=changed))
    changed.undo()
    assert len(changed.edits_) == logged
    return compared + same_bits(fit.scores(model=changed), before) + same_bits(fit.scores(), before)


def drops(fit, folder):
    """A dropped column takes its effect and its pairs with it and nothing else, and need not be there any more."""
    before, changed = fit.scores(), fit.model.edit().drop("dose", reason=REASON)
    effect = fit.model.effects(fit.X)[:, fit.X.columns.get_loc("dose")].reshape(len(fit.X), -1)
    joint = fit.model.interaction_effects(fit.X).reshape(len(fit.X), -1, before.shape[1])
    effect = effect + joint[:, ["dose" in pair for pair in fit.model.interactions_]].sum(axis=1)
    compared = close(fit.scores(fit.X.drop(columns="dose"), changed), before - effect)
    assert not any("dose" in pair for pair in changed.interactions_)
    return compared + same_bits(fit.scores(model=changed.undo()), before)


def audits(fit, folder):
    """The audit looks at all rows and every dropped column; its mean prediction is that of the predictions."""
    scores, counted = fit.scores(), np.ones(len(fit.X))
    if fit.has_times:  # hazard ratios, each counted by the baseline's cumulative hazard until the end of its row's time
        hazards = fit.model.predict_cumulative_hazard_function(fit.X, fit.y["time"], return_array=True)
        counted = np.diagonal(hazards) / np.exp(scores[:, 0])
    audit = fit.model.audit(fit.X, fit.y, **weighing(fit))
    assert set(audit.dropped) == set(fit.X.columns) - set(fit.kept)
    assert audit.rows == audit.checks[0].rows == (counted > 0).sum()
    assert {harm.column for harm in audit.harms} == set(audit.dropped)
    assert all(0.0 <= harm.p_value <= 1.0 and math.isfinite(harm.cost) for harm in audit.harms)
    means = np.exp(scores) if fit.has_times else fit.means()[:, -len(audit.outputs) :]
    changed = fit.has_times and "edited" in fit.ways  # the baseline is still that of the fit
    whole = audit.checks[0]
    return close(whole.mean_prediction, averaged(fit, means, counted), 1e-2 if changed else 1e-6)


def averaged(fit, values, counted=1.0):
    """Return the means over rows, each counted by its weight and its exposure besides."""
    weights = np.full(len(fit.X), 1.0) * counted
    for given in (fit.weights, fit.exposure):
        weights = weights if given is None else weights * given
    return np.average(values, axis=0, weights=weights)


def compares(fit, folder):
    """A model equals itself, and its mean difference from another model is that of the predictions."""
    itself = compare(fit.model, fit.model, fit.X, fit.y, **weighing(fit)).predictions[0]
    assert itself.mean_absolute == itself.difference == 0.0
    other = fitted_otherwise(fit)
    found = compare(fit.model, other, fit.X, fit.y, **weighing(fit))
    assert set(found.both) == set(fit.kept)
    before, after, counted = fit.means(), fit.means(other), 1.0
    if fit.has_times:  # hazard ratios of the rows with an event
        before, after, counted = np.exp(before), np.exp(after), fit.y["event"]
    change, whole = (after - before)[:, -len(found.outputs) :], found.predictions[0]
    assert whole.mean_absolute > 0.01
    compared = close(whole.mean_absolute, averaged(fit, np.abs(change).mean(axis=1), counted), 1e-6)
    return compared + close(whole.mean, averaged(fit, change, counted), 1e-6)


def fitted_otherwise(fit):
    """Return another model of the same target: an edited copy, or the fit without GELU networks."""
    if "GELU network" in fit.ways:
        return fitted(*(way for way in fit.ways if way != "GELU network")).model
    outputs = np.atleast_1d(fit.model.intercept_).size
    by = np.arange(1.0, outputs + 1.0) / 4
    shifted = fit.model.edit().shift_intercept(by if outputs > 1 else by[0], reason=REASON)
    return shifted.flatten("dose", 0.0, 1.0, reason=REASON)


def is_stable(fit, folder):
    """Frequencies are shares of the halves, and no column is kept more often than those that matter."""
    stability = fit.model.stability(fit.X, fit.y, n_pairs=N_PAIRS, **fit.rows)
    frequencies = stability.frequencies
    assert set(frequencies) == set(fit.X.columns)
    assert stability.kept == tuple(fit.kept)
    halves = np.array([*frequencies.values()]) * 2 * stability.n_pairs
    others = max(frequencies[name] for name in ("noise", "other"))
    assert min(frequencies[name] for name in ("age", "dose")) >= max(others, 0.5)
    return close(halves, np.round(halves))


USES = {
    "kept columns": predicts_from_kept_columns,
    "sum": effects_sum_to_the_score,
    "bands": bands_hold_the_effects,
    "intervals": intervals_cover,
    "calibrate": calibrated_intervals_cover,
    "explain": explains,
    "report": reports,
    "save": saves_and_loads,
    "edit": edits,
    "drop": drops,
    "audit": audits,
    "compare": compares,
    "stability": is_stable,
}
EXPORTS = {
    "JSON": exports_json,
    "Python": exports_python,
    "C": runner_of(".h", program("cc"), 0.0),
    "JavaScript": runner_of(".mjs", program("node"), 0.0),
    "SQL": runner_of(".sql", module("duckdb"), EXPORT_ERROR, dialect="duckdb"),
    "PMML": runner_of(".pmml", module("pypmml", program="java"), EXPORT_ERROR),
    "ONNX": runner_of(".onnx", module("onnxruntime"), EXPORT_ERROR),
    "scorecard": exports_scorecard,
}
CHECKS = USES | EXPORTS
