from collections.abc import Callable, Iterable
from typing import Any, Literal, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Task = tuple[Callable[..., _R], tuple[Any, ...], dict[str, Any]]

class Parallel:
    def __init__(
        self,
        n_jobs: int | None = None,
        backend: str | None = None,
        *,
        verbose: int = 0,
        prefer: Literal["processes", "threads"] | None = None,
        require: Literal["sharedmem"] | None = None,
    ) -> None: ...
    def __call__(self, iterable: Iterable[_Task[_R]]) -> list[_R]: ...

def delayed(function: Callable[_P, _R]) -> Callable[_P, _Task[_R]]: ...
