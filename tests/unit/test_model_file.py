"""Model files: the same bits after loading, and a clear refusal of everything else."""

import contextlib
import copy
import json
import math
import pickle
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from array_api_compat import array_namespace
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sparsenam
from sparsenam import Network, SNAMClassifier, SNAMRegressor, SNAMSurvival, survival_target
from sparsenam.codec import pack, unpack
from sparsenam.errors import InputError, RefusalError
from sparsenam.export import ModelFileError, ModelFileWarning, StoredCurve
from sparsenam.export.model_file import read_container, write_container
from sparsenam.export.settings import pack_parameters, unpack_parameters
from sparsenam.families import Quantile, Tweedie
from sparsenam.selection import Compact

DATA = Path(__file__).parent.parent / "data"
ROWS = 160


def numbers(seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(ROWS, 4)), generator


def mixed_table():
    table, generator = numbers()
    frame = pd.DataFrame(table, columns=["größe", "b", "c", 'd "quoted"'])
    frame["colour"] = generator.choice(["red", "green", "blue"], ROWS)
    frame.loc[::7, "b"] = np.nan
    return frame


def regression(**settings):
    table, generator = numbers()
    target = np.sin(2.0 * table[:, 0]) + table[:, 1] + 0.1 * generator.normal(size=ROWS)
    return SNAMRegressor(**({"random_state": 0} | settings)), table, target


def trained(hidden, alpha=0.001, family="gaussian", **training):
    network = Network(hidden=hidden, max_epochs=3, **training)
    return regression(alpha=alpha, family=family, network=network)


def several_outputs():
    model, table, target = regression(alpha=0.02)
    return model, table, np.column_stack([target, table[:, 2] - target])


def counts(family):
    model, table, target = regression(family=family, alpha=0.02)
    return model, table, np.round(np.exp(np.clip(target, -2.0, 2.0)))


def classes(labels, kind=None, **settings):
    table, generator = numbers()
    score = table[:, 0] + 0.5 * generator.normal(size=ROWS)
    cuts = np.quantile(score, np.arange(1, len(labels)) / len(labels))
    model = SNAMClassifier(**({"alpha": 0.01, "random_state": 0} | settings))
    return model, table, np.array(labels, dtype=kind)[np.searchsorted(cuts, score)]


def several_labels():
    model, table, _ = classes([0, 1])
    return model, table, (table[:, :2] > 0).astype(int)


def mixed():
    table = mixed_table()
    target = table["größe"] + (table["colour"] == "red") + table["b"].isna()
    return SNAMRegressor(alpha=0.01, random_state=0), table, target.to_numpy(float)


def survival():
    table, generator = numbers()
    times = generator.exponential(np.exp(-table[:, 0])) + 0.01
    return (
        SNAMSurvival(alpha=0.05, network=Network(hidden=()), random_state=0),
        table,
        survival_target(times < 1.5, np.minimum(times, 1.5)),
    )


def with_folds():
    _, table, target = regression()
    return SNAMRegressor(cv=3, n_alphas=8, random_state=0), table, target


def with_pairs():
    table = mixed_table()
    target = table["größe"] * table["b"].fillna(1.0) + table["größe"] * (table["colour"] == "red")
    pairs = [("größe", "b"), ("größe", "colour")]
    return SNAMRegressor(alpha=0.01, pairs=pairs, random_state=0), table, target.to_numpy(float)


def pairs_of_classes():
    table, generator = numbers()
    score = table[:, 0] * table[:, 1] + 0.1 * generator.normal(size=ROWS)
    target = np.array(["a", "b", "c"])[np.searchsorted([-0.4, 0.4], score)]
    return SNAMClassifier(cv=3, n_alphas=8, pairs="auto", random_state=0), table, target


def nothing_kept():
    return regression(alpha=1e3)


