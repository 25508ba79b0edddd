from collections.abc import Callable, Mapping, Sequence

from skl2onnx.typed import ModelComponentContainer, Operator, Scope

def update_registered_converter(
    model: type,
    alias: str,
    shape_fct: Callable[[Operator], None],
    convert_fct: Callable[[Scope, Operator, ModelComponentContainer], None],
    overwrite: bool = True,
    parser: Callable[..., object] | None = None,
    options: Mapping[str, Sequence[object]] | None = None,
) -> None: ...
