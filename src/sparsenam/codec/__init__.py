"""One codec for all that is written and read again: frozen dataclasses to plain data and tensors, and back.

Type hints say what a field is, `Bounds` and `Array` which numbers it may hold, `Via` how an object of another class is
stored. Numbers of arrays go to tensors, all else to a document that JSON can hold. Whatever is read is checked against
the hints before it is used; nothing of a file is run, and no attribute or class is looked up by a name that a file
gives. Sizes are never believed: they are compared with the numbers that are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sparsenam.codec.tensors import Reader, Writer, other_array
from sparsenam.container import DEEPEST, Json, Numeric, Tensors, is_list, is_object
from sparsenam.errors import InputError, RefusalError

LARGEST_INTEGER = 2**53  # of a whole number in a file
LARGEST_NUMBER = 1e300  # of a number that the library computes with: sums and squares of differences stay finite below
LONGEST_PLAIN_TEXT = 1_000_000  # characters of a text, such as the words of a long list of columns
LIMITS = {
    str: ("a text", 0, LONGEST_PLAIN_TEXT),
    int: ("a whole number", -LARGEST_INTEGER, LARGEST_INTEGER),
    float: ("a number", -math.inf, math.inf),
    bool: ("a truth value", 0, 1),
}
STORED = {"f": ("float64", "float32"), "i": ("int64", "int32")}

Value = TypeVar("Value")
Plain = dict[str, Any]  # a record of plain data, as JSON holds it


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be, or how many characters or items there may be; NaN and ∞ only where they are allowed."""

    lowest: float = -LARGEST_NUMBER
    highest: float = LARGEST_NUMBER
    nan: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """What an array may be: its number of axes, and the range of its numbers, which are finite."""

    ndim: int
    lowest: float = -LARGEST_NUMBER
    highest: float = LARGEST_NUMBER


@dataclass(frozen=True, slots=True)
class Via:
    """How an object of another class is stored: as a value of a hint, from which it is made again."""

    hint: object
    write: Callable[[Any], object] = lambda value: value
    read: Callable[[Any], object] = lambda value: value


@dataclass(frozen=True, slots=True)
class Tags:
    """The names by which a union of dataclasses is told apart, in the field "type"."""

    names: tuple[str, ...]


Count = Annotated[int, Bounds(0, LARGEST_INTEGER)]
Positive = Annotated[int, Bounds(1, LARGEST_INTEGER)]
Size = Annotated[float, Bounds(0.0)]
Share = Annotated[float, Bounds(0.0, 1.0)]
MaybeNaN = Annotated[float, Bounds(nan=True)]  # NaN where it is not known, which is null in a document
Numbers = tuple[MaybeNaN, ...]  # of an array, in dataclasses that are compared
Vector = Annotated[NDArray[np.float64], Array(1)]
Matrix = Annotated[NDArray[np.float64], Array(2)]
Indices = Annotated[NDArray[np.intp], Array(1, 0, LARGEST_INTEGER)]
Mask = NDArray[np.bool_]