CASES = {
    "regression": regression,
    "several outputs": several_outputs,
    "poisson": lambda: counts("poisson"),
    "tweedie": lambda: counts(Tweedie(power=1.3)),
    "quantile": lambda: trained((4,), family=Quantile(level=0.9)),
    "huber": lambda: trained((4,), family="huber"),
    "two classes of text": lambda: classes(["no", "yes"]),
    "classes of text objects": lambda: classes(["no", "yes"], "O", class_weight={"no": 1.0, "yes": 2.0}),
    "truth values": lambda: classes([False, True]),
    "three whole numbers": lambda: classes([3, 5, 7], class_weight={3: 1.0, 5: 2.0, 7: 1.0}),
    "two numbers": lambda: classes([1.0, 2.0]),
    "two outputs for two classes": lambda: classes([0, 1], family="multinomial"),
    "several labels": several_labels,
    "categories and missing cells": mixed,
    "survival": survival,
    "deep network": lambda: trained((8, 4)),
    "smooth network": lambda: trained((8, 4), activation="gelu"),
    "widths by name": lambda: trained({"x0": (8,), "x1": (4,), "x2": (2,), "x3": (2,)}, activation="tanh"),
    "exponential units": lambda: trained((8,), activation="exu"),
    "linear": lambda: regression(alpha=0.01, network=Network(hidden=())),
    "no penalty": lambda: trained((6,), alpha=0.0, solver="adam", dropout=0.1),
    "folds": with_folds,
    "nothing kept": nothing_kept,
    "named pairs": with_pairs,
    "pairs found for three classes": pairs_of_classes,
}


def fitted(case):
    model, table, target = CASES[case]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # three epochs converge nowhere
        return model.fit(table, target), table


# attributes that have no representation to compare, or are compared by themselves
COMPARED = {"model_", "path_", "cv_curve_", "summary_", "baseline_", "norms_", "intercept_", "certificate_"}
COMPARED |= {"residuals_", "fit_", "bands_"}  # by what they say


def answers(model, table):
    """Everything that a fitted model says about a table."""
    words = ("predict", "predict_proba", "decision_function", "effects", "interaction_effects", "missing_effects")
    said = {word: getattr(model, word)(table) for word in words if hasattr(model, word)}
    if model.residuals_ is not None:
        for word in ("predict_interval", "predict_set"):
            with contextlib.suppress(InputError, AttributeError):  # refusals are tested elsewhere
                said[word] = np.asarray(getattr(model, word)(table, level=0.8))
    if model.bands_ is not None and model.bands_.verdict != "refused":
        said["bands"] = model.effect_bands(table, simultaneous=True).upper
    if hasattr(model, "predict_survival_function"):
        said["survival"] = model.predict_survival_function(table, return_array=True)
    if hasattr(model, "get_support"):
        said["support"], said["names"] = model.get_support(), model.get_feature_names_out()
    return said


def reloaded(model, folder):
    model.save(folder / "model.snam")
    return sparsenam.load(folder / "model.snam")


@pytest.mark.parametrize("case", CASES)
def test_a_loaded_model_is_the_saved_one_to_the_bit(case, tmp_path):
    model, table = fitted(case)
    loaded = reloaded(model, tmp_path)
    assert type(loaded) is type(model)
    said = answers(model, table)
    for word, other in answers(loaded, table).items():
        np.testing.assert_array_equal(other, said[word], strict=True)
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert set(vars(model)) - set(vars(loaded)) <= {"path_"}
    for name in {name for name in dir(model) if name.endswith("_") and name[0] != "_"} - COMPARED:
        assert repr(getattr(loaded, name, None)) == repr(getattr(model, name, None))  # NaN is not equal to itself
    np.testing.assert_array_equal(loaded.norms_, model.norms_)
    np.testing.assert_array_equal(loaded.intercept_, model.intercept_)
    assert loaded.certificate_ == model.certificate_
    assert [pair.weights.tolist() for pair in loaded.model_.pairs] == [p.weights.tolist() for p in model.model_.pairs]
    if model.cv_curve_ is not None:
        assert loaded.cv_curve_.table() == model.cv_curve_.table()
        assert loaded.cv_curve_.choose("compact") == model.cv_curve_.choose("compact")
    assert loaded.explain().to_dict() == model.explain().to_dict()
    assert loaded.model_.exact_shapes == model.model_.exact_shapes


@pytest.mark.parametrize("case", ["categories and missing cells", "smooth network", "named pairs"])
def test_a_loaded_model_saves_to_the_same_bytes_and_pickles_and_prunes(case, tmp_path):
    model, table = fitted(case)
    loaded = reloaded(model, tmp_path)
    loaded.save(tmp_path / "again.snam")
    assert (tmp_path / "again.snam").read_bytes() == (tmp_path / "model.snam").read_bytes()
    copied = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(copied.predict(table), model.predict(table))
    clone(loaded).fit(table, np.arange(ROWS, dtype=float))


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_pickled_estimator_predicts_the_same_bits(asked_before):
    model, table = fitted("categories and missing cells")
    expected = copy.deepcopy(model).predict(table)
    if asked_before:  # its shapes are known already
        model.predict(table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(table), expected)


