"""A pipeline of four stages, two of which shuffle, whose tasks take so many seconds each:
`four_stages.py TASKS SECONDS keep|anew|plain`. With `anew` each driver has a store of its own, as where nothing is
kept; with `plain` the stages are one plan of Spark's.

A pipeline prints its run's report, and when each driver began and its first task did, as JSON.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import rekindle
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.journal import Record, read_run
from rekindle.runtime.store import Store

tasks, seconds, mode = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
rows = 100 * tasks
pipeline = Pipeline("four-stages", default_partitions=tasks)


def slept(batches: Iterator[Any]) -> Iterator[Any]:
    time.sleep(seconds)
    yield from batches


@pipeline.source(partition_by="id")
def read(spark: SparkSession) -> DataFrame:
    """Numbers."""
    return spark.range(0, rows, 1, tasks).mapInArrow(slept, "id long")


@pipeline.stage(pointwise=True)
def cleaned(read: DataFrame) -> DataFrame:
    """The same."""
    return read.mapInArrow(slept, "id long")


@pipeline.stage(partition_by="id")
def joined(cleaned: DataFrame) -> DataFrame:
    """The same, in other partitions."""
    return cleaned.mapInArrow(slept, "id long")


@pipeline.sink(FileSink("/tmp/out"), pointwise=True)
def scored(joined: DataFrame) -> DataFrame:
    """The same."""
    return joined.mapInArrow(slept, "id long")


def drivers(records: list[Record]) -> list[dict[str, float | None]]:
    """When each driver began, and the first task that it saw."""
    found: list[dict[str, float | None]] = []
    for record in records:
        if record.get("note") == "DriverStarted":
            found.append({"began": record["t"], "firstTask": None})
        elif record["kind"] == "event" and record["event"].get("type") == "AttemptDeployed" and found:
            found[-1]["firstTask"] = found[-1]["firstTask"] or record["event"]["started_at"]
    return found


def run_plain(spark: SparkSession) -> None:
    """Shuffled where the pipeline is, and where it stores and reads with other tasks: its small files with a task for
    each core."""
    by_id = read(spark).repartition(tasks, "id")
    stored = cleaned(by_id).repartition(spark.sparkContext.defaultParallelism)
    again = joined(stored).repartition(tasks, "id")
    scored(again).write.format("noop").mode("overwrite").save()


def run_pipeline(spark: SparkSession) -> None:
    """And tell of it."""
    place = str(spark.conf.get("spark.rekindle.recovery.store"))
    store = place if mode == "keep" else f"{place}/{spark.sparkContext.applicationId}"
    result = pipeline.run(spark, store=store)
    print("report", json.dumps(result.report), flush=True)
    print("drivers", json.dumps(drivers(read_run(Store.at(store)))), flush=True)


if mode == "plain":
    spark = SparkSession.builder.getOrCreate()
    run_plain(spark)
else:
    spark = rekindle.configure(SparkSession.builder).getOrCreate()
    run_pipeline(spark)
spark.stop()
