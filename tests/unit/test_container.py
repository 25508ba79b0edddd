"""The container of all files: read in time and memory of its size, and refused in one sentence where it lies."""

import errno
import json
import os
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import sparsenam
from fuzz.files import parts_of, sign
from sparsenam import Network, SNAMClassifier, SNAMRegressor, context
from sparsenam.codec import pack, unpack
from sparsenam.container import (
    DEEPEST,
    MOST_KEYS,
    MOST_OBJECTS,
    MOST_VALUES,
    compact_json,
    measure_json,
    packed,
    parse_object,
    unpacked,
)
from sparsenam.errors import CheckpointError, CheckpointWarning, RefusalError
from sparsenam.export import ModelFileError
from sparsenam.fit.pipeline import Fit
from sparsenam.tables.encoder import TableEncoder

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab"\\[]{},:\u00e9', max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"\\]}', max_size=5), inner, max_size=3),
)


def depth(value):
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


@given(PLAIN, st.integers(0, DEEPEST + 3))
@settings(max_examples=150, deadline=None)
def test_json_is_refused_exactly_where_it_is_nested_too_deep_whatever_its_texts_hold(value, around):
    for _ in range(around):
        value = [value]
    content = json.dumps({"a": value}).encode()
    if depth(value) + 1 <= DEEPEST:
        assert parse_object(content) == {"a": value}
    else:
        with pytest.raises(RefusalError, match="nested more than"):
            parse_object(content)


@pytest.mark.parametrize("size", [255, 256, 1 << 20])
def test_brackets_and_commas_within_texts_do_not_count(size):
    brackets = "[" * size + '"' + "\\"  # within a text they are letters
    assert parse_object(json.dumps({"a": brackets, "b": [[1]]}).encode())["a"] == brackets
    with pytest.raises(RefusalError, match="nested more than"):
        measure_json(b'{"a":"' + b"," * size + b'","b":' + b"[" * DEEPEST + b"]" * DEEPEST + b"}")


def refused_with_little_memory(path, times):
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            sparsenam.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"model file {path}: expected ") and "\n" not in str(caught.value)
    assert peak < 2_000_000 + times * path.stat().st_size
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    ['{"schema":"' + '\\"' * 1_500_000 + '"}', '{"schema":"' + "\\\\" * 1_500_000 + '"}', '"' * 1_500_001],
    ids=["quotes", "backslashes", "texts"],
)
def test_a_header_of_quotes_is_read_in_one_pass(text, tmp_path):
    """A search that starts anew at each quote would take hours, and the test's time would be up."""
    (tmp_path / "model.snam").write_bytes(sign(None, {}, b"", text))
    refused_with_little_memory(tmp_path / "model.snam", 12)


@pytest.mark.parametrize("value", ["[],", "{},", "0,", '"a",'])
def test_a_header_of_too_many_values_is_refused_before_it_is_parsed(value, tmp_path):
    text = '{"a":[' + value * (MOST_VALUES + 1) + "0]}"
    (tmp_path / "model.snam").write_bytes(sign(None, {}, b"", text))
    assert "values" in refused_with_little_memory(tmp_path / "model.snam", 16)


MANY_KEYS = {'{{"a":{0}}},': MOST_OBJECTS, '{{"a":{0},"b":0,"c":0,"d":0,"e":0}},': MOST_KEYS // 5}


@pytest.mark.parametrize(("value", "most"), MANY_KEYS.items())
def test_a_header_of_too_many_keys_or_objects_is_refused_before_it_is_parsed(value, most, tmp_path):
    text = '{"a":[' + "".join(value.format(number) for number in range(most + 1)) + "0]}"
    (tmp_path / "model.snam").write_bytes(sign(None, {}, b"", text))
    assert "keys" in refused_with_little_memory(tmp_path / "model.snam", 10)


def test_keys_take_memory_once(tmp_path):
    """A list of all pairs beside the record of them, and copies of the text, would be as much again."""
    document = {f"k{number}": number for number in range(100_000)}
    (tmp_path / "model.snam").write_bytes(sign(document, {}, b""))
    refused_with_little_memory(tmp_path / "model.snam", 14)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"a":[{"b:":1,"c":":","b:":{}}]}'])
def test_one_key_twice_is_refused_wherever_it_is(text):
    with pytest.raises(RefusalError, match="one key twice"):
        parse_object(text)


def test_a_column_of_numbers_takes_few_values_of_a_file():
    """Files of wide tables must have fewer values than a file may have."""
    narrow, wide = (pack(TableEncoder.fit(np.zeros((9, p)) + np.arange(9.0)[:, None])[0])[0] for p in (10, 20))
    assert [measure_json(compact_json(each)) for each in (narrow, wide)] == [4 + 50, 4 + 100]


