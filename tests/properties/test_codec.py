"""The codec: what is packed comes back to the bit, and everything else is refused."""

import copy
import json
import math
import string
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sparsenam.codec import Array, Bounds, Count, MaybeNaN, Share, Tags, Via, pack, to_plain, unpack
from sparsenam.container import packed, unpacked
from sparsenam.errors import InputError, RefusalError

Numbers = Annotated[NDArray[np.float64], Array(1)]
Grid = Annotated[NDArray[np.float64], Array(2)]


class Unit:
    """An object that is no dataclass."""

    def __init__(self, power):
        if power > 5:
            raise InputError("power: expected at most 5, got more; lower it.")
        self.power = power

    def __eq__(self, other):
        return isinstance(other, Unit) and other.power == self.power


@dataclass(frozen=True)
class Line:
    slope: float


@dataclass(frozen=True)
class Step:
    at: float
    up: bool = True


@dataclass(frozen=True, eq=False)
class Piece:
    name: str
    knots: Annotated[Numbers, Array(1, -1e9)]  # the last of several counts
    values: Grid
    axes: tuple[Numbers, Numbers]
    which: Annotated[NDArray[np.intp], Array(1, 0, 99)]
    there: Numbers | None


@dataclass(frozen=True, eq=False)
class Whole:
    kind: Literal["a", "b", 3]
    share: Share
    figure: MaybeNaN
    limit: Annotated[float, Bounds(0.0, math.inf)]
    count: Count
    shape: Annotated[Line | Step, Tags(("line", "step"))] | None
    unit: Annotated[Unit, Via(int, lambda unit: unit.power, Unit)]
    pieces: tuple[Piece, ...]
    by_name: dict[str, tuple[float, int]]
    power: float | Literal["auto"]
    label: int | str
    facts: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    cache: list[int] = field(default_factory=list, init=False)


