"""A stage that partitions by a random key: made twice, it sends rows elsewhere.

Each number must arrive exactly once, whatever is lost while the stage runs (E-4 of FLIP-1's reasons).
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rekindle.pipeline import FileSink, Pipeline

OUT = sys.argv[1]
ROWS = 3_000_000

pipeline = Pipeline("random-key", default_partitions=9)


@pipeline.source(partition_by="bucket", deterministic=False)
def scattered(spark: SparkSession) -> DataFrame:
    """Numbers, each in a bucket drawn at random, wide enough that writing them takes a while."""
    wide = [F.sha2(F.concat_ws("-", "id", F.lit(n)), 256).alias(f"w{n}") for n in range(3)]
    return spark.range(0, ROWS, 1, 3).select("id", (F.rand() * 1000).cast("int").alias("bucket"), *wide)


@pipeline.sink(FileSink(OUT), pointwise=True)
def arrived(scattered: DataFrame) -> DataFrame:
    """The numbers that arrived."""
    return scattered.select("id")


if __name__ == "__main__":
    pipeline.run()
