# Sparse matrices are never accepted by this library, so arrays are all that comes back.
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator

_X = TypeVar("_X")
_Y = TypeVar("_Y")
_Float = TypeVar("_Float", np.float32, np.float64)

@overload
def validate_data(
    _estimator: BaseEstimator,
    /,
    X: object,
    y: Literal["no_validation"] = "no_validation",
    reset: bool = True,
    validate_separately: Literal[False] = False,
    skip_check_array: Literal[False] = False,
    **check_params: object,
) -> NDArray[Any]: ...
@overload
def validate_data(
    _estimator: BaseEstimator,
    /,
    X: object,
    y: object,
    reset: bool = True,
    validate_separately: bool | tuple[dict[str, object], dict[str, object]] = False,
    skip_check_array: Literal[False] = False,
    **check_params: object,
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def validate_data(
    _estimator: BaseEstimator,
    /,
    X: _X,
    y: Literal["no_validation"] = "no_validation",
    reset: bool = True,
    *,
    skip_check_array: Literal[True],
) -> _X: ...
@overload
def validate_data(
    _estimator: BaseEstimator, /, X: _X, y: _Y, reset: bool = True, *, skip_check_array: Literal[True]
) -> tuple[_X, _Y]: ...
def check_is_fitted(
    estimator: object,
    attributes: str | Sequence[str] | None = None,
    *,
    msg: str | None = None,
    all_or_any: Callable[[Iterable[object]], bool] = ...,
) -> None: ...
def check_array(
    array: object,
    *,
    dtype: Literal["numeric"] | DTypeLike | Sequence[DTypeLike] | None = "numeric",
    order: Literal["C", "F"] | None = None,
    copy: bool = False,
    force_writeable: bool = False,
    ensure_all_finite: bool | Literal["allow-nan"] = True,
    ensure_non_negative: bool = False,
    ensure_2d: bool = True,
    allow_nd: bool = False,
    ensure_min_samples: int = 1,
    ensure_min_features: int = 1,
    estimator: str | BaseEstimator | None = None,
    input_name: str = "",
) -> NDArray[Any]: ...
def check_consistent_length(*arrays: object) -> None: ...
def column_or_1d(
    y: object, *, dtype: DTypeLike | None = None, input_name: str = "y", warn: bool = False
) -> NDArray[Any]: ...
@overload
def _check_sample_weight(
    sample_weight: object,
    X: object,
    *,
    dtype: type[_Float],
    ensure_non_negative: bool = False,
    copy: bool = False,
) -> NDArray[_Float]: ...
@overload
def _check_sample_weight(
    sample_weight: object,
    X: object,
    *,
    dtype: DTypeLike | Sequence[DTypeLike] | None = None,
    ensure_non_negative: bool = False,
    copy: bool = False,
) -> NDArray[np.floating]: ...
def has_fit_parameter(estimator: object, parameter: str) -> bool: ...
