"""The arrays of a value as tensors: those in the same place of several items of a sequence are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from sparsenam.container import Numeric, Tensors
from sparsenam.errors import RefusalError

SHORTER = {"float64": "float32", "int64": "int32"}


class Writer:
    """Collects the arrays of each place; without any room for them, they stay in the document as lists."""

    def __init__(self, arrays: dict[str, list[Numeric]] | None) -> None:
        self.arrays = arrays

    def tensors(self) -> Tensors:
        """Return one tensor for each place, and one of their shapes where arrays of a place differ in shape."""
        found: Tensors = {}
        for path, arrays in (self.arrays or {}).items():
            if len(arrays) == 1:
                found[path] = arrays[0]
            elif len({array.shape for array in arrays}) == 1:
                found[path] = np.stack(arrays)
            else:
                found[path] = np.concatenate([array.ravel() for array in arrays])
                found[f"{path}:shape"] = np.array([array.shape for array in arrays], dtype=np.int64)
        return {name: _narrow(array) for name, array in found.items()}


def _narrow(array: Numeric) -> Numeric:
    """Return the array in half of the bytes where that keeps every bit of its numbers."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        short = array.astype(SHORTER[array.dtype.name])
        again = short.astype(array.dtype)
    return short if again.tobytes() == array.tobytes() else array


class Reader:
    """Hands out the arrays of each place, one after the other."""

    def __init__(self, tensors: Mapping[str, Numeric], complete: bool) -> None:
        self.tensors, self.complete = dict(tensors), complete
        self.waiting: dict[str, Iterator[Numeric]] = {}

    def next(self, path: str, ndim: int) -> Numeric:
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

    def _arrays(self, path: str, ndim: int) -> Iterator[Numeric]:
        tensor, shapes = self.tensors.pop(path, None), self.tensors.pop(f"{path}:shape", None)
        if tensor is None or (shapes is None and tensor.ndim not in (ndim, ndim + 1)):
            raise other_array(path)
        if shapes is None:
            yield from ([tensor] if tensor.ndim == ndim else tensor)
            return
        right = tensor.ndim == 1 and shapes.ndim == 2 and shapes.shape[1] == ndim and shapes.dtype.kind == "i"
        right = right and bool((shapes >= 0).all() and (shapes.prod(axis=1, dtype=np.float64) <= tensor.size).all())
        ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64)) if right else np.zeros(0)
        if not right or tensor.size != (ends[-1] if ends.size else 0):
            raise other_array(path)
        for start, end, shape in zip(np.append(0, ends), ends, shapes, strict=False):
            yield tensor[start:end].reshape(shape)


def other_array(path: str) -> RefusalError:
    """Return the error for a tensor that cannot be the array, or the arrays, of a place."""
    return RefusalError(f"an array {path[-80:]!r} of another shape or type")
