"""Publishing by a job of Spark's, for what only Spark can write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rekindle.pipeline.sinks import SparkSink
from rekindle.runtime.relations import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_by_spark(sink: SparkSink, frame: DataFrame) -> None:
    """The job. To be called in a thread of its own."""
    activate(frame.sparkSession)  # a Python DataSource is looked up there
    if not isinstance(sink.format, str):
        frame.sparkSession.dataSource.register(sink.format)
    options = {str(key): value for key, value in sink.options.items() if value is not None}
    writer = frame.write.mode(sink.mode).options(**options)
    if sink.format_name:
        writer = writer.format(sink.format_name)
    if sink.table:
        writer.saveAsTable(sink.table)
    else:
        writer.save()