class DamageError(RefusalError):
    """A part of a document is not what its hint says."""

    def __init__(self, expected: str, value: object, got: str | None = None) -> None:
        shown = repr(value)[:200] if got is None else got
        super().__init__(expected, shown)
        self.expected, self.got = expected, shown if len(shown) <= 60 else f"{shown[:57]}…"
        self.way: list[str | int] = []

    @property
    def where(self) -> str:
        """The way to the part, as in ``columns[3].name``."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step[:40]}" for step in reversed(self.way))
        return "".join(steps).lstrip(".")

    def __str__(self) -> str:
        """Return where, what was expected, and what was got."""
        return f"a damaged record ({self.where[-120:]}: {self.expected} expected, got {self.got})"


def pack(value: object) -> tuple[Any, Tensors]:
    """Return a dataclass as a document for JSON and tensors.

    Fields that have their default are left out. Arrays in the same place of several items of a sequence are one tensor:
    a stack where their shapes are the same, else their numbers one after the other beside their shapes.
    """
    writer = Writer({})
    document = form_of(type(value), "").write(value, writer)
    return document, writer.tensors()


def unpack(
    hint: type[Value], document: object, tensors: Mapping[str, Numeric] | None = None, *, complete: bool = False
) -> Value:
    """Return the value that `pack` took apart; raise `RefusalError` for anything else.

    A field with a default may be absent, unless the document must be ``complete``, as `to_plain` writes it.
    """
    reader = Reader(tensors or {}, complete)
    value = form_of(hint, "").read(document, reader)
    reader.check_end()
    return value


def to_plain(value: object) -> Any:
    """Return a dataclass or plain data as JSON can hold it: arrays are lists, NaN and ∞ are None.

    Other objects within plain data, such as a penalty among settings, become their text.
    """
    described = is_dataclass(value) and not isinstance(value, type)
    return form_of(type(value), "").write(value, Writer(None)) if described else _plain(value)


def _plain(value: object) -> Json:
    if is_numeric(value):
        return _plain(value.tolist())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_mapping(value):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_sequence(value):
        return [_plain(item) for item in value]
    return repr(value)


def is_numeric(value: object) -> TypeGuard[Numeric]:
    """Return whether a value is an array, or a number of numpy."""
    return isinstance(value, np.ndarray | np.generic)


def is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether a value is a mapping, of anything."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value is a sequence, of anything."""
    return isinstance(value, Sequence)


@dataclass(frozen=True, slots=True)
class Form:
    """How a value of one hint is written into a document and read from it.

    ``kind`` is the class of the values that are lists, tuples or records, and `np.ndarray` of arrays.
    """

    write: Callable[[Any, Writer], Json]
    read: Callable[[object, Reader], Any]
    kind: type | None = None


@cache
def form_of(hint: Any, path: str) -> Form:
    """Return the form of a hint; ``path`` names the tensors of its arrays."""
    metadata: Sequence[object] = ()
    if get_origin(hint) is Annotated:
        hint, *metadata = get_args(hint)
    origin, parts = get_origin(hint), get_args(hint)
    via, bounds = _last(metadata, Via), _last(metadata, Bounds)
    if via is not None:
        return _via(form_of(via.hint, path), via)
    if origin is np.ndarray:
        axes = _last(metadata, Array) or Array(-1)  # which fits no tensor
        return _array(np.dtype(get_args(parts[1])[0]), axes, path)
    if origin in (UnionType, Union):
        return _union(parts, path, _last(metadata, Tags))
    if origin is Literal:
        return _word(parts)
    if origin in (tuple, list):
        each = None if origin is list or parts[1:] == (...,) else [form_of(part, path) for part in parts]
        return _items(origin, form_of(parts[0], path), each, bounds or Bounds(0))
    if origin in (dict, Mapping):
        return _by_name(form_of(parts[1], path))
    if is_dataclass(hint) and isinstance(hint, type):
        return _record(hint, path)
    if hint in LIMITS:
        return _scalar(hint, bounds or Bounds())
    if hint is Any or hint in (dict, list, object):
        return PLAIN
    raise TypeError(f"no form for {hint} at {path!r}")


def _read_plain(value: object, reader: Reader, deepest: int = DEEPEST) -> object:
    if deepest > 0 and (is_list(value) or is_object(value)):
        for item in value if isinstance(value, list) else value.values():
            _read_plain(item, reader, deepest - 1)
    elif value is not None and type(value) not in LIMITS:
        raise DamageError("plain data", value)
    return value


PLAIN = Form(lambda value, writer: _plain(value), _read_plain)


