"""Four stages over whole numbers: keyed, pointwise and slow, keyed again, a sink.

Arguments: seconds that each partition of `worked` takes ("0.8"), and how: "sleep" (wherever it runs) or "burn"
(CPU, so that it takes longer on a slow node); the number of partitions of the first three stages ("8").
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline

SECONDS, HOW = float(sys.argv[1]), sys.argv[2]
PARTITIONS, OUT = int(sys.argv[3]), sys.argv[4]
ROWS = 40_000

pipeline = Pipeline("chain", default_partitions=PARTITIONS)


@pipeline.source(partition_by="k")
def numbers(spark: SparkSession) -> DataFrame:
    """Whole numbers with a key."""
    return spark.range(0, ROWS, 1, 4).select("id", (F.col("id") % 101).alias("k"))


@pipeline.stage(pointwise=True)
def worked(numbers: DataFrame) -> DataFrame:
    """The same rows, after some time."""

    def work(batches):
        import hashlib
        import time

        if HOW == "sleep":
            time.sleep(SECONDS)
        else:
            for _ in range(int(SECONDS * 1_000_000)):
                hashlib.sha256(b"rekindle").digest()
        yield from batches

    return numbers.mapInArrow(work, numbers.schema)


@pipeline.stage(partition_by="k")
def doubled(worked: DataFrame) -> DataFrame:
    """Twice each number."""
    return worked.withColumn("twice", F.col("id") * 2)


@pipeline.sink(FileSink(OUT), partition_by="k", partitions=4)
def totals(doubled: DataFrame) -> DataFrame:
    """Sums by key."""
    return doubled.groupBy("k").agg(F.sum("twice").alias("total"), F.count("*").alias("n"))


if __name__ == "__main__":
    pipeline.run()
