"""Portable models are read back as they were written; anything else is refused, by the schema and by the reader."""

import copy
import json
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export_cases import random_case
from sparsenam.export.portable import ExportError
from sparsenam.export.portable_file import model_of, read_portable
from sparsenam.tables.text import MARKERS

SCHEMA = json.loads((files("sparsenam.export") / "portable.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
RECORDS = [random_case(seed, rows=30).portable.to_dict() for seed in range(24)]


def places_in(value, way=()):
    """Yield the ways to all values of a document."""
    yield way
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(item, (*way, key))


def changed(record, way, change):
    """Return the document with the value at a way changed."""
    result = copy.deepcopy(record)
    if not way:
        return change(result)
    parent = result
    for key in way[:-1]:
        parent = parent[key]
    parent[way[-1]] = change(parent[way[-1]])
    return result


def at(record, way):
    for key in way:
        record = record[key]
    return record


def test_the_schema_is_one():
    VALIDATOR.check_schema(SCHEMA)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_model_is_valid_under_the_schema_and_comes_back_equal(first):
    for seed in range(first, first + 50):
        model = random_case(seed, rows=30).portable
        text = model.to_json()
        VALIDATOR.validate(json.loads(text))
        assert read_portable(text) == model
        assert read_portable(text.encode()).to_json() == text


def test_whole_numbers_may_be_written_without_a_point():
    model = random_case(3, rows=30).portable
    text = model.to_json().replace(".0,", ",").replace(".0]", "]")
    assert text != model.to_json()
    assert read_portable(text) == model


@pytest.mark.parametrize("place", range(len(RECORDS)))
def test_schema_and_reader_refuse_what_has_the_wrong_form(place):
    record, draw = RECORDS[place], np.random.default_rng(place)
    ways = list(places_in(record))
    for index in draw.choice(len(ways), min(60, len(ways)), replace=False):
        way = ways[index]
        odd = [changed(record, way, lambda _: {"odd": 1})]
        value = at(record, way)
        if isinstance(value, dict):
            odd += [changed(record, way, lambda found: found | {"odd": 1})]
            odd += [
                changed(record, way, lambda found, key=key: {k: found[k] for k in found if k != key}) for key in value
            ]
        for document in odd:
            assert not VALIDATOR.is_valid(document), way
            with pytest.raises(ExportError, match=r"^portable model.*: expected .*, got .*; .*\.$"):
                model_of(document)


def shorter(values):
    return values[:-1]


def test_the_reader_refuses_sizes_that_do_not_go_together():
    refused = 0
    for record in RECORDS:
        for way in places_in(record):
            last = next((key for key in reversed(way) if isinstance(key, str)), "")
            if last not in ("anchors", "slopes", "bases", "absent", "values", "axes", "intercept") or not isinstance(
                at(record, way), list
            ):
                continue
            for change in (shorter, lambda values: [*values, copy.deepcopy(values[-1])]):
                longer_table = last == "values" and "terms" in way and way[-1] == "values" and change is not shorter
                if longer_table and record["terms"][way[1]].get("reads") == "level":
                    continue  # codes that no level has are no harm
                with pytest.raises(ExportError):
                    model_of(changed(record, way, change))
                refused += 1
    assert refused > 1000


def put(way, value):
    return lambda record: changed(record, way, lambda _: value)


@pytest.mark.parametrize(
    "change",
    [
        put(("version",), 2), put(("version",), True), put(("format",), "another"), put(("task",), "survive"),
        put(("link",), "softmax"), put(("outputs",), []), put(("classes",), ["a"]), put(("baseline",), [[1.0, 0.1]]),
        put(("missing_texts",), sorted(MARKERS)[1:]), put(("intercept", 0), float("nan")),
        put(("intercept", 0), 10**400), put(("intercept", 0), True), put(("intercept", 0), "1"),
        put(("columns", 0, "kind"), "category"), put(("columns", 0, "true"), 0), put(("columns", 0, "name"), None),
        put(("terms", 0, "column"), 1), put(("terms", 0, "column"), -1), put(("terms", 0, "column"), 0.0),
        put(("terms", 0, "type"), "table"), put(("terms", 0, "knots"), [1.0, 1.0]), put(("terms", 0, "knots"), [2, 1]),
        lambda record: record | {"columns": record["columns"] * 2},
        lambda record: [record], lambda record: None,
    ],
)  # fmt: skip
def test_the_reader_refuses_values_out_of_their_range(change):
    record = {
        "format": "sparsenam portable model", "version": 1, "missing_texts": sorted(MARKERS), "task": "regression",
        "family": "gaussian", "link": "identity", "outputs": ["y"], "classes": [], "intercept": [0.5],
        "columns": [{"name": "x", "kind": "number", "levels": [], "false": None, "true": None}],
        "terms": [{
            "type": "curve", "column": 0, "knots": [1.0, 2.0], "anchors": [1.0, 1.0, 2.0], "slopes": [[0.0, 1.0, 0.0]],
            "bases": [[0.0, 0.0, 1.0]], "absent": [0.0],
        }],
        "pairs": [], "baseline": [], "written_by": "a test",
    }  # fmt: skip
    assert model_of(record).to_dict() == record
    with pytest.raises(ExportError, match="portable model"):
        model_of(change(record))


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", "NaN", '{"a": 1, "a": 2}', "[" * 100_000, b"\xff", "1" * 5000]
)
def test_a_text_that_is_no_such_document_is_refused_in_one_sentence(text):
    with pytest.raises(ExportError, match=r"^portable model.*: expected"):
        read_portable(text)


LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_change_is_refused_or_gives_a_model_that_is_written_as_it_was_read(data):
    record = data.draw(st.sampled_from(RECORDS))
    way = data.draw(st.sampled_from(list(places_in(record))))
    document = changed(record, way, lambda _: data.draw(VALUES))
    try:
        model = model_of(document)
    except ExportError as error:
        assert str(error).startswith("portable model")
    else:
        assert model_of(model.to_dict()) == model
        assert VALIDATOR.is_valid(document)
