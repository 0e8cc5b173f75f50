"""What is lost while all executors live: cached rows, fetches that fail, data that is gone each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

import rekindle
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed, StoreRefused
from rekindle.runtime.journal import read_run
from rekindle.runtime.store import Store
from tests.spark.removing import map_outputs_to_come, removing


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("scratch")))
    builder = builder.config("spark.scheduler.excludeOnFailure.unschedulableTaskSetTimeout", "1s")
    options = {"speculation.enabled": "true", "speculation.blockSlowNodeDuration": "2s"}
    for key in ("spark.excludeOnFailure.enabled", "spark.excludeOnFailure.application.fetchFailure.enabled"):
        builder = builder.config(key, "true")  # a builder remembers what was set by builders before it
    session = rekindle.configure(builder, options=options).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def lose_cached_blocks(spark: SparkSession) -> int:
    """As a disk that loses them, or a fetch that times out; how many RDDs there were."""
    context: Any = spark.sparkContext
    kept = [int(rdd) for rdd in context._jsc.getPersistentRDDs()]
    for rdd in kept:
        context._jsc.sc().unpersistRDD(rdd, True)
    return len(kept)


@pytest.mark.requirement("S6-10", "S7-5")
@pytest.mark.parametrize("beside", ["read by tasks", "read by a broadcast"])
def test_cached_rows_that_are_lost_are_made_again_with_all_that_was_made_of_them(spark, tmp_path, beside):
    """They are tosses of coins: rows made again by Spark alone would fit none of those that were read before."""
    pipeline = tosses(tmp_path)
    lost: list[int] = []

    @pipeline.sink(FileSink(str(tmp_path / "high")), partition_by="id")
    def high(tossed: DataFrame, counted: DataFrame) -> DataFrame:
        if not lost:
            lost.append(lose_cached_blocks(spark))
        if beside == "read by tasks":
            return tossed.where("high").join(counted, "id", "left_anti").select("id")
        return counted.sparkSession.range(1000).join(broadcast(tossed.where("high")), "id").select("id")

    pipeline.run(spark, store=tmp_path / "store")
    assert lost == [1]
    assert sorted(ids(spark, tmp_path)) == list(range(1000))


@pytest.mark.requirement("S7-7")
def test_cached_rows_are_not_tossed_again_for_a_lost_input_that_comes_out_the_same(spark, tmp_path):
    """One sink has read them; what the other reads beside them is lost, and made again, the same."""
    pipeline = tosses(tmp_path, deterministic=True)
    lost: list[Path] = []

    @pipeline.sink(FileSink(str(tmp_path / "high")), partition_by="id")
    def high(tossed: DataFrame, counted: DataFrame, numbers: DataFrame) -> DataFrame:
        if not lost:
            lost.append(next((tmp_path / "store").glob("**/data/numbers/.attempt-*/*.parquet")))
            lost[0].unlink()
        return tossed.where("high").join(counted, "id", "left_anti").join(numbers, "id").select("id")

    pipeline.run(spark, store=tmp_path / "store")
    assert lost
    assert sorted(ids(spark, tmp_path)) == list(range(1000))


def tosses(folder: Path, *, deterministic: bool | None = None) -> Pipeline:
    """A coin for each number, cached, and who reads it first; a sink `high` is still to come."""
    pipeline = Pipeline("tosses", default_partitions=2)

    @pipeline.source(partition_by="id", deterministic=deterministic)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(1000)

    @pipeline.stage(exchange="cached")
    def tossed(numbers: DataFrame) -> DataFrame:
        return numbers.mapInArrow(toss, "id long, high boolean")

    @pipeline.sink(FileSink(str(folder / "low")), partition_by="id")
    def low(tossed: DataFrame) -> DataFrame:
        return tossed.where("not high").select("id")

    @pipeline.stage(partition_by="id")
    def counted(tossed: DataFrame) -> DataFrame:
        return tossed.where("not high").select("id")

    return pipeline


def ids(spark: SparkSession, folder: Path) -> list[int]:
    """Of both sinks."""
    return [row["id"] for name in ("low", "high") for row in spark.read.parquet(str(folder / name)).collect()]


def toss(batches):
    import random

    import pyarrow

    for batch in batches:
        coins = pyarrow.array([random.random() < 0.5 for _ in range(batch.num_rows)])
        yield pyarrow.RecordBatch.from_arrays([batch.column(0), coins], names=["id", "high"])


def test_an_error_in_the_code_of_a_cached_stage_is_told_as_its_own(spark, tmp_path):
    pipeline = Pipeline("broken", default_partitions=2)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    @pipeline.stage(exchange="cached")
    def inverted(numbers: DataFrame) -> DataFrame:
        def invert(batches):
            for batch in batches:
                yield 1 // (batch.num_rows - batch.num_rows)

        return numbers.mapInArrow(invert, "id long")

    pipeline.sink(FileSink(str(tmp_path / "out")), name="out")(lambda inverted: inverted)
    with pytest.raises(PipelineFailed, match=r"^stage inverted\b.*ZeroDivisionError") as caught:
        pipeline.run(spark, store=tmp_path / "store")
    assert "yield 1 // (batch.num_rows" in str(caught.value)


@pytest.mark.requirement("S6-24")
def test_where_a_failed_fetch_excludes_the_only_executor_the_stage_waits_until_it_may_run_again(spark, tmp_path):
    pipeline = Pipeline("excluded", default_partitions=2)

    @pipeline.source(partition_by="id", deterministic=True)
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 100_000, 1, 2)

    pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True, name="out")(lambda numbers: numbers)
    with removing(map_outputs_to_come(spark), once=True) as removed:
        pipeline.run(spark, store=tmp_path / "store")
    assert removed.is_set()
    assert "StageWaits" in {record.get("note") for record in read_run(Store.at(tmp_path / "store"))}
    assert spark.read.parquet(str(tmp_path / "out")).distinct().count() == 100_000


@pytest.mark.requirement("S7-14")
def test_a_stored_result_that_is_gone_each_time_is_not_made_for_ever(spark, tmp_path):
    """As where the driver lacks the volume that executors write to."""
    store = tmp_path / "store"

    def committed() -> Iterator[Path]:
        for manifest in store.glob("**/numbers/manifests/*.json"):
            yield from store.glob(f"**/data/numbers/.attempt-{manifest.stem}-*/*.parquet")

    pipeline = Pipeline("gone", default_partitions=2)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(10)

    pipeline.sink(FileSink(str(tmp_path / "out")), pointwise=True, name="out")(lambda numbers: numbers)
    says = r"(?s)numbers/\d has been made, and was lost, 5 times.*same volumes"
    with removing(committed), pytest.raises(StoreRefused, match=says):
        pipeline.run(spark, store=store)
