from typing import Any, Literal

from numpy.typing import NDArray

_TargetType = Literal[
    "continuous",
    "continuous-multioutput",
    "binary",
    "multiclass",
    "multiclass-multioutput",
    "multilabel-indicator",
    "unknown",
]

def type_of_target(y: object, input_name: str = "", raise_unknown: bool = False) -> _TargetType: ...
def unique_labels(*ys: object) -> NDArray[Any]: ...
def check_classification_targets(y: object) -> None: ...
