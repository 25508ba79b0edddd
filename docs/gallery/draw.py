"""The pictures of the gallery, drawn anew: `python docs/gallery/draw.py [NAME ...]`.

Each example is a file beside this one with a function ``draw()`` that returns a matplotlib figure.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

HERE = Path(__file__).resolve().parent
PICTURES = HERE.parent / "images" / "gallery"
EXAMPLES = tuple(sorted(path.stem for path in HERE.glob("*.py") if path.stem != "draw"))


def figure_of(name: str) -> Any:
    """Return the figure of an example."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.draw()


def main() -> None:
    """Draw all examples, or those that are named."""
    mpl.use("Agg")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or EXAMPLES:
        path = PICTURES / f"{name}.png"
        figure_of(name).savefig(path, dpi=110, metadata={"Software": None})
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
