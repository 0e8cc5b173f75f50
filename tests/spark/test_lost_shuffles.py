"""Shuffles that are lost while all executors live: again and again, or half-way through a cached result."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import rand

import rekindle
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed
from rekindle.runtime.journal import read_run
from rekindle.runtime.store import Store
from tests.spark.removing import map_outputs_to_come, removing


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Without speculation: with it, Spark keeps off the only executor after the first failed fetch."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("scratch")))
    for key in ("spark.excludeOnFailure.enabled", "spark.excludeOnFailure.application.fetchFailure.enabled"):
        builder = builder.config(key, "false")  # a builder remembers what was set by builders before it
    session = rekindle.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.mark.parametrize("deterministic", [None, True])
def test_map_outputs_that_nobody_can_fetch_end_the_run_as_they_would_end_a_job_of_sparks(
    spark, tmp_path, deterministic
):
    """Of two map tasks the second takes longer, so that what the first has written is gone before it can be read."""
    pipeline = Pipeline("unreachable", default_partitions=2)

    def second_slowly(batches):
        import time

        from pyspark import TaskContext

        time.sleep(0.7 * TaskContext.get().partitionId())  # type: ignore[union-attr]
        yield from batches

    @pipeline.source(partition_by="id", deterministic=deterministic)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 1000, 1, 2).mapInArrow(second_slowly, "id long")

    pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True, name="out")(lambda numbers: numbers)
    with (
        removing(map_outputs_to_come(spark)),
        pytest.raises(
            PipelineFailed, match=r"(?s)stage numbers: what executors hold for it was lost.* 5 times.*executors reach"
        ),
    ):
        pipeline.run(spark, store=tmp_path / "store")


@pytest.mark.requirement("S6-10")
def test_cached_rows_that_were_made_of_a_shuffle_half_of_which_was_lost_meanwhile_are_made_anew(spark, tmp_path):
    """Each number is dealt to another partition each time: of two shuffles, some numbers would be in both."""
    begun, outputs = tmp_path / "begun", map_outputs_to_come(spark)

    def first_and_slowly(batches):
        import time

        from pyspark import TaskContext

        kept = list(batches)
        if TaskContext.get().partitionId() == 0:  # type: ignore[union-attr]
            begun.touch()
            time.sleep(1.0)
        yield from kept

    pipeline = Pipeline("dealt", default_partitions=4)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(1000)

    @pipeline.stage(exchange="cached")
    def dealt(numbers: DataFrame) -> DataFrame:
        return numbers.withColumn("at", rand()).repartition(4, "at").mapInArrow(first_and_slowly, "id long, at double")

    pipeline.sink(FileSink(str(tmp_path / "out")), partition_by="id", name="out")(lambda dealt: dealt)
    with removing(lambda: outputs() if begun.exists() else (), once=True) as removed:
        pipeline.run(spark, store=tmp_path / "store")
    assert removed.is_set()
    assert "PlanningFailed" in {record.get("note") for record in read_run(Store.at(tmp_path / "store"))}
    assert sorted(row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(1000))
