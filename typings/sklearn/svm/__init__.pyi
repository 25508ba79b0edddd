from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

class LinearSVC:
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def __init__(
        self,
        penalty: Literal["l1", "l2"] = "l2",
        *,
        dual: bool | Literal["auto"] = "auto",
        C: float = 1.0,
        max_iter: int = 1000,
        random_state: int | None = None,
    ) -> None: ...
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self: ...
