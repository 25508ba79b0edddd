from typing import Any

from numpy.typing import NDArray

def save(tensor_dict: dict[str, NDArray[Any]], metadata: dict[str, str] | None = None) -> bytes: ...
