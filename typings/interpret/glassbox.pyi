from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

class _Boosting:
    term_features_: list[tuple[int, ...]]
    term_scores_: list[NDArray[np.float64]]

    def __init__(self, feature_names: list[str] | None = None, **settings: object) -> None: ...
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self: ...
    def eval_terms(self, X: ArrayLike) -> NDArray[np.float64]: ...

class ExplainableBoostingRegressor(_Boosting):
    def predict(self, X: ArrayLike) -> NDArray[np.float64]: ...

class ExplainableBoostingClassifier(_Boosting):
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]: ...
