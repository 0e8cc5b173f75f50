"""Whole numbers through A -> B -> {C, D} and a sink that reads both; D is quick, and C takes its time after it.

Arguments: how B's rows come to their partitions, "kept" where they were or "random"; seconds that each partition of C
takes. Prints the report, and whether the sums are what arithmetic says, as JSON.
"""

import json
import sys
import time

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rekindle
from rekindle.pipeline import FileSink, Pipeline

is_random, seconds = sys.argv[1] == "random", float(sys.argv[2])
rows, keys, out = 10_000, 7, "/tmp/out"
pipeline = Pipeline("diamond", default_partitions=2)


def slept(batches):
    time.sleep(seconds)
    yield from batches


@pipeline.source(partition_by="k")
def a(spark):
    """Whole numbers with a key."""
    return spark.range(0, rows, 1, 2).select("id", (F.col("id") % keys).alias("k"))


@pipeline.stage(**({"partition_by": "place", "deterministic": False} if is_random else {"pointwise": True}))
def b(a):
    """The same rows, or each at a place that comes out differently each time."""
    place = F.floor(F.rand() * rows) if is_random else F.col("id")
    return a.select("k", "id", place.alias("place"))


@pipeline.stage(pointwise=True)
def d(b):
    """Twice each number."""
    return b.select("k", (F.col("id") * 2).alias("id"))


@pipeline.stage(pointwise=True)
def c(b):
    """The same rows, after some time."""
    kept = b.select("k", "id")
    return kept.mapInArrow(slept, kept.schema)


@pipeline.sink(FileSink(out), partition_by="k", partitions=2)
def totals(c, d):
    """Sums by key."""
    return c.unionByName(d).groupBy("k").agg(F.sum("id").alias("total"), F.count("*").alias("n"))


spark = rekindle.configure(SparkSession.builder).getOrCreate()
result = pipeline.run(spark)
found = {(row["k"], row["total"], row["n"]) for row in pq.read_table(out).to_pylist()}
expected = {(key, 3 * sum(range(key, rows, keys)), 2 * len(range(key, rows, keys))) for key in range(keys)}
print("report", json.dumps(result.report))
print("right", json.dumps(found == expected))
spark.stop()