numbers = st.floats(-1e300, 1e300)
texts = st.text(string.printable, max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def vector(elements=numbers, dtype=np.float64):
    return arrays(dtype, st.integers(0, 4), elements=elements)


pieces = st.builds(
    Piece,
    name=texts,
    knots=vector(st.floats(-1e9, 1e300)),
    values=arrays(np.float64, st.tuples(st.integers(0, 3), st.integers(0, 3)), elements=numbers),
    axes=st.tuples(vector(), vector()),
    which=vector(st.integers(0, 99), np.intp),
    there=st.none() | vector(),
)
wholes = st.builds(
    Whole,
    kind=st.sampled_from(["a", "b", 3]),
    share=st.floats(0.0, 1.0),
    figure=numbers | st.just(math.nan),
    limit=st.floats(0.0, 1e300) | st.just(math.inf),
    count=st.integers(0, 2**53),
    shape=st.none() | st.builds(Line, numbers) | st.builds(Step, numbers, st.booleans()),
    unit=st.builds(Unit, st.integers(0, 5)),
    pieces=st.lists(pieces, max_size=3).map(tuple),
    by_name=st.dictionaries(texts, st.tuples(numbers, st.integers(-9, 9)), max_size=3),
    power=numbers | st.just("auto"),
    label=st.integers(-9, 9) | texts,
    facts=st.dictionaries(texts, plain, max_size=3),
    words=st.lists(texts, max_size=2).map(tuple),
)


def same(one, other):
    """Whether two values are equal to the bit, of one type."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return type(other) is float and np.float64(one).tobytes() == np.float64(other).tobytes()
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Piece | Whole):
        return type(one) is type(other) and all(same(value, vars(other)[name]) for name, value in vars(one).items())
    return type(one) is type(other) and one == other


@given(wholes)
@settings(max_examples=150, deadline=None)
def test_what_is_packed_comes_back_to_the_bit(whole):
    document, tensors = pack(whole)
    document = json.loads(json.dumps(document, allow_nan=False))
    again = unpack(Whole, document, tensors)
    assert same(again, whole)
    assert pack(again)[0] == document
    for name, tensor in pack(again)[1].items():
        assert tensor.tobytes() == tensors[name].tobytes()
    assert len(document) <= 13 and "cache" not in document
    assert ("words" in document) == bool(whole.words)


@given(wholes, st.data())
@settings(max_examples=150, deadline=None)
def test_any_other_document_is_refused_or_read(whole, data):
    """A refusal is the only error."""
    document, tensors = pack(whole)
    document = json.loads(json.dumps(document))
    owner = document
    while True:
        keys = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(owner[key], dict | list) or not owner[key] or data.draw(st.booleans()):
            break
        owner = owner[key]
    other = data.draw(st.none() | plain | st.sampled_from([10**30, 1e308, math.nan, math.inf, {"type": []}, [[]]]))
    owner[key] = other
    try:
        unpack(Whole, document, tensors)
    except RefusalError as error:
        assert len(str(error)) < 400 and "\n" not in str(error)


def example():
    piece = Piece("p", np.array([0.0, 0.1]), np.eye(2), (np.zeros(2), np.ones(3)), np.array([1]), None)
    return Whole("a", 0.5, 1.0, math.inf, 3, Step(1.0), Unit(2), (piece, piece), {"x": (0.1, 2)}, "auto", 1)


def set_at(*way, value):
    def change(document, tensors):
        owner = document
        for key in way[:-1]:
            owner = owner[key]
        owner[way[-1]] = value

    return change


def tensor(name, change):
    def changed(document, tensors):
        tensors[name] = change(tensors[name])

    return changed


def drop(name):
    return lambda document, tensors: (document if name in document else tensors).pop(name)


DAMAGE = {
    "an unknown field": (set_at("more", value=1), "as to more"),
    "a missing field": (drop("share"), "as to share"),
    "a word that is none": (set_at("kind", value="c"), "kind: one of"),
    "a truth value for 1": (set_at("count", value=True), "count: a whole number"),
    "a share above 1": (set_at("share", value=1.5), "share: a number of 0 … 1"),
    "a share that is text": (set_at("share", value="1"), "share"),
    "a share of nothing": (set_at("share", value=None), "share"),
    "a share that is NaN": (set_at("share", value=math.nan), "share"),
    "a number beyond all": (set_at("figure", value=1e308), "figure"),
    "minus infinity below 0": (set_at("limit", value="-inf"), "limit"),
    "a negative count": (set_at("count", value=-1), "count"),
    "a count without end": (set_at("count", value=10**30), "count"),
    "an unknown tag": (set_at("shape", "type", value="os.system"), "whose type is one of"),
    "a tag that is a list": (set_at("shape", "type", value=[]), "whose type is one of"),
    "fields of another tag": (set_at("shape", "type", value="line"), "the fields of Line"),
    "an object that cannot be": (set_at("unit", value=6), "what cannot be"),
    "a list for an object": (set_at("by_name", value=[]), "by_name: an object"),
    "a longer pair": (set_at("by_name", "x", value=[0.1, 2, 3]), r"by_name\.x: a list of 2 expected, got one of 3"),
    "items that are none": (set_at("pieces", value={}), "pieces: a list"),
    "a number in a list": (set_at("pieces", 1, "name", value=3), r"pieces\[1\]\.name: a text"),
    "one item more": (lambda document, _: document["pieces"].append(document["pieces"][0]), "no array"),
    "one item less": (lambda document, _: document["pieces"].pop(), "belongs to nothing"),
    "an array in the document": (set_at("pieces", 0, "knots", value=True), "as to knots"),
    "an array that is not there": (set_at("pieces", 0, "there", value=True), "another shape or type"),
    "an array that is false": (set_at("pieces", 0, "axes", value=[True, False]), "true, for an array"),
    "a tensor too many": (lambda _, tensors: tensors.update(more=np.zeros(1)), "belongs to nothing"),
    "no tensor": (drop("pieces.knots"), "another shape or type"),
    "a tensor of another type": (tensor("pieces.knots", lambda knots: knots.astype(np.int64)), "shape or type"),
    "a tensor of more axes": (tensor("pieces.knots", lambda knots: knots[None]), "shape or type"),
    "NaN": (tensor("pieces.knots", lambda knots: knots * math.nan), "not finite"),
    "a knot below": (tensor("pieces.knots", lambda knots: knots - 1e10), "out of range"),
    "an index beyond": (tensor("pieces.which", lambda which: which + 99), "out of range"),
    "a negative shape": (tensor("pieces.axes:shape", lambda shape: -shape), "shape or type"),
    "a huge shape": (tensor("pieces.axes:shape", lambda shape: shape.astype(np.int64) * 2**60), "shape or type"),
    "a shape of fractions": (tensor("pieces.axes:shape", lambda shape: shape * 1.0), "shape or type"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_with_where_it_is(name):
    document, tensors = copy.deepcopy(pack(example()))
    change, words = DAMAGE[name]
    change(document, tensors)
    with pytest.raises(RefusalError, match=words):
        unpack(Whole, document, tensors)


def test_arrays_of_items_are_one_tensor():
    _, tensors = pack(example())
    assert {name: array.shape for name, array in tensors.items()} == {
        "pieces.knots": (2, 2),
        "pieces.values": (2, 2, 2),
        "pieces.axes": (10,),
        "pieces.axes:shape": (4, 1),
        "pieces.which": (2, 1),
    }
    assert tensors["pieces.knots"].dtype == np.float64 and tensors["pieces.values"].dtype == np.float32  # 0.1 needs all


def test_a_value_goes_through_a_file(tmp_path):
    path = tmp_path / "value"
    path.write_bytes(b"".join(packed(*pack(example()))))
    assert same(unpack(Whole, *unpacked(path)), example())


def test_plain_data_have_no_tensors_and_no_nan():
    piece = to_plain(example().pieces[0])
    assert piece["values"] == [[1.0, 0.0], [0.0, 1.0]] and piece["there"] is None
    said = to_plain({"number": np.float64("nan"), 3: (Unit, np.arange(2))})
    assert said["number"] is None and said["3"][1] == [0, 1]


def test_plain_data_that_nest_too_deep_are_refused():
    deep: Any = []
    for _ in range(50):
        deep = [deep]
    document, tensors = pack(example())
    with pytest.raises(RefusalError, match="plain data"):
        unpack(Whole, {**document, "facts": {"a": deep}}, tensors)
