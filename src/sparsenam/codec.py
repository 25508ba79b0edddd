"""One codec for all that is written and read again: frozen dataclasses to plain data and tensors, and back.

Type hints say what a field is, `Bounds` and `Array` which numbers it may hold, `Via` how an object of another class is
stored. Numbers of arrays go to tensors, all else to a document that JSON can hold. Whatever is read is checked against
the hints before it is used; nothing of a file is run, and no attribute or class is looked up by a name that a file
gives. Sizes are never believed: they are compared with the numbers that are there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, RefusalError

Tensors = dict[str, NDArray[Any]]
Kind = TypeVar("Kind")

LARGEST = 2**53  # of a whole number in a file
FARTHEST = 1e300  # of a number that the library computes with: sums and squares of differences stay finite below
LONGEST = 1_000_000  # characters of a text, such as the words of a long list of columns
DEEPEST = 32  # nesting of plain data
SHORTER = {"float64": "float32", "int64": "int32", "bool": "uint8"}
STORED = {"f": ("float64", "float32"), "i": ("int64", "int32"), "b": ("uint8",)}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a number may be, or how many characters or items there may be; NaN and ∞ only where they are allowed."""

    lowest: float = -FARTHEST
    highest: float = FARTHEST
    nan: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """What an array may be: its number of axes, its range, and whether NaN and ∞ may be in it."""

    ndim: int
    lowest: float = -FARTHEST
    highest: float = FARTHEST
    finite: bool = True


@dataclass(frozen=True, slots=True)
class Via:
    """How an object of another class is stored: as a value of a hint, from which it is made again."""

    hint: Any
    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Tags:
    """The names by which a union of dataclasses is told apart, in the field "type"."""

    names: tuple[str, ...]


Count = Annotated[int, Bounds(0, LARGEST)]
Positive = Annotated[int, Bounds(1, LARGEST)]
Size = Annotated[float, Bounds(0.0)]
Share = Annotated[float, Bounds(0.0, 1.0)]
MaybeNaN = Annotated[float, Bounds(nan=True)]  # NaN where it is not known, which is null in a document
Vector = Annotated[NDArray[np.float64], Array(1)]
Matrix = Annotated[NDArray[np.float64], Array(2)]
Indices = Annotated[NDArray[np.intp], Array(1, 0, LARGEST)]


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


def pack(value: object, hint: Any = None, *, brief: bool = False) -> tuple[Any, Tensors]:
    """Return a value of a hint, by default its class, as a document for JSON and tensors.

    ``brief`` leaves out fields that have their default. Arrays in the same place of several items of a sequence are one
    tensor: a stack where their shapes are the same, else their numbers one after the other beside their shapes.
    """
    writer = _Writer(brief, {})
    document = _form(type(value) if hint is None else hint, "").write(value, writer)
    return document, writer.tensors()


def unpack(
    hint: type[Kind], document: object, tensors: Mapping[str, NDArray[Any]] | None = None, *, brief: bool = False
) -> Kind:
    """Return the value that `pack` took apart; raise `RefusalError` for anything else."""
    reader = _Reader(tensors or {}, brief)
    value = _form(hint, "").read(document, reader)
    reader.check_end()
    return cast(Kind, value)


def to_plain(value: object) -> Any:
    """Return a dataclass or plain data as JSON can hold it: arrays are lists, NaN and ∞ are None.

    Other objects within plain data, such as a penalty among settings, become their text.
    """
    described = is_dataclass(value) and not isinstance(value, type)
    return _form(type(value), "").write(value, _Writer(False, None)) if described else _plain(value)


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(cast("object", value.tolist()))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    return repr(value)


class _Writer:
    """Collects the arrays of each place; without any room for them, they stay in the document as lists."""

    def __init__(self, brief: bool, arrays: dict[str, list[NDArray[Any]]] | None) -> None:
        self.brief, self.arrays = brief, arrays

    def tensors(self) -> Tensors:
        found: Tensors = {}
        for path, arrays in (self.arrays or {}).items():
            shapes = {array.shape for array in arrays}
            if len(arrays) == 1:
                found[path] = _narrow(arrays[0])
            elif len(shapes) == 1:
                found[path] = _narrow(np.stack(arrays))
            else:
                found[path] = _narrow(np.concatenate([array.ravel() for array in arrays]))
                found[f"{path}:shape"] = _narrow(np.array([array.shape for array in arrays], dtype=np.int64))
        return found


def _narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in half of the bytes where that keeps every bit of its numbers."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        short = array.astype(SHORTER[array.dtype.name])
        again = short.astype(array.dtype)
    return short if array.dtype.kind == "b" or again.tobytes() == array.tobytes() else array


