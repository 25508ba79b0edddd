from typing import Literal, Self

from numpy.typing import ArrayLike
from sklearn.svm import LinearSVC

class _Sigmoid:
    a_: float
    b_: float

class _Calibrated:
    estimator: LinearSVC
    calibrators: list[_Sigmoid]

class CalibratedClassifierCV:
    calibrated_classifiers_: list[_Calibrated]

    def __init__(
        self,
        estimator: LinearSVC,
        *,
        method: Literal["sigmoid", "isotonic"] = "sigmoid",
        cv: int = 5,
        ensemble: bool | Literal["auto"] = "auto",
    ) -> None: ...
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self: ...
