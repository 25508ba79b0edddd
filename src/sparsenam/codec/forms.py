"""How a value of each kind of type hint is written into a document and read from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from sparsenam.codec.hints import LARGEST_INTEGER, Array, Bounds, DamageError, Tags, Via
from sparsenam.codec.tensors import Reader, Writer
from sparsenam.errors import InputError, RefusalError

LONGEST_PLAIN_TEXT = 1_000_000  # characters of a text, such as the words of a long list of columns
DEEPEST = 32  # nesting of plain data
LIMITS = {
    str: (0, LONGEST_PLAIN_TEXT),
    int: (-LARGEST_INTEGER, LARGEST_INTEGER),
    float: (-math.inf, math.inf),
    bool: (0, 1),
}
STORED = {"f": ("float64", "float32"), "i": ("int64", "int32"), "b": ("uint8",)}


def plain(value: object) -> Any:
    """Return plain data as JSON can hold them; see `sparsenam.codec.to_plain`."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return plain(cast("object", value.tolist()))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in cast("Sequence[object]", value)]
    return repr(value)


class Form:
    """How a value of one hint is written and read; as it stands, plain data as they are."""

    def write(self, value: Any, writer: Writer) -> Any:
        return plain(value)

    def read(self, value: Any, reader: Reader) -> Any:
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
class ScalarForm(Form):
    """A text, whose length is bounded, a truth value, a whole number or a number."""

    kind: type
    bounds: Bounds

    def write(self, value: Any, writer: Writer) -> Any:
        made = self.kind(value)
        if self.kind is not float or math.isfinite(made):
            return made
        return repr(made) if abs(made) == self.bounds.highest else None

    def read(self, value: Any, reader: Reader) -> Any:
        found, bounds = self._of_kind(value), self.bounds
        size = len(found) if isinstance(found, str) else found
        if size is None or not (bounds.lowest <= size <= bounds.highest or math.isnan(size)):
            name = {str: "a text", int: "a whole number", float: "a number", bool: "a truth value"}[self.kind]
            low, high = (f"{end:g}" if abs(end) < LARGEST_INTEGER else "∞" for end in (bounds.lowest, bounds.highest))
            raise DamageError(name if low == high else f"{name} of {low} … {high}", value)
        return found

    def _of_kind(self, value: Any) -> Any:
        """Return the value as one of the kind, None where it is none: JSON has whole numbers, no NaN and no ∞."""
        kind = cast("type[object]", type(value))
        if kind is self.kind and (kind is not float or math.isfinite(value)):
            return value
        if self.kind is not float:
            return None
        if kind is int and abs(value) <= LARGEST_INTEGER:
            return float(value)
        if self.bounds.nan and (value is None or kind is float):
            return math.nan
        return float(value) if kind is str and value in ("inf", "-inf") else None


@dataclass(frozen=True, slots=True)
class WordForm(Form):
    """One of some values."""

    words: tuple[object, ...]

    def read(self, value: Any, reader: Reader) -> Any:
        for word in self.words:
            if type(word) is type(value) and word == value:
                return word
        raise DamageError(f"one of {list(self.words)}", value)


@dataclass(frozen=True, slots=True)
class OptionalForm(Form):
    """A value, or None."""

    inner: Form

    def write(self, value: Any, writer: Writer) -> Any:
        return None if value is None else self.inner.write(value, writer)

    def read(self, value: Any, reader: Reader) -> Any:
        return None if value is None else self.inner.read(value, reader)


@dataclass(frozen=True, slots=True)
class EitherForm(Form):
    """One of some hints that plain data tell apart, such as a number and a word, or a list and an object."""

    forms: tuple[Form, ...]

    def write(self, value: Any, writer: Writer) -> Any:
        several = (form for form in self.forms if isinstance(form, ItemsForm | RecordForm) and form.kind is type(value))
        return next(several, Form()).write(value, writer)

    def read(self, value: Any, reader: Reader) -> Any:
        *others, last = self.forms
        for form in others:
            try:
                return form.read(value, reader)
            except DamageError:
                continue
        return last.read(value, reader)


@dataclass(frozen=True, slots=True)
class ItemsForm(Form):
    """A tuple or list; ``each`` are the forms of its items where these differ."""

    kind: type
    item: Form
    each: tuple[Form, ...] | None
    bounds: Bounds | None

    def write(self, value: Any, writer: Writer) -> Any:
        forms = self.each or (self.item,) * len(value)
        return [form.write(item, writer) for form, item in zip(forms, value, strict=True)]

    def read(self, value: Any, reader: Reader) -> Any:
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
class ByKeyForm(Form):
    """A mapping from texts, or from whole numbers, which JSON has as texts."""

    key: type
    item: Form

    def write(self, value: Any, writer: Writer) -> Any:
        return {str(key): self.item.write(item, writer) for key, item in value.items()}

    def read(self, value: Any, reader: Reader) -> Any:
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


