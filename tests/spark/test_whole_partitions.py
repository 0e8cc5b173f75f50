"""A partition is stored whole or not at all, however its task ends.

Partitions here are of several Arrow batches: Spark hands a task's rows to Python one batch after the other, and what
breaks off between two of them looks to pyarrow like the end.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed

ROWS = 100_000  # of each partition; a batch has 10,000
BAD = 75_000


def published(spark: SparkSession, folder: Path) -> int:
    return spark.read.parquet(str(folder / "out")).count()


@pytest.mark.requirement("S5-8", "S7-17")
@pytest.mark.parametrize("where", ["in Python", "in Spark"])
def test_a_task_that_fails_half_way_leaves_nothing_that_the_next_run_takes_for_its_partition(spark, tmp_path, where):
    mended = tmp_path / "mended"

    @F.udf("boolean")
    def is_bad(number: int) -> bool:
        if number != BAD or mended.exists():
            return False
        if where == "in Python":
            raise OSError("a service did not answer")
        return True

    pipeline = Pipeline("halves", default_partitions=1)

    @pipeline.source(partitions=1)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, ROWS, 1, 1)

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def checked(numbers: DataFrame) -> DataFrame:
        return numbers.withColumn("v", F.when(is_bad("id"), F.expr("CAST('x' AS int)")).otherwise(0))

    with pytest.raises(PipelineFailed, match=r"a service did not answer|CAST_INVALID_INPUT"):
        pipeline.run(spark, store=tmp_path / "store")
    mended.touch()
    pipeline.run(spark, store=tmp_path / "store")
    assert published(spark, tmp_path) == ROWS


@pytest.mark.requirement("S5-8", "S7-17")
def test_a_task_that_is_cancelled_half_way_leaves_nothing_either(spark, tmp_path):
    mended = tmp_path / "mended"

    @F.udf("long")
    def slowly(number: int) -> int:
        import time

        if number % 1000 == 0 and not mended.exists():
            time.sleep(0.05)
        return number

    pipeline = Pipeline("cancelled", default_partitions=2)

    @pipeline.source(partitions=2)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 2 * ROWS, 1, 2)

    @pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True)
    def seen(numbers: DataFrame) -> DataFrame:
        if not mended.exists():
            threading.Timer(2.5, spark.sparkContext.cancelAllJobs).start()
        return numbers.select(slowly("id").alias("id"))

    with pytest.raises(PipelineFailed, match="cancelled"):
        pipeline.run(spark, store=tmp_path / "store")
    mended.touch()
    pipeline.run(spark, store=tmp_path / "store")
    assert published(spark, tmp_path) == 2 * ROWS
