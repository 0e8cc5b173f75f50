"""Shuffles that are lost while all executors live: again and again, or half-way through a cached result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import rand

import rekindle
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed


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
    scratch = Path(spark.sparkContext.getConf().get("spark.local.dir"))
    over = threading.Event()

    def remove() -> None:
        while not over.wait(0.01):
            for file in scratch.glob("blockmgr-*/*/shuffle_*.data"):
                file.unlink(missing_ok=True)

    pipeline = Pipeline("unreachable", default_partitions=2)

    @pipeline.source(partition_by="id", deterministic=deterministic)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 100_000, 1, 2)

    pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True, name="out")(lambda numbers: numbers)
    thread = threading.Thread(target=remove)
    thread.start()
    try:
        with pytest.raises(
            PipelineFailed, match=r"(?s)stage numbers: what executors hold for it was lost.* 5 times.*executors reach"
        ):
            pipeline.run(spark, store=tmp_path / "store")
    finally:
        over.set()
        thread.join()


@pytest.mark.requirement("S6-10")
def test_cached_rows_that_were_made_of_a_shuffle_half_of_which_was_lost_meanwhile_are_made_anew(spark, tmp_path):
    """Each number is dealt to another partition each time: of two shuffles, some numbers would be in both."""
    scratch = Path(spark.sparkContext.getConf().get("spark.local.dir"))
    over, removed = threading.Event(), threading.Event()
    others = set(scratch.glob("blockmgr-*/*/shuffle_*.data"))
    begun = tmp_path / "begun"

    def remove() -> None:
        while not over.wait(0.01) and not removed.is_set():
            if begun.exists():
                for file in set(scratch.glob("blockmgr-*/*/shuffle_*.data")) - others:
                    file.unlink(missing_ok=True)
                removed.set()

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
    thread = threading.Thread(target=remove)
    thread.start()
    try:
        pipeline.run(spark, store=tmp_path / "store")
    finally:
        over.set()
        thread.join()
    assert removed.is_set()
    journal = "".join(file.read_text() for file in (tmp_path / "store").glob("**/journal/*.jsonl"))
    assert '"PlanningFailed"' in journal
    assert sorted(row["id"] for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(1000))