class RecordForm(Form):
    """A dataclass: its fields by name; where the file is brief, those that have their default are left out."""

    def __init__(self, kind: type, path: str, tag: str | None = None) -> None:
        hints = get_type_hints(kind, include_extras=True)
        stored = [each for each in fields(kind) if each.init and each.metadata.get("stored", True)]
        inside = f"{path}." if path else ""
        self.kind, self.tag = kind, tag
        self.forms = {each.name: form_of(hints[each.name], f"{inside}{each.name}") for each in stored}
        self.defaults = {each.name: _default(each) for each in stored}
        self.arrays = {name for name, form in self.forms.items() if isinstance(form, TensorForm)}
        self.known = {*self.forms, *(() if tag is None else ("type",))} - self.arrays
        self.needed = {name for name, default in self.defaults.items() if default is MISSING} - self.arrays

    def write(self, value: Any, writer: Writer) -> Any:
        written: dict[str, Any] = {} if self.tag is None else {"type": self.tag}
        for name, form in self.forms.items():
            item = getattr(value, name)
            if writer.brief and _same(item, self.defaults[name]):
                continue
            said = form.write(item, writer)
            if name not in self.arrays or writer.arrays is None:  # a tensor stands for itself
                written[name] = said
        return written

    def read(self, value: Any, reader: Reader) -> Any:
        if type(value) is not dict:
            raise DamageError("an object", value)
        given = cast("dict[str, Any]", value)
        needed = self.needed if reader.brief else self.known
        if not needed <= set(given) <= self.known:
            odd = sorted(map(str, (needed - set(given)) | (set(given) - self.known)))
            raise DamageError(f"the fields of {self.kind.__name__}", given, f"others, as to {', '.join(odd[:5])}")
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
class TaggedForm(Form):
    """One of some dataclasses, which the field "type" tells apart."""

    records: dict[str, RecordForm]

    def write(self, value: Any, writer: Writer) -> Any:
        return next(record for record in self.records.values() if record.kind is type(value)).write(value, writer)

    def read(self, value: Any, reader: Reader) -> Any:
        tag: object = cast("dict[str, Any]", value).get("type") if type(value) is dict else None
        if type(tag) is not str or tag not in self.records:
            raise DamageError(f"an object whose type is one of {list(self.records)}", cast(object, value))
        return self.records[tag].read(value, reader)


@dataclass(frozen=True, slots=True)
class TensorForm(Form):
    """An array, whose numbers are in the tensor of its path; in the document it is true."""

    dtype: np.dtype[Any]
    array: Array
    path: str

    def write(self, value: Any, writer: Writer) -> Any:
        if writer.arrays is None:
            return plain(value)
        writer.arrays.setdefault(self.path, []).append(np.asarray(value, dtype=self.dtype))
        return True

    def read(self, value: Any, reader: Reader) -> Any:
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
class ViaForm(Form):
    """An object that is stored as a value of another hint."""

    inner: Form
    via: Via

    def write(self, value: Any, writer: Writer) -> Any:
        return self.inner.write(self.via.write(value), writer)

    def read(self, value: Any, reader: Reader) -> Any:
        stored = self.inner.read(value, reader)
        try:
            return self.via.read(stored)
        except (InputError, TypeError) as error:
            raise RefusalError(f"what cannot be ({str(error)[:120]})") from error


@cache
def form_of(hint: Any, path: str) -> Form:
    """Return the form of a hint; ``path`` names the tensors of its arrays."""
    metadata: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        metadata = tuple(reversed(rest))  # of a hint that is annotated again, the last counts
    via = next((each for each in metadata if isinstance(each, Via)), None)
    if via is not None:
        return ViaForm(form_of(via.hint, path), via)
    bounds = next((each for each in metadata if isinstance(each, Bounds)), None)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is np.ndarray:
        array = next((each for each in metadata if isinstance(each, Array)), Array(-1))  # which fits no tensor
        return TensorForm(np.dtype(get_args(parts[1])[0]), array, path)
    if origin in (UnionType, Union):
        return _union(parts, path, next((each.names for each in metadata if isinstance(each, Tags)), None))
    if origin is Literal:
        return WordForm(parts)
    if origin in (tuple, list):
        each = None if origin is list or parts[1:] == (...,) else tuple(form_of(part, path) for part in parts)
        return ItemsForm(origin, form_of(parts[0], path), each, bounds)
    if origin in (dict, Mapping):
        return ByKeyForm(parts[0], form_of(parts[1], path))
    if is_dataclass(hint):
        return RecordForm(cast(type, hint), path)
    if hint in LIMITS:
        low, high = LIMITS[hint]
        given = bounds or Bounds()
        within = given if hint is float else Bounds(max(given.lowest, low), min(given.highest, high))
        return ScalarForm(hint, within)
    if hint is Any or hint in (dict, list, object):
        return Form()
    raise TypeError(f"no form for {hint} at {path!r}")


def _union(parts: tuple[Any, ...], path: str, names: tuple[str, ...] | None) -> Form:
    inner = [part for part in parts if part is not NoneType]
    if len(inner) == 1:
        form = form_of(inner[0], path)
    elif all(is_dataclass(part) for part in inner):
        tags = names or tuple(part.__name__ for part in inner)
        form = TaggedForm({tag: RecordForm(part, path, tag) for tag, part in zip(tags, inner, strict=True)})
    else:
        form = EitherForm(tuple(form_of(part, path) for part in inner))
    return OptionalForm(form) if len(inner) < len(parts) else form
