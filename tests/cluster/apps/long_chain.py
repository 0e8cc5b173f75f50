"""Five stages over whole numbers: keyed, pointwise and slow, keyed by chance or by the number, keyed and slow, a sink.

Arguments: "random" or "keyed", partitions of all but the sink, seconds that each partition of the slow ones takes.
Prints whether the sums are what arithmetic says, as JSON.
"""

import json
import sys
import time

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.pipeline import FileSink, Pipeline

by_chance, partitions, seconds, out = sys.argv[1] == "random", int(sys.argv[2]), float(sys.argv[3]), "/tmp/out"
rows, keys = 40_000, 101
pipeline = Pipeline("long-chain", default_partitions=partitions)


def slept(batches):
    time.sleep(seconds)
    yield from batches


@pipeline.source(partition_by="k")
def numbers(spark):
    """Whole numbers with a key."""
    return spark.range(0, rows, 1, 4).select("id", (F.col("id") % keys).alias("k"))


@pipeline.stage(pointwise=True)
def worked(numbers):
    """The same rows, after some time."""
    return numbers.mapInArrow(slept, numbers.schema)


@pipeline.stage(partition_by="place", deterministic=False if by_chance else None)
def scattered(worked):
    """Each row at a place."""
    place = F.rand() * 1000 if by_chance else F.col("id") % 1000
    return worked.withColumn("place", place.cast("int"))


@pipeline.stage(partition_by="k")
def doubled(scattered):
    """Twice each number, after some time."""
    twice = scattered.select("k", (F.col("id") * 2).alias("twice"))
    return twice.mapInArrow(slept, twice.schema)


@pipeline.sink(FileSink(out), partition_by="k", partitions=2)
def totals(doubled):
    """Sums by key."""
    return doubled.groupBy("k").agg(F.sum("twice").alias("total"), F.count("*").alias("n"))


spark = rekindle.configure(SparkSession.builder).getOrCreate()
pipeline.run(spark)
found = {(row["k"], row["total"], row["n"]) for row in pq.read_table(out).to_pylist()}
expected = {(key, 2 * sum(range(key, rows, keys)), len(range(key, rows, keys))) for key in range(keys)}
print("right", json.dumps(found == expected))
spark.stop()
