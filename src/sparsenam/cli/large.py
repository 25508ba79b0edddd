"""Tables that are not read into memory: Parquet files by the block, here or on a cluster of Dask."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from os import stat
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from sparsenam.cli.held_out import Draw, Part, SomeRows, count_rows
from sparsenam.cli.problem import FileProblem, LabelledRows, TargetRequest, check_share, check_size, find_kind, left_out
from sparsenam.cli.tables import FileTable, check_place
from sparsenam.cli.text_files import damaged
from sparsenam.context import ProgressBar, ResumeFile, Streams
from sparsenam.errors import ClusterError, InputError, describe
from sparsenam.estimators import AdditiveEstimator, fit_with
from sparsenam.files import folder_beside, written_beside
from sparsenam.interop.out_of_core import predict_table
from sparsenam.tables import blocks as rows_of_tables
from sparsenam.tables.blocks import (
    PARQUET,
    Block,
    ColumnBlocks,
    RowSource,
    TargetColumns,
    blocks_of,
    frame_of,
    is_pattern,
    sample_of,
    source_of,
)
from sparsenam.tables.cells import from_array
from sparsenam.tables.text import listed

if TYPE_CHECKING:
    from sparsenam.cli.run import FitRequest

CONNECTING = 10  # seconds to wait for a scheduler


@contextmanager
def connected(scheduler: str | None) -> Generator[None]:
    """Let the scheduler at an address work on all passes within the block; None for no cluster."""
    if scheduler is None:
        yield
        return
    try:
        distributed = import_module("distributed")
        import_module("dask.dataframe")
    except ImportError as error:
        remedy = 'install it with pip install "sparsenam[dask]"'
        raise InputError(describe("--scheduler", "the library dask", "none installed", remedy)) from error
    try:
        client = distributed.Client(scheduler, timeout=CONNECTING)
    except (OSError, TimeoutError, ValueError) as error:
        expected, got = "the address of a Dask scheduler", f"no answer from {scheduler!r}"
        raise ClusterError(describe("--scheduler", expected, got, "start it or correct the address")) from error
    with client:
        yield


def is_in_blocks(table: Path) -> bool:
    """Return whether a path means several files: a folder, or a pattern of names."""
    return not table.is_file() and (table.is_dir() or is_pattern(str(table)))


def reads_blocks(table: Path, request: FitRequest) -> bool:
    """Return whether a table is fitted in passes: several files, or one of more rows than choose.

    A fit that needs all rows at once reads a single file into memory, as it always did.
    """
    if is_in_blocks(table):
        return True
    if request.needs_memory or table.suffix.lower() not in PARQUET or not table.is_file():
        return False
    try:
        rows = int(import_module("pyarrow.parquet").read_metadata(table).num_rows)
    except (ImportError, OSError, ValueError):  # reading it into memory will say what is wrong with it
        return False
    return rows > rows_of_tables.SAMPLE_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class LargeProblem(FileProblem):
    """A table in blocks: its rows to fit and those held out; ``seen`` has a sample of one column."""

    request: TargetRequest
    fitted: SomeRows
    held_out: SomeRows | None
    seed: int

    def fit(self, estimator: AdditiveEstimator, resume: ResumeFile | None = None) -> None:
        """Fit an estimator on all rows to fit, with a progress bar on a terminal."""
        named = {"exposure": self.request.exposure, "sample_weight": self.request.weights}
        with self.seen.table.naming_rows():
            fit_with(estimator, self.fitted, self.target, progress=ProgressBar(), resume=resume, **named)

    def held(self) -> LabelledRows | None:
        """Return the rows held out, at most 200,000 of them."""
        return None if self.held_out is None else self._drawn(self.held_out, None, "measured rows")

    def some(self, count: int) -> LabelledRows:
        return self._drawn(self.fitted, count, "shown rows")

    def _drawn(self, rows: SomeRows, size: int | None, stream: str) -> LabelledRows:
        return labelled(sample_of(rows, Streams(self.seed).integer(stream), size), self.seen.table.path)


def labelled(block: Block, path: Path) -> LabelledRows:
    """Return rows in memory as the commands use them."""
    frame = frame_of(block.X)
    table = FileTable({name: frame[name] for name in frame.columns}, path)
    numbers = np.asarray(block.in_table, dtype=np.intp)
    weights, exposure = (
        None if values is None else np.asarray(values, dtype=np.float64) for values in (block.weights, block.exposure)
    )
    return LabelledRows(table, block.y, exposure, numbers, weights)


def pose_large(
    source: RowSource,
    request: TargetRequest,
    share: float,
    seed: int,
    path: Path = Path("the table"),
    drop: Sequence[str] = (),
) -> LargeProblem:
    """Return the problem that a request makes of a table in blocks; rows without a target, and columns, are left out.

    Two passes over target and exposure count the rows and draw those by which the kind of target is decided.
    """
    check_share(share)
    if request.event is not None or request.task == "survival":
        expected, remedy = "regression, count or classification", "give one file that fits into memory"
        raise InputError(describe(f"{path}, a table in blocks", expected, "survival", remedy))
    used, columns = request.columns, TargetColumns(request.target, request.weights, request.exposure)
    blocks = cast("ColumnBlocks", blocks_of(source.table, columns))
    unknown = [name for name in drop if name not in blocks.names]
    if unknown:
        expected = f"names of columns that are not used ({listed(list(blocks.names), 12)})"
        raise InputError(describe("--drop", expected, repr(unknown[0]), "correct the name"))
    blocks = blocks.only([name for name in blocks.names if name not in drop])
    draw = Draw(columns, share, Streams(seed).integer("held out"))
    counts = count_rows(blocks, draw)
    known = counts.fit + counts.held
    check_size(path, counts.fit, blocks.names)
    parts: list[tuple[Part, int]] = [("fit", counts.fit), ("held", counts.held)]
    fitted, held = (SomeRows(blocks, draw, part, count) for part, count in parts)
    drawn = sample_of(fitted.only(blocks.names[:1]), Streams(seed).integer("target"))
    notes = [f"{known:,} rows in blocks: {len(drawn):,} of them choose columns, all are fitted."]
    notes += [left_out(counts.unknown, used)] if counts.unknown else []
    seen = labelled(drawn, path)
    with seen.named():
        kind = find_kind(from_array(request.target, drawn.y), request)
    told = {"fit": counts.fit, "test": counts.held}
    facts = (kind, request.target, blocks.names, told, seen, tuple(notes), {"file": path.name})
    return LargeProblem(*facts, request, fitted, held if counts.held else None, seed)


def source_at(table: Path, *, in_cluster: bool) -> RowSource:
    """Return the table in Parquet files, read here or by the workers of the Dask cluster that is connected."""
    if not in_cluster:
        source = source_of(table)
        assert source is not None  # a path is always one
        return source
    # workers have other folders to start from; an address such as s3://… stays as it is
    place = str(table.absolute()) if table.exists() or table.parent.exists() else str(table)
    try:
        return RowSource("dask", import_module("dask.dataframe").read_parquet(place))
    except (OSError, ValueError) as error:
        raise damaged(table, "Parquet files", error, "correct the path") from error


def content_of(source: RowSource, problem: LargeProblem) -> bytes:
    """Return what stands for the content of a table's files in the digest of a fit: names, sizes and times."""
    files = [] if source.engine != "arrow" else [str(file) for file in source.table.files]
    marks = [(file, stat(file).st_size, stat(file).st_mtime_ns) for file in files]
    return repr((problem.names, sorted(problem.counts.items()), problem.fitted.n_blocks, marks)).encode()


def predict_blocks(
    estimator: AdditiveEstimator,
    table: Path,
    out: Path,
    asked: list[str],
    knowing: Callable[[AdditiveEstimator], AbstractContextManager[None]],
) -> int:
    """Write Parquet files again with predictions, and probabilities of classes, to their right; return the rows.

    ``asked`` are options that have no part in it; what is ``knowing`` may refuse the predictions before they are there.
    """
    if asked:
        expected, remedy = "a table in memory", "write a .csv, or leave it out"
        raise InputError(describe(asked[0], expected, "Parquet files in blocks", remedy))
    if out.suffix.lower() not in PARQUET:
        raise InputError(describe("--out", "a name that ends in .parquet", repr(out.name), "choose another name"))
    check_place(out, "--out")
    with folder_beside(out) as folder:
        with knowing(estimator):
            done = predict_table(estimator, table, to=folder / "predictions.parquet")
            if hasattr(estimator, "classes_"):
                done = predict_table(estimator, done, to=folder / "probabilities.parquet", method="predict_proba")
        with written_beside(out) as place:
            Path(done).replace(place)
    return int(import_module("pyarrow.parquet").read_metadata(out).num_rows)
