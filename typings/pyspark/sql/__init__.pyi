from collections.abc import Callable, Iterator

from pyarrow import RecordBatch
from pyspark.sql.types import Row, StructType

class DataFrame:
    columns: list[str]
    schema: StructType
    def selectExpr(self, *expr: str) -> DataFrame: ...
    def mapInArrow(
        self, func: Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]], schema: str | StructType
    ) -> DataFrame: ...
    def toDF(self, *cols: str) -> DataFrame: ...
    def collect(self) -> list[Row]: ...
