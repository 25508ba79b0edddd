from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

@dataclass
class InputTags:
    one_d_array: bool = False
    two_d_array: bool = True
    three_d_array: bool = False
    sparse: bool = False
    categorical: bool = False
    string: bool = False
    dict: bool = False
    positive_only: bool = False
    allow_nan: bool = False
    pairwise: bool = False

@dataclass
class TargetTags:
    required: bool
    one_d_labels: bool = False
    two_d_labels: bool = False
    positive_only: bool = False
    multi_output: bool = False
    single_output: bool = True

@dataclass
class TransformerTags:
    preserves_dtype: list[str] = field(default_factory=list)

@dataclass
class ClassifierTags:
    poor_score: bool = False
    multi_class: bool = True
    multi_label: bool = False

@dataclass
class RegressorTags:
    poor_score: bool = False

@dataclass
class Tags:
    estimator_type: str | None
    target_tags: TargetTags
    transformer_tags: TransformerTags | None = None
    classifier_tags: ClassifierTags | None = None
    regressor_tags: RegressorTags | None = None
    array_api_support: bool = False
    no_validation: bool = False
    non_deterministic: bool = False
    requires_fit: bool = True
    _skip_test: bool = False
    input_tags: InputTags = field(default_factory=InputTags)

def check_random_state(seed: int | np.random.RandomState | None) -> np.random.RandomState: ...
def compute_class_weight(
    class_weight: Mapping[object, float] | Literal["balanced"] | None,
    *,
    classes: NDArray[np.generic],
    y: ArrayLike,
) -> NDArray[np.float64]: ...
def check_array(
    array: object,
    *,
    dtype: object = ...,
    ensure_all_finite: bool = ...,
    ensure_min_samples: int = ...,
    ensure_min_features: int = ...,
    estimator: str | None = ...,
) -> NDArray[np.generic]: ...
