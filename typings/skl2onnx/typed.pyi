# Classes of private modules of skl2onnx, for type checkers alone: there is no such module at run time.
from collections.abc import Mapping, Sequence

from skl2onnx.common.data_types import TensorType

class Variable:
    type: TensorType
    @property
    def full_name(self) -> str: ...

class Operator:
    inputs: list[Variable]
    outputs: list[Variable]
    raw_operator: object

class Scope:
    def get_unique_variable_name(self, seed: str) -> str: ...
    def get_unique_operator_name(self, seed: str) -> str: ...

class ModelComponentContainer:
    def get_options(self, model: object, default_values: Mapping[str, object]) -> dict[str, object]: ...
    def add_initializer(self, name: str, onnx_type: int, shape: Sequence[int], content: Sequence[object]) -> object: ...
    def add_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        op_domain: str = "",
        op_version: int | None = None,
        name: str | None = None,
        **attrs: object,
    ) -> None: ...