def test_any_reader_of_safetensors_reads_the_file(tmp_path):
    model, _ = fitted("regression")
    model.save(tmp_path / "model.snam")
    with safe_open(tmp_path / "model.snam", framework="np") as file:
        knots = file.get_tensor("model.functions.knots")
        document = json.loads(file.metadata()["sparsenam"])
    np.testing.assert_array_equal(knots, np.concatenate([shape.knots for shape in model.model_.curves]))
    assert document["schema"] == 1 and document["estimator"] == "SNAMRegressor"


def test_loading_needs_no_pickle(tmp_path, monkeypatch):
    model, table = fitted("categories and missing cells")
    model.save(tmp_path / "model.snam")

    def refuse(*_args, **_settings):
        raise AssertionError("pickle was asked")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr("torch.load", refuse)
    monkeypatch.setattr("numpy.load", refuse)
    np.testing.assert_array_equal(sparsenam.load(tmp_path / "model.snam").predict(table), model.predict(table))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    model, _ = fitted("regression")
    path = tmp_path / "model.snam"
    path.write_bytes(b"old")

    def fail(*_args):
        raise OSError("no space left")

    monkeypatch.setattr("sparsenam.files.os.replace", fail)
    with pytest.raises(ModelFileError, match="no space left"):
        model.save(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


class LogCosh:
    def loss(self, scores, target):
        over = scores - target
        return array_namespace(over).logaddexp(over, -over)

    def gradient(self, scores, target):
        return array_namespace(scores).tanh(scores - target)


class MyRegressor(SNAMRegressor):
    pass


def test_what_a_file_cannot_hold_is_refused_with_one_sentence(tmp_path):
    model, table, target = trained((2,), alpha=0.05, family=LogCosh())
    with pytest.raises(ModelFileError, match="a custom loss"):
        model.fit(table, target).save(tmp_path / "model.snam")
    with pytest.raises(ModelFileError, match="MyRegressor"):
        MyRegressor(alpha=0.1).fit(table, target).save(tmp_path / "model.snam")
    with pytest.raises(ModelFileError, match="a path that can be written to"):
        fitted("linear")[0].save(tmp_path / "no folder" / "model.snam")
    assert not list(tmp_path.iterdir())


def test_settings_that_are_code_are_named_and_left_out(tmp_path):
    model, table, target = trained((4,), alpha=0.01, schedule=lambda share: 1.0 - 0.5 * share)
    model.fit(table, target)
    with pytest.warns(ModelFileWarning, match="network__schedule"):
        model.save(tmp_path / "model.snam")
    with pytest.warns(ModelFileWarning, match="network__schedule"):
        loaded = sparsenam.load(tmp_path / "model.snam")
    assert loaded.network.schedule == "constant" and loaded.network.hidden == (4,)


def test_what_held_out_rows_know_of_the_choice_is_in_the_file(tmp_path):
    model, _ = fitted("folds")
    model.save(tmp_path / "model.snam")
    loaded = sparsenam.load(tmp_path / "model.snam")
    assert loaded.evidence_ == model.evidence_ is not None
    assert loaded.evidence_.notes() == model.evidence_.notes()
    assert loaded.explain().card["explained"] == model.explain().card["explained"]


def test_a_model_whose_alpha_was_given_has_no_evidence_before_and_after_loading(tmp_path):
    model, _ = fitted("several outputs")
    model.save(tmp_path / "model.snam")
    assert model.evidence_ is None and sparsenam.load(tmp_path / "model.snam").evidence_ is None


def test_a_file_of_another_schema_is_refused_with_what_to_do(with_pairs_file, tmp_path):
    document, tensors = read_container(with_pairs_file)
    write_container(tmp_path / "model.snam", document | {"schema": 2}, tensors)
    with pytest.raises(ModelFileError, match=r"expected schema 1, got '2'; install the version"):
        sparsenam.load(tmp_path / "model.snam")


def test_parameter_objects_are_stored_as_class_and_parameters():
    given = {"network": Network(hidden=(8,)), "rule": Compact(0.5), "alpha": math.inf, "nothing": None}
    packed, left_out = pack_parameters(given)
    assert left_out == {}
    found = unpack_parameters(json.loads(json.dumps(packed)))
    assert found["network"].get_params() == Network(hidden=(8,)).get_params()
    assert (found["rule"], found["alpha"], found["nothing"]) == (Compact(0.5), math.inf, None)


def test_code_inside_a_parameter_object_is_left_out_by_name():
    packed, left_out = pack_parameters({"network": Network(hidden=(8,), schedule=lambda share: 1.0)})
    assert left_out == {"network__schedule": "function"}
    found = unpack_parameters(packed)["network"]
    assert (found.hidden, found.schedule) == ((8,), "constant")


@pytest.mark.parametrize("kind", [Network, Compact])
def test_objects_of_others_are_no_plain_data_whatever_their_name(kind):
    theirs = type(kind.__name__, (kind,), {"__module__": "elsewhere"})
    assert pack_parameters({"given": theirs()}) == ({}, {"given": kind.__name__})


def test_a_network_and_a_rule_of_a_fit_come_back(tmp_path):
    _, table, target = regression()
    network = Network(hidden=(4,), max_epochs=2, init="convex")
    model = SNAMRegressor(network=network, rule=Compact(0.1), cv=3, n_alphas=5, random_state=0).fit(table, target)
    loaded = reloaded(model, tmp_path)
    assert loaded.network.get_params() == network.get_params() and loaded.rule == Compact(0.1)
    assert loaded.cv_curve_.choose(Compact(0.1)) == model.cv_curve_.choose(Compact(0.1))


@pytest.mark.parametrize(
    "content",
    [
        {"class": "System", "parameters": {}},
        {"class": ["Network"], "parameters": {}},
        {"class": "Network", "parameters": {"command": "x"}},
        {"class": "Network", "parameters": []},
        {"class": "Network"},
        {},
        [],
        None,
    ],
)
def test_a_parameter_object_that_cannot_be_is_refused(content):
    with pytest.raises(RefusalError):
        unpack_parameters({"network": {"object": content}})


def test_a_saved_curve_knows_the_point_of_the_rule_object_of_the_fit():
    curve = StoredCurve(((1.0, 0.0, 2.0, 0.1),), {"compact": 0})
    with pytest.raises(InputError, match="no losses of rows"):
        curve.choose(Compact(0.5))
    model, _ = fitted("folds")
    stored = StoredCurve.of(model.cv_curve_, "compact")
    named = StoredCurve(stored.rows, {**stored.choices, repr(Compact(0.5)): 3})
    again = unpack(StoredCurve, json.loads(json.dumps(pack(StoredCurve.of(named, Compact(0.5)))[0])))
    assert again.choose(Compact(0.5)) == 3 and again.choose("best") == model.cv_curve_.choose("best")


# what is wrong with a file


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A file with every part: categories, missing cells, curve, certificate; and a table for it."""
    table = mixed_table()
    target = (table["größe"] + (table["colour"] == "red") > 0).map({True: "ja", False: "nein"})
    model = SNAMClassifier(random_state=0).fit(table, target)
    path = tmp_path_factory.mktemp("whole") / "model.snam"
    model.save(path)
    return path, table, model.predict_proba(table)


def refuse(path):
    with pytest.raises(ModelFileError) as caught:
        sparsenam.load(path)
    words = str(caught.value)
    assert words.startswith(f"model file {path}: expected ") and words.endswith(".") and "\n" not in words


@pytest.mark.parametrize("content", [b"size,city\n" + b"1.5,a\n" * 100, b'{"format": "a model"}\n' * 10, b"PK" * 9])
def test_a_file_of_another_kind_is_said_to_be_no_model_file(content, tmp_path):
    (tmp_path / "rows.csv").write_bytes(content)
    refuse(tmp_path / "rows.csv")
    with pytest.raises(ModelFileError, match=r"got a file of another kind, which is no model file; give the file that"):
        sparsenam.load(tmp_path / "rows.csv")


@pytest.mark.parametrize("seed", range(40))
def test_a_truncated_file_is_refused(seed, whole, tmp_path):
    content = whole[0].read_bytes()
    keep = (0, 4, 8, 20, len(content) - 1)[seed] if seed < 5 else np.random.default_rng(seed).integers(len(content))
    (tmp_path / "model.snam").write_bytes(content[:keep])
    refuse(tmp_path / "model.snam")


@pytest.mark.parametrize("seed", range(60))
def test_a_file_with_one_changed_bit_is_refused(seed, whole, tmp_path):
    content = bytearray(whole[0].read_bytes())
    bit = seed if seed < 30 else np.random.default_rng(seed).integers(8 * len(content))
    content[bit // 8] ^= 1 << (bit % 8)
    (tmp_path / "model.snam").write_bytes(content)
    refuse(tmp_path / "model.snam")


HOSTILE = [None, True, -1, 10**30, 1e308, -0.5, "", "x" * 5000, [], {}, [[]], {"tuple": 3}, {"float": "1"}, "../a"]


def paths_in(value, path=()):
    """Yield the path to every value inside plain data."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from paths_in(item, (*path, key))


@pytest.mark.parametrize("seed", range(70))
def test_a_file_that_says_something_else_is_refused_or_still_predicts(seed, whole, tmp_path):
    """The digest is right, as a liar would write it."""
    generator = np.random.default_rng(seed)
    document, tensors = read_container(whole[0])
    (*above, last) = list(paths_in(document))[1:][generator.integers(sum(1 for _ in paths_in(document)) - 1)]
    owner = document
    for key in above:
        owner = owner[key]
    owner[last] = HOSTILE[generator.integers(len(HOSTILE))]
    path = tmp_path / "model.snam"
    write_container(path, document, tensors)
    try:
        loaded = sparsenam.load(path)
    except ModelFileError as error:
        assert str(error).startswith(f"model file {path}: expected ") and str(error).count("\n") == 0
        return
    try:
        probabilities = loaded.predict_proba(whole[1])
    except sparsenam.errors.InputError:  # another table was asked for
        return
    assert probabilities.shape == whole[2].shape and np.isfinite(probabilities).all()


def with_tensor(name, change):
    def changed(document, tensors):
        tensors[name] = np.ascontiguousarray(change(tensors[name].copy()))

    return changed


def set_in(*path, value):
    def changed(document, tensors):
        owner = document
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = value

    return changed


def fill(value):
    def change(tensor):
        tensor.flat[0] = value
        return tensor

    return change


ENDS = ("left_slope", "right_slope", "absent")


def one_of_many_knots(document, tensors):
    """A few megabytes that would become a model of a hundred gigabytes."""
    features = 2000
    document["encoder"]["terms"] = [{"name": f"t{index}", "column": 0, "kind": "number"} for index in range(features)]
    document["model"]["n_terms"] = features
    document["model"]["functions"] = [{}] * features
    sizes = np.ones((features, 1), dtype=np.int64)
    sizes[0] = 200_000
    total, nothing = int(sizes.sum()), np.zeros((features, 1))
    tensors |= {"model.terms": np.arange(features), **{f"model.functions.{name}": nothing for name in ENDS}}
    tensors |= {"model.functions.knots": np.arange(float(total)), "model.functions.knots:shape": sizes}
    tensors |= {
        "model.functions.values": np.zeros(total),
        "model.functions.values:shape": np.hstack([sizes, np.ones_like(sizes)]),
    }


EVIDENCE = {
    "gain": 0.5,
    "gain_error": 0.1,
    "behind_all": None,
    "behind_all_error": None,
    "kept_in": {},
    "best_gain": 0.5,
}

BANK = {"hidden": [2], "outputs": 1, "activation": "gelu"}
NETWORK = {"bank": BANK, "scaling": {}}

LIES = {
    "knots that are not numbers": with_tensor("model.functions.knots", fill(np.nan)),
    "infinite values": with_tensor("model.functions.values", fill(np.inf)),
    "unsorted knots": with_tensor("model.functions.knots", lambda knots: knots[::-1]),
    "equal knots": with_tensor("model.functions.knots", lambda knots: np.zeros_like(knots)),
    "fewer knots": with_tensor("model.functions.knots", lambda knots: knots[:-1]),
    "more values": with_tensor("model.functions.values", lambda values: np.vstack([values, values])),
    "no knots of a feature": with_tensor("model.functions.knots:shape", fill(0)),
    "huge numbers of knots": with_tensor("model.functions.knots:shape", lambda sizes: fill(2**62)(sizes.astype(int))),
    "negative numbers of knots": with_tensor("model.functions.knots:shape", fill(-1)),
    "terms beyond the table": with_tensor("model.terms", fill(10**9)),
    "negative terms": with_tensor("model.terms", fill(-1)),
    "a term twice": with_tensor("model.terms", lambda terms: np.zeros_like(terms)),
    "terms as fractions": with_tensor("model.terms", lambda terms: terms.astype(float)),
    "no intercept": with_tensor("model.intercept", lambda intercept: intercept[:0]),
    "two intercepts": with_tensor("model.intercept", lambda intercept: np.zeros(2)),
    "norms of another table": with_tensor("norms", lambda norms: norms[:-1]),
    "padding without end": one_of_many_knots,
    "a later version": set_in("schema", value=2),
    "an earlier version": set_in("schema", value=0),
    "no version": set_in("schema", value=None),
    "a version that is true": set_in("schema", value=True),
    "a foreign class": set_in("estimator", value="os.system"),
    "another class": set_in("estimator", value="SNAMSurvival"),
    "a class without classes": set_in("estimator", value="SNAMRegressor"),
    "an unknown setting": set_in("settings", "__class__", value="x"),
    "an unknown family": set_in("model", "family", "type", value="__import__"),
    "parameters of no family": set_in("model", "family", "power", value=1.5),
    "a million terms": set_in("model", "n_terms", value=10**12),
    "no classes": set_in("response", "classes", value=None),
    "labels of endless width": set_in("response", "classes", "type", value="text9999999999"),
    "labels of code": set_in("response", "classes", "type", value="object_"),
    "too many classes": set_in("response", "classes", "values", value=["a", "b", "c"]),
    "settings left out that are no record": set_in("left_out", value=1),
    "a version that is a list": set_in("schema", value=[]),
    "no summary": set_in("summary", value=None),
    "labels as wide as a book": set_in("response", "classes", "type", value="text10000000"),
    "evidence that is a list": set_in("summary", "evidence", value=[1.0]),
    "evidence of words": set_in("summary", "evidence", value=EVIDENCE | {"gain": "much"}),
    "shares of folds that are words": set_in("summary", "evidence", value=EVIDENCE | {"kept_in": {"a": "often"}}),
    "another column kind": set_in("encoder", "columns", 0, "kind", value="code"),
    "a column that is a number": set_in("encoder", "names", 0, value=3),
    "a term of no column": set_in("encoder", "terms", 0, "column", value=99),
    "a network without end": set_in("model", "functions", value=NETWORK | {"bank": BANK | {"hidden": [10**9] * 40}}),
    "a network without tensors": set_in("model", "functions", value=NETWORK),
    "functions that are no list": set_in("model", "functions", value="network"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_in_a_file_is_refused_without_much_memory(lie, whole, tmp_path):
    document, tensors = read_container(whole[0])
    LIES[lie](document, tensors)
    path = tmp_path / "model.snam"
    write_container(path, document, tensors)
    tracemalloc.start()
    try:
        refuse(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000 + 12 * path.stat().st_size
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def with_pairs_file(tmp_path_factory):
    model, table, target = with_pairs()
    path = tmp_path_factory.mktemp("pairs") / "model.snam"
    model.fit(table, target).save(path)
    return path


def without_weights(document, tensors):
    del tensors["model.pairs.weights"]


def one_column(document, tensors):
    """Two terms of the first pair become terms of one column."""
    one, other = document["model"]["pairs"][0]["terms"]
    terms = document["encoder"]["terms"]
    terms[other]["column"] = terms[one]["column"]


def two_outputs(document, tensors):
    tensors["model.pairs.values"] = tensors["model.pairs.values"].repeat(2)
    tensors["model.pairs.values:shape"][:, 2] = 2


def with_terms(change):
    """Change the terms of all pairs."""

    def changed(document, tensors):
        pairs = document["model"]["pairs"]
        for pair, terms in zip(pairs, change([pair["terms"] for pair in pairs]), strict=True):
            pair["terms"] = terms

    return changed


LIES_ABOUT_PAIRS = {
    "values that are not numbers": with_tensor("model.pairs.values", fill(np.nan)),
    "infinite knots": with_tensor("model.pairs.knots", fill(np.inf)),
    "falling knots": with_tensor("model.pairs.knots", lambda knots: knots[::-1]),
    "equal knots": with_tensor("model.pairs.knots", lambda knots: np.zeros_like(knots)),
    "fewer knots": with_tensor("model.pairs.knots", lambda knots: knots[:-1]),
    "a knot more in one axis, less in the other": with_tensor(
        "model.pairs.knots:shape", lambda sizes: sizes + np.array([[1], [-1], [0], [0]], dtype=np.int32)
    ),
    "a single knot": with_tensor("model.pairs.knots:shape", fill(1)),
    "a huge grid": with_tensor("model.pairs.knots:shape", lambda sizes: fill(2**62)(sizes.astype(int))),
    "a negative grid": with_tensor("model.pairs.knots:shape", fill(-5)),
    "fewer values": with_tensor("model.pairs.values", lambda values: values[:-1]),
    "values of two outputs": two_outputs,
    "fewer weights": with_tensor("model.pairs.weights", lambda weights: weights[:-1]),
    "negative weights": with_tensor("model.pairs.weights", fill(-1.0)),
    "weights that are whole numbers": with_tensor("model.pairs.weights", lambda weights: weights.astype(np.int64)),
    "no weights": without_weights,
    "terms beyond the table": with_terms(lambda terms: [[10**9, terms[0][1]], terms[1]]),
    "negative terms": with_terms(lambda terms: [[-1, terms[0][1]], terms[1]]),
    "a term with itself": with_terms(lambda terms: [[one, one] for one, _ in terms]),
    "a pair twice": with_terms(lambda terms: [terms[0], terms[0]]),
    "a pair twice, turned": with_terms(lambda terms: [terms[0], terms[0][::-1]]),
    "three terms": with_terms(lambda terms: [[*pair, pair[1]] for pair in terms]),
    "terms in a row": with_terms(lambda terms: [terms[0][0], terms[0][1]]),
    "terms as fractions": with_terms(lambda terms: [[float(one), float(other)] for one, other in terms]),
    "a dropped term": with_tensor("model.terms", lambda terms: terms[:-1]),
    "two terms of one column": one_column,
    "importances of other pairs": set_in("summary", "data", "pairs", value=[]),
    "importances of words": set_in("summary", "data", "pairs", value=[{"mean_absolute": "much", "variation": 1}] * 2),
    "a certificate that is a word": set_in("certificate", value="proved"),
}


@pytest.mark.parametrize("lie", LIES_ABOUT_PAIRS)
def test_a_lie_about_pairs_is_refused_without_much_memory(lie, with_pairs_file, tmp_path):
    document, tensors = read_container(with_pairs_file)
    LIES_ABOUT_PAIRS[lie](document, tensors)
    path = tmp_path / "model.snam"
    write_container(path, document, tensors)
    tracemalloc.start()
    try:
        refuse(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000 + 12 * path.stat().st_size
    finally:
        tracemalloc.stop()


def raw_file(header, length=None):
    return (len(header) if length is None else length).to_bytes(8, "little") + header


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04\x95" + b"a" * 200,
        raw_file(b"{}" + b" " * 200),
        raw_file(b'{"__metadata__":{"sha256":"' + b"0" * 64 + b'"}}' + b" " * 50),
        raw_file(b"{" * 200, length=2**63),
        raw_file(b"[" * 100_000),
        raw_file(b'{"a":{"dtype":"F64","shape":[1000000000000],"data_offsets":[0,8]}}' + b" " * 100),
    ],
)
def test_a_foreign_file_is_refused(content, tmp_path):
    (tmp_path / "model.snam").write_bytes(content)
    refuse(tmp_path / "model.snam")


def test_a_path_without_a_file_is_refused(tmp_path):
    refuse(tmp_path / "model.snam")
    refuse(tmp_path)


def test_columns_that_a_group_expresses_are_read_back(tmp_path):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(60, 3)), columns=["a + b", "c", "d"])
    X["twin"] = X["d"] + 1e-3 * random.normal(size=60)
    model = SNAMRegressor(alpha=0.05, feature_groups=[["a + b", "d"]], random_state=0).fit(X, X["twin"] ** 2)
    assert "a + b + d" in model.substitutes_["twin"]
    model.save(tmp_path / "model.snam")
    assert sparsenam.load(tmp_path / "model.snam").substitutes_ == model.substitutes_