def _scalar(kind: type, bounds: Bounds) -> Form:
    """A text, whose length is bounded, a truth value, a whole number or a number."""
    name, low, high = LIMITS[kind]
    low, high = max(bounds.lowest, low), min(bounds.highest, high)

    def write(value: object, writer: Writer) -> Json:
        made = kind(value)
        if kind is not float or math.isfinite(made):
            return made
        return repr(made) if abs(made) == high else None

    def read(value: object, reader: Reader) -> object:
        found = _as_float(value, bounds.nan) if kind is float else value if type(value) is kind else None
        size = len(found) if isinstance(found, str) else found
        if not isinstance(size, int | float) or not (low <= size <= high or math.isnan(size)):
            ends = [f"{end:g}" if abs(end) < LARGEST_INTEGER else "∞" for end in (low, high)]
            raise DamageError(name if ends[0] == ends[1] else f"{name} of {ends[0]} … {ends[1]}", value)
        return found

    return Form(write, read)


def _as_float(value: object, nan: bool) -> float | None:
    """Return a number of JSON, None where it is none: JSON has whole numbers, no NaN and no ∞."""
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is int and abs(value) <= LARGEST_INTEGER:
        return float(value)
    if nan and (value is None or type(value) is float):
        return math.nan
    return float(value) if isinstance(value, str) and value in ("inf", "-inf") else None


def _word(words: tuple[object, ...]) -> Form:
    def read(value: object, reader: Reader) -> object:
        if not any(type(word) is type(value) and word == value for word in words):
            raise DamageError(f"one of {list(words)}", value)
        return value

    return Form(PLAIN.write, read)


def _last(metadata: Sequence[object], kind: type[Value]) -> Value | None:
    """Return what a hint is annotated with; of one that is annotated again, the last counts."""
    return next((each for each in reversed(metadata) if isinstance(each, kind)), None)


def _union(parts: tuple[Any, ...], path: str, tags: Tags | None) -> Form:
    inner = [part for part in parts if part is not NoneType]
    if len(inner) == 1:
        form = form_of(inner[0], path)
    elif all(is_dataclass(part) for part in inner):
        names = [part.__name__ for part in inner] if tags is None else tags.names
        form = _tagged({name: _record(part, path, name) for name, part in zip(names, inner, strict=True)})
    else:
        form = _either([form_of(part, path) for part in inner])
    if len(inner) == len(parts):
        return form
    return Form(
        lambda value, writer: None if value is None else form.write(value, writer),
        lambda value, reader: None if value is None else form.read(value, reader),
    )


def _either(forms: Sequence[Form]) -> Form:
    """One of some hints that plain data tell apart, such as a number and a word, or a list and an object."""

    def write(value: object, writer: Writer) -> Json:
        return next((form for form in forms if form.kind is type(value)), PLAIN).write(value, writer)

    def read(value: object, reader: Reader) -> object:
        for form in forms[:-1]:
            try:
                return form.read(value, reader)
            except DamageError:
                continue
        return forms[-1].read(value, reader)

    return Form(write, read)


def _tagged(records: dict[str, Form]) -> Form:
    """One of some dataclasses, which the field "type" tells apart."""

    def write(value: object, writer: Writer) -> Json:
        return next(record for record in records.values() if record.kind is type(value)).write(value, writer)

    def read(value: object, reader: Reader) -> object:
        tag = value.get("type") if is_object(value) else None
        if not isinstance(tag, str) or tag not in records:
            raise DamageError(f"an object whose type is one of {list(records)}", value)
        return records[tag].read(value, reader)

    return Form(write, read)


def _read_part(form: Form, value: object, reader: Reader, step: str | int) -> Any:
    """Read a part of a value; an error says which part it was."""
    try:
        return form.read(value, reader)
    except DamageError as error:
        error.way.append(step)
        raise


def _items(kind: type, item: Form, each: Sequence[Form] | None, bounds: Bounds) -> Form:
    """A tuple or list; ``each`` are the forms of its items where these differ."""

    def write(value: Sequence[object], writer: Writer) -> Json:
        forms = each or [item] * len(value)
        return [form.write(part, writer) for form, part in zip(forms, value, strict=True)]

    def read(value: object, reader: Reader) -> object:
        if not is_sequence(value) or isinstance(value, str):
            raise DamageError("a list", value)
        count = len(value)
        if (each is not None and count != len(each)) or not bounds.lowest <= count <= bounds.highest:
            wanted = f"at least {bounds.lowest:g}" if each is None else str(len(each))
            raise DamageError(f"a list of {wanted}", value, f"one of {count}")
        parts = enumerate(zip(each or [item] * count, value, strict=True))
        return kind([_read_part(form, part, reader, at) for at, (form, part) in parts])

    return Form(write, read, kind)


