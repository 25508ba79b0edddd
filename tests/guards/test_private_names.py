"""Which private names of other libraries the source uses: as good as none, and those exist as we use them."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight

from sparsenam import SNAMRegressor
from sparsenam.fit.response import check_weights

SOURCE = Path(__file__).parents[2] / "src" / "sparsenam"

KNOWN = {
    # what set_output and set_config asked for: no public name reads both, and scikit-learn carries it through clone
    "estimators/attributes.py: sklearn.utils._set_output._get_output_config",
    # weights as every estimator of scikit-learn checks them; there is no public function for it
    "fit/response.py: sklearn.utils.validation._check_sample_weight",
}


OF_PYTHON = ("_thread", "_csv", "os: ._exit")  # documented, or of the standard library's types


def is_private(name):
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def private_names(text):
    """Return private names of other libraries in a source text: imported, or reached from an imported module."""
    found, modules = set(), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
            found |= {alias.name for alias in node.names if is_private(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("sparsenam"):
            names = {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            modules |= names
            found |= {name for name in names.values() if is_private(name) and not name.startswith("__future__")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            root = node.value
            while isinstance(root, ast.Attribute | ast.Call):
                root = root.value if isinstance(root, ast.Attribute) else root.func
            if isinstance(root, ast.Name) and root.id in modules and modules[root.id] != "typing.cast":
                found.add(f"{modules[root.id]}: .{node.attr}")
    return {name for name in found if not name.startswith(("sparsenam", *OF_PYTHON))}


def test_the_source_uses_no_private_name_of_another_library_but_those_that_are_known():
    found = {
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in SOURCE.rglob("*.py")
        for name in private_names(path.read_text(encoding="utf-8"))
    }
    assert found == KNOWN


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import torch._C", {"torch._C"}),
        ("from torch import _dynamo as d", {"torch._dynamo"}),
        ("from numba.core._impl import thing", {"numba.core._impl.thing"}),
        ("import numpy as np\nnp.linalg._umath.svd()", {"numpy: ._umath"}),
        ("import scipy\nscipy.stats.norm()._pdf(0)", {"scipy: ._pdf"}),
        ("import numpy as np\nnp.__version__", set()),
        ("from sparsenam.context import _LIMITS", set()),
    ],
)
def test_private_names_are_found_wherever_they_stand(text, names):
    assert private_names(text) == names


def test_weights_are_checked_by_scikit_learn_as_we_ask_for_it():
    assert {"sample_weight", "X", "dtype", "ensure_non_negative"} <= set(
        inspect.signature(_check_sample_weight).parameters
    )
    rows = np.zeros((3, 1))
    assert check_weights(None, rows).tolist() == [1.0, 1.0, 1.0]
    for wrong in ([1.0, -1.0, 1.0], [1.0, 2.0], [[1.0], [1.0], [1.0]], [1.0, np.nan, 1.0]):
        with pytest.raises(ValueError, match="weight"):
            check_weights(wrong, rows)


def test_the_output_that_was_asked_for_is_read_as_scikit_learn_writes_it():
    assert list(inspect.signature(_get_output_config).parameters) == ["method", "estimator"]
    asked = SNAMRegressor().set_output(transform="polars")
    assert _get_output_config("transform", asked)["dense"] == "polars"
    assert _get_output_config("transform", SNAMRegressor())["dense"] == "default"
