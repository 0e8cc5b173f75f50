"""What a stage's function may do besides returning a DataFrame: look at it, change settings, ask for more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.local.stored import corrupt_partition
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed
from rekindle.runtime.store import Store


def adaptive(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.adaptive.enabled", "true")


def otherwise_partitioned(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "3")


@pytest.mark.requirement("S1-28")
@pytest.mark.parametrize("set_", [adaptive, otherwise_partitioned])
@pytest.mark.parametrize("exchange", ["blocking", "pipelined"])
def test_settings_that_a_function_makes_do_not_move_rows(
    spark, tmp_path, set_: Callable[[SparkSession], None], exchange: Any
):
    """Its reader groups by the key without another shuffle: each key must be in one partition."""
    pipeline = Pipeline("moved", default_partitions=4)

    @pipeline.source(partition_by="id")
    def facts(spark: SparkSession) -> DataFrame:
        columns = "id", "id % 50 AS k", "xxhash64(id) AS a", "xxhash64(id, 7) AS b"
        return spark.range(0, 300_000, 1, 4).selectExpr(*columns)

    @pipeline.source(partition_by="id")
    def texts(spark: SparkSession) -> DataFrame:
        return spark.range(0, 200_000, 1, 4).selectExpr("id AS k", "id", "CAST(xxhash64(id) AS string) AS text")

    @pipeline.stage(partition_by=None if exchange == "pipelined" else "k", exchange=exchange)
    def joined(spark: SparkSession, facts: DataFrame, texts: DataFrame) -> DataFrame:
        set_(spark)
        few = texts.where(F.udf(lambda number: number < 50, "boolean")("k"))  # fewer than Spark knows when it plans
        return facts.join(few.drop("id"), "k")

    @pipeline.stage(partition_by="k")
    def kept(joined: DataFrame) -> DataFrame:
        return joined

    @pipeline.sink(FileSink(str(tmp_path / "out")), partition_by="k")
    def counted(kept: DataFrame) -> DataFrame:
        return kept.groupBy("k").count()

    threshold = "spark.sql.autoBroadcastJoinThreshold"
    before = spark.conf.get(threshold)
    spark.conf.set(threshold, "1m")
    try:
        pipeline.run(spark, store=tmp_path / "store")
    finally:
        spark.conf.set(threshold, before)
    counts = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.k, row["count"]) for row in counts) == [(key, 6000) for key in range(50)]


def broadcast(numbers: DataFrame) -> DataFrame:
    return numbers.sparkSession.range(1000).join(F.broadcast(numbers), "id")


def asked_for(numbers: DataFrame) -> DataFrame:
    (total,) = numbers.agg(F.sum("id")).first() or (None,)
    return numbers.where(F.lit(total) == sum(range(1000)))


@pytest.mark.requirement("S7-14")
@pytest.mark.parametrize("body", [broadcast, asked_for])
def test_a_corrupt_partition_that_is_read_while_a_stage_is_planned_is_made_again(spark, tmp_path, body):
    mended = tmp_path / "mended"
    pipeline = Pipeline("early", default_partitions=2)

    @pipeline.source(partition_by="id")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(1000)

    @pipeline.sink(FileSink(str(tmp_path / "out")), partitions=2)
    def read(numbers: DataFrame) -> DataFrame:
        if not mended.exists():
            raise ValueError("broken for now")
        return body(numbers)

    with pytest.raises(PipelineFailed, match="broken for now"):
        pipeline.run(spark, store=tmp_path / "store")
    mended.touch()
    assert corrupt_partition(Store.at(tmp_path / "store"), "numbers", 0)
    report = pipeline.run(spark, store=tmp_path / "store").report
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()) == list(range(1000))
    assert [stage["rerun"] for stage in report["stages"] if stage["name"] == "numbers"] == [1]


@pytest.mark.requirement("S7-14")
def test_what_spark_says_of_a_function_that_asked_for_the_wrong_thing_is_the_functions_fault(spark, tmp_path):
    pipeline = Pipeline("wrong", default_partitions=2)

    @pipeline.sink(FileSink(str(tmp_path / "out")), partitions=2)
    def asked(numbers: DataFrame) -> DataFrame:
        numbers.selectExpr("raise_error('FetchFailed')").collect()
        return numbers

    pipeline.source(partition_by="id", name="numbers")(lambda spark: spark.range(10))
    with pytest.raises(PipelineFailed, match=r"(?s)stage asked: its function raised"):
        pipeline.run(spark, store=tmp_path / "store")
