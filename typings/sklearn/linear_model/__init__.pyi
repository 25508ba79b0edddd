from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

class LassoCV:
    coef_: NDArray[np.float64]
    intercept_: float
    alpha_: float

    def __init__(self, **settings: object) -> None: ...
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self: ...

class LogisticRegression:
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def __init__(self, **settings: object) -> None: ...
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self: ...