def test_one_long_text_takes_a_few_times_its_size(tmp_path):
    (tmp_path / "model.snam").write_bytes(sign(None, {}, b"", '{"schema":"' + "x" * 5_000_000 + '\\ud83d\\ude00"}'))
    refused_with_little_memory(tmp_path / "model.snam", 16)


@pytest.mark.parametrize("shape", [[0, 2**40, 2**40], [2**62], [0] * 40, [2**32, 0], [-1]])
def test_a_tensor_of_a_shape_that_is_not_there_is_refused(shape, tmp_path):
    entries = {"a": {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}}
    (tmp_path / "model.snam").write_bytes(sign({}, entries, b""))
    with pytest.raises(RefusalError, match="a damaged tensor 'a'"):
        unpacked(tmp_path / "model.snam")


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * generator.normal(size=80)


@pytest.fixture(scope="module")
def saved(table, tmp_path_factory):
    """A model file, as document, entries and data."""
    path = tmp_path_factory.mktemp("saved") / "model.snam"
    X, y = table
    SNAMClassifier(alpha=0.01, random_state=0).fit(X, np.where(y > 0, "yes", "no")).save(path)
    return path


@pytest.mark.parametrize("labels", [[f"l{i}" for i in range(100_000)], ["a" * 10_000, *map(str, range(100_000))]])
def test_labels_never_take_much_more_than_the_file(labels, saved, tmp_path):
    document, entries, data = parts_of(saved.read_bytes())
    document["response"]["classes"] = {"type": "text10000", "values": labels}
    document["model"]["family"]["type"] = "Multinomial"
    (tmp_path / "model.snam").write_bytes(sign(document, entries, data))
    assert "class labels" in refused_with_little_memory(tmp_path / "model.snam", 24)


def test_ranks_of_errors_are_as_many_as_the_file_has(table, tmp_path):
    """Neither a count of 10⁹, nor a stated shape, nor many tables list ranks that have no numbers."""
    model = SNAMRegressor(alpha=0.01, random_state=0).fit(*table)
    model.save(tmp_path / "model.snam")
    content = (tmp_path / "model.snam").read_bytes()
    values = "residuals.constant.tables.values"
    changes = [
        lambda tables, entries: tables[0].update(count=10**9),
        lambda tables, entries: entries[values].update(shape=[10**9]),
        lambda tables, entries: tables.extend(tables * 10**5),
        lambda tables, entries: tables[0].update(kept=None),
        lambda tables, entries: tables[0].update(kept=10**9),
        lambda tables, entries: tables[0].update(ranks=True),
    ]
    for change in changes:
        document, entries, data = parts_of(content)
        change(document["residuals"]["constant"]["tables"], entries)
        (tmp_path / "model.snam").write_bytes(sign(document, entries, data))
        # a table is 15 characters of JSON and a dict of 184 bytes, the least that Python has
        refused_with_little_memory(tmp_path / "model.snam", 13)


def paths_of_fields(value, path=()):
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in inside:
        yield from paths_of_fields(item, (*path, key))


def test_every_field_of_a_document_has_a_declared_type(saved):
    """Something that no field may be is found wherever it stands, but for settings, which are any plain data."""
    document, tensors = unpacked(saved)
    for name in ("schema", "written_by", "left_out"):
        del document[name]
    unpack(Fit, document, tensors)
    for path in list(paths_of_fields(document))[1:]:
        changed = json.loads(json.dumps(document))
        owner = changed
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = set()  # no plain data
        with pytest.raises(RefusalError):
            unpack(Fit, changed, tensors)


