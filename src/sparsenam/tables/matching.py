"""A table at prediction brought to the columns of the fit, by name; in scikit-learn's words where it has some."""

from __future__ import annotations

import warnings
from dataclasses import replace

from sparsenam.errors import InputError
from sparsenam.tables.frame import Frame

MOST_NAMES = 5


def matched(frame: Frame, names: tuple[str, ...], named: bool, owner: str) -> Frame:
    """Return the frame with the columns of the fit in their order; raise when some are missing or unknown."""
    if frame.named and named:
        if set(frame.names) != set(names):
            raise InputError(_difference(frame.names, names))
        places = {name: place for place, name in enumerate(frame.names)}
        return replace(frame, names=names, columns=tuple(frame.columns[places[name]] for name in names))
    if len(frame.names) != len(names):
        raise InputError(
            f"X has {len(frame.names)} features, but {owner} is expecting {len(names)} features as input."
        )
    if named:
        message = f"X does not have valid feature names, but {owner} was fitted with feature names"
        warnings.warn(message, UserWarning, stacklevel=4)
    elif frame.named:
        message = f"X has feature names, but {owner} was fitted without feature names"
        warnings.warn(message, UserWarning, stacklevel=4)
    columns = tuple(replace(cells, name=name) for cells, name in zip(frame.columns, names, strict=True))
    return replace(frame, names=names, columns=columns)


def _difference(given: tuple[str, ...], fitted: tuple[str, ...]) -> str:
    message = "The feature names should match those that were passed during fit.\n"
    for title, names in (
        ("Feature names unseen at fit time:", sorted(set(given) - set(fitted))),
        ("Feature names seen at fit time, yet now missing:", sorted(set(fitted) - set(given))),
    ):
        if names:
            more = ["- ..."] if len(names) > MOST_NAMES else []
            message += "\n".join([title, *(f"- {name}" for name in names[:MOST_NAMES]), *more]) + "\n"
    return message
