"""What a loop does with DataFrames beside calling its functions. Nothing here runs a job."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from rekindle.runtime import relations
from rekindle.runtime.storable import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

Columns = list[tuple[str, str]]
"""[(name, type)], as Spark says it; what may be null does not count."""


def names_of(columns: Columns) -> list[str]:
    return [name for name, _ in columns]


class Frames:
    """Of one session.

    Args:
        partitions: of states, and of shuffles.
    """

    def __init__(self, session: SparkSession, partitions: int) -> None:
        self._session, self._partitions = session, partitions

    def is_frame(self, made: Any) -> bool:
        from pyspark.sql import DataFrame

        return isinstance(made, DataFrame)

    def columns(self, frame: DataFrame) -> Columns:
        return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]

    def empty(self, schema: StructType | str) -> DataFrame:
        """No rows, of the columns of a schema, or of DDL."""
        return self._session.createDataFrame([], schema)

    def like(self, frame: DataFrame) -> DataFrame:
        """No rows, of the columns of a frame."""
        return self.empty(frame.schema)

    def in_order(self, frame: DataFrame, names: Sequence[str]) -> DataFrame:
        """Its columns in that order."""
        return frame if list(names) == frame.columns else frame.select(*(column(frame, name) for name in names))

    def union(self, frames: Sequence[DataFrame]) -> DataFrame:
        """Of frames with the same columns, by name."""
        return reduce(lambda one, other: one.unionByName(other), frames)

    def overlaid(self, keys: Sequence[str], frames: Sequence[DataFrame]) -> DataFrame:
        """Rows of the last frame that has their key."""
        return reduce(lambda older, newer: older.join(newer, list(keys), "left_anti").unionByName(newer), frames)

    def with_keys(self, frame: DataFrame, keys: Sequence[str], names: Sequence[str], said: str) -> DataFrame:
        """Its columns in that order. A key that is null is equal to none, and its row could never be replaced: the task
        that meets one fails with `said`."""
        from pyspark.sql import functions

        def chosen(name: str) -> Column:
            found = column(frame, name)
            if name not in keys:
                return found
            failed = functions.raise_error(functions.lit(said.format(name)))
            return functions.coalesce(found, failed.cast(frame.schema[name].dataType)).alias(name)

        return frame.select(*map(chosen, names))

    def within(self, frame: DataFrame) -> DataFrame:
        """The same in this session, with the settings that a stage needs, whatever a function has made it with."""
        relations.impose_settings(self._session, self._partitions)
        return relations.within(self._session, frame)