class _Reader:
    """Hands out the arrays of each place, one after the other."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], brief: bool) -> None:
        self.tensors, self.brief = dict(tensors), brief
        self.waiting: dict[str, Iterator[NDArray[Any]]] = {}

    def next(self, path: str, ndim: int) -> NDArray[Any]:
        if path not in self.waiting:
            self.waiting[path] = self._arrays(path, ndim)
        array = next(self.waiting[path], None)
        if array is None:
            raise RefusalError(f"no array {path[-80:]!r} where one should be")
        return array

    def check_end(self) -> None:
        """Raise where anything is left."""
        left = [*self.tensors, *(path for path, arrays in self.waiting.items() if next(arrays, None) is not None)]
        if left:
            raise RefusalError(f"an array {left[0][-80:]!r} that belongs to nothing")

    def _arrays(self, path: str, ndim: int) -> Iterator[NDArray[Any]]:
        tensor, shapes = self.tensors.pop(path, None), self.tensors.pop(f"{path}:shape", None)
        if tensor is None or (shapes is None and tensor.ndim not in (ndim, ndim + 1)):
            raise RefusalError(f"an array {path[-80:]!r} of another shape or type")
        if shapes is None:
            yield from ([tensor] if tensor.ndim == ndim else tensor)
            return
        right = tensor.ndim == 1 and shapes.ndim == 2 and shapes.shape[1] == ndim and shapes.dtype.kind == "i"
        sizes = [math.prod(shape) if min(shape, default=0) >= 0 else -1 for shape in shapes.tolist()] if right else []
        if not right or min(sizes, default=0) < 0 or sum(sizes) != tensor.size:
            raise RefusalError(f"an array {path[-80:]!r} of another shape or type")
        end = 0
        for shape, size in zip(shapes.tolist(), sizes, strict=True):
            end += size
            yield tensor[end - size : end].reshape(shape)


class _Form:
    """How a value of one hint is written and read; as it stands, plain data as they are."""

    def write(self, value: Any, writer: _Writer) -> Any:
        return _plain(value)

    def read(self, value: Any, reader: _Reader) -> Any:
        return _check_plain(value, DEEPEST)


def _check_plain(value: Any, deepest: int) -> Any:
    kind = cast("type[object]", type(value))
    if kind in (list, dict) and deepest > 0:
        for item in value if kind is list else value.values():
            _check_plain(item, deepest - 1)
    elif value is not None and kind not in (bool, int, float, str):
        raise DamageError("plain data", value)
    return value


@dataclass(frozen=True, slots=True)
class _Scalar(_Form):
    """A text, a truth value, a whole number or a number."""

    kind: type
    bounds: Bounds | None

    def write(self, value: Any, writer: _Writer) -> Any:
        if self.kind is not float:
            return self.kind(value)
        number = float(value)
        if math.isfinite(number):
            return number
        return repr(number) if self.bounds is not None and abs(number) == self.bounds.highest else None

    def read(self, value: Any, reader: _Reader) -> Any:
        bounds = self.bounds or Bounds()
        number = self._number(value, bounds)
        size = len(value) if self.kind is str and type(value) is str else number
        inside = size is not None and (math.isnan(size) or bounds.lowest <= size <= bounds.highest)
        if not inside or (self.kind is str and len(value) > LONGEST):
            raise DamageError(self._expected(), value)
        return value if self.kind is str else number

    def _number(self, value: Any, bounds: Bounds) -> float | None:
        """Return the value as a number of its kind, None where it is none."""
        kind = cast("type[object]", type(value))
        if self.kind is bool or (self.kind is int and kind is not int) or self.kind is str:
            return value if self.kind is bool and kind is bool else None
        if kind is int and abs(value) <= LARGEST:
            return self.kind(value)
        if kind is float and math.isfinite(value):
            return value
        if self.kind is float and bounds.nan and (value is None or kind is float):
            return math.nan
        return float(value) if self.kind is float and kind is str and value in ("inf", "-inf") else None

    def _expected(self) -> str:
        name = {str: "a text", int: "a whole number", float: "a number", bool: "a truth value"}[self.kind]
        if self.bounds is None:
            return name
        low, high = ("" if abs(end) >= FARTHEST else f"{end:g}" for end in (self.bounds.lowest, self.bounds.highest))
        return f"{name} of {low or '-∞'} … {high or '∞'}{' characters' if self.kind is str else ''}"


@dataclass(frozen=True, slots=True)
class _Word(_Form):
    words: tuple[object, ...]

    def read(self, value: Any, reader: _Reader) -> Any:
        for word in self.words:
            if type(word) is type(value) and word == value:
                return word
        raise DamageError(f"one of {list(self.words)}", value)


@dataclass(frozen=True, slots=True)
class _Optional(_Form):
    inner: _Form

    def write(self, value: Any, writer: _Writer) -> Any:
        return None if value is None else self.inner.write(value, writer)

    def read(self, value: Any, reader: _Reader) -> Any:
        return None if value is None else self.inner.read(value, reader)


@dataclass(frozen=True, slots=True)
class _Either(_Form):
    """One of some hints that plain data tell apart, such as a number and a word, or a list and an object."""

    forms: tuple[_Form, ...]

    def write(self, value: Any, writer: _Writer) -> Any:
        several = (form for form in self.forms if isinstance(form, _Items | _Record) and form.kind is type(value))
        return next(several, _Form()).write(value, writer)

    def read(self, value: Any, reader: _Reader) -> Any:
        *others, last = self.forms
        for form in others:
            try:
                return form.read(value, reader)
            except DamageError:
                continue
        return last.read(value, reader)


@dataclass(frozen=True, slots=True)
class _Items(_Form):
    """A tuple or list; ``each`` are the forms of its items where these differ."""

    kind: type
    item: _Form
    each: tuple[_Form, ...] | None
    bounds: Bounds | None

    def write(self, value: Any, writer: _Writer) -> Any:
        forms = self.each or (self.item,) * len(value)
        return [form.write(item, writer) for form, item in zip(forms, value, strict=True)]

    def read(self, value: Any, reader: _Reader) -> Any:
        if type(value) not in (list, tuple):
            raise DamageError("a list", value)
        count, bounds = len(cast("Sequence[Any]", value)), self.bounds or Bounds(0)
        if (self.each is not None and count != len(self.each)) or not bounds.lowest <= count <= bounds.highest:
            wanted = f"at least {bounds.lowest:g}" if self.each is None else str(len(self.each))
            raise DamageError(f"a list of {wanted}", value, f"one of {count}")
        forms = self.each or (self.item,) * count
        found: list[Any] = []
        for form, item in zip(forms, value, strict=True):
            try:
                found.append(form.read(item, reader))
            except DamageError as error:
                error.way.append(len(found))
                raise
        return self.kind(found)


@dataclass(frozen=True, slots=True)
class _ByKey(_Form):
    """A mapping from texts, or from whole numbers, which JSON has as texts."""

    key: type
    item: _Form

    def write(self, value: Any, writer: _Writer) -> Any:
        return {str(key): self.item.write(item, writer) for key, item in value.items()}

    def read(self, value: Any, reader: _Reader) -> Any:
        if type(value) is not dict:
            raise DamageError("an object", value)
        found: dict[Any, Any] = {}
        for name, item in cast("dict[Any, Any]", value).items():
            short = str(name)
            if self.key is int and not (short.isascii() and short.isdigit() and short == str(int(short[:15]))):
                raise DamageError("whole numbers as names", name)
            try:
                found[self.key(short)] = self.item.read(item, reader)
            except DamageError as error:
                error.way.append(short)
                raise
        return found


class _Record(_Form):
    """A dataclass: its fields by name; where the file is brief, those that have their default are left out."""

    def __init__(self, kind: type, path: str, tag: str | None = None) -> None:
        hints = get_type_hints(kind, include_extras=True)
        stored = [each for each in fields(kind) if each.init and each.metadata.get("stored", True)]
        inside = f"{path}." if path else ""
        self.kind, self.tag = kind, tag
        self.forms = {each.name: _form(hints[each.name], f"{inside}{each.name}") for each in stored}
        self.defaults = {each.name: _default(each) for each in stored}
        self.arrays = {name for name, form in self.forms.items() if isinstance(form, _Numbers)}
        self.known = {*self.forms, *(() if tag is None else ("type",))} - self.arrays
        self.needed = {name for name, default in self.defaults.items() if default is MISSING} - self.arrays

    def write(self, value: Any, writer: _Writer) -> Any:
        written: dict[str, Any] = {} if self.tag is None else {"type": self.tag}
        for name, form in self.forms.items():
            item = getattr(value, name)
            if writer.brief and _same(item, self.defaults[name]):
                continue
            said = form.write(item, writer)
            if name not in self.arrays or writer.arrays is None:  # a tensor stands for itself
                written[name] = said
        return written

    def read(self, value: Any, reader: _Reader) -> Any:
        if type(value) is not dict:
            raise DamageError("an object", value)
        given = cast("dict[str, Any]", value)
        needed = self.needed if reader.brief else self.known
        if not needed <= set(given) <= self.known:
            odd = sorted(map(str, (needed - set(given)) | (set(given) - self.known)))
            raise DamageError(f"the fields of {self.kind.__name__}", value, f"others, as to {', '.join(odd[:5])}")
        found: dict[str, Any] = {}
        for name, form in self.forms.items():
            if name in given or name in self.arrays:
                try:
                    found[name] = form.read(given.get(name, True), reader)
                except DamageError as error:
                    error.way.append(name)
                    raise
        try:
            return self.kind(**found)
        except InputError as error:
            raise RefusalError(f"{self.kind.__name__}: what cannot be ({str(error)[:120]})") from error


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, np.ndarray) and bool(value == default)


@dataclass(frozen=True, slots=True)
class _Tagged(_Form):
    """One of some dataclasses, which the field "type" tells apart."""

    records: dict[str, _Record]

    def write(self, value: Any, writer: _Writer) -> Any:
        return next(record for record in self.records.values() if record.kind is type(value)).write(value, writer)

    def read(self, value: Any, reader: _Reader) -> Any:
        tag: object = cast("dict[str, Any]", value).get("type") if type(value) is dict else None
        if type(tag) is not str or tag not in self.records:
            raise DamageError(f"an object whose type is one of {list(self.records)}", cast(object, value))
        return self.records[tag].read(value, reader)


@dataclass(frozen=True, slots=True)
class _Numbers(_Form):
    """An array, whose numbers are in the tensor of its path; in the document it is true."""

    dtype: np.dtype[Any]
    array: Array
    path: str

    def write(self, value: Any, writer: _Writer) -> Any:
        if writer.arrays is None:
            return _plain(value)
        writer.arrays.setdefault(self.path, []).append(np.asarray(value, dtype=self.dtype))
        return True

    def read(self, value: Any, reader: _Reader) -> Any:
        if value is not True:
            raise DamageError("true, for an array", value)
        found, wanted = reader.next(self.path, self.array.ndim), self.array
        if found.dtype.name not in STORED[self.dtype.kind]:
            raise RefusalError(f"an array {self.path[-80:]!r} of another shape or type")
        if found.dtype.kind == "f" and wanted.finite and not bool(np.isfinite(found).all()):
            raise RefusalError(f"numbers that are not finite in the array {self.path[-80:]!r}")
        low, high = (0, 1) if self.dtype.kind == "b" else (wanted.lowest, wanted.highest)
        inside = found if wanted.finite else found[np.isfinite(found)]
        if inside.size and (float(inside.min()) < low or float(inside.max()) > high):
            raise RefusalError(f"numbers out of range in the array {self.path[-80:]!r}")
        return found.astype(self.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class _Via(_Form):
    inner: _Form
    via: Via

    def write(self, value: Any, writer: _Writer) -> Any:
        return self.inner.write(self.via.write(value), writer)

    def read(self, value: Any, reader: _Reader) -> Any:
        stored = self.inner.read(value, reader)
        try:
            return self.via.read(stored)
        except (InputError, TypeError) as error:
            raise RefusalError(f"what cannot be ({str(error)[:120]})") from error


@cache
def _form(hint: Any, path: str) -> _Form:
    """Return the form of a hint; ``path`` names the tensors of its arrays."""
    metadata: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        metadata = tuple(reversed(rest))  # of a hint that is annotated again, the last counts
    via = next((each for each in metadata if isinstance(each, Via)), None)
    if via is not None:
        return _Via(_form(via.hint, path), via)
    bounds = next((each for each in metadata if isinstance(each, Bounds)), None)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is np.ndarray:
        array = next((each for each in metadata if isinstance(each, Array)), Array(-1))  # which fits no tensor
        return _Numbers(np.dtype(get_args(parts[1])[0]), array, path)
    if origin in (UnionType, Union):
        return _union(parts, path, next((each.names for each in metadata if isinstance(each, Tags)), None))
    if origin is Literal:
        return _Word(parts)
    if origin in (tuple, list):
        each = None if origin is list or parts[1:] == (...,) else tuple(_form(part, path) for part in parts)
        return _Items(origin, _form(parts[0], path), each, bounds)
    if origin in (dict, Mapping):
        return _ByKey(parts[0], _form(parts[1], path))
    if is_dataclass(hint):
        return _Record(cast(type, hint), path)
    if hint in (str, int, float, bool):
        return _Scalar(hint, bounds)
    if hint is Any or hint in (dict, list, object):
        return _Form()
    raise TypeError(f"no form for {hint} at {path!r}")


def _union(parts: tuple[Any, ...], path: str, names: tuple[str, ...] | None) -> _Form:
    inner = [part for part in parts if part is not NoneType]
    if len(inner) == 1:
        form = _form(inner[0], path)
    elif all(is_dataclass(part) for part in inner):
        tags = names or tuple(part.__name__ for part in inner)
        form = _Tagged({tag: _Record(part, path, tag) for tag, part in zip(tags, inner, strict=True)})
    else:
        form = _Either(tuple(_form(part, path) for part in inner))
    return _Optional(form) if len(inner) < len(parts) else form
