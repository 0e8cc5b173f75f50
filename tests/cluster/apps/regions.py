"""Whole numbers through A -> B -> {C, D} and a sink that reads both; D reads E too. Nothing here may be relied upon to
come out the same when it is made again.

Tasks of A, C, D and E wait at gates: each leaves a file `NAME-…` in the folder that is given, and goes on when there is
one that is called NAME. Prints the report, and whether the sums are what arithmetic says, as JSON.
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

gates = sys.argv[1]
rows, keys, out, patience = 10_000, 7, "/tmp/out", 300.0
pipeline = Pipeline("regions", default_partitions=2)


def gate(name):
    def passed(batches):
        batches = iter(batches)
        first = next(batches, None)  # who comes to the gate can read what it needs
        open(os.path.join(gates, f"{name}-{uuid.uuid4().hex}"), "x").close()
        deadline = time.monotonic() + patience
        while not os.path.exists(os.path.join(gates, name)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"gate {name} has stayed closed for {patience:g} s")
            time.sleep(0.1)
        if first is not None:
            yield first
        yield from batches

    return passed


def numbers(spark, name):
    some = spark.range(0, rows, 1, 2).select("id", (F.col("id") % keys).alias("k"))
    return some.mapInArrow(gate(name), some.schema)


@pipeline.source(partition_by="k", deterministic=False)
def a(spark):
    """Whole numbers with a key."""
    return numbers(spark, "a")


@pipeline.source(partition_by="k", deterministic=False)
def e(spark):
    """The same."""
    return numbers(spark, "e")


@pipeline.stage(pointwise=True, deterministic=False)
def b(a):
    """The same rows."""
    return a.select("k", "id")


@pipeline.stage(pointwise=True, deterministic=False)
def c(b):
    """The same rows."""
    return b.mapInArrow(gate("c"), b.schema)


@pipeline.stage(partition_by="k", deterministic=False)
def d(b, e):
    """Those of both."""
    both = b.unionByName(e)
    return both.mapInArrow(gate("d"), both.schema)


@pipeline.sink(FileSink(out), partition_by="k", partitions=2)
def totals(c, d):
    """Sums by key."""
    return c.unionByName(d).groupBy("k").agg(F.sum("id").alias("total"), F.count("*").alias("n"))


spark = rekindle.configure(SparkSession.builder).getOrCreate()
result = pipeline.run(spark)
found = {(row["k"], row["total"], row["n"]) for row in pq.read_table(out).to_pylist()}
expected = {(key, 3 * sum(range(key, rows, keys)), 3 * len(range(key, rows, keys))) for key in range(keys)}
print("report", json.dumps(result.report))
print("right", json.dumps(found == expected))
spark.stop()
