"""A file sink's rows in folders named by columns: which columns may be, and how the tasks are handed them.

A task is given its rows sorted by those columns, as by Spark's own writer, so that it has one file open at a time. What
a folder's name says is made text of by Spark, in the session's time zone, and escaped by the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import PipelineMisuse
from rekindle.runtime.storable import column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def check_hive_partitions(stage: Stage, schema: StructType, names: Sequence[str]) -> None:
    """Raises PipelineMisuse where a result's rows cannot be put into folders by these columns."""
    from pyspark.sql import types

    has_text = (
        types.StringType
        | types.BooleanType
        | types.IntegralType
        | types.FractionalType
        | types.DateType
        | types.TimestampType
        | types.TimestampNTZType
    )
    for name in names:
        if name not in schema.names:
            raise PipelineMisuse(
                f"sink {stage.name}: hive_partitions names {name!r}, its result has {schema.names}",
                remedy="name columns of the DataFrame the stage returns",
                stage=stage.name,
            )
        data_type = schema[name].dataType
        if not isinstance(data_type, has_text):
            raise PipelineMisuse(
                f"sink {stage.name}: column {name!r} of type {data_type.simpleString()} cannot be the name of a folder",
                remedy="choose another column for hive_partitions, or make it a string (hex, CAST AS string)",
                stage=stage.name,
            )
    if names and len(names) == len(schema.names):
        raise PipelineMisuse(
            f"sink {stage.name}: hive_partitions names all columns, {', '.join(names)}, so its files would have none",
            remedy="leave at least one column out of hive_partitions",
            stage=stage.name,
        )


def columns_of_files(schema: StructType, names: Sequence[str]) -> StructType:
    """What is left for the files."""
    from pyspark.sql.types import StructType

    return StructType([field for field in schema.fields if field.name not in names])


def in_folders(frame: DataFrame, names: Sequence[str], beside: Sequence[str] = ()) -> DataFrame:
    """`frame` sorted within its partitions by its columns `names`, which come behind its others as text, null where
    that is empty.

    Args:
        beside: columns of `frame` that come last.
    """
    from pyspark.sql import functions

    if not names:
        return frame
    files = [column(frame, name) for name in frame.columns if name not in (*names, *beside)]
    texts = {name: column(frame, name).cast("string") for name in names}
    folders = [functions.when(text != "", text).alias(name) for name, text in texts.items()]
    arranged = frame.select(*files, *folders, *(column(frame, name) for name in beside))
    return arranged.sortWithinPartitions(*(column(arranged, name) for name in names))
