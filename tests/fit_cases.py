"""Tables of several kinds of columns and targets, small blocks to fit them in, and blocks that are counted."""

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sparsenam import SNAMClassifier, SNAMRegressor
from sparsenam.codec import pack
from sparsenam.estimators import base as estimator_base
from sparsenam.tables import blocks

INPUTS = ["a", "b", "colour", "noise"]
CASES = {
    "gaussian": (SNAMRegressor, {}, "y", {"sample_weight": "w"}),
    "poisson": (SNAMRegressor, {"family": "poisson"}, "n", {"exposure": "e"}),
    "binary": (SNAMClassifier, {}, "two", {}),
    "classes": (SNAMClassifier, {}, "three", {"sample_weight": "w"}),
}


def small_blocks(monkeypatch, sample=1500, height=700):
    """Let samples and blocks be small, so that a small table is a large one."""
    monkeypatch.setattr(blocks, "SAMPLE_ROWS", sample)
    monkeypatch.setattr(blocks, "BLOCK_ROWS", height)
    monkeypatch.setattr(estimator_base, "SAMPLE_ROWS", sample)


def mixed_table(rows, seed=0):
    """Numbers with missing cells, a category, and targets of all kinds that depend on a, b and the colour."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({name: generator.uniform(-1, 1, rows) for name in ("a", "b", "noise")})
    frame["colour"] = generator.choice(["red", "green", "blue"], rows)
    score = truth(frame)
    frame.loc[generator.uniform(size=rows) < 0.1, "noise"] = np.nan
    frame["y"] = score + 0.5 * generator.normal(size=rows)
    frame["e"] = generator.uniform(0.5, 2.0, rows)
    frame["n"] = generator.poisson(frame["e"] * np.exp(score))
    frame["two"] = np.where(2 * score + generator.logistic(size=rows) > 0, "yes", "no")
    frame["three"] = np.digitize(2 * score + generator.logistic(size=rows), [-1.0, 1.0])
    frame["w"] = generator.integers(0, 3, rows).astype(float)
    return frame[[*INPUTS, "y", "e", "n", "two", "three", "w"]]


def truth(frame):
    """The part of the targets that columns explain."""
    return np.sin(3 * frame["a"]) + frame["b"] ** 2 + 0.7 * (frame["colour"] == "red") - 0.5


def of_case(case, table):
    """The columns of one case only."""
    _, _, target, more = CASES[case]
    return table[[*INPUTS, target, *more.values()]]


def fitted(case, X, **settings):
    """The fit of a case to a table with all its columns, wherever it is."""
    kind, usual, target, more = CASES[case]
    return kind(random_state=0, n_alphas=6, **usual, **settings).fit(X, target, **more)


def write_parts(table, folder, parts=3):
    """Write a table as several Parquet files whose row groups are not the blocks."""
    folder.mkdir(exist_ok=True)
    whole = pa.Table.from_pandas(table, preserve_index=False)
    size = -(-len(table) // parts)
    for part in range(parts):
        pq.write_table(whole.slice(part * size, size), folder / f"part-{part}.parquet", row_group_size=130)
    return folder


def same_bits(one, other):
    """Whether two fitted models are the same to the last bit."""
    (document, tensors), (other_document, other_tensors) = pack(one.model_), pack(other.model_)
    same = document == other_document and tensors.keys() == other_tensors.keys()
    same = same and all(tensors[name].tobytes() == other_tensors[name].tobytes() for name in tensors)
    return same and list(one.get_feature_names_out()) == list(other.get_feature_names_out())


class CountedBlocks:
    """Blocks whose passes, visits and rows are counted, and which stop the fit before a pass like Ctrl-C does."""

    def __init__(self, inside, stop_before=None):
        self.inside, self.stop_before = inside, stop_before
        self.passes = self.visited = self.rows = 0

    @property
    def n_rows(self):
        return self.inside.n_rows

    @property
    def n_blocks(self):
        return self.inside.n_blocks

    def with_jobs(self, jobs):
        self.inside = self.inside.with_jobs(jobs)
        return self

    def reduce(self, function, state, report=None):
        if self.passes == self.stop_before:
            raise KeyboardInterrupt
        self.passes += 1

        def counting(block, inner):
            self.visited += 1
            self.rows += len(block)
            return function(block, inner)

        return self.inside.reduce(counting, state, report)


def count_passes(monkeypatch, stop_before=None):
    """Count the passes of the fits from here on; return the list of their blocks."""
    made, blocks_of = [], estimator_base.blocks_of

    def counted(X, columns):
        made.append(CountedBlocks(blocks_of(X, columns), stop_before))
        return made[-1]

    monkeypatch.setattr(estimator_base, "blocks_of", counted)
    return made


def part_by_a_worker_that_is_lost(part, folder, at):
    """The rows themselves; the process that reads the part number ``at``, counted from the first pass, is lost."""
    with Path(folder, "parts.seen").open("ab") as file:
        file.write(b".")
        number = file.tell()
    if number == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def partial_gradient(risk_sets, scores, ties="efron"):
    """Return the gradient of Cox's partial log-likelihood in the scores: wᵢ(δᵢ - Λᵢ e^{sᵢ})."""
    return risk_sets.weights * (risk_sets.event - risk_sets.hazard(scores, ties).rows * np.exp(scores))
