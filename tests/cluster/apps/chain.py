"""Four stages over whole numbers: keyed, pointwise and slow, keyed again, a sink. Prints the report, and whether the
sums are what arithmetic says, as JSON.

Arguments: partitions of the first three stages, seconds that each of the second takes, a folder of the driver for the
sink; a folder in which each task of the second leaves a file when its time is over, and in which the third waits for a
file `go`.
"""

import json
import os
import sys
import time
import uuid

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.pipeline import FileSink, Pipeline

partitions, seconds, out, marks = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:]
rows, keys = 40_000, 101
pipeline = Pipeline("chain", default_partitions=partitions)


def slept(batches):
    time.sleep(seconds)
    for folder in marks:
        open(os.path.join(folder, uuid.uuid4().hex), "x").close()
    yield from batches


def awaited(batches):
    deadline = time.monotonic() + 300
    for folder in marks:
        while not os.path.exists(os.path.join(folder, "go")):
            assert time.monotonic() < deadline, f"there is no file go in {folder}"
            time.sleep(0.1)
    yield from batches


@pipeline.source(partition_by="k")
def numbers(spark):
    """Whole numbers with a key."""
    return spark.range(0, rows, 1, 4).select("id", (F.col("id") % keys).alias("k"))


@pipeline.stage(pointwise=True)
def worked(numbers):
    """The same rows, after some time."""
    return numbers.mapInArrow(slept, numbers.schema)


@pipeline.stage(partition_by="k")
def doubled(worked):
    """Twice each number."""
    waited = worked.mapInArrow(awaited, worked.schema) if marks else worked
    return waited.withColumn("twice", F.col("id") * 2)


@pipeline.sink(FileSink(out), partition_by="k", partitions=2)
def totals(doubled):
    """Sums by key."""
    return doubled.groupBy("k").agg(F.sum("twice").alias("total"), F.count("*").alias("n"))


spark = rekindle.configure(SparkSession.builder).getOrCreate()
result = pipeline.run(spark)
found = {(row["k"], row["total"], row["n"]) for row in pq.read_table(out).to_pylist()}
expected = {(key, 2 * sum(range(key, rows, keys)), len(range(key, rows, keys))) for key in range(keys)}
print("report", json.dumps(result.report))
print("right", json.dumps(found == expected))
spark.stop()
