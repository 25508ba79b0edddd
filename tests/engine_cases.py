"""Sums over blocks that processes other than the test's can import, and tables to sum over."""

import os
import signal
import time
from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from sparsenam.errors import InputError
from sparsenam.tables.blocks import TargetColumns

COLUMNS = TargetColumns("y", weights="w")


def table(rows=1000, seed=0):
    """Numbers with missing cells, a name with a dot, text, a target and weights."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": generator.normal(size=rows), "b.c": generator.normal(size=rows)})
    frame.loc[generator.uniform(size=rows) < 0.1, "a"] = np.nan
    return frame.assign(
        colour=generator.choice(["red", "green"], rows), y=generator.normal(size=rows), w=generator.uniform(size=rows)
    )


def moments(block, scale):
    """Weighted moments of columns and target whose value in the last bits depends on the order of addition."""
    frame = nw.from_native(block.X, eager_only=True)
    found = [float(len(block))]
    for name in frame.columns:
        values = frame[name].to_numpy()
        if values.dtype.kind != "f":
            found.append(float((frame[name] == "red").sum()))
            continue
        seen = ~np.isnan(values)
        for power in (1, 2):
            found.append(float(np.sum(scale * block.weights[seen] * block.y[seen] * values[seen] ** power)))
    return np.array(found)


def numbered_rows(block, state):
    """The number of the block and its rows, as one entry of a list."""
    return [(block.number, len(block))]


def refused(block, state):
    """The sentence of a function that cannot use its rows."""
    if block.number == 1:
        raise InputError("y: expected numbers, got a word; correct it.")
    return 1


def slow(block, seconds):
    time.sleep(seconds)
    return 1


def killed_once(block, folder):
    """Moments, by a worker that is lost at the third block; another one finds the note that it left."""
    note = Path(folder, "killed")
    if block.number == 2 and not note.exists():
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return moments(block, 1.0)