def _by_name(item: Form) -> Form:
    """A mapping from texts."""

    def write(value: Mapping[str, object], writer: Writer) -> Json:
        return {name: item.write(part, writer) for name, part in value.items()}

    def read(value: object, reader: Reader) -> object:
        if not is_object(value):
            raise DamageError("an object", value)
        return {name: _read_part(item, part, reader, name) for name, part in value.items()}

    return Form(write, read)


def _record(kind: type, path: str, tag: str | None = None) -> Form:
    """A dataclass: its fields by name; beside tensors, those that have their default are left out."""
    hints = get_type_hints(kind, include_extras=True)
    stored = [each for each in fields(kind) if each.init and each.metadata.get("stored", True)]
    forms = {each.name: form_of(hints[each.name], f"{path}.{each.name}".lstrip(".")) for each in stored}
    defaults = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory() for each in stored
    }
    arrays = {name for name, form in forms.items() if form.kind is np.ndarray}
    known = {*forms, *(() if tag is None else ("type",))} - arrays
    required = {name for name, default in defaults.items() if default is MISSING} - arrays

    def write(value: object, writer: Writer) -> Json:
        written: dict[str, Json] = {} if tag is None else {"type": tag}
        for name, form in forms.items():
            item = getattr(value, name)
            if writer.arrays is not None and _same(item, defaults[name]):
                continue
            said = form.write(item, writer)
            if name not in arrays or writer.arrays is None:  # a tensor stands for itself
                written[name] = said
        return written

    def read(value: object, reader: Reader) -> object:
        if not is_object(value):
            raise DamageError("an object", value)
        needed, given = known if reader.complete else required, set(value)
        if not needed <= given <= known:
            odd = sorted(map(str, (needed - given) | (given - known)))
            raise DamageError(f"the fields of {kind.__name__}", value, f"others, as to {', '.join(odd[:5])}")
        found = {
            name: _read_part(form, value.get(name, True), reader, name)
            for name, form in forms.items()
            if name in given or name in arrays
        }
        try:
            return kind(**found)
        except InputError as error:
            raise RefusalError(f"{kind.__name__}: what cannot be ({str(error)[:120]})") from error

    return Form(write, read, kind)


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and bool(value == default)


def _via(inner: Form, via: Via) -> Form:
    def read(value: object, reader: Reader) -> object:
        stored = inner.read(value, reader)
        try:
            return via.read(stored)
        except (InputError, TypeError) as error:
            raise RefusalError(f"what cannot be ({str(error)[:120]})") from error

    return Form(lambda value, writer: inner.write(via.write(value), writer), read)


def _array(dtype: np.dtype[np.generic], wanted: Array, path: str) -> Form:
    """An array, whose numbers are in the tensor of its path; in the document it is true."""

    def write(value: Numeric, writer: Writer) -> Json:
        if writer.arrays is None:
            return _plain(value)
        writer.arrays.setdefault(path, []).append(np.asarray(value, dtype=dtype))
        return True

    def read(value: object, reader: Reader) -> Numeric:
        if value is not True:
            raise DamageError("true, for an array", value)
        found = reader.next(path, wanted.ndim)
        if found.dtype.name not in STORED[dtype.kind]:
            raise other_array(path)
        if not np.isfinite(found).all():
            raise RefusalError(f"numbers that are not finite in the array {path[-80:]!r}")
        if found.size and (float(found.min()) < wanted.lowest or float(found.max()) > wanted.highest):
            raise RefusalError(f"numbers out of range in the array {path[-80:]!r}")
        return found.astype(dtype, copy=False)

    return Form(write, read, np.ndarray)
