from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

def njit(
    *, cache: bool = False, nogil: bool = False, error_model: str = "python"
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
