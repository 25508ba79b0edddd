from collections.abc import Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Self

from pyarrow import NativeFile, RecordBatch, Schema, Table

class FileMetaData:
    num_rows: int

class _Closing:
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

class ParquetFile(_Closing):
    schema_arrow: Schema
    def __init__(
        self, source: NativeFile, *, metadata: FileMetaData, buffer_size: int = 0, pre_buffer: bool = True
    ) -> None: ...
    def iter_batches(
        self, batch_size: int, *, row_groups: Sequence[int], columns: Sequence[str], use_threads: bool = True
    ) -> Iterator[RecordBatch]: ...

class ParquetWriter(_Closing):
    def __init__(self, where: str | PathLike[str], schema: Schema) -> None: ...
    def write_table(self, table: Table) -> None: ...

def read_metadata(where: str | PathLike[str]) -> FileMetaData: ...
