"""What every method hands over after a fit, whatever is inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
ALL_KEPT = "the method has no zeros: every feature counts as kept"
EXACT_ZEROS = "kept: not exactly zero"
BY_THRESHOLD = "kept: mean absolute effect on the training rows above 0.01 (subgradient steps reach no zeros)"


@dataclass(frozen=True, slots=True, eq=False)
class FittedMethod:
    """A fitted method.

    ``predict`` takes columns (rows, features) and gives, of shape (rows,), the expected y for regression and the
    probability of class 1 for classification. ``effects`` gives each feature's share of the score, shape
    (rows, features): of y for regression, of the log odds for classification. ``support`` has the places of the
    kept features by ``support_rule``; ``n_parameters`` is None where the method has none to count; ``chosen`` has
    the settings that were found by validation.
    """

    predict: Callable[[Matrix], Vector]
    effects: Callable[[Matrix], Matrix] | None
    support: tuple[int, ...]
    n_parameters: int | None
    support_rule: str = EXACT_ZEROS
    chosen: Mapping[str, object] = field(default_factory=dict[str, object])

    def after(self, prepare: Callable[[Matrix], Matrix]) -> FittedMethod:
        """Return the method for columns that ``prepare`` has yet to treat."""
        effects = self.effects

        def predict(X: Matrix) -> Vector:
            return self.predict(prepare(X))

        def prepared_effects(X: Matrix) -> Matrix:
            assert effects is not None
            return effects(prepare(X))

        return replace(self, predict=predict, effects=None if effects is None else prepared_effects)

    def having_chosen(self, **chosen: object) -> FittedMethod:
        """Return the method with more chosen settings on record."""
        return replace(self, chosen={**self.chosen, **chosen})


def places(mask: Sequence[bool] | NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the places where a mask is true."""
    return tuple(int(place) for place in np.flatnonzero(mask))


def as_arguments(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return a recipe's settings as a constructor takes them: TOML has lists where estimators take tuples."""
    return {
        key: tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for key, value in settings.items()
    }
