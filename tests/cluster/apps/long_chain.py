"""Stages over whole numbers: read by splits and keyed, pointwise and slow, keyed by chance or by the number, keyed and
slow, a sink. With "keyed" they are read by a DataSource with an enumerator of its own and stored before they are keyed,
with "random" by a function, and keyed as they are read.

Arguments: "random" or "keyed", partitions of all but the sink, seconds that each partition of the slow ones takes.
Prints whether the sums are what arithmetic says, as JSON.
"""

import json
import random
import sys
import time

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import rekindle
from rekindle.pipeline import FileSink, Pipeline

by_chance, partitions, seconds, out = sys.argv[1] == "random", int(sys.argv[2]), float(sys.argv[3]), "/tmp/out"
rows, keys = 40_000, 101
pipeline = Pipeline("long-chain", default_partitions=partitions)


def slept(batches):
    time.sleep(seconds)
    yield from batches


class Numbers(DataSource):
    """Whole numbers with a key. Each time it is asked it names its splits in another order."""

    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "id BIGINT, k BIGINT"

    def reader(self, schema):
        return NumbersReader({key: int(self.options[key]) for key in ("rows", "keys", "splits")})

    def split_enumerator(self, context, splits):
        return Backwards(context, splits)


class Backwards:
    """Hands out the last split first."""

    def __init__(self, context, splits):
        self.context, self.left = context, list(splits)

    def add_reader(self, subtask):
        pass

    def handle_split_request(self, subtask, host):
        if self.left:
            self.context.assign_splits({subtask: [self.left.pop()]})
        else:
            self.context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits, subtask):
        self.left += splits


class NumbersReader(DataSourceReader):
    def __init__(self, options):
        self.options = options

    def partitions(self):
        found = [InputPartition(split) for split in range(self.options["splits"])]
        random.shuffle(found)
        return found

    def read(self, partition):
        yield from some_numbers(partition.value, self.options["splits"], self.options["rows"], self.options["keys"])


def some_numbers(split, splits, rows, keys):
    time.sleep(0.2)
    for number in range(split, rows, splits):
        yield number, number % keys


if by_chance:

    @pipeline.source_function("id BIGINT, k BIGINT", splits=20, partition_by="k", side_effects=False, name="numbers")
    def numbers_by_split(split, splits):
        """Whole numbers with a key."""
        yield from some_numbers(split, splits, rows, keys)

else:
    pipeline.read("read", Numbers, options={"rows": rows, "keys": keys, "splits": 20}, partitions=2)

    @pipeline.stage(partition_by="k")
    def numbers(read):
        """What was read, by its key."""
        return read


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
