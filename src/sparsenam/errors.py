"""Exceptions, warnings and checks; each message says where, what was expected, what was got and what to do."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Protocol, Self


class InputError(ValueError):
    """Data or a setting is not usable as given."""


class RefusalError(Exception):
    """What was found in a file instead of what should be there; whoever knows the path makes a sentence of it."""


def require(condition: bool, got: str) -> None:
    """Raise `RefusalError` unless a condition on the content of a file holds."""
    if not condition:
        raise RefusalError(got)


class RowNumbers(Protocol):
    """The number in the table of each of some rows, by its place among them."""

    def __getitem__(self, place: int, /) -> int: ...


class RowError(InputError):
    """Some rows of a table are not usable; ``got`` has what was found and the row, from 0, of each of them."""

    def __init__(
        self, where: str, expected: str, got: tuple[tuple[str, int], ...], remedy: str, more: str = ""
    ) -> None:
        super().__init__(where, expected, got, remedy, more)

    def __str__(self) -> str:
        where, expected, got, remedy, more = self.args
        found = " and ".join(f"{value} in row {row}" for value, row in got)
        return describe(where, expected, found + more, remedy)

    def at(self, rows: RowNumbers) -> Self:
        """Return the same under the numbers that the rows have in a larger table; how many there are is left out."""
        where, expected, got, remedy, _ = self.args
        return type(self)(where, expected, tuple((value, int(rows[row])) for value, row in got), remedy)


@contextmanager
def rows_named_by(rows: RowNumbers | None) -> Generator[None]:
    """Let errors within name rows by their numbers in the table that they are a part of; None for all of it."""
    try:
        yield
    except RowError as error:
        if rows is None:
            raise
        raise error.at(rows) from error


class DivergenceError(ArithmeticError):
    """Training left the finite numbers."""


class MissingTorchError(InputError, ImportError):
    """A network is to be trained, and PyTorch is not installed."""


class CheckpointError(InputError):
    """A checkpoint file is damaged or belongs to another fit."""


class CheckpointWarning(UserWarning):
    """A checkpoint cannot be written; the fit goes on, and could not be resumed from where it is."""


class CertificateError(ValueError):
    """A solution is not as good as its certificate would say."""


class ClusterError(RuntimeError):
    """The processes that should have worked on the rows are gone."""


class ConstantColumnWarning(UserWarning):
    """A column holds one single value, or none, so it is left out of the model."""


class ConstantTargetWarning(UserWarning):
    """Values of y differ by so little of their size that they are taken as one, up to rounding."""


class IdentifierWarning(UserWarning):
    """A column of text is different in nearly every row, so it is left out of the model."""


class ChoiceWarning(UserWarning):
    """Held-out rows do not tell the chosen model from none, or the folds do not agree on its columns."""


class LongFitWarning(UserWarning):
    """A fit of many classes will take long; the message says how long, and what to do instead."""


class SmallGroupWarning(UserWarning):
    """A group has too few rows for an interval or a set of its level, and gets what all rows get."""


class ConstantWidthWarning(UserWarning):
    """Intervals have one width for all rows, since the table lacks columns on which it depends."""


MOST_COLUMNS_NAMED = 3  # named in one warning


class ExtremeCellWarning(UserWarning):
    """Columns hold cells so far from all others that no tail reaches them.

    ``found`` has the name, the value, the row and the number of such cells of each column; ``among`` says which rows
    are counted, where they are a sample.
    """

    def __init__(self, found: Sequence[tuple[str, str, int, int]], among: str = "") -> None:
        super().__init__(tuple(found), among)

    def __str__(self) -> str:
        """Return one sentence that names column, row and value."""
        found, among = self.args
        cells = [
            f"{value} in row {row}{among} of column {name!r}" + (f" (and {count - 1} more)" if count > 1 else "")
            for name, value, row, count in found[:MOST_COLUMNS_NAMED]
        ]
        others = f" and {len(found) - len(cells)} more column(s)" if len(found) > len(cells) else ""
        return f"cells beyond reason: {', '.join(cells)}{others}; correct these cells or leave them empty."

    def at(self, rows: RowNumbers) -> ExtremeCellWarning:
        """Return the same under the numbers that the rows have in a larger table; rows of a sample keep theirs."""
        found, among = self.args
        if among:
            return self
        return ExtremeCellWarning([(name, value, int(rows[row]), count) for name, value, row, count in found])


def describe(where: str, expected: str, got: str, remedy: str) -> str:
    """Return one sentence: where, what was expected, what was got, what to do."""
    return f"{where}: expected {expected}, got {got}; {remedy}{'' if remedy.endswith('?') else '.'}"


def nearest(name: object, known: Iterable[object], otherwise: str) -> str:
    """Return what to do about a name that is not known: the most similar one, else ``otherwise``."""
    close = _similar(name, known)
    return otherwise if close is None else f"did you mean {close!r}?"


def renamed(lacking: Iterable[str], given: Sequence[str], otherwise: str) -> str:
    """Return what to do about names that are not there: given ones that are probably the same, else ``otherwise``."""
    found = ((_similar(name, given), name) for name in lacking)
    likely = [f"{close!r} for {name!r}" for close, name in found if close is not None]
    return f"did you mean {', '.join(likely[:MOST_COLUMNS_NAMED])}?" if likely else otherwise


def _similar(name: object, known: Iterable[object]) -> str | None:
    """Return the known name that is most similar to a text, capitals aside; None where none is close."""
    folded = {str(other).casefold(): str(other) for other in known}
    close = get_close_matches(name.casefold(), folded, 1) if isinstance(name, str) else []
    return folded[close[0]] if close else None


def shown(value: object) -> str:
    """Return a value as it is written in Python: 9, not np.int64(9)."""
    return repr(getattr(value, "item", lambda: value)() if type(value).__module__ == "numpy" else value)


LARGEST_VALUE = 1e100  # of cells, targets and exposures, in size: the product of three such numbers is still finite
LEAST_DIVISOR = 1 / LARGEST_VALUE  # of what they are divided by


def check_number(
    name: str,
    value: object,
    lowest: float,
    highest: float = math.inf,
    *,
    open_below: bool = False,
    open_above: bool = False,
) -> None:
    """Raise unless the value is a finite number within its bounds."""
    number = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    high_enough = lowest < number if open_below else lowest <= number
    low_enough = number < highest if open_above else number <= highest
    if not (math.isfinite(number) and high_enough and low_enough):
        above = f"above {lowest:g}" if open_below else f"of at least {lowest:g}"
        limit = f" and {'below' if open_above else 'at most'} {highest:g}"
        below = "" if math.isinf(highest) else limit
        is_share = highest == 1.0 and 1.0 < number < 100.0
        remedy = f"write {number / 100:g} for {number:g} %" if is_share else "choose another"
        raise InputError(describe(name, f"a number {above}{below}", shown(value), remedy))


def check_word(name: str, value: object, words: tuple[str, ...]) -> None:
    """Raise unless the value is one of the words of an option."""
    if value not in words:
        raise InputError(describe(name, f"one of {list(words)}", shown(value), nearest(value, words, "choose one")))


def check_whole(name: str, value: object) -> None:
    """Raise unless the value is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(describe(name, "a whole number of at least 1", shown(value), "choose another"))
