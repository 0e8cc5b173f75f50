"""What is decided when a stage is planned, not by its tasks: one for all partitions, or all are made again."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.errors import PipelineFailed


def captured() -> Column:
    drawn = str(uuid.uuid4())
    return F.udf(lambda _: drawn)("k")


def with_a_word(word: str, _: int) -> str:
    return word


def captured_by_a_partial() -> Column:
    return F.udf(functools.partial(with_a_word, str(uuid.uuid4())))("k")


def rows_of_its_own() -> Column:
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return spark.createDataFrame([(str(uuid.uuid4()),)], "drawn string").scalar()


def by_a_setting() -> Column:
    """Whoever plans it next has another time zone."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return F.timestamp_seconds(F.col("k") * 0).cast("string")


VALUES = {
    "the time": F.current_timestamp,
    "a draw of the function": lambda: F.lit(str(uuid.uuid4())),
    "what a Python function has captured": captured,
    "what a partial has": captured_by_a_partial,
    "rows of its own, in a subquery": rows_of_its_own,
    "a setting of the session": by_a_setting,
}


def pipeline(folder: Path, *, pointwise: bool, value) -> Pipeline:
    """A stage whose last partition cannot be made before `folder` has a file `mended`."""
    made = Pipeline("planned", default_partitions=4)
    mended = str(folder / "mended")

    @F.udf("long")
    def key(partition: int, k: int) -> int:
        import os
        import time

        if partition == 3 and not os.path.exists(mended):
            time.sleep(3)  # the others are stored meanwhile
            raise ValueError("not yet")
        return k

    def with_value(frame: DataFrame) -> DataFrame:
        return frame.withColumn("value", value()).withColumn("key", key(F.spark_partition_id(), "k"))

    @made.source(partition_by="k")
    def numbers(spark: SparkSession) -> DataFrame:
        return spark.range(0, 400, 1, 2).select("id", (F.col("id") % 40).alias("k"))

    if pointwise:

        @made.stage(pointwise=True)
        def valued(numbers: DataFrame) -> DataFrame:
            return with_value(numbers)

    else:

        @made.stage(partition_by="k")
        def valued(numbers: DataFrame) -> DataFrame:
            moved = numbers.select((F.col("k") + 1).alias("k"))
            return with_value(moved.groupBy("k").count())  # keyed already: the value comes after the shuffle

    @made.sink(FileSink(str(folder / "out")), pointwise=True)
    def out(valued: DataFrame) -> DataFrame:
        return valued

    return made


@pytest.fixture(autouse=True)
def time_zone(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.unset("spark.sql.session.timeZone")


def interrupted(spark: SparkSession, folder: Path, *, pointwise: bool, value, zone="UTC") -> tuple[DataFrame, int]:
    """What is published, and how many partitions of the stage had been made before and were kept."""
    made = pipeline(folder, pointwise=pointwise, value=value)
    with pytest.raises(PipelineFailed, match="not yet"):
        made.run(spark, store=folder / "store")
    (folder / "mended").touch()
    spark.conf.set("spark.sql.session.timeZone", zone)
    report = made.run(spark, store=folder / "store").report
    (stage,) = (one for one in report["stages"] if one["name"] == "valued")
    return spark.read.parquet(str(folder / "out")), 4 - stage["rerun"]


@pytest.mark.requirement("S7-5", "S7-6", "S7-7")
@pytest.mark.parametrize("pointwise", [True, False], ids=["pointwise", "after a shuffle"])
@pytest.mark.parametrize("value", VALUES)
def test_a_stage_that_is_planned_twice_does_not_mix_what_was_decided_each_time(spark, tmp_path, pointwise, value):
    zone = "Asia/Tokyo" if value == "a setting of the session" else "UTC"
    published, _ = interrupted(spark, tmp_path, pointwise=pointwise, value=VALUES[value], zone=zone)
    assert published.count() == (400 if pointwise else 40)
    assert published.select("value").distinct().count() == 1


@pytest.mark.requirement("S6-1", "S7-7")
@pytest.mark.parametrize(
    "value",
    [lambda: F.lit("same"), F.rand, lambda: F.transform(F.array("k"), lambda one: one + 1)],
    ids=["same", "drawn in each partition", "with a variable that Spark numbers"],
)
def test_a_stage_that_is_planned_twice_in_the_same_way_keeps_what_it_has_made(spark, tmp_path, value):
    _, kept = interrupted(spark, tmp_path, pointwise=True, value=value)
    assert kept >= 1
