"""A table as the commands hold it: columns by name, of whichever library read it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from sparsenam.errors import InputError, describe
from sparsenam.tables.cells import Cells, coded
from sparsenam.tables.frame import Frame, read_series
from sparsenam.tables.text import listed

Texts = dict[str, list[str | None]]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of a file; ``data`` is a frame of narwhals, or lists of text where no such library is installed."""

    data: nw.DataFrame[Any] | Texts

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self.data) if isinstance(self.data, dict) else tuple(self.data.columns)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.data.values()))) if isinstance(self.data, dict) else len(self.data)

    @property
    def native(self) -> Any:
        """The table as estimators take it."""
        if not isinstance(self.data, dict):
            return self.data.to_native()
        columns = tuple(coded(name, "text", cells) for name, cells in self.data.items())
        return Frame(self.names, True, self.rows, columns)

    def cells(self, name: str) -> Cells:
        """Return one column as read."""
        if isinstance(self.data, dict):
            return coded(name, "text", self.data[name])
        return read_series(name, self.data[name])

    def texts(self, name: str) -> list[str]:
        """Return one column as it is written into a text file, empty where missing."""
        cells = self.data[name] if isinstance(self.data, dict) else self.data[name].to_list()
        return ["" if cell is None or cell != cell else str(cell) for cell in cells]

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Return some rows."""
        places = rows.tolist()
        if isinstance(self.data, dict):
            return Table({name: [cells[place] for place in places] for name, cells in self.data.items()})
        return Table(self.data[places])

    def select(self, names: Sequence[str]) -> Table:
        """Return some columns, in this order."""
        if isinstance(self.data, dict):
            return Table({name: self.data[name] for name in names})
        return Table(self.data.select(*names))

    def without(self, names: Collection[str]) -> Table:
        """Return all columns but some."""
        return self.select([name for name in self.names if name not in names])

    def require(self, name: str, option: str) -> str:
        """Return the name of a column; raise when there is none of it."""
        if name in self.names:
            return name
        expected = f"the name of a column ({listed(list(self.names), 12)})"
        raise InputError(describe(option, expected, repr(name), "correct the name"))
