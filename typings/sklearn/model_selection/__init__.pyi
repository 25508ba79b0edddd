from abc import ABCMeta
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")
_Split = tuple[NDArray[np.intp], NDArray[np.intp]]
_Seed = int | np.random.RandomState | None

class BaseCrossValidator(metaclass=ABCMeta):
    def split(self, X: object, y: object = None, groups: object = None) -> Iterator[_Split]: ...
    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int: ...

class KFold(BaseCrossValidator):
    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: _Seed = None) -> None: ...

class StratifiedKFold(BaseCrossValidator):
    def __init__(self, n_splits: int = 5, *, shuffle: bool = False, random_state: _Seed = None) -> None: ...

def check_cv(
    cv: int | BaseCrossValidator | Iterable[_Split] | None = 5,
    y: object = None,
    *,
    classifier: bool = False,
) -> BaseCrossValidator: ...
def train_test_split(
    *arrays: _T,
    test_size: float | None = None,
    train_size: float | None = None,
    random_state: _Seed = None,
    shuffle: bool = True,
    stratify: object = None,
) -> list[_T]: ...
