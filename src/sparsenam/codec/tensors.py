"""The arrays of a value as tensors: those in the same place of several items of a sequence are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import RefusalError

Tensors = dict[str, NDArray[Any]]

SHORTER = {"float64": "float32", "int64": "int32", "bool": "uint8"}


class Writer:
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


class Reader:
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
        right = right and bool((shapes >= 0).all() and (shapes.prod(axis=1, dtype=np.float64) <= tensor.size).all())
        ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64)) if right else np.zeros(0)
        if not right or tensor.size != (ends[-1] if ends.size else 0):
            raise RefusalError(f"an array {path[-80:]!r} of another shape or type")
        for start, end, shape in zip(np.append(0, ends), ends, shapes, strict=False):
            yield tensor[start:end].reshape(shape)
