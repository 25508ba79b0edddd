from os import PathLike

from torch import Tensor

def save_file(
    tensors: dict[str, Tensor], filename: str | PathLike[str], metadata: dict[str, str] | None = None
) -> None: ...
def load_file(filename: str | PathLike[str], device: str = "cpu") -> dict[str, Tensor]: ...