@given(st.floats(-307, 307), st.floats(-300, 307), st.booleans())
@settings(max_examples=12, deadline=None)
def test_save_writes_what_load_reads_or_nothing(table, tmp_path_factory, of_x, of_y, linear):
    """Columns and targets of any size that a fit takes."""
    path = tmp_path_factory.mktemp("sizes") / "model.snam"
    X, y = table
    model = SNAMRegressor(alpha=0.05, random_state=0, network=Network(hidden=(), max_epochs=2) if linear else None)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model.fit(X * np.array([10.0**of_x, 1.0, 1.0]), y * 10.0**of_y)
        except (sparsenam.errors.InputError, ArithmeticError):
            return
        try:
            model.save(path)
        except ModelFileError as error:
            assert str(error).startswith("model to save: expected ") and not path.exists()
            return
        loaded = sparsenam.load(path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert str(loaded.explain()) == str(model.explain())


@pytest.mark.parametrize("size", [1e60, 1e-60])
def test_bands_of_any_size_are_finite_and_kept_to_the_bit(size, table, tmp_path):
    X, y = table
    model = SNAMRegressor(alpha=0.05, random_state=0).fit(X, y * size)
    model.save(tmp_path / "model.snam")
    loaded = sparsenam.load(tmp_path / "model.snam")
    bands, again = model.effect_bands(X), loaded.effect_bands(X)
    assert np.isfinite(bands.upper).all() and (bands.upper > bands.lower).any()
    np.testing.assert_array_equal(again.upper, bands.upper)


def test_a_model_that_load_would_refuse_is_not_written(table, tmp_path):
    model = SNAMRegressor(alpha=0.05, random_state=0).fit(*table)
    model.fit_ = replace(model.fit_, norms=np.full_like(model.norms_, np.inf))
    with pytest.raises(ModelFileError, match="model to save: expected a model that load would read, got numbers that"):
        model.save(tmp_path / "model.snam")
    assert not list(tmp_path.iterdir())


def with_checkpoint(path, **changes):
    settings = {"hidden": (4,), "max_epochs": 6, "batch_size": 32, "patience": 100} | changes
    return SNAMRegressor(alpha=0.01, random_state=0, network=Network(checkpoint=path, **settings))


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    """A training with a checkpoint: its predictions and its file."""
    path = tmp_path_factory.mktemp("trained") / "fit.checkpoint"
    return with_checkpoint(path).fit(*table).predict(table[0]), path


def is_one_sentence(error, path):
    words = str(error)
    return words.startswith(f"checkpoint {path}: expected ") and words.endswith(".") and "\n" not in words


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_checkpoint_is_refused(seed, trained, table, tmp_path):
    content = bytearray(trained[1].read_bytes())
    bit = int(np.random.default_rng(seed).integers(8 * len(content)))
    content[bit // 8] ^= 1 << (bit % 8)
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        with_checkpoint(path).fit(*table)
    assert is_one_sentence(caught.value, path)


def cut_theta(document, arrays):
    arrays["train:last.parameters.theta"] = arrays["train:last.parameters.theta"][:, :-1]


def one_memory_less(document, arrays):
    document["stages"]["train"]["last"]["memories"][0][1].pop()
    shapes, kept = arrays["train:last.memories:shape"], arrays["train:last.memories"]
    first, second = shapes[:2].prod(axis=1)
    arrays["train:last.memories"] = np.concatenate([kept[:first], kept[first + second :]])
    arrays["train:last.memories:shape"] = np.delete(shapes, 1, axis=0)


def beyond_the_terms(document, arrays):
    arrays["train:last.parameters.active"] = arrays["train:last.parameters.active"] + 100


def whole_numbers(document, arrays):
    arrays["train:last.parameters.theta"] = arrays["train:last.parameters.theta"].astype(np.int64)


def no_numbers(document, arrays):
    arrays["train:last.parameters.theta"] = np.full_like(arrays["train:last.parameters.theta"], np.nan)


def a_word(document, arrays):
    document["stages"]["train"]["last"]["number"] = "three"


def another_version(document, arrays):
    document["schema"] = 2


def nothing_of_the_last(document, arrays):
    del document["stages"]["train"]["last"]


@pytest.mark.parametrize(
    "lie",
    [
        cut_theta,
        one_memory_less,
        beyond_the_terms,
        whole_numbers,
        no_numbers,
        a_word,
        another_version,
        nothing_of_the_last,
    ],
)
def test_a_checkpoint_that_was_signed_again_with_other_shapes_is_refused(lie, trained, table, tmp_path):
    document, arrays = unpacked(trained[1])
    lie(document, arrays)
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(b"".join(packed(document, arrays)))
    with pytest.raises(CheckpointError) as caught:
        with_checkpoint(path, max_epochs=9).fit(*table)
    assert is_one_sentence(caught.value, path)


@pytest.mark.filterwarnings("ignore:The fit stopped", category=ConvergenceWarning)
@pytest.mark.parametrize("why", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ENOENT])
def test_a_fit_whose_checkpoint_cannot_be_written_goes_on_and_says_so_once(why, trained, table, tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"

    def refuse(*given, **more):
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(context, "write_atomically", refuse)
    monkeypatch.setattr("sparsenam.training.state.SECONDS_BETWEEN", 0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = with_checkpoint(path).fit(*table)
    said = [str(one.message) for one in caught if issubclass(one.category, CheckpointWarning)]
    assert len(said) == 1 and said[0].startswith(f"checkpoint {path}: expected a file that can be written, got ")
    assert os.strerror(why) in said[0] and "the fit goes on" in said[0]
    np.testing.assert_array_equal(model.predict(table[0]), trained[0])
